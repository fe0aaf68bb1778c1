//! Builds the container image and the release without a container daemon, root and network. It selects files from
//! Debian packages ([`assemble`]), packs them ([`oci`]), and describes them ([`spdx`], [`notes`]). [`contents`] is the
//! single list of the image's contents; `deploy/image/Dockerfile` creates its files with the same program. `make image`
//! and `make release` run it.
//!
//! For Windows nodes, it puts the driver on a base image by reference ([`windows`]), and checks the imports of programs
//! ([`imports`]).

pub mod assemble;
mod child;
mod closure;
pub mod contents;
pub mod crates;
mod elf;
pub mod imports;
pub mod licences;
pub mod lock;
pub mod notes;
pub mod oci;
pub mod package;
pub mod platform;
pub mod release;
pub mod spdx;
pub mod tree;
pub mod windows;

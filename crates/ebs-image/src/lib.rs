//! The container image and the release, made without a container daemon, without root and without a network: picks files from Debian
//! packages ([`assemble`]), packs them ([`oci`]), and says what is in them ([`spdx`], [`notes`]). [`contents`] is the one list of
//! what the image holds; `deploy/image/Dockerfile` makes its files with the same program. `make image` and `make release` run it.
//! For Windows nodes: the driver over a base image that is taken by reference ([`windows`]), and what a program asks Windows for
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

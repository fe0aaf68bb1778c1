//! Building blocks for tests and the demo, which control the product from outside: a CSI client, the driver and the
//! simulator as processes, real disks, and checks for leftovers.
//!
//! The crate uses only the driver's command line, socket and environment. Product crates must not depend on it; only
//! tests and `xtask` do.

pub mod collector;
pub mod content;
pub mod control;
pub mod csi_client;
pub mod doc_table;
pub mod ext_damage;
pub mod kube_api;
pub mod kubelet;
pub mod leftovers;
pub mod loop_device;
pub mod mount_namespace;
pub mod node_pod;
pub mod on_node;
pub mod pages;
pub mod process;
pub mod record;
pub mod replaced_tool;
pub mod run_dir;
pub mod sanity;
pub mod skipped;
pub mod world;
pub mod writer;

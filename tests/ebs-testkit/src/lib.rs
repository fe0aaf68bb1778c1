//! Parts for tests and the demo that control the product from outside: a CSI client, the driver and the simulator as
//! processes, real disks, and checks for leftovers.
//!
//! [`process`] starts children and always reaps them, [`leftovers`] finds and removes what a run has left on the
//! machine, and [`run_dir`] identifies its owner. [`control`] reads the simulator's ledger and state. [`csi_client`]
//! and [`on_node`] make the calls of an orchestrator. [`world`] combines simulator, driver and client for one test, and
//! [`sanity`] runs csi-sanity against it.
//!
//! [`loop_device`] and [`mount_namespace`] provide separate disks and mounts, [`ext_damage`] damaged file systems,
//! and [`replaced_tool`] a fake tool. [`node_pod`] runs the node service in a
//! container, [`kube_api`] a Kubernetes API server, and [`collector`] a collector of traces. [`pages`] reads the driver's
//! metrics, [`kubelet`] knows after which responses the kubelet forgets a mount, and [`doc_table`] compares the tables of
//! the documents with the code.
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
pub mod world;
pub mod writer;

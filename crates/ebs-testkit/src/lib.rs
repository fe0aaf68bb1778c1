//! What tests and the demo need to drive the product from outside: a CSI client, the driver and the simulator as
//! processes, real disks, and the proof that nothing was left behind.
//!
//! From the ground up: [`process`] starts children and always reaps them, [`leftovers`] finds and removes what a run
//! left on the machine, and [`run_dir`] says whose it is; [`control`] reads the simulator's ledger and state;
//! [`csi_client`] and [`on_node`] make the calls of an orchestrator; [`world`] puts simulator, driver and client together
//! for one test; [`sanity`] runs csi-sanity against it. [`loop_device`] and [`mount_namespace`] give tests disks and
//! mounts of their own, [`cut_disk`] disks that lose their power, [`ext_damage`] damaged file systems, [`frozen`] frozen ones,
//! [`mount_copy`] mounts that another mount namespace has too, [`replaced_tool`] a tool that ends as they want,
//! [`memory_cgroup`] a limit of memory,
//! [`node_pod`] the node service in a container, [`containerd`] in one of an image, [`kube_api`] a Kubernetes API server, [`collector`] somebody who takes traces.
//! [`kubelet`] knows after which answers the kubelet forgets a mount.
//!
//! It knows the driver by its command line, its socket and its environment alone. Never a dependency of a product
//! crate, only of tests and of `xtask`.

pub mod collector;
pub mod containerd;
pub mod content;
pub mod control;
pub mod csi_client;
pub mod cut_disk;
pub mod ext_damage;
pub mod frozen;
pub mod kube_api;
pub mod kubelet;
pub mod leftovers;
pub mod loop_device;
pub mod memory_cgroup;
pub mod mount_copy;
pub mod mount_namespace;
pub mod node_pod;
pub mod on_node;
pub mod process;
pub mod record;
pub mod replaced_tool;
pub mod run_dir;
pub mod sanity;
pub mod world;
pub mod writer;

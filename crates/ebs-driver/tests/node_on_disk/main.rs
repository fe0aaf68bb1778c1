//! The node service on real block devices: needs root, e2fsprogs, xfsprogs and util-linux, and touches loop devices of
//! its own alone.

mod node;
mod publish;
mod stage;

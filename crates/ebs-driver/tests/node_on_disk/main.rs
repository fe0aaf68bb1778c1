//! Tests the node service on real block devices. Needs root, e2fsprogs, xfsprogs and util-linux. Touches only its own
//! loop devices.

#![cfg(test)]

mod abandoned;
mod codes;
mod dead_mounts;
mod exclusion;
mod failed_growth;
mod flushed;
mod foreign_disks;
mod format;
mod frozen;
mod growth;
mod growth_in_use;
mod handover;
mod health;
mod info;
mod lifecycle;
mod log;
mod node;
mod node_local;
mod partition;
mod prelude;
mod prepare;
mod publish;
mod release;
mod repair;
mod stage;
mod state_directory;
mod traced_tools;

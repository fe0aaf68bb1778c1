//! The node service on real block devices. Needs root, e2fsprogs, xfsprogs and util-linux, and touches only its own
//! loop devices.

#[cfg(test)]
mod abandoned;
#[cfg(test)]
mod codes;
#[cfg(test)]
mod dead_mounts;
#[cfg(test)]
mod exclusion;
#[cfg(test)]
mod failed_growth;
#[cfg(test)]
mod flushed;
#[cfg(test)]
mod foreign_disks;
#[cfg(test)]
mod format;
#[cfg(test)]
mod frozen;
#[cfg(test)]
mod growth;
#[cfg(test)]
mod growth_in_use;
#[cfg(test)]
mod handover;
#[cfg(test)]
mod health;
#[cfg(test)]
mod info;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod log;
#[cfg(test)]
mod node;
#[cfg(test)]
mod node_local;
#[cfg(test)]
mod partition;
#[cfg(test)]
mod prepare;
#[cfg(test)]
mod publish;
#[cfg(test)]
mod release;
#[cfg(test)]
mod repair;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod state_directory;
#[cfg(test)]
mod traced_tools;

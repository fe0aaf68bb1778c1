//! Stages many volumes at once on one node. Needs root, e2fsprogs and util-linux. Touches only its own loop devices.

#![cfg(test)]

mod many;
#[expect(dead_code, reason = "what another suite sets up is more than this one needs")]
#[path = "../node_on_disk/node.rs"]
mod node;

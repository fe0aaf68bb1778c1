//! A museum of devices that must never be formatted. For each exhibit, the real tool or this code writes the contents
//! of a loop device, and NodeStageVolume asks for a file system on it. The driver must refuse, report the contents, and
//! change no byte. Needs root and the programs that `scripts/setup test` installs.

#![cfg(test)]

mod exhibit;
mod exhibits;
mod headers;
#[path = "../node_on_disk/node.rs"]
#[expect(dead_code, reason = "what the other suite of the node asks of it is more")]
mod node;
mod page;
mod situations;
mod visit;

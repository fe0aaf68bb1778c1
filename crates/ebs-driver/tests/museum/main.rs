//! A museum of devices that must never be formatted: each is made by the real tool or byte by byte on a loop device of its
//! own, and NodeStageVolume is asked for a file system on it. It must refuse, name what it saw, and change no byte. Needs
//! root and the programs that `scripts/setup test` installs.

#[cfg(test)]
mod exhibit;
#[cfg(test)]
mod exhibits;
#[cfg(test)]
mod headers;
#[cfg(test)]
#[path = "../node_on_disk/node.rs"]
#[expect(dead_code, reason = "what the other suite of the node asks of it is more")]
mod node;
#[cfg(test)]
mod page;
#[cfg(test)]
mod situations;
#[cfg(test)]
mod visit;

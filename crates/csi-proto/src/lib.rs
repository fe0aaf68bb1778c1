//! Messages, clients and servers generated from the files in `proto/`: no logic.
//!
//! No request shows its `secrets`: its `Debug` says how many there are. So not even a panic's message can hold one.
//! A log still gets only what the driver's `redact` module names field by field.

use std::fmt;

/// The Container Storage Interface, `csi.v1`.
#[expect(clippy::all, clippy::too_many_lines, missing_docs, reason = "generated")]
pub mod csi {
    tonic::include_proto!("csi.v1");
    include!(concat!(env!("OUT_DIR"), "/without_secrets.rs"));
}

/// The volume-modifier sidecar's legacy interface, `modify.v1`.
#[expect(clippy::too_many_lines, missing_docs, reason = "generated")]
pub mod modify {
    tonic::include_proto!("modify.v1");
}

/// Plugin registration with the kubelet, `pluginregistration`.
#[expect(clippy::too_many_lines, missing_docs, reason = "generated")]
pub mod registration {
    tonic::include_proto!("pluginregistration");
}

/// Stands for so many secrets.
struct NotShown(usize);

impl fmt::Debug for NotShown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} not shown)", self.0)
    }
}

#[cfg(test)]
mod tests;

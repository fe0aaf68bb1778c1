//! Messages, clients and servers generated from the files in `proto/`, without logic.
//!
//! The `Debug` output of a request shows only how many `secrets` it has, so that no panic message can contain one.

use std::fmt;

/// The Container Storage Interface, `csi.v1`.
#[expect(clippy::all, clippy::too_many_lines, missing_docs, reason = "generated")]
pub mod csi {
    tonic::include_proto!("csi.v1");
    include!(concat!(env!("OUT_DIR"), "/without_secrets.rs"));
}

/// The legacy interface of the volume-modifier sidecar, `modify.v1`.
#[expect(clippy::too_many_lines, missing_docs, reason = "generated")]
pub mod modify {
    tonic::include_proto!("modify.v1");
}

/// csi-proxy's interface.
#[cfg(feature = "csi-proxy")]
pub mod csi_proxy;

/// Plugin registration with the kubelet, `pluginregistration`.
#[expect(clippy::too_many_lines, missing_docs, reason = "generated")]
pub mod registration {
    tonic::include_proto!("pluginregistration");
}

/// Replaces this many secrets in `Debug` output.
struct NotShown(usize);

impl fmt::Debug for NotShown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} not shown)", self.0)
    }
}

#[cfg(test)]
mod tests;

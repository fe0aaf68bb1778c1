//! Messages, clients and servers generated from the files in `proto/`: no logic.
//!
//! The derived `Debug` of a request prints its `secrets`. Nothing may log a request with it; the driver's
//! `redact` module is the only way from a request to the log.

/// The Container Storage Interface, `csi.v1`.
#[expect(clippy::all, clippy::too_many_lines, missing_docs, reason = "generated")]
pub mod csi {
    tonic::include_proto!("csi.v1");
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

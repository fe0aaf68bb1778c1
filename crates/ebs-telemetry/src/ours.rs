//! Distinguishes the driver's own code from other crates.

/// Returns true if the target is in a crate of this workspace.
pub(crate) fn is_ours(target: &str) -> bool {
    ["ebs_", "aws_ebs_csi_driver", "component_base", "grpc_authority"].iter().any(|name| target.starts_with(name))
}

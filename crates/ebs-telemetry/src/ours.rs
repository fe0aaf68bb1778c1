//! Distinguishes the driver's own code from other crates.

/// Returns whether the target is in a crate of this workspace.
pub(crate) fn is_ours(target: &str) -> bool {
    target.starts_with("ebs_") || target.starts_with("aws_ebs_csi_driver") || target.starts_with("grpc_authority")
}

//! Who built this, and from what.

/// The name of the program.
pub(crate) const NAME: &str = "csi-node-driver-registrar";

/// The version, and the commit that it was built from when the environment said so at build time (`GIT_COMMIT`).
pub(crate) fn text() -> String {
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    match option_env!("GIT_COMMIT") {
        Some(commit) if !commit.is_empty() => format!("{NAME} {version} {commit}"),
        _ => format!("{NAME} {version}"),
    }
}

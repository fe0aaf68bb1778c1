//! The name and version of this program.

pub(crate) const NAME: &str = "csi-node-driver-registrar";

/// Returns the version, and the commit if the build environment contained it (`GIT_COMMIT`).
pub(crate) fn text() -> String {
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    match option_env!("GIT_COMMIT") {
        Some(commit) if !commit.is_empty() => format!("{NAME} {version} {commit}"),
        _ => format!("{NAME} {version}"),
    }
}

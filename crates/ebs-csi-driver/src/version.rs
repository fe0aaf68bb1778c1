//! Who built this, and from what.

use std::fmt::Write;

/// The driver's version, `v1.2.3`: what GetPluginInfo and the user agent carry.
pub(crate) const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// The commit that this was built from, by the environment at build time (`GIT_COMMIT`); empty without.
pub(crate) const COMMIT: &str = match option_env!("GIT_COMMIT") {
    Some(commit) => commit,
    None => "",
};

/// The answer to `--version`: JSON with the keys of the reference driver, in its order, since scripts parse it.
/// The date is that of the environment at build time (`BUILD_DATE`), empty without.
pub(crate) fn json() -> String {
    let go_version = concat!("rust", env!("CARGO_PKG_RUST_VERSION"));
    let platform = platform(std::env::consts::OS, std::env::consts::ARCH);
    let rows = [
        ("driverVersion", VERSION),
        ("gitCommit", COMMIT),
        ("buildDate", option_env!("BUILD_DATE").unwrap_or_default()),
        ("goVersion", go_version),
        ("compiler", "rustc"),
        ("platform", platform.as_str()),
    ];
    let mut text = String::from("{");
    for (at, (key, value)) in rows.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _infallible = write!(text, "{comma}\n  {}: {}", serde_json::json!(key), serde_json::json!(value));
    }
    text + "\n}\n"
}

/// As Go names it.
fn platform(os: &str, architecture: &str) -> String {
    let architecture = match architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{os}/{architecture}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--version` prints the reference's JSON keys in their order.
    #[test]
    fn the_version_is_json_with_the_references_keys_in_order() {
        let text = json();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["driverVersion"], VERSION);
        let keys: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("  \"")?.split('"').next()).collect();
        assert_eq!(keys, ["driverVersion", "gitCommit", "buildDate", "goVersion", "compiler", "platform"]);
    }

    #[test]
    fn platforms_have_their_go_names() {
        assert_eq!(platform("linux", "x86_64"), "linux/amd64");
        assert_eq!(platform("linux", "aarch64"), "linux/arm64");
    }
}

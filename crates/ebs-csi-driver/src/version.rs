/// The driver's version, `v1.2.3`, as in GetPluginInfo and the user agent.
pub(crate) const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// The commit of the build, from `GIT_COMMIT` at build time. Empty if it was not set.
pub(crate) const COMMIT: &str = match option_env!("GIT_COMMIT") {
    Some(commit) => commit,
    None => "",
};

/// Returns the output of `--version`: JSON with the reference driver's keys in the same order, as scripts parse it.
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
    let rows = rows.map(|(key, value)| format!("  {}: {}", serde_json::json!(key), serde_json::json!(value)));
    format!("{{\n{}\n}}\n", rows.join(",\n"))
}

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

    #[test]
    fn version_output_has_reference_keys_in_order() {
        let text = json();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["driverVersion"], VERSION);
        let keys: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("  \"")?.split('"').next()).collect();
        assert_eq!(keys, ["driverVersion", "gitCommit", "buildDate", "goVersion", "compiler", "platform"]);
    }

    #[test]
    fn platform_is_reported_by_its_go_name() {
        assert_eq!(platform("linux", "x86_64"), "linux/amd64");
        assert_eq!(platform("linux", "aarch64"), "linux/arm64");
    }
}

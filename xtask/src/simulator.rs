//! The simulator as a process: waits until it is ready, and reads its env file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ebs_testkit::process::Process;

/// Waits until the simulator has written its env file, and reads it.
///
/// # Errors
/// It ends, or is not ready within `bound`.
pub(crate) async fn until_ready(
    simulator: &mut Process,
    env_file: &Path,
    bound: Duration,
) -> anyhow::Result<BTreeMap<String, String>> {
    let deadline = tokio::time::Instant::now() + bound;
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    while !env_file.exists() {
        tick.tick().await;
        if let Some(status) = simulator.ended()? {
            bail!("ebs-sim exited with {status} while starting:\n{}", simulator.log_tail(20));
        }
        ensure!(tokio::time::Instant::now() < deadline, "ebs-sim is not ready after {bound:?}");
    }
    env_of_file(env_file)
}

/// Returns the variables of an env file.
///
/// # Errors
/// It cannot be read.
pub(crate) fn env_of_file(env_file: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let text = fs::read_to_string(env_file);
    Ok(parse_env(&text.with_context(|| format!("read the simulator's env file {}", env_file.display()))?))
}

/// Parses the lines `export NAME='value'` of a simulator's env file.
fn parse_env(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("export "));
    let pairs = lines.filter_map(|line| line.split_once('='));
    pairs
        .map(|(name, value)| {
            let inner = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).unwrap_or(value);
            (name.to_owned(), inner.replace(r"'\''", "'"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn env_file_is_parsed_as_a_shell_does() {
        let env = parse_env("# ready\nexport A='it'\\''s'\nexport B='http://127.0.0.1:1'\nexport C=plain\n");
        let pairs: Vec<(&str, &str)> = env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("A", "it's"), ("B", "http://127.0.0.1:1"), ("C", "plain")]);
    }
}

//! Collects the checks that a test skips because of the machine, so that `make test` lists them at its end.

use std::io::Write;

/// The variable with the path of the list, which `scripts/suites` sets and prints.
const LIST: &str = "EBS_TEST_SKIPPED";

/// Records that a test skips a check, with the property of the machine that is the reason.
pub fn record_skipped(check: &str, reason: &str) {
    let line = format!("{check}: {reason}\n");
    tracing::warn!(check, reason, "check skipped");
    if let Some(path) = std::env::var_os(LIST) {
        // One write for each line, so that lines of tests that run at once do not mix.
        let list = std::fs::OpenOptions::new().create(true).append(true).open(path);
        list.and_then(|mut list| list.write_all(line.as_bytes())).expect("the list of skipped checks is writable");
    }
}

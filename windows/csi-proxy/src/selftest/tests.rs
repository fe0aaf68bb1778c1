use winstorage::fake::{Effect, FakeHost};
use winstorage::host::Answer;

use super::*;
use crate::flags::Command;

const DESCRIPTION: &str = r#"{"virtual_time": true, "tree": {"C:\\ProgramData\\a": "directory"}, "disks": [
    {"number": 1, "serial": "spare", "size": 4294967296, "online": true},
    {"number": 2, "serial": "used", "style": "gpt", "online": true, "size": 4294967296,
     "partitions": [{"number": 1, "kind": "data", "size": 4000000000}]}]}"#;

fn executed(host: &FakeHost, line: &str) -> (Result<(), String>, String) {
    let words = std::iter::once("selftest").chain(line.split_whitespace());
    let Command::Selftest(asked) = crate::flags::read(words).unwrap() else { panic!("{line}") };
    let mut out = Vec::new();
    let result = execute(Arc::new(host.clone()), &asked, &mut out);
    (result, String::from_utf8(out).unwrap())
}

fn machine() -> FakeHost {
    FakeHost::from_json(DESCRIPTION).unwrap()
}

#[test]
fn selftest_prints_each_step_and_cleans_up() {
    let host = machine();
    let (result, told) = executed(&host, "--disk=1");
    assert_eq!(result, Ok(()), "{told}");
    let lines: Vec<&str> = told.lines().collect();
    let (sum, steps) = lines.split_last().unwrap();
    assert!(steps.len() >= 19 && steps.iter().all(|line| line.starts_with("ok ")), "{told}");
    assert_eq!(**sum, format!("{0} of {0} steps passed", steps.len()));
    assert!(steps.iter().any(|line| line.contains("random operations")), "{told}");
    assert!(!host.is_online(1) && host.is_online(2) && host.kind_at(r"C:\ProgramData\csi-proxy-selftest").is_none());
}

#[test]
fn failed_selftest_step_makes_the_run_fail() {
    let host = machine();
    host.inject("flush", 0, Effect::Fail(Answer::Method(4)));
    let (result, told) = executed(&host, r"--disk=1 --directory=C:\ProgramData\a\b");
    assert!(result.unwrap_err().starts_with("1 of "), "{told}");
    assert!(
        told.lines().any(|line| line.starts_with("FAILED the volume is flushed") && line.contains("flush of")),
        "{told}"
    );
}

#[test]
fn selftest_without_a_spare_disk_changes_nothing() {
    let host = machine();
    host.clear_log();
    for (line, because) in [
        ("--disk=0", "refused"),
        ("--disk=2", "nothing was done"),
        ("--disk=7", "not found"),
        (r"--disk=1 --directory=C:\ProgramData\a", "exists"),
        ("--disk=1 --directory=a", "not an absolute path"),
        (r"--disk=1 --directory=C:\", "below another directory"),
        (r"--disk=1 --directory=C:\a", "below another directory"),
    ] {
        let (result, told) = executed(&host, line);
        let error = result.unwrap_err();
        assert!(error.contains(because) && told.is_empty(), "{line}: {error} {told}");
    }
    for step in ["set_online", "initialize_gpt", "create_data_partition", "format_ntfs", "create_directory"] {
        assert_eq!(host.calls(step), 0, "{step}: {:?}", host.log());
    }
}

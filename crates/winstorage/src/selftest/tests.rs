use std::sync::Arc;

use super::*;
use crate::Policy;
use crate::fake::{Effect, FakeHost};
use crate::host::Answer;
use crate::types::WinPath;

fn machine() -> (FakeHost, Storage, Spare) {
    let host = FakeHost::new();
    host.add_disk(1, "spare", 4 << 30, true);
    host.add_directory(r"C:\work");
    let storage = Storage::new(Arc::new(host.clone()), Policy::new(vec![WinPath::normalise("/work").unwrap()]));
    (host, storage, Spare { disk: DiskNumber(1), directory: r"C:\work\selftest".to_owned() })
}

fn failed(storage: &Storage, spare: &Spare) -> Vec<(&'static str, String)> {
    let mut failed = Vec::new();
    let count =
        run(storage, spare, &mut |step| failed.extend(step.failure.clone().map(|failure| (step.rules, failure))))
            .unwrap();
    assert_eq!(count, failed.len());
    failed
}

/// What a person runs on a real machine holds on the machine in memory, step by step, and leaves nothing behind.
///
/// Rule: windows.md 4.3
#[test]
fn the_machine_in_memory_passes_what_a_real_one_is_asked() {
    let (host, storage, spare) = machine();
    assert_eq!(failed(&storage, &spare), []);
    assert_eq!(host.kind_at(&spare.directory), None);
    assert!(!host.is_online(1));
}

/// A step that finds something else says what, and the others go on.
///
/// Rule: see `the_machine_in_memory_passes_what_a_real_one_is_asked`
#[test]
fn a_step_that_fails_says_what_was_found() {
    let (host, storage, spare) = machine();
    host.inject("device_number", 1, Effect::Fail(Answer::Win32(1)));
    assert_eq!(failed(&storage, &spare), [("P-15, P-16", "the disk is not in the list".to_owned())]);
    let (host, storage, spare) = machine();
    host.inject("flush", 0, Effect::Fail(Answer::Method(4)));
    let rules: Vec<&str> = failed(&storage, &spare).into_iter().map(|(rules, _)| rules).collect();
    assert_eq!(rules, ["P-20"]);
}

/// A disk that has a partition, or that Windows lives on, is not used up.
///
/// Rule: own rule (bad input)
#[test]
fn only_a_disk_without_partitions_is_used_up() {
    let (host, storage, mut spare) = machine();
    for disk in [0, 7] {
        spare.disk = DiskNumber(disk);
        assert!(run(&storage, &spare, &mut |_| {}).is_err());
    }
    spare.disk = DiskNumber(1);
    storage.partition_disk(spare.disk).unwrap();
    host.clear_log();
    assert!(matches!(run(&storage, &spare, &mut |_| {}), Err(StorageError::InUse(_))));
    assert_eq!(["create_data_partition", "set_online", "format_ntfs"].map(|step| host.calls(step)), [0, 0, 0]);
}

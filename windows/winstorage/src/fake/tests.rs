use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::types::{DiskNumber, WinPath};
use crate::{Policy, Storage};

const MACHINE: &str = include_str!("tests/machine.json");

#[test]
fn fake_machine_is_built_from_its_description() {
    let host = FakeHost::from_json(MACHINE).unwrap();
    let storage =
        Storage::new(Arc::new(host.clone()), Policy::new(vec![WinPath::normalise("/var/lib/kubelet").unwrap()]));
    assert_eq!(storage.list_disk_ids().unwrap().len(), 2);
    storage.rescan().unwrap();
    assert_eq!(storage.list_disk_ids().unwrap().len(), 3);
    assert!(storage.rescan().is_err());
    assert!(storage.is_symlink(r"C:\var\lib\kubelet\link").unwrap());
    assert_eq!(storage.discover_target_portal("10.0.0.1", 0).unwrap(), ["iqn.x:y"]);
    assert_eq!(storage.bios_serial_number().unwrap(), "ec2");
    storage.set_disk_state(DiskNumber(1), true).unwrap();
    storage.partition_disk(DiskNumber(1)).unwrap();
    let volume = host.volumes_of(1).remove(0).to_string();
    let before = host.time();
    storage.format_volume(&volume).unwrap();
    assert_eq!(host.time() - before, Duration::from_secs(5));
}

#[test]
fn a_description_that_is_not_understood_is_refused() {
    for odd in [
        r#"{"disk": []}"#,
        r#"{"disks": [{"number": 1}]}"#,
        r#"{"disks": [{"number": 1, "size": 1}, {"number": 1, "size": 1}]}"#,
        r#"{"tree": {"pods": "directory"}}"#,
        r#"{"tree": {"C:\\x": "pipe"}}"#,
        r#"{"faults": [{"step": "disk"}]}"#,
        r#"{"faults": [{"step": "disk", "win32": 1, "result": 2}]}"#,
        r#"{"disks": [{"number": 1, "size": 1, "partitions": [{"number": 0, "kind": "data", "size": 1}]}]}"#,
    ] {
        assert!(FakeHost::from_json(odd).is_err(), "{odd}");
    }
    assert!(FakeHost::from_json("{}").is_ok());
}

#[test]
fn a_delay_takes_its_time_where_the_clock_is_real() {
    let host = FakeHost::from_json(r#"{"faults": [{"step": "rescan", "delay_ms": 50}]}"#).unwrap();
    let storage = Storage::new(Arc::new(host.clone()), Policy::new(Vec::new()));
    let before = host.time();
    storage.rescan().unwrap();
    assert!(host.time() - before >= Duration::from_millis(50));
}

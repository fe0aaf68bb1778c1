use super::*;
use crate::StorageError;
use crate::fake::Effect;
use crate::host::Answer;
use crate::service::ACCESS_PATH_IN_USE;

#[test]
fn disk_with_any_partition_is_not_changed() {
    let (host, storage) = described(
        r#"{"disks": [
            {"number": 1, "size": 10737418240, "online": true, "style": "mbr", "partitions": [{"number": 1, "kind": "other", "size": 1048576}]},
            {"number": 2, "size": 10737418240, "online": true, "style": "gpt", "partitions": [{"number": 1, "kind": "other", "size": 1048576}]}
        ]}"#,
    );
    for disk in [1, 2] {
        storage.partition_disk(DiskNumber(disk)).unwrap();
    }
    let changes = ["initialize_gpt", "create_data_partition", "online_partition"];
    assert_eq!(changes.map(|step| host.calls(step)), [0, 0, 0]);
}

#[test]
fn create_partition_with_access_path_in_use_succeeds() {
    let (host, storage) = machine();
    host.inject("create_data_partition", 0, Effect::FailAfter(Answer::Method(ACCESS_PATH_IN_USE)));
    storage.partition_disk(DiskNumber(1)).unwrap();
    assert_eq!(host.calls("online_partition"), 1);

    let (host, storage) = machine();
    host.inject("create_data_partition", 0, Effect::Fail(Answer::Method(4)));
    let text = storage.partition_disk(DiskNumber(1)).unwrap_err().text();
    assert_eq!(text, "create_data_partition of disk 1 failed: result 4");
    // The disk is already initialised, and the retry detects that.
    storage.partition_disk(DiskNumber(1)).unwrap();
    assert_eq!(host.calls("initialize_gpt"), 1);

    let (host, storage) = machine();
    host.inject("create_data_partition", 0, Effect::Fail(Answer::Method(ACCESS_PATH_IN_USE)));
    let none = storage.partition_disk(DiskNumber(1)).unwrap_err();
    assert_eq!(none, StorageError::NoPartition(DiskNumber(1)));
}

#[test]
fn disks_are_listed_with_their_identifiers() {
    let (_, storage) = described(
        r#"{"disks": [{"number": 1, "size": 1, "serial": " vol1 ", "page83": "eb01"}, {"number": 7, "size": 1, "page83": "naa.x"}]}"#,
    );
    let ids = storage.list_disk_ids().unwrap();
    let told = |disk: u32| (ids[&DiskNumber(disk)].page83.as_str(), ids[&DiskNumber(disk)].serial_number.as_str());
    assert_eq!((told(1), told(7)), (("eb01", " vol1 "), ("naa.x", "")));
    assert_eq!(storage.disk_number_by_name("naa.x").unwrap(), DiskNumber(7));
    let none = storage.disk_number_by_name("naa.y").unwrap_err().text();
    assert_eq!(none, "could not find disk with Page83 ID naa.y");
    assert!(storage.disk_number_by_name("").is_err(), "disks without identifiers have no name");
}

#[test]
fn disk_that_cannot_be_identified_does_not_hide_others() {
    let (host, storage) = machine();
    // A virtual disk answers with ERROR_INVALID_FUNCTION.
    host.inject("device_ids", 1, Effect::Fail(Answer::Win32(1)));
    let ids = storage.list_disk_ids().unwrap();
    assert_eq!((ids.len(), ids[&DiskNumber(1)].page83.as_str()), (2, ""));
    assert_eq!(ids[&DiskNumber(1)].serial_number, SERIAL);

    host.inject("device_number", 0, Effect::Fail(Answer::Win32(5)));
    let ids = storage.list_disk_ids().unwrap();
    assert_eq!(ids.into_keys().collect::<Vec<_>>(), [DiskNumber(1)]);
}

#[test]
fn concurrent_changes_of_one_disk_are_rejected() {
    let (host, storage) = machine();
    host.add_disk(2, "vol2", GIB, true);
    let storage = Arc::new(storage);
    let gate = crate::fake::Gate::default();
    host.inject("initialize_gpt", 0, Effect::Hold(gate.clone()));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| storage.partition_disk(DiskNumber(1)));
        assert!(gate.wait_reached());
        let refused = storage.set_disk_state(DiskNumber(1), false).unwrap_err();
        assert!(refused.text().contains("disk 1 is in use by PartitionDisk"), "{refused}");
        assert_eq!(host.calls("set_online"), 0);
        let (woken, wakes) = std::sync::mpsc::channel();
        let wake = |name: &'static str| {
            let woken = woken.clone();
            storage.on_release(DiskNumber(1), move || woken.send(name).unwrap())
        };
        // Only one waiter is allowed. After one has given up, another can register.
        drop(wake("gone").unwrap());
        let waiting = wake("first").unwrap();
        assert!(wake("second").is_none());
        storage.partition_disk(DiskNumber(2)).unwrap();
        assert_eq!(host.calls("create_data_partition"), 1, "only disk 2's");
        assert!(wakes.try_recv().is_err());
        gate.open();
        first.join().unwrap().unwrap();
        assert_eq!(wakes.iter().next(), Some("first"));
        drop(waiting);
        // No operation holds the disk, so the waiter is called immediately.
        assert!(wake("at once").is_some());
        assert_eq!(wakes.try_iter().collect::<Vec<_>>(), ["at once"]);
        storage.partition_disk(DiskNumber(1)).unwrap();
    });
    assert_eq!(host.calls("initialize_gpt"), 2, "once for each disk");
    assert_eq!(host.calls("create_data_partition"), 2);
}

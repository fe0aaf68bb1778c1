//! Tests that operations write to a disk only after they have read it and found it blank.

use super::*;
use crate::StorageError;
use crate::fake::Effect;
use crate::host::Answer;

const DATA: [(u64, &[u8]); 3] = [(0x438, b"\x53\xef"), (0, b"XFSB"), (10 * GIB - 4096, b"x")];

fn reformats(host: &FakeHost) -> Storage {
    Storage::new(Arc::new(host.clone()), Policy { allow_reformat: true, ..policy() })
}

#[test]
fn raw_disk_that_holds_data_is_not_initialised() {
    for (offset, bytes) in DATA {
        let (host, storage) = machine();
        host.write_disk(1, offset, bytes);
        let refused = storage.partition_disk(DiskNumber(1)).unwrap_err();
        assert!(refused.text().contains(&format!("offset {offset}")), "{refused}");
        assert_eq!(["initialize_gpt", "create_data_partition"].map(|step| host.calls(step)), [0, 0]);
    }
}

#[test]
fn disk_with_an_empty_table_and_data_gets_no_partition() {
    let (host, storage) = machine();
    host.inject("initialize_gpt", 0, Effect::CrashAfter);
    storage.partition_disk(DiskNumber(1)).unwrap_err();
    host.restart();
    host.write_disk(1, 20 * MIB, b"deleted");
    let refused = storage.partition_disk(DiskNumber(1)).unwrap_err();
    assert!(refused.text().contains("offset 20971520"), "{refused}");
    assert_eq!(host.calls("create_data_partition"), 0);
}

#[test]
fn unrecognised_volume_that_holds_data_is_not_formatted() {
    let (host, storage) = machine();
    storage.partition_disk(DiskNumber(1)).unwrap();
    let volume = host.volumes_of(1).remove(0);
    host.write_disk(1, 20 * MIB, b"-FVE-FS-");
    let refused = storage.format_volume(&volume.to_string()).unwrap_err();
    assert!(refused.text().contains("offset 20971520"), "{refused}");
    assert_eq!(host.formats(&volume), 0);
}

#[test]
fn volume_beside_other_partitions_is_not_formatted() {
    let (host, storage) = described(
        r#"{"disks": [{"number": 1, "size": 10737418240, "online": true, "style": "gpt", "partitions": [
            {"number": 1, "kind": "data", "size": 1048576, "volume": {"id": "\\\\?\\Volume{00000000-0000-0000-0000-00000000000a}\\", "formatted": true}},
            {"number": 2, "kind": "data", "size": 1048576, "volume": {"id": "\\\\?\\Volume{00000000-0000-0000-0000-00000000000b}\\"}}
        ]}]}"#,
    );
    storage.format_volume(r"\\?\Volume{00000000-0000-0000-0000-00000000000b}\").unwrap_err();
    assert_eq!(host.calls("format_ntfs"), 0);
}

#[test]
fn disk_that_cannot_be_read_is_not_written() {
    let (host, storage) = machine();
    for skip in [0, 31, 500] {
        host.inject("read_disk", skip, Effect::Fail(Answer::Win32(23)));
        let refused = storage.partition_disk(DiskNumber(1)).unwrap_err();
        assert!(matches!(refused, StorageError::Host(_)), "{refused}");
    }
    storage.partition_disk(DiskNumber(1)).unwrap();
    let volume = host.volumes_of(1).remove(0);
    host.inject("read_disk", 40, Effect::Fail(Answer::Win32(23)));
    storage.format_volume(&volume.to_string()).unwrap_err();
    assert_eq!(host.formats(&volume), 0);
}

#[test]
fn disk_that_is_replaced_while_it_is_read_is_not_written() {
    let (host, storage) = machine();
    let swap = |host: &FakeHost| {
        host.remove_disk(1);
        host.add_disk(1, "vol0aaaaaaaaaaaaaaaa_00000001.", 10 * GIB, true);
    };
    host.inject("read_disk", 900, Effect::Meanwhile(Box::new(swap)));
    let refused = storage.partition_disk(DiskNumber(1)).unwrap_err();
    assert!(refused.text().contains("disk 1"), "{refused}");
    assert_eq!(host.calls("initialize_gpt"), 0);
}

#[test]
fn allow_reformat_overwrites_existing_contents() {
    let (host, _) = machine();
    host.write_disk(1, 0x438, b"\x53\xef");
    let storage = reformats(&host);
    storage.partition_disk(DiskNumber(1)).unwrap();
    let volume = host.volumes_of(1).remove(0);
    host.write_disk(1, 20 * MIB, b"data");
    storage.format_volume(&volume.to_string()).unwrap();
    assert_eq!(host.formats(&volume), 1);
}

use std::time::Duration;

use super::*;
use crate::StorageError;

const CHANGES: &str =
    "initialize_gpt create_data_partition online_partition set_online format_ntfs resize_partition mount unmount flush";

fn is_refused<T: std::fmt::Debug>(result: Result<T, StorageError>) -> bool {
    matches!(result, Err(StorageError::SystemStorage { .. }))
}

#[test]
fn system_disk_and_volume_are_protected_from_changes() {
    let (host, storage) = machine();
    let system = host.volumes_of(0).remove(0);
    host.add_mount_point(&at("c"), &system);
    host.add_directory(&at("d"));
    let id = system.to_string();
    assert!(is_refused(storage.partition_disk(DiskNumber(0))));
    assert!(is_refused(storage.set_disk_state(DiskNumber(0), false)));
    assert!(is_refused(storage.format_volume(&id)));
    assert!(is_refused(storage.resize_volume(&id, 0, Duration::ZERO)));
    assert!(is_refused(storage.unmount_volume(&id, &at("c"))));
    // A client that could write to C: would control the node.
    assert!(is_refused(storage.mount_volume(&id, &at("d"))));
    assert!(CHANGES.split(' ').all(|step| host.calls(step) == 0), "{:?}", host.log());
    // The disk is already online, so this request is harmless and succeeds.
    storage.set_disk_state(DiskNumber(0), true).unwrap();
}

/// Windows automatically assigns a drive letter to the volume of a disk that it has not seen before, for example a disk
/// that was created from a snapshot. Such a volume can be mounted, grown and unmounted, and its disk can go offline.
#[test]
fn volume_with_a_drive_letter_has_a_full_lifecycle() {
    let (host, storage) = machine();
    let volume = formatted(&storage);
    host.set_drive_letter(1, 'E');
    host.add_directory(&at("e"));
    let id = volume.to_string();
    storage.mount_volume(&id, &at("e")).unwrap();
    host.set_disk_size(1, 20 * GIB);
    storage.resize_volume(&id, 0, Duration::ZERO).unwrap();
    assert_eq!(host.calls("resize_partition"), 1);
    storage.unmount_volume(&id, &at("e")).unwrap();
    storage.set_disk_state(DiskNumber(1), false).unwrap();
    assert!(!host.is_online(1));
}

#[test]
fn volume_with_drive_letter_is_formatted_only_if_proven_blank() {
    let (host, storage) = machine();
    storage.partition_disk(DiskNumber(1)).unwrap();
    host.set_drive_letter(1, 'E');
    let id = host.volumes_of(1).remove(0).to_string();
    let careless = Storage::new(Arc::new(host.clone()), Policy { allow_reformat: true, ..policy() });
    assert!(is_refused(careless.format_volume(&id)));
    assert_eq!(host.calls("format_ntfs"), 0);
    storage.format_volume(&id).unwrap();
}

#[test]
fn disk_with_systemroot_is_protected_whatever_its_flags() {
    let (_, storage) = described(
        r#"{"disks": [
            {"number": 0, "size": 1073741824, "online": true, "style": "gpt", "boot": true, "partitions": []},
            {"number": 3, "size": 1073741824, "online": true, "style": "gpt", "partitions": [
                {"number": 1, "kind": "data", "size": 1048576, "letter": "C", "volume": {"id": "\\\\?\\Volume{00000000-0000-0000-0000-00000000000a}\\"}},
                {"number": 2, "kind": "data", "size": 1048576, "volume": {"id": "\\\\?\\Volume{00000000-0000-0000-0000-00000000000b}\\"}}]}
        ]}"#,
    );
    assert!(is_refused(storage.partition_disk(DiskNumber(0))));
    assert!(is_refused(storage.partition_disk(DiskNumber(3))));
    assert!(is_refused(storage.set_disk_state(DiskNumber(3), false)));
    // This volume has no drive letter, but it is on the same disk as `C:`.
    assert!(is_refused(storage.format_volume(r"\\?\Volume{00000000-0000-0000-0000-00000000000b}\")));
}

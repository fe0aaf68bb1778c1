use std::time::Duration;

use super::*;
use crate::StorageError;
use crate::fake::Effect;
use crate::host::Answer;
use crate::service::STORAGE_BUSY;
use crate::types::PartitionNumber;

const ID: &str = r"\\?\Volume{0123abcd-0000-4000-8000-00000000beef}\";

#[test]
fn volumes_are_listed_in_the_order_of_their_partitions() {
    let (_, storage) = described(
        r#"{"disks": [{"number": 1, "size": 10737418240, "online": true, "style": "gpt", "partitions": [
            {"number": 1, "kind": "reserved", "size": 16777216},
            {"number": 2, "kind": "data", "size": 1048576, "volume": {"id": "\\\\?\\Volume{00000000-0000-0000-0000-00000000000b}\\"}},
            {"number": 3, "kind": "data", "size": 1048576, "volume": {"id": "\\\\?\\Volume{00000000-0000-0000-0000-00000000000a}\\"}}
        ]}, {"number": 2, "size": 1048576, "online": true}]}"#,
    );
    let listed = |partition: u32| {
        let volumes = storage.list_volumes_on_disk(DiskNumber(1), PartitionNumber::new(partition)).unwrap();
        volumes.iter().map(|volume| volume.guid()[35..].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed(0), ["b", "a"]);
    assert_eq!(listed(3), ["a"]);
    assert_eq!(listed(1), Vec::<String>::new());
    assert!(storage.list_volumes_on_disk(DiskNumber(2), None).unwrap().is_empty());
}

#[test]
fn volume_grows_and_never_shrinks() {
    let (host, storage) = machine();
    let volume = formatted(&storage).to_string();
    let resize = |size: i64| storage.resize_volume(&volume, size, Duration::ZERO);
    let size = resize(1).unwrap();
    assert!(size > 9 * GIB && size < 10 * GIB);
    assert_eq!(resize(0).unwrap(), size);
    host.set_disk_size(1, 20 * GIB);
    assert_eq!(resize(i64::try_from(size + 100 * MIB - 1).unwrap()).unwrap(), size);
    assert_eq!(host.calls("resize_partition"), 0);
    assert_eq!(resize(i64::try_from(size + 100 * MIB).unwrap()).unwrap(), size + 100 * MIB);
    assert_eq!((host.calls("resize_partition"), host.calls("refresh_disk")), (1, 2));
    let largest = resize(0).unwrap();
    assert!(largest > 19 * GIB);
    assert_eq!(storage.volume_stats(&volume).unwrap().total, largest);

    let text = resize(-5).unwrap_err().text();
    assert_eq!(text, format!("invalid negative size -5 for volume ({volume})"));
}

#[test]
fn resize_is_retried_while_the_volume_is_in_use() {
    let (host, storage) = machine();
    let volume = formatted(&storage).to_string();
    host.set_disk_size(1, 20 * GIB);
    for skip in 0..3 {
        host.inject("resize_partition", skip, Effect::Fail(Answer::Method(STORAGE_BUSY)));
    }
    assert!(storage.resize_volume(&volume, 0, Duration::from_secs(1)).is_err());
    let tries = host.calls("resize_partition");
    assert!(tries > 1, "{tries}");
    storage.resize_volume(&volume, 0, Duration::from_secs(60)).unwrap();
    assert_eq!(host.calls("resize_partition"), 4);

    host.set_disk_size(1, 30 * GIB);
    host.inject("resize_partition", 0, Effect::Fail(Answer::Method(5)));
    let refused = storage.resize_volume(&volume, 0, Duration::from_secs(60)).unwrap_err();
    assert_eq!(refused.answer(), Some(&Answer::Method(5)));
    assert_eq!(host.calls("resize_partition"), 5);
}

#[test]
fn used_bytes_are_total_minus_free_bytes() {
    let (host, storage) = machine();
    let volume = formatted(&storage);
    host.set_formatted(&volume, 3 * GIB);
    let stats = storage.volume_stats(&volume.to_string()).unwrap();
    assert_eq!(stats.used, 3 * GIB);
    assert_eq!(storage.disk_number_of_volume(&volume.to_string()).unwrap(), DiskNumber(1));
    storage.write_volume_cache(&volume.to_string()).unwrap();
    assert_eq!(host.calls("flush"), 1);
}

#[test]
fn volume_on_several_disks_has_no_disk_number() {
    let half = |number: u32| {
        format!(
            r#"{{"number": {number}, "size": 2097152, "online": true, "style": "gpt", "partitions": [
                {{"number": 1, "kind": "other", "size": 1048576, "volume": {{"id": "\\\\?\\Volume{{00000000-0000-0000-0000-00000000000a}}\\"}}}}]}}"#
        )
    };
    let (_, storage) = described(&format!(r#"{{"disks": [{}, {}]}}"#, half(1), half(2)));
    let volume = r"\\?\Volume{00000000-0000-0000-0000-00000000000a}\";
    let error = storage.disk_number_of_volume(volume).unwrap_err();
    assert!(matches!(error, StorageError::Spanned { count: 2, .. }), "{error}");
    let error = storage.resize_volume(volume, 0, Duration::ZERO).unwrap_err();
    assert!(matches!(error, StorageError::Spanned { .. }), "{error}");
}

#[test]
fn empty_and_malformed_fields_are_rejected_before_any_call() {
    let (host, storage) = machine();
    let empty = [
        (storage.mount_volume("", "x").unwrap_err(), "MountVolumeRequest.VolumeId is empty"),
        (storage.mount_volume(ID, "").unwrap_err(), "MountVolumeRequest.TargetPath is empty"),
        (storage.unmount_volume("", "x").unwrap_err(), "volume id empty"),
        (storage.unmount_volume(ID, "").unwrap_err(), "target path empty"),
        (storage.is_volume_formatted("").unwrap_err(), "volume id empty"),
        (storage.format_volume("").unwrap_err(), "volume id empty"),
        (storage.resize_volume("", -1, Duration::ZERO).unwrap_err(), "volume id empty"),
        (storage.volume_stats("").unwrap_err(), "volume id empty"),
        (storage.disk_number_of_volume("").unwrap_err(), "volume id empty"),
        (storage.write_volume_cache("").unwrap_err(), "volume id empty"),
        (storage.volume_of_path("").unwrap_err(), "target path is empty"),
        (storage.closest_volume_of_path("").unwrap_err(), "target path is empty"),
    ];
    for (error, text) in empty {
        assert_eq!(error.text(), text);
        assert!(error.is_refused_argument());
    }
    let odd = [
        storage.mount_volume("C:", &at("x")).unwrap_err(),
        storage.format_volume(r"\\?\Volume{' or 1=1}\").unwrap_err(),
        storage.unmount_volume("x", &at("x")).unwrap_err(),
    ];
    assert!(odd.iter().all(|error| matches!(error, StorageError::VolumeId { .. })));
    assert_eq!(host.log(), Vec::<String>::new());
}

#[test]
fn unknown_volume_is_reported_as_not_found() {
    let (host, storage) = machine();
    host.add_directory(&at("x"));
    let errors = [
        storage.is_volume_formatted(ID).unwrap_err(),
        storage.format_volume(ID).unwrap_err(),
        storage.resize_volume(ID, 0, Duration::ZERO).unwrap_err(),
        storage.volume_stats(ID).unwrap_err(),
        storage.disk_number_of_volume(ID).unwrap_err(),
        storage.write_volume_cache(ID).unwrap_err(),
        storage.mount_volume(ID, &at("x")).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.text(), format!("volume {ID} not found"));
    }
}

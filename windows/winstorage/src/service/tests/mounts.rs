use super::*;
use crate::fake::Effect;
use crate::host::{Answer, EntryKind};
use crate::{StorageError, WayError};

#[test]
fn volume_is_mounted_only_at_an_empty_directory() {
    let (host, storage) = machine();
    let volume = formatted(&storage);
    let (id, target) = (volume.to_string(), at("stage"));
    assert!(matches!(storage.mount_volume(&id, &target), Err(StorageError::Missing { .. })));
    host.add_directory(&target);
    for _ in 0..2 {
        storage.mount_volume(&id, &target).unwrap();
    }
    assert_eq!(host.kind_at(&target), Some(EntryKind::MountPoint(volume)));

    host.add_disk(2, "vol2", GIB, true);
    storage.partition_disk(DiskNumber(2)).unwrap();
    let other = host.volumes_of(2).remove(0).to_string();
    let taken = storage.mount_volume(&other, &target).unwrap_err();
    assert!(matches!(taken, StorageError::MountedElsewhere { .. }), "{taken}");

    host.add_file(&at(r"full\file"));
    let full = storage.mount_volume(&id, &at("full")).unwrap_err();
    assert!(matches!(full, StorageError::Way(WayError::NotEmpty { .. })), "{full}");
    for kind in ["file", "link"] {
        host.add_file(&at("file"));
        host.add_link(&at("link"), &at("pods"));
        assert!(matches!(storage.mount_volume(&id, &at(kind)), Err(StorageError::Way(_))), "{kind}");
    }
}

#[test]
fn mount_succeeds_if_another_client_has_just_mounted() {
    let (host, storage) = machine();
    let volume = formatted(&storage);
    host.add_directory(&at("stage"));
    let wanted = volume.clone();
    let quicker = move |host: &FakeHost| host.add_mount_point(&at("stage"), &wanted);
    host.inject("mount", 0, Effect::Meanwhile(Box::new(quicker)));
    storage.mount_volume(&volume.to_string(), &at("stage")).unwrap();
    assert_eq!(host.calls("mount"), 1);
}

#[test]
fn volume_on_a_read_only_disk_is_unmounted() {
    let (host, storage) = machine();
    let volume = formatted(&storage);
    let (id, target) = (volume.to_string(), at("stage"));
    host.add_directory(&target);
    storage.mount_volume(&id, &target).unwrap();
    host.set_read_only(1, false);
    storage.unmount_volume(&id, &target).unwrap();
    assert_eq!(host.kind_at(&target), Some(EntryKind::Directory));
}

#[test]
fn rmdir_unmounts_a_mount_point_before_removing_it() {
    for refused in [false, true] {
        let (host, storage) = machine();
        let volume = formatted(&storage);
        host.add_mount_point(&at("stage"), &volume);
        host.remove_disk(1);
        if refused {
            host.inject("unmount", 0, Effect::Fail(Answer::Win32(2)));
        }
        storage.rmdir(&at("stage"), false).unwrap();
        assert_eq!((host.calls("unmount"), host.kind_at(&at("stage"))), (1, None), "refused {refused}");
    }
}

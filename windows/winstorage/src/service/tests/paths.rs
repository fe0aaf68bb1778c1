//! Tests of finding the volume that contains a path.

use regex_lite::Regex;

use super::*;
use crate::fake::Effect;
use crate::host::Answer;
use crate::{StorageError, WayError};

fn nothing_mounted() -> Regex {
    Regex::new(r"(Get-Item -Path \S+).Target, output: , error: <nil>|because it does not exist").unwrap()
}

fn staged() -> (FakeHost, Storage, VolumeGuid) {
    let (host, storage) = machine();
    let volume = formatted(&storage);
    host.add_directory(&at("stage"));
    storage.mount_volume(&volume.to_string(), &at("stage")).unwrap();
    (host, storage, volume)
}

#[test]
fn volume_of_a_path_is_found_through_links() {
    let (host, storage, volume) = staged();
    assert_eq!(storage.volume_of_path(&at("stage")).unwrap(), volume);
    storage.create_symlink(&at("stage"), &at(r"pods\mount")).unwrap();
    assert_eq!(storage.volume_of_path(&at(r"pods\mount")).unwrap(), volume);
    host.add_link(&at("prefixed"), &format!(r"\\?\{}", at(r"pods\mount")));
    assert_eq!(storage.volume_of_path(&at("prefixed")).unwrap(), volume);

    host.add_link(&at("one"), &at("two"));
    host.add_link(&at("two"), &at("one"));
    let endless = storage.volume_of_path(&at("one")).unwrap_err();
    assert!(matches!(endless, StorageError::Way(WayError::Target { .. })), "{endless}");
    host.add_link(&at("out"), r"C:\Windows");
    let out = storage.volume_of_path(&at("out")).unwrap_err();
    assert!(out.text().contains("is not within the working directories"), "{out}");
}

#[test]
fn unmounted_path_has_the_error_text_that_drivers_match() {
    let (host, storage, _) = staged();
    let nothing = nothing_mounted();
    host.add_link(&at("dangling"), &at("none"));
    for path in ["pods", "none", r"none\below", "dangling"] {
        let text = storage.volume_of_path(&at(path)).unwrap_err().text();
        assert!(nothing.is_match(&text), "{path}: {text}");
    }
    let plain = storage.volume_of_path(&at("pods")).unwrap_err().text();
    assert!(plain.contains("(Get-Item -Path $Env:mountpath).Target, output: , error: <nil>"), "{plain}");
    // An error of another kind must never match the pattern by which drivers recognise an unmounted path.
    host.inject("kind", 0, Effect::Fail(Answer::Win32(5)));
    let denied = storage.volume_of_path(&at("stage")).unwrap_err().text();
    assert!(!nothing.is_match(&denied), "{denied}");
    for refused in [r"C:\foo", r"\\?\C:\x"] {
        let text = storage.volume_of_path(refused).unwrap_err().text();
        assert!(!nothing.is_match(&text), "{text}");
    }
}

#[test]
fn closest_volume_is_the_mount_point_above_or_the_drive() {
    let (host, storage, volume) = staged();
    let drive = host.volumes_of(0).remove(0);
    host.add_directory(&at(r"stage\data\deep"));
    storage.create_symlink(&at("stage"), &at(r"pods\mount")).unwrap();
    for path in ["stage", r"stage\data\deep", r"pods\mount"] {
        assert_eq!(storage.closest_volume_of_path(&at(path)).unwrap(), volume, "{path}");
    }
    for path in [at("pods"), KUBELET.to_owned()] {
        assert_eq!(storage.closest_volume_of_path(&path).unwrap(), drive, "{path}");
    }
    let text = storage.closest_volume_of_path(&at("none")).unwrap_err().text();
    let prefix = format!("error getting the closest volume for the path={}, err=", at("none"));
    assert!(text.starts_with(&prefix) && text.ends_with("because it does not exist"), "{text}");
    // The user of a volume controls its links, so they must not lead to another volume.
    host.add_link(&at(r"stage\out"), r"C:\Windows");
    assert_eq!(storage.closest_volume_of_path(&at(r"stage\out")).unwrap(), volume);

    host.add_link(&at("one"), &at("two"));
    host.add_link(&at("two"), &at("one"));
    let text = storage.closest_volume_of_path(&at("one")).unwrap_err().text();
    assert_eq!(text, format!("failed to find the closest volume for path={}", at("one")));
}

#[test]
fn space_is_reported_for_the_volume_of_the_link_target() {
    let (host, storage, volume) = staged();
    host.set_formatted(&volume, GIB);
    storage.create_symlink(&at("stage"), &at(r"pods\mount")).unwrap();
    let total = storage.volume_stats(&volume.to_string()).unwrap().total;
    for path in ["stage", r"pods\mount"] {
        let space = storage.space(&at(path)).unwrap();
        assert_eq!((space.total, space.available, space.free), (total, total - GIB, total - GIB), "{path}");
    }
    host.add_link(&at("out"), r"C:\Windows");
    assert!(matches!(storage.space(&at("out")), Err(StorageError::Way(WayError::Target { .. }))));
    assert!(matches!(storage.space(&at("none")), Err(StorageError::Missing { .. })));
}

#[test]
fn closest_volume_of_a_junctioned_kubelet_directory_is_found() {
    let host = FakeHost::new();
    host.add_disk(1, SERIAL, 10 * GIB, true);
    let first = storage(&host);
    first.partition_disk(DiskNumber(1)).unwrap();
    let volume = host.volumes_of(1).remove(0);
    host.add_directory(r"C:\mnt");
    host.add_mount_point(r"C:\mnt\kubelet", &volume);
    // The fake resolves a link into a volume only after an earlier call has entered the volume, as this call does.
    host.add_directory(r"C:\mnt\kubelet\pods");
    host.add_junction(KUBELET, r"C:\mnt\kubelet");
    assert_eq!(first.closest_volume_of_path(&at("pods")).unwrap(), volume);
}

#[test]
fn every_operation_checks_its_paths() {
    let (host, storage, volume) = staged();
    host.clear_log();
    let id = volume.to_string();
    for path in
        [r"C:\Windows", r"C:\var\lib\kubelet2", r"C:\var\lib\kubelet\..\x", r"\\?\C:\x", r"C:\var\lib\kubelet\NUL"]
    {
        let results = [
            storage.mount_volume(&id, path).map(drop),
            storage.unmount_volume(&id, path).map(drop),
            storage.volume_of_path(path).map(drop),
            storage.closest_volume_of_path(path).map(drop),
            storage.is_symlink(path).map(drop),
            storage.path_exists(path).map(drop),
            storage.mkdir(path),
            storage.rmdir(path, true),
            storage.rmdir_contents(path),
            storage.create_symlink(path, &at("link")),
            storage.create_symlink(&at("pods"), path),
        ];
        for (at, result) in results.into_iter().enumerate() {
            let refused = match result {
                Err(StorageError::Closest { cause, .. }) => matches!(*cause, StorageError::Path(_)),
                result => matches!(result, Err(StorageError::Path(_))),
            };
            assert!(refused, "operation {at} of {path}");
        }
    }
    assert_eq!(host.log(), Vec::<String>::new());
}

#[test]
fn legacy_validation_accepts_what_the_reference_accepts() {
    let (host, _, volume) = staged();
    let policy = Policy { validation: crate::path::Validation::Legacy, ..policy() };
    let storage = Storage::new(Arc::new(host.clone()), policy);
    host.add_directory(r"C:\elsewhere");
    storage.mount_volume(&volume.to_string(), r"C:\elsewhere").unwrap();
    assert_eq!(storage.volume_of_path(r"C:\elsewhere").unwrap(), volume);
    host.add_link(&at("way"), r"C:\Windows");
    assert!(!storage.path_exists(&at(r"way\x")).unwrap());
    storage.mkdir(&at(r"way\x\y")).unwrap();
    assert!(storage.path_exists(&at(r"way\x\y")).unwrap());
    assert!(storage.mkdir(r"C:\foo").is_err());
}

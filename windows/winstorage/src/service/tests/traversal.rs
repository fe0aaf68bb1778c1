//! Tests that try to leave the working directories through links, some of which appear between the check and the use.

use super::*;
use crate::fake::Effect;
use crate::host::EntryKind;
use crate::{StorageError, WayError};

fn is_stopped<T: std::fmt::Debug>(result: &Result<T, StorageError>) -> bool {
    matches!(result, Err(StorageError::Way(WayError::Link { .. })))
}

#[test]
fn link_above_the_last_component_is_not_followed() {
    let (host, storage) = machine();
    let volume = formatted(&storage);
    host.add_file(r"C:\Windows\system32\x");
    host.add_link(&at("link"), r"C:\Windows");
    host.add_junction(&at("junction"), r"C:\Windows");
    host.add_reparse_point(&at("odd"), 0x8000_0013);
    host.add_mount_point(&at("stage"), &volume);
    host.add_directory(&at(r"stage\system32"));
    let changes = |path: &str| {
        [
            storage.mkdir(&format!(r"{path}\new")),
            storage.rmdir(&format!(r"{path}\system32"), true),
            storage.rmdir_contents(&format!(r"{path}\system32")),
            storage.create_symlink(&at("pods"), &format!(r"{path}\new")),
            storage.mount_volume(&volume.to_string(), &format!(r"{path}\system32")),
            storage.unmount_volume(&volume.to_string(), &format!(r"{path}\system32")),
            storage.volume_of_path(&format!(r"{path}\system32")).map(drop),
        ]
    };
    for way in ["link", "junction", "odd", "stage"] {
        let results = changes(&at(way));
        assert!(results.iter().all(is_stopped), "{way}: {results:?}");
        let looks = [
            storage.path_exists(&at(&format!(r"{way}\system32"))).map(drop),
            storage.is_symlink(&at(&format!(r"{way}\system32"))).map(drop),
        ];
        let is_crossed = way == "stage";
        assert!(looks.iter().all(|look| if is_crossed { look.is_ok() } else { is_stopped(look) }), "{way}: {looks:?}");
    }
    assert_eq!(host.kind_at(r"C:\Windows\system32\x"), Some(EntryKind::File));
    assert_eq!(host.kind_at(r"C:\Windows\new"), None);
    assert_eq!(["create_link", "mount", "remove"].map(|step| host.calls(step)), [0, 0, 0]);
}

/// A pod replaces a directory with a link to the Windows directory immediately before each step of an operation. The
/// operation must never change anything outside the working directories.
fn with_a_swap_before_every_step(operation: impl Fn(&Storage) -> Result<(), StorageError>) {
    let victim = at(r"pods\a\b");
    for step in
        ["open", "child", "kind", "children", "create_directory", "create_link", "mount", "remove", "leads_somewhere"]
    {
        for call in 0..6 {
            let (host, storage) = machine();
            host.add_file(&at(r"pods\a\b\c\file"));
            host.add_file(r"C:\Windows\c\file");
            host.add_directory(r"C:\Windows\empty");
            let swapped = victim.clone();
            let swap = move |host: &FakeHost| {
                host.rename(&swapped, &format!("{swapped}.gone"));
                host.add_link(&swapped, r"C:\Windows");
            };
            host.inject(step, call, Effect::Meanwhile(Box::new(swap)));
            // The operation fails, or it acts on the directory that was checked.
            let result = operation(&storage);
            let inside = [r"C:\Windows\c\file", r"C:\Windows\empty", r"C:\Windows"].map(|path| host.kind_at(path));
            let untouched = [Some(EntryKind::File), Some(EntryKind::Directory), Some(EntryKind::Directory)];
            assert_eq!(inside, untouched, "swap before call {call} of {step}: {result:?}");
            for made in ["new", "link", r"c\new"] {
                assert_eq!(host.kind_at(&format!(r"C:\Windows\{made}")), None, "swap before call {call} of {step}");
            }
        }
    }
}

#[test]
fn component_replaced_by_a_link_changes_nothing_outside() {
    with_a_swap_before_every_step(|storage| storage.mkdir(&at(r"pods\a\b\c\new")));
    with_a_swap_before_every_step(|storage| storage.mkdir(&at(r"pods\a\b\new")));
    with_a_swap_before_every_step(|storage| storage.rmdir(&at(r"pods\a\b\c"), true));
    with_a_swap_before_every_step(|storage| storage.rmdir(&at(r"pods\a\b"), true));
    with_a_swap_before_every_step(|storage| storage.rmdir_contents(&at(r"pods\a\b\c")));
    with_a_swap_before_every_step(|storage| storage.create_symlink(&at("pods"), &at(r"pods\a\b\link")));
}

#[test]
fn mount_target_replaced_by_a_link_mounts_nothing_outside() {
    for step in ["open", "child", "kind", "mount"] {
        for call in 0..6 {
            let (host, storage) = machine();
            let volume = formatted(&storage);
            host.add_directory(&at(r"pods\stage"));
            host.add_directory(r"C:\Windows\empty");
            let swap = |host: &FakeHost| {
                host.rename(&at(r"pods\stage"), &at(r"pods\gone"));
                host.add_link(&at(r"pods\stage"), r"C:\Windows\empty");
            };
            host.inject(step, call, Effect::Meanwhile(Box::new(swap)));
            let result = storage.mount_volume(&volume.to_string(), &at(r"pods\stage"));
            let outside = host.kind_at(r"C:\Windows\empty");
            assert_eq!(outside, Some(EntryKind::Directory), "swap before call {call} of {step}: {result:?}");
        }
    }
}

#[test]
fn link_inside_a_volume_is_not_followed_by_is_symlink() {
    let (host, storage) = machine();
    let volume = formatted(&storage);
    host.add_mount_point(&at("stage"), &volume);
    host.add_link(&at(r"stage\evil"), r"\\attacker\share");
    let refused = storage.is_symlink(&at(r"stage\evil"));
    assert_eq!(host.calls("leads_somewhere"), 0, "{refused:?}");
    assert!(matches!(refused, Err(StorageError::Way(WayError::Target { .. }))), "{refused:?}");
}

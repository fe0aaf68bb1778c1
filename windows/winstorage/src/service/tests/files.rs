use super::*;
use crate::host::EntryKind;
use crate::{StorageError, WayError};

#[test]
fn path_exists_is_true_for_any_entry_even_a_dangling_link() {
    let (host, storage) = machine();
    host.add_link(&at("dangling"), &at("none"));
    host.add_file(&at("file"));
    for (path, exists) in
        [("pods", true), ("dangling", true), ("file", true), ("none", false), (r"file\x", false), (r"none\x", false)]
    {
        assert_eq!(storage.path_exists(&at(path)).unwrap(), exists, "{path}");
    }
    assert!(storage.path_exists(KUBELET).unwrap());
}

#[test]
fn mkdir_creates_parents_and_accepts_existing_directory() {
    let (host, storage) = machine();
    for _ in 0..2 {
        storage.mkdir(&at(r"a\b\c")).unwrap();
    }
    assert_eq!(host.kind_at(&at(r"a\b\c")), Some(EntryKind::Directory));
    assert_eq!(host.calls("create_directory"), 3);
    host.add_file(&at("file"));
    for path in ["file", r"file\x"] {
        assert!(matches!(storage.mkdir(&at(path)), Err(StorageError::Way(WayError::NotADirectory { .. }))), "{path}");
    }
    // Even the working directory itself may be missing.
    host.remove_path(KUBELET);
    storage.mkdir(&at("x")).unwrap();
    assert!(storage.path_exists(&at("x")).unwrap());
}

#[test]
fn working_directory_itself_is_protected() {
    let (host, storage) = machine();
    let id = formatted(&storage).to_string();
    let refusals = [
        storage.rmdir(KUBELET, true),
        storage.rmdir(KUBELET, false),
        storage.rmdir_contents(KUBELET),
        storage.mount_volume(&id, KUBELET),
        storage.create_symlink(&at("pods"), KUBELET),
    ];
    assert!(refusals.iter().all(|result| matches!(result, Err(StorageError::Way(_)))), "{refusals:?}");
    assert!(storage.path_exists(&at("pods")).unwrap());
    assert_eq!(host.calls("remove"), 0);
}

#[test]
fn removal_never_goes_through_a_reparse_point() {
    let (host, storage) = machine();
    let volume = formatted(&storage);
    host.add_mount_point(&at(r"tree\volume"), &volume);
    host.add_file(&at(r"tree\volume\data"));
    host.add_file(r"C:\Windows\system32");
    host.add_link(&at(r"tree\link"), r"C:\Windows");
    host.add_junction(&at(r"tree\deep\junction"), r"C:\Windows");
    host.add_reparse_point(&at(r"tree\odd"), 0x8000_0013);
    storage.rmdir_contents(&at("tree")).unwrap();
    assert_eq!(host.kind_at(&at("tree")), Some(EntryKind::Directory));
    for below in ["volume", "link", "deep", "odd"] {
        assert_eq!(host.kind_at(&at(&format!(r"tree\{below}"))), None, "{below}");
    }
    assert_eq!(host.kind_at(r"C:\Windows\system32"), Some(EntryKind::File));
    host.add_mount_point(&at("again"), &volume);
    assert_eq!(host.kind_at(&at(r"again\data")), Some(EntryKind::File));

    host.add_link(&at("link"), r"C:\Windows");
    storage.rmdir(&at("link"), true).unwrap();
    assert_eq!(host.kind_at(r"C:\Windows\system32"), Some(EntryKind::File));
    for path in ["again", "none"] {
        assert!(storage.rmdir_contents(&at(path)).is_err(), "{path}");
    }
    host.add_link(&at("link"), &at("pods"));
    assert!(storage.rmdir_contents(&at("link")).is_err());
    assert_eq!(host.kind_at(&at(r"again\data")), Some(EntryKind::File));
}

#[test]
fn repeated_create_symlink_creates_one_link() {
    let (host, storage) = machine();
    host.add_file(&at("file"));
    for _ in 0..2 {
        storage.create_symlink(&at("pods"), &at("link")).unwrap();
    }
    assert_eq!(host.calls("create_link"), 1);
    let link = |path: &str, is_directory| Some(EntryKind::SymbolicLink { target: at(path), is_directory });
    assert_eq!(host.kind_at(&at("link")), link("pods", true));
    storage.create_symlink(&at("file"), &at("to-file")).unwrap();
    assert_eq!(host.kind_at(&at("to-file")), link("file", false));
    storage.create_symlink(&at("later"), &at("to-later")).unwrap();
    assert_eq!(host.kind_at(&at("to-later")), link("later", true));
    for taken in ["link", "file", "pods"] {
        let error = storage.create_symlink(&at("later"), &at(taken)).unwrap_err();
        assert!(matches!(error, StorageError::Way(WayError::Exists { .. })), "{taken}: {error}");
    }
    assert!(storage.create_symlink(&at("pods"), &at(r"none\link")).is_err());
    assert!(storage.create_symlink("one", "two").unwrap_err().text().contains("two"), "the link's path comes first");
}

#[test]
fn is_symlink_is_true_for_links_and_mount_points_with_target() {
    let (host, storage) = machine();
    let volume = formatted(&storage);
    host.add_link(&at("link"), &at("pods"));
    host.add_junction(&at("junction"), &at("pods"));
    host.add_link(&at("dangling"), &at("none"));
    host.add_mount_point(&at("stage"), &volume);
    host.add_directory(&at(r"stage\inside"));
    let all = [
        ("link", true),
        ("junction", true),
        ("stage", true),
        ("dangling", false),
        ("pods", false),
        (r"stage\inside", false),
    ];
    for (path, is_link) in all {
        assert_eq!(storage.is_symlink(&at(path)).unwrap(), is_link, "{path}");
    }
    assert!(storage.is_symlink(&at("none")).unwrap_err().text().contains("because it does not exist"));
}

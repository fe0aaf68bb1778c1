//! Tests of the contents of disks, and of the entries at paths.

use super::*;
use crate::service::{Contents, Found};

const SEED: &str = "vol-0123456789abcdef0";

fn contents(storage: &Storage) -> Contents {
    storage.disk_contents(DiskNumber(1), SEED).unwrap()
}

#[test]
fn contents_distinguish_interrupted_call_from_foreign_partition() {
    let (host, storage) = machine();
    host.inject("initialize_gpt", 0, crate::fake::Effect::CrashAfter);
    storage.partition_disk(DiskNumber(1)).unwrap_err();
    host.restart();
    assert_eq!(contents(&storage), Contents::Blank);
    host.inject("create_data_partition", 0, crate::fake::Effect::CrashAfter);
    storage.partition_disk(DiskNumber(1)).unwrap_err();
    host.restart();
    assert_eq!(contents(&storage), Contents::Offline);
    storage.partition_disk(DiskNumber(1)).unwrap();
    let volume = host.volumes_of(1).remove(0);
    assert_eq!(contents(&storage), Contents::BlankVolume(volume.clone()));
    // Linux also marks its partitions as basic data.
    host.write_disk(1, 20 * MIB, b"ext4");
    let found = contents(&storage);
    assert!(matches!(&found, Contents::Foreign(what) if what.contains("20971520")), "{found:?}");
    host.set_formatted(&volume, MIB);
    assert_eq!(contents(&storage), Contents::FileSystem(volume));
}

#[test]
fn data_partition_is_chosen_among_several() {
    let volume = |last: char| format!(r"\\?\Volume{{00000000-0000-0000-0000-00000000000{last}}}\");
    let partition = |number: u32, kind: &str, last: char, formatted: bool| {
        let id = volume(last).replace('\\', r"\\");
        format!(
            r#"{{"number": {number}, "kind": "{kind}", "size": 1048576, "volume": {{"id": "{id}", "formatted": {formatted}}}}}"#
        )
    };
    let found = |style: &str, partitions: &[String]| {
        let all = partitions.join(",");
        let disk = format!(
            r#"{{"number": 1, "size": 1073741824, "online": true, "style": "{style}", "partitions": [{all}]}}"#
        );
        contents(&described(&format!(r#"{{"disks": [{disk}]}}"#)).1)
    };
    let is = |last: char| Contents::FileSystem(VolumeGuid::parse(&volume(last)).unwrap());
    assert_eq!(found("gpt", &[partition(1, "other", 'a', true), partition(2, "data", 'b', true)]), is('b'));
    assert_eq!(found("gpt", &[partition(1, "data", 'a', false), partition(2, "data", 'b', true)]), is('b'));
    assert_eq!(found("mbr", &[partition(1, "other", 'a', true)]), is('a'));
    for (style, odd) in [
        ("gpt", vec![partition(1, "data", 'a', true), partition(2, "data", 'b', true)]),
        ("gpt", vec![partition(1, "other", 'a', true), partition(2, "data", 'b', false)]),
        ("mbr", vec![partition(1, "other", 'a', false)]),
        ("mbr", vec![]),
    ] {
        assert!(matches!(found(style, &odd), Contents::Foreign(_)), "{style} {odd:?}");
    }
}

#[test]
fn entry_at_a_path_is_reported_without_following_it() {
    let (host, storage) = machine();
    let volume = formatted(&storage);
    host.add_directory(&at(r"pods\full\x"));
    host.add_file(&at(r"pods\file"));
    host.add_link(&at(r"pods\link"), &at(r"pods\full"));
    host.add_mount_point(&at(r"pods\mount"), &volume);
    let found = |name: &str| storage.look(&at(&format!(r"pods\{name}"))).unwrap();
    assert_eq!(found("none"), Found::Missing);
    assert_eq!(found(r"none\deeper"), Found::Missing);
    assert_eq!(found("file"), Found::File);
    assert_eq!(found("full"), Found::Directory { empty: false });
    assert_eq!(found(r"full\x"), Found::Directory { empty: true });
    assert_eq!(found("link"), Found::Link { target: at(r"pods\full") });
    assert_eq!(found("mount"), Found::MountPoint(volume));
    assert!(storage.look(r"C:\elsewhere").is_err());
}

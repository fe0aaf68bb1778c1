//! Tests mounts, binds, growth and unmounts on real block devices. Each test runs in its own mount namespace.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use crate::disk::{Disk, MIB, config, plain, unmount_all, with_disk, with_mounted_disk};
use ebs_mounter::{
    Attribute, Contents, FsType, MountEntry, MountError, MountOptions, MountSource, MountTable, Mounter, MounterConfig,
    MounterError, NodePath, UnmountError,
};
use ebs_testkit::mount_namespace::in_mount_namespace;
use ebs_testkit::skipped::record_skipped;

async fn entry_at(path: &NodePath) -> Option<MountEntry> {
    MountTable::read().await.unwrap().topmost(path.as_path()).cloned()
}

fn distinguishing(entry: &MountEntry) -> BTreeSet<Attribute> {
    Attribute::distinguishing(entry.options.iter().map(String::as_str))
}

#[test]
fn every_file_system_is_mounted_with_its_flags() {
    in_mount_namespace(|| async {
        for (fs_type, bytes) in
            [(FsType::Ext2, 64 * MIB), (FsType::Ext3, 64 * MIB), (FsType::Ext4, 64 * MIB), (FsType::Xfs, 600 * MIB)]
        {
            let disk = Disk::new(bytes);
            let flags = ["noatime", "nosuid,nodev", "_netdev", "x-systemd.automount", "defaults"];
            let (device, at) = disk.mounted(fs_type, "staging", &flags).await;
            let entry = entry_at(&at).await.expect("a mount");
            assert_eq!((entry.fs_type.as_str(), entry.device), (fs_type.as_str(), device.number()));
            let expected = BTreeSet::from([Attribute::NoAtime, Attribute::NoSuid, Attribute::NoDev]);
            assert_eq!(distinguishing(&entry), expected, "{entry:?}");
            std::fs::write(at.as_path().join("file"), "written").unwrap();
        }
    });
}

#[test]
fn security_context_is_ignored_without_a_security_module() {
    with_disk(async |disk| {
        let context = r#"context="system_u:object_r:container_file_t:s0:c1,c2""#;
        if std::fs::read_to_string("/proc/filesystems").unwrap().contains("selinuxfs") {
            // With a security module, the kernel accepts `context=`; without one, the driver ignores it. The mount
            // succeeds in both cases.
            disk.mounted(FsType::Ext4, "staging", &[context]).await;
        } else {
            record_skipped("mount with a security context", "this kernel has no SELinux; make vm-test checks it");
            let (_, at) = disk.mounted(FsType::Ext4, "staging", &[context, "discard"]).await;
            assert!(entry_at(&at).await.unwrap().super_options.iter().any(|word| word == "discard"));
        }
    });
}

#[test]
fn unknown_flag_leaves_nothing_mounted() {
    with_disk(async |disk| {
        disk.format(&plain(FsType::Ext4)).await;
        let at = disk.at("staging");
        at.create_directory().await.unwrap();
        let options = MountOptions::parse(["nonsense"]).unwrap();
        let outcome = disk.mounter.mount(&disk.find().await, &at, FsType::Ext4, &options).await;
        let message = outcome.unwrap_err().to_string();
        assert!(message.contains("nonsense"), "{message}");
        assert_eq!(entry_at(&at).await, None);
    });
}

#[test]
fn device_with_contents_changed_since_probe_is_not_mounted() {
    with_disk(async |disk| {
        disk.format(&plain(FsType::Ext4)).await;
        let (device, at, options) = (disk.find().await, disk.at("staging"), MountOptions::default());
        at.create_directory().await.unwrap();
        let refused = async |fs_type| {
            let outcome = disk.mounter.mount(&device, &at, fs_type, &options).await;
            assert!(matches!(outcome, Err(MountError::ContentsChanged { .. })), "{outcome:?}");
        };
        refused(FsType::Ext3).await;
        // Change a byte of the label, which the kernel ignores but the checksum covers.
        disk.device.write_at(b"x", 1024 + 0x78).unwrap();
        refused(FsType::Ext4).await;
        disk.device.write_at(&[0; 2048], 0).unwrap();
        refused(FsType::Ext4).await;
        assert_eq!(entry_at(&at).await, None);
    });
}

#[test]
fn bind_mount_with_wrong_contents_is_unmounted_again() {
    with_disk(async |disk| {
        let (device, _staging) = disk.mounted(FsType::Ext4, "staging", &[]).await;
        let (other, target) = (disk.at("other"), disk.at("target"));
        other.create_directory().await.unwrap();
        target.create_directory().await.unwrap();
        let shown = MountSource::Filesystem(device.number());
        let outcome = disk.mounter.bind(other.as_path(), &target, &BTreeSet::new(), shown).await;
        assert!(matches!(outcome, Err(MountError::NotAsWanted { .. })), "{outcome:?}");
        assert_eq!(entry_at(&target).await, None);
    });
}

#[test]
fn mount_that_replaced_the_given_one_is_not_unmounted() {
    with_mounted_disk(async |disk, device, at| {
        let asked = entry_at(at).await.unwrap();
        let shown = MountSource::Filesystem(device.number());
        disk.mounter.bind(at.as_path(), at, &BTreeSet::new(), shown).await.unwrap();
        let outcome = disk.mounter.unmount_top(at, &asked, false).await;
        assert!(matches!(outcome, Err(UnmountError::Changed { .. })), "{outcome:?}");
        assert_eq!(unmount_all(&disk.mounter, at).await.unwrap().mounts, 2);
    });
}

/// A program that the driver starts holds copies of the driver's open files until its exec.
#[test]
fn briefly_busy_mount_is_unmounted_once_it_is_free() {
    with_mounted_disk(async |disk, _, at| {
        let open = std::fs::File::create(at.as_path().join("file")).unwrap();
        let seen = entry_at(at).await.unwrap();
        let (outcome, ()) = tokio::join!(disk.mounter.unmount_top(at, &seen, false), async {
            // Wait long enough for the first unmount attempt, which starts immediately.
            tokio::time::sleep(Duration::from_millis(300)).await;
            drop(open);
        });
        assert_eq!(outcome.unwrap().mounts, 1);
        assert_eq!(entry_at(at).await, None);
    });
}

#[test]
fn only_a_mount_with_a_vanished_device_is_detached_lazily() {
    with_mounted_disk(async |disk, device, at| {
        let _open = std::fs::File::create(at.as_path().join("file")).unwrap();
        // A sysfs without the device, as after an unexpected detachment.
        let sys = sysfs_of_another_disk();
        let mounter = mounter_with(disk, sys.path()).unwrap();
        assert_eq!(mounter.identify(device.number()).await.unwrap(), None);
        assert!(!mounter.exists(device.number()).await.unwrap());
        let done = unmount_all(&mounter, at).await.unwrap();
        assert_eq!((done.mounts, done.vanished), (1, 1));
        assert_eq!(entry_at(at).await, None);
    });
}

/// Returns a sysfs that lists one device, which no test mounts.
fn sysfs_of_another_disk() -> tempfile::TempDir {
    let sys = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(sys.path().join("dev/block/8:0")).unwrap();
    sys
}

fn mounter_with(disk: &Disk, sys: &Path) -> Result<Mounter, MounterError> {
    Mounter::new(MounterConfig { sys: sys.to_owned(), ..config(disk.place.path(), Path::new("/nowhere")) })
}

#[test]
fn sysfs_without_block_devices_does_not_prove_a_device_gone() {
    with_mounted_disk(async |disk, device, at| {
        let _open = std::fs::File::create(at.as_path().join("file")).unwrap();
        let sys = sysfs_of_another_disk();
        let mounter = mounter_with(disk, sys.path()).unwrap();
        // `dev/block` is first empty and then missing. Neither state proves that a device is gone.
        for gone in ["dev/block/8:0", "dev/block"] {
            std::fs::remove_dir(sys.path().join(gone)).unwrap();
            let outcome = unmount_all(&mounter, at).await;
            assert!(outcome.is_err(), "{outcome:?}");
            assert!(entry_at(at).await.is_some(), "a mount in use was detached without sysfs");
            assert!(mounter.identify(device.number()).await.is_err());
            assert!(mounter.exists(device.number()).await.is_err());
        }
    });
}

#[test]
fn mounter_does_not_start_without_block_devices_in_sysfs() {
    with_disk(async |disk| {
        let empty = tempfile::tempdir().unwrap();
        for sys in ["/nonexistent-sysfs", empty.path().to_str().unwrap()] {
            let error = mounter_with(disk, Path::new(sys)).expect_err("no mounter").to_string();
            assert!(error.contains(sys) && error.contains("mount"), "{error}");
        }
    });
}

#[test]
fn file_system_is_checked_only_if_its_superblock_requires_it() {
    with_disk(async |disk| {
        let clean = disk.format(&plain(FsType::Ext2)).await;
        let device = disk.find().await;
        disk.mounter.check_if_needed(&device, &clean).await.unwrap();
        // The "errors detected" state that the kernel sets. An ext2 superblock has no checksum.
        disk.device.write_at(&[2, 0], 1024 + 0x3a).unwrap();
        let Contents::Filesystem(marked) = disk.contents().await else { panic!("no file system") };
        disk.mounter.check_if_needed(&device, &marked).await.unwrap();
        assert_eq!(disk.device.read_at(2, 1024 + 0x3a).unwrap(), [1, 0]);
    });
}

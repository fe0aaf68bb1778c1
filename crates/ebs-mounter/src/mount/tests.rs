use ebs_testkit::loop_device::{LoopDevice, unused_volume_id};
use ebs_testkit::mount_namespace::in_mount_namespace;
use rustix::mount::MountFlags;

use super::*;
use crate::config::MounterConfig;

/// Runs a test beside a tmpfs of its own.
fn with_tmpfs(test: impl AsyncFnOnce(&Mounter, &NodePath) + Send + 'static) {
    in_mount_namespace(|| async {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let mounter = Mounter::new(MounterConfig::new(root.join("state"))).unwrap();
        let at = NodePath::parse(root.join("mounted").to_str().unwrap()).unwrap();
        at.create_directory().await.unwrap();
        rustix::mount::mount("mine", at.as_path(), "tmpfs", MountFlags::NOSUID, None).unwrap();
        test(&mounter, &at).await;
    });
}

async fn number_at(at: &NodePath) -> DeviceNumber {
    MountTable::read().await.unwrap().topmost(at.as_path()).unwrap().device
}

/// A mount that lacks an attribute that was asked for is taken away again, and the error says what was seen.
#[test]
fn a_mount_that_lacks_an_attribute_that_was_asked_for_is_taken_away_again() {
    with_tmpfs(async |mounter, at| {
        let shown = Shown::Filesystem(number_at(at).await);
        let asked = BTreeSet::from([Attribute::NoSuid, Attribute::RelAtime]);
        mounter.verify(at, shown, &asked).await.unwrap();
        let asked = BTreeSet::from([Attribute::NoSuid, Attribute::NoExec]);
        let error = mounter.verify(at, shown, &asked).await.unwrap_err();
        let MountError::NotAsWanted { found, .. } = &error else { panic!("{error:?}") };
        assert!(["tmpfs", "mine", "nosuid"].iter().all(|word| found.contains(word)), "{found}");
        assert_eq!(MountTable::read().await.unwrap().topmost(at.as_path()), None);
    });
}

/// What the mount table shows by no word of its own is not missed.
#[test]
fn times_that_are_kept_as_by_default_have_no_word_in_the_mount_table() {
    let asked = BTreeSet::from([Attribute::ReadOnly, Attribute::NoAtime, Attribute::RelAtime, Attribute::StrictAtime]);
    assert_eq!(wanted_words(&asked), BTreeSet::from([Attribute::ReadOnly, Attribute::NoAtime]));
}

/// The kernel's reason not to mount an xfs is what the error says.
#[test]
fn the_kernels_reason_not_to_mount_an_xfs_is_not_that_of_another_try() {
    in_mount_namespace(|| async {
        let disk = LoopDevice::new(&unused_volume_id(), 320 << 20).unwrap();
        let directory = tempfile::tempdir().unwrap();
        // A superblock of xfs with a checksum that is wrong: ext4 would say EINVAL.
        disk.write_at(b"XFSB", 0).unwrap();
        let refused = mount_as(disk.path(), directory.path(), FsType::Xfs, &MountOptions::default()).unwrap_err();
        let as_xfs = os::mount(disk.path(), directory.path(), "xfs", &MountOptions::default()).unwrap_err();
        let as_ext4 = os::mount(disk.path(), directory.path(), "ext4", &MountOptions::default()).unwrap_err();
        assert_ne!(as_xfs.raw_os_error(), as_ext4.raw_os_error());
        assert_eq!(refused.raw_os_error(), as_xfs.raw_os_error());
    });
}

use ebs_testkit::loop_device::{LoopDevice, unused_volume_id};
use ebs_testkit::mount_namespace::in_mount_namespace;
use rustix::mount::MountFlags;

use super::*;
use crate::config::MounterConfig;

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

#[test]
fn mount_without_a_requested_attribute_is_unmounted_again() {
    with_tmpfs(async |mounter, at| {
        let shown = MountSource::Filesystem(number_at(at).await);
        let asked = BTreeSet::from([Attribute::NoSuid, Attribute::RelAtime]);
        mounter.verify(at, shown, &asked).await.unwrap();
        let asked = BTreeSet::from([Attribute::NoSuid, Attribute::NoExec]);
        let error = mounter.verify(at, shown, &asked).await.unwrap_err();
        let MountError::NotAsWanted { found, .. } = &error else { panic!("{error:?}") };
        assert!(["tmpfs", "mine", "nosuid"].iter().all(|word| found.contains(word)), "{found}");
        assert_eq!(MountTable::read().await.unwrap().topmost(at.as_path()), None);
    });
}

#[test]
fn xfs_mount_error_is_not_replaced_by_an_ext4_retry() {
    in_mount_namespace(|| async {
        let disk = LoopDevice::new(&unused_volume_id(), 320 << 20).unwrap();
        let directory = tempfile::tempdir().unwrap();
        // An xfs superblock with an invalid checksum. The ext4 driver would return EINVAL for it.
        disk.write_at(b"XFSB", 0).unwrap();
        let refused = mount_as(disk.path(), directory.path(), FsType::Xfs, &MountOptions::default()).unwrap_err();
        let as_xfs = os::mount(disk.path(), directory.path(), "xfs", &MountOptions::default()).unwrap_err();
        let as_ext4 = os::mount(disk.path(), directory.path(), "ext4", &MountOptions::default()).unwrap_err();
        assert_ne!(as_xfs.raw_os_error(), as_ext4.raw_os_error());
        assert_eq!(refused.raw_os_error(), as_xfs.raw_os_error());
    });
}

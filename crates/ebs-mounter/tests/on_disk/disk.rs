//! A loop device as a volume, and a mounter that uses it like an EBS volume.

use std::path::Path;
use std::time::Duration;

use ebs_ec2::VolumeId;
use ebs_mounter::{
    Contents, Device, DeviceQuery, FormatError, FormatOptions, FormatPermit, FormatRecord, FormatSpec, FsType,
    MountOptions, MountTable, Mounter, MounterConfig, NodePath, Superblock, UnmountError, Unmounted,
};
use ebs_testkit::loop_device::{LoopDevice, unused_volume_id};
use ebs_testkit::mount_namespace::in_mount_namespace;

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const TIB: u64 = 1 << 40;

/// Runs a test in its own mount namespace, with a blank disk of 64 MiB.
pub(crate) fn with_disk(test: impl AsyncFnOnce(&Disk) + Send + 'static) {
    in_mount_namespace(move || async move { test(&Disk::new(64 * MIB)).await });
}

/// Runs a test like [`with_disk`], with a mounted ext4.
pub(crate) fn with_mounted_disk(test: impl AsyncFnOnce(&Disk, &Device, &NodePath) + Send + 'static) {
    with_disk(async move |disk| {
        let (device, at) = disk.mounted(FsType::Ext4, "staging", &[]).await;
        test(disk, &device, &at).await;
    });
}

pub(crate) struct Disk {
    pub(crate) volume: VolumeId,
    pub(crate) device: LoopDevice,
    pub(crate) mounter: Mounter,
    /// Contains the state directory and the mount points.
    pub(crate) place: tempfile::TempDir,
}

impl Disk {
    pub(crate) fn new(bytes: u64) -> Self {
        let volume = unused_volume_id();
        let device = LoopDevice::new(&volume, bytes).expect("a loop device");
        Self::over(volume, device)
    }

    pub(crate) fn over(volume: VolumeId, device: LoopDevice) -> Self {
        let place = tempfile::tempdir().unwrap();
        let mounter = Mounter::new(config(place.path(), device.directory())).expect("a mounter");
        Self { volume, device, mounter, place }
    }

    pub(crate) fn query(&self) -> DeviceQuery {
        DeviceQuery { volume: self.volume.clone(), hint: None, partition: None }
    }

    pub(crate) async fn find(&self) -> Device {
        self.mounter.find(&self.query()).await.expect("the device of this test")
    }

    pub(crate) fn at(&self, name: &str) -> NodePath {
        NodePath::parse(self.place.path().canonicalize().unwrap().join(name).to_str().unwrap()).unwrap()
    }

    pub(crate) async fn record(&self, fs_type: FsType) -> FormatRecord {
        let attach_time = Some("2026-11-21T17:31:00Z".to_owned());
        self.mounter.format_record(&self.find().await, fs_type, None, attach_time).await.unwrap()
    }

    pub(crate) async fn contents(&self) -> Contents {
        self.mounter.probe(&self.find().await).await.expect("a probe of the device")
    }

    /// Proves the device blank, as the driver does before a format.
    pub(crate) async fn proven_blank(&self, fs_type: FsType) -> (Device, FormatRecord, FormatPermit) {
        let Contents::Blank(proof) = self.contents().await else { panic!("not blank") };
        (self.find().await, self.record(fs_type).await, FormatPermit::of_blank(&proof))
    }

    /// Formats the blank device as the driver does.
    pub(crate) async fn format_blank(&self, spec: &FormatSpec) -> Result<(), FormatError> {
        let (device, record, permit) = self.proven_blank(spec.fs_type).await;
        self.mounter.format(&device, spec, &record, permit).await
    }

    /// Like [`Self::format_blank`], without the record of the format.
    pub(crate) async fn format(&self, spec: &FormatSpec) -> Superblock {
        self.format_blank(spec).await.expect("a format");
        self.mounter.forget_format(&self.volume).await.unwrap();
        let Contents::Filesystem(superblock) = self.contents().await else { panic!("no file system") };
        assert!(superblock.is_complete());
        superblock
    }

    pub(crate) async fn mounted(&self, fs_type: FsType, name: &str, flags: &[&str]) -> (Device, NodePath) {
        let superblock = self.format(&plain(fs_type)).await;
        let (device, at) = (self.find().await, self.at(name));
        at.create_directory().await.unwrap();
        let options = MountOptions::parse(flags.iter().copied()).unwrap();
        self.mounter.mount(&device, &at, superblock.fs_type(), &options).await.expect("a mount");
        (device, at)
    }
}

pub(crate) fn config(state: &Path, simulated: &Path) -> MounterConfig {
    MounterConfig {
        simulated_devices: Some(simulated.to_owned()),
        late_device: Duration::ZERO,
        ..MounterConfig::new(state)
    }
}

pub(crate) fn plain(fs_type: FsType) -> FormatSpec {
    FormatSpec { fs_type, options: FormatOptions::default() }
}

pub(crate) fn output_of(program: &str, args: &[&str]) -> String {
    #[expect(clippy::disallowed_methods, reason = "a second opinion for the test")]
    let output = std::process::Command::new(program).args(args).output().expect(program);
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Unmounts everything at a path, like NodeUnstageVolume.
pub(crate) async fn unmount_all(mounter: &Mounter, at: &NodePath) -> Result<Unmounted, UnmountError> {
    let mut done = Unmounted::default();
    while let Some(entry) = MountTable::read().await.unwrap().topmost(at.as_path()) {
        let one = mounter.unmount_top(at, entry, false).await?;
        (done.mounts, done.vanished) = (done.mounts + one.mounts, done.vanished + one.vanished);
    }
    Ok(done)
}

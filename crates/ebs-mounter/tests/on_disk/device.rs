//! Tests how the driver identifies the device of a volume, with real block devices under fake names.

use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::disk::{Disk, MIB, config};
use ebs_ec2::VolumeId;
use ebs_mounter::{
    DeviceError, DeviceQuery, FsType, Identity, IdentityError, MountError, MountOptions, Mounter, MounterConfig,
    Partition, StatisticsError,
};
use ebs_testkit::loop_device::unused_volume_id;
use rustix::fs::{CWD, FileType, Mode, inotify, makedev, mknodat};
use rustix::io::Errno;

/// Directories in place of /dev and /sys. Their disks lead to real loop devices.
pub(crate) struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for directory in ["dev/disk/by-id", "sys/block", "sys/dev/block", "sys/devices/sda", "state"] {
            std::fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        // Every machine has a disk from which it boots.
        symlink("../../devices/sda", root.path().join("sys/dev/block/8:0")).unwrap();
        Self { root }
    }

    pub(crate) async fn with_nvme(bytes: u64) -> (Self, Disk) {
        let (machine, disk) = (Self::new(), Disk::new(bytes));
        machine.add_nvme("nvme1n1", Some(&disk.volume.serial()), &disk).await;
        (machine, disk)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    /// Adds an NVMe disk with this name and serial number. Its device node leads to the loop device.
    pub(crate) async fn add_nvme(&self, name: &str, serial: Option<&str>, disk: &Disk) {
        let place = self.path("sys/devices").join(name);
        std::fs::create_dir_all(place.join("device")).unwrap();
        if let Some(serial) = serial {
            std::fs::write(place.join("device/serial"), format!("{serial}   \n")).unwrap();
        }
        symlink(&place, self.path("sys/block").join(name)).unwrap();
        self.add_node(name, &place, disk).await;
    }

    async fn add_node(&self, name: &str, place: &Path, disk: &Disk) {
        let number = disk.find().await.number();
        std::fs::write(place.join("dev"), format!("{number}\n")).unwrap();
        symlink(place, self.path("sys/dev/block").join(number.to_string())).unwrap();
        let node = self.path("dev").join(name);
        mknodat(CWD, node, FileType::BlockDevice, Mode::RUSR, makedev(number.major, number.minor)).unwrap();
    }

    /// Adds a device of the device mapper over disks of this machine.
    async fn add_mapped(&self, name: &str, uuid: &str, over: &[&str], disk: &Disk) {
        let place = self.path("sys/devices").join(name);
        for directory in ["dm", "slaves"] {
            std::fs::create_dir_all(place.join(directory)).unwrap();
        }
        std::fs::write(place.join("dm/uuid"), format!("{uuid}\n")).unwrap();
        symlink(&place, self.path("sys/block").join(name)).unwrap();
        for below in over {
            let holders = self.path("sys/devices").join(below).join("holders");
            std::fs::create_dir_all(&holders).unwrap();
            symlink(&place, holders.join(name)).unwrap();
            symlink(self.path("sys/devices").join(below), place.join("slaves").join(below)).unwrap();
        }
        self.add_node(name, &place, disk).await;
    }

    fn link(&self, volume: &VolumeId, suffix: &str, to: &str) {
        let name = format!("dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{}{suffix}", volume.serial());
        symlink(format!("../../{to}"), self.path(&name)).unwrap();
    }

    fn config(&self) -> MounterConfig {
        MounterConfig {
            dev: self.path("dev"),
            sys: self.path("sys"),
            late_device: Duration::ZERO,
            ..MounterConfig::new(self.path("state"))
        }
    }

    pub(crate) fn mounter(&self) -> Mounter {
        Mounter::new(self.config()).unwrap()
    }
}

pub(crate) struct Opens(OwnedFd);

impl Opens {
    pub(crate) fn of(path: &Path) -> Self {
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&watch, path, inotify::WatchFlags::OPEN).unwrap();
        Self(watch)
    }

    pub(crate) fn seen(&self) -> bool {
        match rustix::io::read(&self.0, &mut [0_u8; 4096]) {
            Ok(_) => true,
            Err(Errno::AGAIN) => false,
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) fn query(volume: &VolumeId) -> DeviceQuery {
    DeviceQuery { volume: volume.clone(), hint: None, partition: None }
}

#[tokio::test]
async fn loop_device_is_a_volume_only_below_configured_directory() {
    let disk = Disk::new(MIB);
    assert_eq!(disk.find().await.path(), disk.device.path());
    let state = tempfile::tempdir().unwrap();
    let elsewhere = Mounter::new(config(state.path(), state.path())).unwrap();
    let in_production =
        Mounter::new(MounterConfig { simulated_devices: None, ..config(state.path(), state.path()) }).unwrap();
    for mounter in [elsewhere, in_production] {
        assert!(matches!(mounter.find(&disk.query()).await, Err(DeviceError::Missing { .. })));
        let hinted = DeviceQuery { hint: Some(disk.device.path().to_owned()), ..disk.query() };
        let error = mounter.find(&hinted).await.unwrap_err();
        assert!(matches!(error, DeviceError::Foreign { .. }), "{error}");
    }
}

#[tokio::test]
async fn disk_is_opened_only_after_sysfs_identifies_it() {
    let (machine, disk, other) = (Machine::new(), Disk::new(MIB), Disk::new(MIB));
    machine.add_nvme("nvme1n1", Some(&other.volume.serial()), &other).await;
    machine.add_nvme("nvme2n1", Some(&disk.volume.serial()), &disk).await;
    // The driver must not open the wrong disk: if the first read of a disk stalls, opening the disk blocks. The right
    // disk is the one whose link has the suffix `_1`.
    symlink("nvme1n1", machine.path("dev/xvdaa")).unwrap();
    machine.link(&disk.volume, "", "nvme1n1");
    machine.link(&disk.volume, "_1", "nvme2n1");
    let mounter = machine.mounter();
    let (wrong, right) = (Opens::of(&machine.path("dev/nvme1n1")), Opens::of(&machine.path("dev/nvme2n1")));
    let hinted = DeviceQuery { hint: Some(machine.path("dev/xvdaa")), ..query(&disk.volume) };
    let device = mounter.find(&hinted).await.unwrap();
    assert_eq!(device.path(), machine.path("dev/nvme2n1"));
    assert!(right.seen() && !wrong.seen());
    let absent = unused_volume_id();
    machine.link(&absent, "", "nvme1n1");
    let error = mounter.find(&query(&absent)).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, DeviceError::Foreign { .. }) && text.contains(other.volume.as_str()), "{text}");
    assert!(text.contains(absent.as_str()), "{text}");
    assert!(matches!(mounter.find(&query(&unused_volume_id())).await, Err(DeviceError::Missing { .. })));
    assert!(!right.seen() && !wrong.seen());
    mounter.open_mounted(&unused_volume_id(), device.number()).await.expect_err("another volume");
    assert!(!right.seen());
}

#[tokio::test]
async fn nvme_disk_without_a_serial_number_is_an_error() {
    let (machine, disk) = (Machine::new(), Disk::new(MIB));
    machine.add_nvme("nvme1n1", None, &disk).await;
    let opens = Opens::of(&machine.path("dev/nvme1n1"));
    assert!(matches!(machine.mounter().find(&query(&disk.volume)).await, Err(DeviceError::Missing { .. })));
    assert!(!opens.seen(), "only the name of the volume is a reason to open it");
    machine.link(&disk.volume, "", "nvme1n1");
    let error = machine.mounter().find(&query(&disk.volume)).await.unwrap_err();
    assert!(matches!(error, DeviceError::Unusable { source: IdentityError::NoSerial, .. }), "{error:?}");
}

#[tokio::test]
async fn non_block_device_or_path_outside_dev_is_rejected() {
    let (machine, volume) = (Machine::new(), unused_volume_id());
    std::fs::write(machine.path("dev/file"), "x").unwrap();
    machine.link(&volume, "", "file");
    let error = machine.mounter().find(&query(&volume)).await.unwrap_err();
    assert!(matches!(error, DeviceError::Unusable { source: IdentityError::NotABlockDevice, .. }), "{error:?}");
    let outside = DeviceQuery { hint: Some(machine.path("state")), ..query(&unused_volume_id()) };
    let error = machine.mounter().find(&outside).await.unwrap_err();
    assert!(matches!(error, DeviceError::Unusable { source: IdentityError::Elsewhere(_), .. }), "{error:?}");
}

#[tokio::test]
async fn multipath_map_is_used_only_if_it_is_over_the_volume() {
    let (machine, disk, map, other) = (Machine::new(), Disk::new(MIB), Disk::new(MIB), Disk::new(MIB));
    let second_path = Disk::new(MIB);
    machine.add_nvme("nvme1n1", Some(&disk.volume.serial()), &disk).await;
    machine.add_nvme("nvme2n1", Some(&disk.volume.serial()), &second_path).await;
    machine.add_mapped("dm-0", "mpath-nvme.1d0f-1-1-1", &["nvme1n1", "nvme2n1"], &map).await;
    let mounter = machine.mounter();
    for hint in [None, Some(machine.path("dev/nvme1n1")), Some(machine.path("dev/dm-0"))] {
        let device = mounter.find(&DeviceQuery { hint, ..query(&disk.volume) }).await.unwrap();
        assert_eq!(device.path(), machine.path("dev/dm-0"));
        assert_eq!(mounter.identify(device.number()).await.unwrap(), Some(Identity::Volume(disk.volume.clone())));
    }
    machine.add_mapped("dm-1", "CRYPT-LUKS2-1-data", &["nvme1n1"], &other).await;
    let opens = Opens::of(&machine.path("dev/dm-1"));
    let absent = unused_volume_id();
    let hinted = DeviceQuery { hint: Some(machine.path("dev/dm-1")), ..query(&absent) };
    let error = mounter.find(&hinted).await.unwrap_err();
    assert!(matches!(&error, DeviceError::Foreign { found, .. } if found.contains("mapped device")), "{error:?}");
    assert!(!opens.seen());
}

#[tokio::test]
async fn driver_uses_the_disk_below_an_encryption_mapping() {
    let (machine, disk, map) = (Machine::new(), Disk::new(MIB), Disk::new(MIB));
    machine.add_nvme("nvme1n1", Some(&disk.volume.serial()), &disk).await;
    machine.add_mapped("dm-0", "CRYPT-LUKS2-1-data", &["nvme1n1"], &map).await;
    let device = machine.mounter().find(&query(&disk.volume)).await.unwrap();
    assert_eq!(device.path(), machine.path("dev/nvme1n1"));
}

#[tokio::test]
async fn multipath_map_over_two_or_no_volumes_is_not_a_volume() {
    let (machine, disk, second, map) = (Machine::new(), Disk::new(MIB), Disk::new(MIB), Disk::new(MIB));
    machine.add_nvme("nvme1n1", Some(&disk.volume.serial()), &disk).await;
    machine.add_nvme("nvme2n1", Some(&second.volume.serial()), &second).await;
    machine.add_mapped("dm-0", "mpath-nvme.1d0f-1-1-1", &["nvme1n1", "nvme2n1"], &map).await;
    let hinted = DeviceQuery { hint: Some(machine.path("dev/dm-0")), ..query(&disk.volume) };
    let outcome = machine.mounter().find(&hinted).await;
    assert!(
        matches!(&outcome, Err(DeviceError::Foreign { found, .. }) if found.contains("more than one")),
        "{outcome:?}"
    );
    for path in ["nvme1n1", "nvme2n1"] {
        std::fs::remove_file(machine.path("sys/devices/dm-0/slaves").join(path)).unwrap();
    }
    let number = map.find().await.number();
    let found = machine.mounter().identify(number).await.unwrap().unwrap().to_string();
    assert!(found.contains("without paths"), "{found}");
}

#[tokio::test]
async fn disk_without_statistics_is_named_in_the_error() {
    let disk = Disk::new(MIB);
    let error = disk.mounter.nvme_statistics(&disk.find().await).await.unwrap_err();
    assert!(matches!(error, StatisticsError::Read { .. }), "{error:?}");
    assert!(error.to_string().contains(disk.device.path().to_str().unwrap()), "{error}");
}

#[tokio::test]
async fn device_name_from_ec2_identifies_a_disk_only_on_xen() {
    let (machine, disk) = (Machine::new(), Disk::new(MIB));
    let place = machine.path("sys/devices/xvdba");
    std::fs::create_dir_all(&place).unwrap();
    machine.add_node("xvdba", &place, &disk).await;
    let named = DeviceQuery { hint: Some(machine.path("dev/xvdba")), ..query(&disk.volume) };
    let error = machine.mounter().find(&named).await.unwrap_err();
    assert!(matches!(error, DeviceError::Foreign { .. }), "{error:?}");
    let xen = Mounter::new(MounterConfig { xen: true, ..machine.config() }).unwrap();
    let device = xen.find(&named).await.unwrap();
    assert_eq!(device.path(), machine.path("dev/xvdba"));
    assert_eq!(xen.identify(device.number()).await.unwrap(), Some(Identity::Silent));
    assert!(xen.find(&query(&disk.volume)).await.is_err(), "only the name identifies it");
    // The driver identifies a mounted device, and a device before its mount, in the same way.
    assert_eq!(xen.open_mounted(&disk.volume, device.number()).await.unwrap().path(), device.path());
    let elsewhere = machine.mounter();
    let error = elsewhere.open_mounted(&disk.volume, device.number()).await.unwrap_err();
    assert!(matches!(error, DeviceError::Foreign { .. }), "{error:?}");
    let (at, options) = (disk.at("staging"), MountOptions::default());
    let outcome = xen.mount(&device, &at, FsType::Ext4, &options).await;
    assert!(matches!(outcome, Err(MountError::ContentsChanged { .. })), "it is blank: {outcome:?}");
    let outcome = elsewhere.mount(&device, &at, FsType::Ext4, &options).await;
    assert!(matches!(outcome, Err(MountError::Device(DeviceError::Changed { .. }))), "{outcome:?}");
}

#[tokio::test]
async fn partition_is_found_by_its_number_on_the_volume() {
    let (machine, disk, part) = (Machine::new(), Disk::new(2 * MIB), Disk::new(MIB));
    machine.add_nvme("nvme1n1", Some(&disk.volume.serial()), &disk).await;
    let place = machine.path("sys/devices/nvme1n1/nvme1n1p2");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("partition"), "2\n").unwrap();
    machine.add_node("nvme1n1p2", &place, &part).await;
    let number = |text| DeviceQuery { partition: Partition::parse(text).unwrap(), ..query(&disk.volume) };
    let mounter = machine.mounter();
    let device = mounter.find(&number("2")).await.unwrap();
    assert_eq!((device.path(), device.is_partition()), (machine.path("dev/nvme1n1p2").as_path(), true));
    assert_eq!(device.size().await.unwrap().0, MIB, "the partition is open, not the disk");
    assert_eq!(mounter.identify(device.number()).await.unwrap(), Some(Identity::Volume(disk.volume.clone())));
    let whole = mounter.find(&query(&disk.volume)).await.unwrap();
    assert_eq!(mounter.disk_of(device.number()).await.unwrap(), Some(whole.number()));
    let missing = mounter.find(&number("3")).await.unwrap_err();
    assert!(matches!(missing, DeviceError::NoPartition { .. }), "{missing:?}");
}

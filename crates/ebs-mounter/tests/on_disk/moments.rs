//! Tests changes that happen between two steps of the mounter. To pause the mounter between them, a test makes the
//! mounter's read of a serial number in sysfs block.

use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebs_mounter::{Contents, DeviceError, FormatError, FormatPermit, FsType, MounterConfig, Partition};
use ebs_testkit::loop_device::{LoopDevice, unused_volume_id};
use ebs_testkit::mount_namespace::in_mount_namespace;
use ebs_testkit::process::{Process, ProcessSpec, run_tool};
use ebs_testkit::replaced_tool::ReplacedTool;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tokio::time::Instant;

use crate::device::{Machine, Opens, query};
use crate::disk::{Disk, MIB, plain};

const BOUND: Duration = Duration::from_secs(60);

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + BOUND;
    while !holds() {
        assert!(Instant::now() < deadline, "waited for {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A sysfs file that blocks its reader until the test answers.
struct Question(PathBuf);

impl Question {
    fn at(path: PathBuf) -> Self {
        let _gone = std::fs::remove_file(&path);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        Self(path)
    }

    async fn asked(&self) -> std::fs::File {
        let mut asked = None;
        until("a read of the serial number", || {
            asked = std::fs::File::options().write(true).custom_flags(libc::O_NONBLOCK).open(&self.0).ok();
            asked.is_some()
        })
        .await;
        asked.unwrap()
    }

    async fn answer(&self, text: &str) {
        self.asked().await.write_all(text.as_bytes()).unwrap();
    }
}

fn serial_of(machine: &Machine, name: &str) -> PathBuf {
    machine.path("sys/devices").join(name).join("device/serial")
}

/// The kernel may give a number to another disk between identification and open, so the driver reads the identity again
/// after the open.
#[tokio::test]
async fn device_number_reused_by_another_disk_is_rejected_after_open() {
    let (machine, disk) = Machine::with_nvme(MIB).await;
    let (mounter, number) = (machine.mounter(), disk.find().await.number());
    let question = Question::at(serial_of(&machine, "nvme1n1"));
    let opens = Opens::of(&machine.path("dev/nvme1n1"));
    let ask = async {
        question.answer(&disk.volume.serial()).await;
        until("the open", || opens.seen()).await;
        question.answer(&unused_volume_id().serial()).await;
    };
    let (opened, ()) = tokio::join!(mounter.open_mounted(&disk.volume, number), ask);
    assert!(matches!(opened, Err(DeviceError::Foreign { .. })), "{opened:?}");
}

/// The device node of a partition may lead to another disk's partition if udev has not removed it yet.
#[tokio::test]
async fn partition_node_of_another_disk_counts_as_missing() {
    let (machine, disk, other) = (Machine::new(), Disk::new(2 * MIB), Disk::new(MIB));
    machine.add_nvme("nvme1n1", Some(&disk.volume.serial()), &disk).await;
    machine.add_nvme("nvme2n1", Some(&other.volume.serial()), &other).await;
    let place = machine.path("sys/devices/nvme1n1/nvme1n1p2");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("partition"), "2\n").unwrap();
    std::fs::rename(machine.path("dev/nvme2n1"), machine.path("dev/nvme1n1p2")).unwrap();
    let wanted = ebs_mounter::DeviceQuery { partition: Partition::parse("2").unwrap(), ..query(&disk.volume) };
    let found = machine.mounter().find(&wanted).await;
    assert!(matches!(found, Err(DeviceError::NoPartition { .. })), "{found:?}");
}

#[tokio::test]
async fn format_record_is_marked_started_only_after_the_last_check() {
    let (machine, disk) = Machine::with_nvme(64 * MIB).await;
    let mounter = machine.mounter();
    let device = mounter.find(&query(&disk.volume)).await.unwrap();
    let Contents::Blank(proof) = mounter.probe(&device).await.unwrap() else { panic!("not blank") };
    let record = disk.record(FsType::Ext4).await;
    let kept = machine.path("state").join(format!("format-{}", disk.volume));
    let question = Question::at(serial_of(&machine, "nvme1n1"));
    let look = async {
        let asked = question.asked().await;
        let text = std::fs::read_to_string(&kept).expect("a record before the last check");
        assert!(text.contains("state=checking\n"), "{text}");
        drop(asked);
    };
    let spec = plain(FsType::Ext4);
    let (outcome, ()) = tokio::join!(mounter.format(&device, &spec, &record, FormatPermit::of_blank(&proof)), look);
    // The disk reported no identity.
    outcome.unwrap_err();
    assert!(!kept.exists());
}

#[test]
fn new_file_system_is_flushed_before_format_returns() {
    in_mount_namespace(|| async {
        static WRITTEN: [u8; 16 * 4096] = [0x77; 16 * 4096];
        let disk = Disk::new(64 * MIB);
        let bytes = disk.place.path().join("written");
        std::fs::write(&bytes, WRITTEN).unwrap();
        let write = format!("for last; do :; done; exec /bin/dd if={} of=$last bs=64k conv=notrunc", bytes.display());
        let _replaced = ReplacedTool::by_script("mke2fs", &write).unwrap();
        let _open_elsewhere = std::fs::File::open(disk.device.path()).unwrap();
        disk.format_blank(&plain(FsType::Ext4)).await.unwrap();
        let mut found = vec![0; WRITTEN.len()];
        std::fs::File::open(disk.device.backing_file()).unwrap().read_exact_at(&mut found, 0).unwrap();
        assert!(found == WRITTEN, "the new file system is only in memory");
    });
}

/// An mkfs that reports its start, and then waits until it is killed or released.
struct WaitingMkfs {
    _replaced: ReplacedTool,
    started: PathBuf,
    go: PathBuf,
}

impl WaitingMkfs {
    fn new(place: &Path, then: &str) -> Self {
        let (started, go) = (place.join("started"), place.join("go"));
        mknodat(CWD, &go, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let script = format!(
            "echo $$ > {0}.new; mv {0}.new {0}; timeout 300 /bin/sh -c 'read line' < {1}; {then}",
            started.display(),
            go.display()
        );
        Self { _replaced: ReplacedTool::by_script("mke2fs", &script).unwrap(), started, go }
    }

    async fn process(&self) -> u32 {
        until("an mkfs", || self.started.exists()).await;
        std::fs::read_to_string(&self.started).unwrap().trim().parse().unwrap()
    }

    async fn let_go(&self) {
        let mut go = None;
        until("the waiting mkfs", || {
            go = std::fs::File::options().write(true).custom_flags(libc::O_NONBLOCK).open(&self.go).ok();
            go.is_some()
        })
        .await;
        go.unwrap().write_all(b"go\n").unwrap();
    }
}

/// mkfs opens its disk by name. The name stays valid because mkfs holds the driver's descriptor, even if the driver is
/// killed: the kernel reuses a name only after the old disk is closed.
#[test]
fn mkfs_holds_its_disk_open_from_its_start() {
    in_mount_namespace(|| async {
        let disk = Disk::new(64 * MIB);
        let mkfs = WaitingMkfs::new(disk.place.path(), "exit 1");
        let spec = plain(FsType::Ext4);
        let format = disk.format_blank(&spec);
        let look = async {
            let process = mkfs.process().await;
            let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().flatten();
            let has_it =
                descriptors.filter_map(|link| std::fs::read_link(link.path()).ok()).any(|to| to == disk.device.path());
            mkfs.let_go().await;
            assert!(has_it, "no process keeps the disk's name for mkfs");
        };
        let (outcome, ()) = tokio::join!(format, look);
        outcome.unwrap_err();
    });
}

/// The mkfs of a killed driver keeps running and may not have opened the disk yet. The next driver neither formats the
/// disk nor removes its record.
#[test]
fn disk_held_by_mkfs_of_a_killed_driver_is_not_formatted() {
    in_mount_namespace(|| async {
        let disk = Disk::new(64 * MIB);
        let mkfs = WaitingMkfs::new(disk.place.path(), "kill -9 $$");
        let spec = plain(FsType::Ext4);
        let (device, record, permit) = disk.proven_blank(FsType::Ext4).await;
        {
            let format = disk.mounter.format(&device, &spec, &record, permit.clone());
            tokio::pin!(format);
            tokio::select! {
                outcome = &mut format => panic!("{outcome:?}"),
                _ = mkfs.process() => {}
            }
        }
        let config = MounterConfig {
            simulated_devices: Some(disk.device.directory().to_owned()),
            ..MounterConfig::new(disk.place.path())
        };
        let next = ebs_mounter::Mounter::new(config).unwrap();
        let again = next.find(&disk.query()).await.unwrap();
        let outcome = tokio::time::timeout(BOUND / 4, next.format(&again, &spec, &record, permit)).await;
        let kept = next.interrupted_format(&again).await;
        mkfs.let_go().await;
        let outcome = outcome.expect("it formats while the other mkfs runs");
        assert!(matches!(outcome, Err(FormatError::Held { .. })), "{outcome:?}");
        assert_eq!(kept, Some(record), "the record of the running mkfs");
    });
}

/// Closing the last descriptor of a disk waits until the kernel has written its cached data.
#[test]
fn dropping_the_device_of_a_hung_disk_does_not_block() {
    in_mount_namespace(|| async {
        let below = Disk::new(64 * MIB);
        let (_, at) = below.mounted(FsType::Ext4, "below", &[]).await;
        let mut thaw = Thaw::of(at.as_path(), below.place.path());
        let volume = unused_volume_id();
        let disk = Disk::over(volume.clone(), LoopDevice::new_in(at.as_path(), &volume, 8 * MIB).unwrap());
        let device = disk.find().await;
        std::fs::File::options().write(true).open(disk.device.path()).unwrap().write_all_at(&[1; 65536], 0).unwrap();
        run_tool("/usr/sbin/fsfreeze", &["--freeze", at.as_path().to_str().unwrap()], BOUND).unwrap();
        let dropped = tokio::task::spawn_blocking(move || drop(device));
        let dropped = tokio::time::timeout(BOUND, dropped).await;
        thaw.now();
        dropped.expect("it waits for the hung disk").unwrap();
    });
}

/// Thaws a file system with a process that starts before any write can hang. A process that starts later would hold
/// copies of all open files until its exec, and could be the last to close the disk.
struct Thaw {
    process: Process,
    go: PathBuf,
}

impl Thaw {
    fn of(path: &Path, place: &Path) -> Self {
        let go = place.join("thaw");
        mknodat(CWD, &go, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let script = format!("read line < {}; exec /usr/sbin/fsfreeze --unfreeze {}", go.display(), path.display());
        let spec = ProcessSpec {
            name: "thaw".to_owned(),
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            env: Default::default(),
            log: place.join("thaw.log"),
        };
        Self { process: Process::spawn(spec).unwrap(), go }
    }

    fn now(&mut self) {
        std::fs::write(&self.go, "now\n").unwrap();
        assert!(self.process.wait_blocking(BOUND).unwrap().success());
    }
}

//! Applies the operations to a real disk with the NTFS tools of Linux. The fake machine answers, and each of its calls
//! that changes a disk is repeated on a loop device. Needs root, gdisk and ntfs-3g.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ebs_testkit::loop_device::{LoopDevice, unused_volume_id};
use ebs_testkit::mount_namespace::in_mount_namespace;
use ebs_testkit::process::run_tool;
use winstorage::fake::FakeHost;
use winstorage::host::DiskHost;
use winstorage::types::{DiskNumber, WinPath};
use winstorage::{Policy, Storage, StorageError};

const BOUND: Duration = Duration::from_secs(120);
const MIB: u64 = 1 << 20;
const DISK: DiskNumber = DiskNumber(1);
const SMALL: u64 = 512 * MIB;
const LARGE: u64 = 1024 * MIB;

const SECTOR: u64 = 512;
/// First sector of the data partition: after 1 MiB for the table and 16 MiB for Windows.
const DATA: u64 = 17 * MIB / SECTOR;

/// A fake machine with one disk, and the same disk on a loop device.
struct Machine {
    host: FakeHost,
    storage: Storage,
    disk: LoopDevice,
}

fn run(program: &str, args: &[&str]) -> String {
    run_tool(program, args, BOUND).unwrap()
}

/// Formats the first and last sector of the data partition after the reserved one.
fn partition(bytes: u64) -> String {
    format!("--new=2:{DATA}:{}", DATA + bytes / SECTOR - 1)
}

impl Machine {
    fn new() -> Self {
        let (host, disk) = (FakeHost::new(), LoopDevice::with_partition_table(&unused_volume_id(), SMALL).unwrap());
        host.add_disk(DISK.0, "vol1", SMALL, true);
        let policy = Policy::new(vec![WinPath::normalise(r"C:\var\lib\kubelet").unwrap()]);
        Self { storage: Storage::new(Arc::new(host.clone()), policy), host, disk }
    }

    fn device(&self) -> &str {
        self.disk.path().to_str().unwrap()
    }

    /// Returns the device of the data partition: the second one, after the reserved one.
    fn data(&self) -> String {
        self.disk.partition(2).display().to_string()
    }

    /// Repeats the machine's new calls on the disk. Returns the steps that have changed it.
    fn follow(&self) -> Vec<String> {
        let mut done = Vec::new();
        for call in self.host.log() {
            let words: Vec<&str> = call.split(' ').collect();
            match words[0] {
                // As Windows initialises a disk: a table, and 16 MiB for itself.
                "initialize_gpt" => self.table(&["--clear", "--new=1:2048:+16M", "--typecode=1:0c01"]),
                "create_data_partition" => {
                    self.table(&[&partition(self.size_told()), "--typecode=2:0700"]);
                }
                "format_ntfs" => drop(run("/usr/sbin/mkntfs", &["--quick", "--quiet", &self.data()])),
                "resize_partition" => {
                    let size: u64 = words.last().unwrap().parse().unwrap();
                    assert_eq!(size, self.size_told());
                    self.table(&["--move-second-header", "--delete=2", &partition(size), "--typecode=2:0700"]);
                    // Twice, so that it asks no questions.
                    run("/usr/sbin/ntfsresize", &["--force", "--force", "--no-progress-bar", &self.data()]);
                }
                _ => continue,
            }
            done.push(words[0].to_owned());
        }
        self.host.clear_log();
        done
    }

    fn table(&self, args: &[&str]) {
        run("/usr/sbin/sgdisk", &[args, &[self.device()]].concat());
        run("/usr/bin/partx", &["--update", self.device()]);
    }

    /// Returns the size of the data partition on the fake machine, in bytes.
    fn size_told(&self) -> u64 {
        self.host.partitions(DISK, None).unwrap().last().unwrap().size
    }

    /// Returns the size of the file system on it, in bytes.
    fn size_of_ntfs(&self) -> u64 {
        let info = run("/usr/sbin/ntfsresize", &["--info", "--force", "--no-progress-bar", &self.data()]);
        let line = info.lines().find_map(|line| line.strip_prefix("Current volume size")).unwrap();
        let digits = line.trim_start_matches([':', ' ']).split(' ').next().unwrap();
        digits.parse().unwrap()
    }

    /// Runs `work` on the mounted file system.
    async fn mounted<T>(&self, work: impl FnOnce(&Path) -> T) -> T {
        let at = tempfile::tempdir().unwrap();
        run("/usr/bin/ntfs-3g", &[&self.data(), at.path().to_str().unwrap()]);
        let done = work(at.path());
        ebs_testkit::mount_namespace::unmount(at.path()).await;
        done
    }
}

/// Returns some MiB that are neither compressible nor repetitive.
fn data() -> Vec<u8> {
    (0..1_u64 << 20).flat_map(|nth| nth.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect()
}

/// The steps have the order of a driver. Windows accepts the partition as its own, repeated calls change nothing, and
/// the data survives the growth.
#[test]
fn partition_format_mount_and_growth_make_ntfs_of_that_size() {
    in_mount_namespace(|| async {
        let machine = Machine::new();
        let storage = &machine.storage;
        storage.partition_disk(DISK).unwrap();
        assert_eq!(machine.follow(), ["initialize_gpt", "create_data_partition"]);
        let kinds = run("/usr/sbin/sgdisk", &["--info=2", machine.device()]);
        assert!(kinds.to_uppercase().contains("EBD0A0A2-B9E5-4433-87C0-68B6B72699C7"), "{kinds}");
        let volume = storage.list_volumes_on_disk(DISK, None).unwrap().remove(0).to_string();
        assert!(!storage.is_volume_formatted(&volume).unwrap());
        storage.format_volume(&volume).unwrap();
        assert_eq!(machine.follow(), ["format_ntfs"]);
        // NTFS does not use the last sector of its partition, and a partial cluster at its end.
        let (told, real) = (machine.size_told(), machine.size_of_ntfs());
        assert!(real <= told && told - real <= 4096 + 512, "{real} bytes of {told}");
        machine.mounted(|at| std::fs::write(at.join("data"), data()).unwrap()).await;

        storage.partition_disk(DISK).unwrap();
        let again = storage.format_volume(&volume).unwrap_err();
        assert!(matches!(again, StorageError::AlreadyFormatted(_)), "{again}");
        assert_eq!(machine.follow(), [""; 0], "the same once more changes nothing");

        machine.disk.grow(LARGE).unwrap();
        machine.host.set_disk_size(DISK.0, LARGE);
        let grown = storage.resize_volume(&volume, 0, Duration::ZERO).unwrap();
        assert_eq!(machine.follow(), ["resize_partition"]);
        let (told, real) = (machine.size_told(), machine.size_of_ntfs());
        assert!(told == grown && grown > LARGE - 32 * MIB, "{told} is told, {grown} was answered");
        assert!(real <= told && told - real <= 4096 + 512, "{real} bytes of {told}");
        let kept = machine.mounted(|at| std::fs::read(at.join("data")).unwrap()).await;
        assert!(kept == data(), "what was written is another");
        assert_eq!(storage.resize_volume(&volume, 0, Duration::ZERO).unwrap(), grown);
        assert_eq!(machine.follow(), [""; 0], "the same once more changes nothing");
    });
}

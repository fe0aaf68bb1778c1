use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::mpsc;
use std::time::Duration;

use ebs_testkit::loop_device::{LoopDevice, unused_volume_id};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;
use crate::bounded::Stuck;

/// An NVMe disk of this name in made-up directories, whose node is a loop device's.
fn add(root: &Path, name: &str, volume: &VolumeId, disk: &LoopDevice) {
    let raw = std::fs::metadata(disk.path()).unwrap().rdev();
    let place = root.join("sys/devices").join(name);
    std::fs::create_dir_all(place.join("device")).unwrap();
    std::fs::write(place.join("device/serial"), volume.serial()).unwrap();
    symlink(&place, root.join("sys/block").join(name)).unwrap();
    symlink(&place, root.join("sys/dev/block").join(DeviceNumber::of(raw).to_string())).unwrap();
    mknodat(CWD, root.join("dev").join(name), FileType::BlockDevice, Mode::RUSR, raw).unwrap();
}

/// A disk that hangs is in the way of its own volume alone.
///
/// Rule: D-38
#[tokio::test]
async fn a_disk_that_hangs_is_in_the_way_of_its_own_volume_alone() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    for name in ["dev", "sys/block", "sys/dev/block"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    let [hung, fine] = ["vol-0aaf1", "vol-0aaf2"].map(|id| VolumeId::parse(id).unwrap());
    let disks = [&hung, &fine].map(|volume| LoopDevice::new(volume, 1 << 20).unwrap());
    add(&root, "nvme1n1", &hung, &disks[0]);
    add(&root, "nvme2n1", &fine, &disks[1]);
    let config = MounterConfig { dev: root.join("dev"), sys: root.join("sys"), ..MounterConfig::new(&root) };
    let config = Arc::new(MounterConfig { late_device: Duration::from_secs(5), ..config });
    let query = |volume: &VolumeId| DeviceQuery { volume: volume.clone(), hint: None, partition: None };
    // Somebody has opened the first disk and has not come back.
    let (release, held) = mpsc::channel::<()>();
    let opens = move || {
        let _ = held.recv();
        Ok::<(), Stuck>(())
    };
    let first = root.join("dev/nvme1n1");
    assert!(bounded::reading_within(Duration::from_millis(20), "opening", &first, opens).await.is_err());
    assert_eq!(find(&config, &query(&fine)).await.unwrap().path(), root.join("dev/nvme2n1"));
    let outcome = find(&config, &query(&hung)).await;
    assert!(matches!(&outcome, Err(DeviceError::Stuck(stuck)) if stuck.to_string().contains("nvme1n1")), "{outcome:?}");
    release.send(()).unwrap();
}

/// How long a device that is there may take to be found on a busy machine.
const BOUND: Duration = Duration::from_secs(60);

/// A search for a volume whose simulated device is not there yet.
fn late(directory: &Path, volume: &VolumeId) -> (Arc<MounterConfig>, DeviceQuery) {
    let config = MounterConfig { simulated_devices: Some(directory.to_owned()), ..MounterConfig::new(directory) };
    (Arc::new(config), DeviceQuery { volume: volume.clone(), hint: None, partition: None })
}

/// A late device is found because the kernel says that it has come.
///
/// Rule: node.md N-9
#[tokio::test]
async fn a_late_device_is_found_because_the_kernel_says_that_it_has_come() {
    let directory = tempfile::tempdir().unwrap();
    let volume = unused_volume_id();
    let (config, query) = late(directory.path(), &volume);
    // Nothing but the kernel's word has it look again.
    let search = find_late(&config, &query, Arrivals::without_doubt(), Instant::now() + BOUND);
    tokio::pin!(search);
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut search).await.is_err(), "it is not there yet");
    let disk = LoopDevice::new_in(directory.path(), &volume, 1 << 20).unwrap();
    let found = search.await.unwrap();
    assert_eq!(found.path(), disk.path());
}

/// Where the kernel's word cannot be had, late devices are looked for again and again, for a bounded time.
///
/// Rule: node.md N-9
#[tokio::test]
async fn without_the_kernels_word_late_devices_are_looked_for_again_and_again() {
    let directory = tempfile::tempdir().unwrap();
    let volume = unused_volume_id();
    let (config, query) = late(directory.path(), &volume);
    let soon = Instant::now() + Duration::from_millis(300);
    let missing = find_late(&config, &query, Arrivals::deaf(), soon).await;
    assert!(matches!(missing, Err(DeviceError::Missing { .. })), "{missing:?}");
    let search = find_late(&config, &query, Arrivals::deaf(), Instant::now() + BOUND);
    tokio::pin!(search);
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut search).await.is_err(), "it is not there yet");
    let disk = LoopDevice::new_in(directory.path(), &volume, 1 << 20).unwrap();
    assert_eq!(search.await.unwrap().path(), disk.path());
}

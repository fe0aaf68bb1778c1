use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::mpsc;
use std::time::Duration;

use ebs_testkit::loop_device::{LoopDevice, unused_volume_id};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;
use crate::bounded::Stuck;

/// Adds an NVMe disk of this name to the fake directories. Its node is a loop device's.
fn add(root: &Path, name: &str, volume: &VolumeId, disk: &LoopDevice) {
    let raw = std::fs::metadata(disk.path()).unwrap().rdev();
    let place = root.join("sys/devices").join(name);
    std::fs::create_dir_all(place.join("device")).unwrap();
    std::fs::write(place.join("device/serial"), volume.serial()).unwrap();
    symlink(&place, root.join("sys/block").join(name)).unwrap();
    symlink(&place, root.join("sys/dev/block").join(DeviceNumber::of(raw).to_string())).unwrap();
    mknodat(CWD, root.join("dev").join(name), FileType::BlockDevice, Mode::RUSR, raw).unwrap();
}

/// Creates fake directories of a machine.
fn machine() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    for name in ["dev/disk/by-id", "sys/block", "sys/dev/block"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    (directory, root)
}

/// Returns a configuration with these directories and no wait for late devices.
fn config(root: &Path) -> MounterConfig {
    let config = MounterConfig { late_device: Duration::ZERO, ..MounterConfig::new(root) };
    MounterConfig { dev: root.join("dev"), sys: root.join("sys"), ..config }
}

fn query(volume: &VolumeId) -> DeviceQuery {
    DeviceQuery { volume: volume.clone(), hint: None, partition: None }
}

#[tokio::test]
async fn hung_disk_affects_only_its_own_volume() {
    let (_directory, root) = machine();
    let [hung, fine] = ["vol-0aaf1", "vol-0aaf2"].map(|id| VolumeId::parse(id).unwrap());
    let disks = [&hung, &fine].map(|volume| LoopDevice::new(volume, 1 << 20).unwrap());
    add(&root, "nvme1n1", &hung, &disks[0]);
    add(&root, "nvme2n1", &fine, &disks[1]);
    let config = Arc::new(MounterConfig { late_device: Duration::from_secs(3600), ..config(&root) });
    // Another process has opened the first disk, and the open has not returned.
    let (release, held) = mpsc::channel::<()>();
    let opens = move || {
        let _ = held.recv();
        Ok::<(), Stuck>(())
    };
    let first = root.join("dev/nvme1n1");
    assert!(bounded::reading_within(Duration::from_millis(20), "opening", &first, opens).await.is_err());
    assert_eq!(find(&config, &query(&fine)).await.unwrap().path(), root.join("dev/nvme2n1"));
    let outcome = tokio::time::timeout(BOUND, find(&config, &query(&hung)))
        .await
        .expect("the search does not wait for the hung disk");
    assert!(matches!(&outcome, Err(DeviceError::Stuck(stuck)) if stuck.to_string().contains("nvme1n1")), "{outcome:?}");
    release.send(()).unwrap();
}

/// Maximum time to find an existing device on a busy machine.
const BOUND: Duration = Duration::from_secs(60);

/// Returns a search for a volume whose simulated device does not exist yet.
fn late(directory: &Path, volume: &VolumeId) -> (Arc<MounterConfig>, DeviceQuery) {
    let config = MounterConfig { simulated_devices: Some(directory.to_owned()), ..MounterConfig::new(directory) };
    (Arc::new(config), DeviceQuery { volume: volume.clone(), hint: None, partition: None })
}

#[tokio::test]
async fn late_device_is_found_by_kernel_event() {
    let directory = tempfile::tempdir().unwrap();
    let volume = unused_volume_id();
    let (config, query) = late(directory.path(), &volume);
    // Only kernel events trigger a search.
    let search = find_late(&config, &query, Arrivals::without_doubt(), Instant::now() + BOUND);
    tokio::pin!(search);
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut search).await.is_err(), "it does not exist yet");
    let disk = LoopDevice::new_in(directory.path(), &volume, 1 << 20).unwrap();
    let found = search.await.unwrap();
    assert_eq!(found.path(), disk.path());
}

#[tokio::test]
async fn late_device_is_found_by_polling_without_kernel_events() {
    let directory = tempfile::tempdir().unwrap();
    let volume = unused_volume_id();
    let (config, query) = late(directory.path(), &volume);
    let soon = Instant::now() + Duration::from_millis(300);
    let missing = tokio::time::timeout(BOUND, find_late(&config, &query, Arrivals::deaf(), soon)).await;
    let missing = missing.expect("the search continues after its time limit");
    assert!(matches!(missing, Err(DeviceError::Missing { .. })), "{missing:?}");
    let search = find_late(&config, &query, Arrivals::deaf(), Instant::now() + BOUND);
    tokio::pin!(search);
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut search).await.is_err(), "it does not exist yet");
    let disk = LoopDevice::new_in(directory.path(), &volume, 1 << 20).unwrap();
    assert_eq!(search.await.unwrap().path(), disk.path());
}

/// Either its serial number is another one, or another disk has taken over its name.
#[tokio::test]
async fn disk_that_changes_while_it_is_opened_is_not_used() {
    for takes_the_name in [false, true] {
        let (_directory, root) = machine();
        let [volume, other] = [unused_volume_id(), unused_volume_id()];
        let disks = [&volume, &other].map(|volume| LoopDevice::new(volume, 1 << 20).unwrap());
        add(&root, "nvme1n1", &volume, &disks[0]);
        // Between the two identity checks, the kind of its holder is read. The read returns after the change.
        let (disk, holder) = (root.join("sys/devices/nvme1n1"), root.join("sys/devices/nvme1n1/holders/dm-0/dm"));
        std::fs::create_dir_all(&holder).unwrap();
        let (asked, node) = (holder.join("uuid"), root.join("dev/nvme1n1"));
        mknodat(CWD, &asked, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let (serial, raw) = (other.serial(), std::fs::metadata(disks[1].path()).unwrap().rdev());
        let changes = std::thread::spawn(move || {
            let mut answer = File::options().write(true).open(asked).unwrap();
            if takes_the_name {
                std::fs::remove_file(&node).unwrap();
                mknodat(CWD, &node, FileType::BlockDevice, Mode::RUSR, raw).unwrap();
            } else {
                std::fs::write(disk.join("device/serial"), serial).unwrap();
            }
            std::io::Write::write_all(&mut answer, b"CRYPT-LUKS2-1").unwrap();
        });
        let outcome = find(&Arc::new(config(&root)), &query(&volume)).await;
        let seen = if takes_the_name { "which now has its name".to_owned() } else { other.to_string() };
        assert!(matches!(&outcome, Err(DeviceError::Foreign { found, .. }) if found.contains(&seen)), "{outcome:?}");
        changes.join().unwrap();
    }
}

#[tokio::test]
async fn unreadable_disk_affects_only_the_volume_of_its_name() {
    let (_directory, root) = machine();
    let config = Arc::new(config(&root));
    std::fs::create_dir(root.join("sys/block/nvme1n1")).unwrap();
    std::fs::write(root.join("dev/nvme1n1"), "no device").unwrap();
    let volume = unused_volume_id();
    let outcome = find(&config, &query(&volume)).await;
    assert!(matches!(outcome, Err(DeviceError::Missing { .. })), "{outcome:?}");
    // A symlink loop: an error other than "not found".
    let link = by_id(&config, &query(&volume), "");
    symlink(&link, &link).unwrap();
    let outcome = find(&config, &query(&volume)).await;
    assert!(matches!(outcome, Err(DeviceError::Unusable { source: IdentityError::Io(_), .. })), "{outcome:?}");
}

#[test]
fn node_without_device_is_skipped_and_others_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    assert!(open_node(&directory.path().join("missing")).unwrap().is_none());
    let node = directory.path().join("node");
    // The highest major number.
    mknodat(CWD, &node, FileType::BlockDevice, Mode::RUSR, rustix::fs::makedev(4095, 0)).unwrap();
    assert!(open_node(&node).unwrap().is_none());
    assert!(open_node(&directory.path().join("x".repeat(5000))).is_err());
}

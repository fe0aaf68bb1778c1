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

/// Directories that stand for those of a machine.
fn machine() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    for name in ["dev/disk/by-id", "sys/block", "sys/dev/block"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    (directory, root)
}

/// Those directories, and no waiting for late devices.
fn config(root: &Path) -> MounterConfig {
    let config = MounterConfig { late_device: Duration::ZERO, ..MounterConfig::new(root) };
    MounterConfig { dev: root.join("dev"), sys: root.join("sys"), ..config }
}

fn query(volume: &VolumeId) -> DeviceQuery {
    DeviceQuery { volume: volume.clone(), hint: None, partition: None }
}

/// A disk that hangs is in the way of its own volume alone.
#[tokio::test]
async fn a_disk_that_hangs_is_in_the_way_of_its_own_volume_alone() {
    let (_directory, root) = machine();
    let [hung, fine] = ["vol-0aaf1", "vol-0aaf2"].map(|id| VolumeId::parse(id).unwrap());
    let disks = [&hung, &fine].map(|volume| LoopDevice::new(volume, 1 << 20).unwrap());
    add(&root, "nvme1n1", &hung, &disks[0]);
    add(&root, "nvme2n1", &fine, &disks[1]);
    let config = Arc::new(MounterConfig { late_device: Duration::from_secs(3600), ..config(&root) });
    // Somebody has opened the first disk and has not come back.
    let (release, held) = mpsc::channel::<()>();
    let opens = move || {
        let _ = held.recv();
        Ok::<(), Stuck>(())
    };
    let first = root.join("dev/nvme1n1");
    assert!(bounded::reading_within(Duration::from_millis(20), "opening", &first, opens).await.is_err());
    assert_eq!(find(&config, &query(&fine)).await.unwrap().path(), root.join("dev/nvme2n1"));
    let outcome = tokio::time::timeout(BOUND, find(&config, &query(&hung))).await.expect("nobody waits for it");
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
#[tokio::test]
async fn without_the_kernels_word_late_devices_are_looked_for_again_and_again() {
    let directory = tempfile::tempdir().unwrap();
    let volume = unused_volume_id();
    let (config, query) = late(directory.path(), &volume);
    let soon = Instant::now() + Duration::from_millis(300);
    let missing = tokio::time::timeout(BOUND, find_late(&config, &query, Arrivals::deaf(), soon)).await;
    let missing = missing.expect("the search goes on after its time");
    assert!(matches!(missing, Err(DeviceError::Missing { .. })), "{missing:?}");
    let search = find_late(&config, &query, Arrivals::deaf(), Instant::now() + BOUND);
    tokio::pin!(search);
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut search).await.is_err(), "it is not there yet");
    let disk = LoopDevice::new_in(directory.path(), &volume, 1 << 20).unwrap();
    assert_eq!(search.await.unwrap().path(), disk.path());
}

/// A disk that is another one as soon as it is open is not used, whether its serial number says so or another disk has taken
/// its name.
#[tokio::test]
async fn a_disk_that_is_another_one_as_soon_as_it_is_open_is_not_used() {
    for takes_the_name in [false, true] {
        let (_directory, root) = machine();
        let [volume, other] = [unused_volume_id(), unused_volume_id()];
        let disks = [&volume, &other].map(|volume| LoopDevice::new(volume, 1 << 20).unwrap());
        add(&root, "nvme1n1", &volume, &disks[0]);
        // Between the two looks at a disk, what holds it is asked for its kind. It answers when the change is made.
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
        let seen = if takes_the_name { "took over its name".to_owned() } else { other.to_string() };
        assert!(matches!(&outcome, Err(DeviceError::Foreign { found, .. }) if found.contains(&seen)), "{outcome:?}");
        changes.join().unwrap();
    }
}

/// A disk that cannot be examined is in nobody's way but that of the volume that it is named for.
#[tokio::test]
async fn a_disk_that_cannot_be_examined_is_in_the_way_only_of_the_volume_that_it_is_named_for() {
    let (_directory, root) = machine();
    let config = Arc::new(config(&root));
    std::fs::create_dir(root.join("sys/block/nvme1n1")).unwrap();
    std::fs::write(root.join("dev/nvme1n1"), "no device").unwrap();
    let volume = unused_volume_id();
    let outcome = find(&config, &query(&volume)).await;
    assert!(matches!(outcome, Err(DeviceError::Missing { .. })), "{outcome:?}");
    // A name that leads nowhere, and not because there is nothing.
    let link = by_id(&config, &query(&volume), "");
    symlink(&link, &link).unwrap();
    let outcome = find(&config, &query(&volume)).await;
    assert!(matches!(outcome, Err(DeviceError::Unusable { source: IdentityError::Io(_), .. })), "{outcome:?}");
}

#[test]
fn a_node_without_a_device_is_nothing_and_any_other_failure_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    assert!(open_node(&directory.path().join("missing")).unwrap().is_none());
    let node = directory.path().join("node");
    // The last major number there is.
    mknodat(CWD, &node, FileType::BlockDevice, Mode::RUSR, rustix::fs::makedev(4095, 0)).unwrap();
    assert!(open_node(&node).unwrap().is_none());
    assert!(open_node(&directory.path().join("x".repeat(5000))).is_err());
}

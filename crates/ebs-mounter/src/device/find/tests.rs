use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::mpsc;
use std::time::Duration;

use ebs_testkit::loop_device::{LoopDevice, unused_volume_id};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::super::fake::Machine;
use super::*;
use crate::bounded::Stuck;
use crate::mounter::Mounter;

fn query(volume: &VolumeId) -> DeviceQuery {
    DeviceQuery { volume: volume.clone(), hint: None, partition: None }
}

#[tokio::test]
async fn hung_disk_affects_only_its_own_volume() {
    let machine = Machine::new();
    let [hung, fine] = ["vol-0aaf1", "vol-0aaf2"].map(|id| VolumeId::parse(id).unwrap());
    let disks = [&hung, &fine].map(|volume| LoopDevice::new(volume, 1 << 20).unwrap());
    machine.add_nvme("nvme1n1", &hung, &disks[0]);
    machine.add_nvme("nvme2n1", &fine, &disks[1]);
    let config = Arc::new(MounterConfig { late_device: Duration::from_secs(3600), ..machine.config() });
    // Another process is opening the first disk, and its open hangs.
    let (release, held) = mpsc::channel::<()>();
    let opens = move || {
        let _ = held.recv();
        Ok::<(), Stuck>(())
    };
    let first = machine.root.join("dev/nvme1n1");
    assert!(bounded::reading_within(Duration::from_millis(20), "opening", &first, opens).await.is_err());
    assert_eq!(find(&config, &query(&fine)).await.unwrap().path(), machine.root.join("dev/nvme2n1"));
    let outcome = tokio::time::timeout(BOUND, find(&config, &query(&hung)))
        .await
        .expect("the search does not wait for the hung disk");
    assert!(matches!(&outcome, Err(DeviceError::Stuck(stuck)) if stuck.to_string().contains("nvme1n1")), "{outcome:?}");
    release.send(()).unwrap();
}

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
    // Without polling, only kernel events trigger a search.
    let search = find_late(&config, &query, Arrivals::only_events(), Instant::now() + BOUND);
    tokio::pin!(search);
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut search).await.is_err(), "it does not exist yet");
    let disk = LoopDevice::new_in(directory.path(), &volume, 1 << 20).unwrap();
    let found = search.await.unwrap();
    assert_eq!(found.path(), disk.path());
}

#[tokio::test]
async fn search_for_current_devices_does_not_wait_for_late_ones() {
    let machine = Machine::new();
    let config = MounterConfig { late_device: Duration::from_secs(3600), ..machine.config() };
    let (mounter, query) = (Mounter::new(config).unwrap(), query(&unused_volume_id()));
    let outcome = tokio::time::timeout(BOUND, mounter.find_now(&query)).await.expect("it waits");
    assert!(matches!(outcome, Err(DeviceError::Missing { .. })), "{outcome:?}");
}

/// Covers a disk whose serial number changes, and a name that passes to another disk.
#[tokio::test]
async fn disk_that_changes_while_it_is_opened_is_not_used() {
    for takes_the_name in [false, true] {
        let machine = Machine::new();
        let [volume, other] = [unused_volume_id(), unused_volume_id()];
        let disks = [&volume, &other].map(|volume| LoopDevice::new(volume, 1 << 20).unwrap());
        machine.add_nvme("nvme1n1", &volume, &disks[0]);
        // Between the two identity checks of a disk, the driver reads the UUID of the device-mapper device that holds
        // the disk. That read returns only after the change.
        let (disk, holder) =
            (machine.root.join("sys/devices/nvme1n1"), machine.root.join("sys/devices/nvme1n1/holders/dm-0/dm"));
        std::fs::create_dir_all(&holder).unwrap();
        let (asked, node) = (holder.join("uuid"), machine.root.join("dev/nvme1n1"));
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
        let outcome = find(&Arc::new(machine.config()), &query(&volume)).await;
        let seen = if takes_the_name { "which has replaced it under this name".to_owned() } else { other.to_string() };
        assert!(matches!(&outcome, Err(DeviceError::Foreign { found, .. }) if found.contains(&seen)), "{outcome:?}");
        changes.join().unwrap();
    }
}

#[tokio::test]
async fn unreadable_disk_affects_only_the_volume_it_is_named_after() {
    let machine = Machine::new();
    let config = Arc::new(machine.config());
    std::fs::create_dir(machine.root.join("sys/block/nvme1n1")).unwrap();
    std::fs::write(machine.root.join("dev/nvme1n1"), "no device").unwrap();
    let volume = unused_volume_id();
    let outcome = find(&config, &query(&volume)).await;
    assert!(matches!(outcome, Err(DeviceError::Missing { .. })), "{outcome:?}");
    // A symlink loop gives an error other than "not found".
    let link = by_id(&config, &query(&volume), "");
    symlink(&link, &link).unwrap();
    let outcome = find(&config, &query(&volume)).await;
    assert!(matches!(outcome, Err(DeviceError::Unusable { source: IdentityError::Io(_), .. })), "{outcome:?}");
}

#[test]
fn opening_a_device_node_without_a_device_is_not_an_error() {
    let directory = tempfile::tempdir().unwrap();
    assert!(open_node(&directory.path().join("missing")).unwrap().is_none());
    let node = directory.path().join("node");
    // The highest major number, which no driver uses.
    mknodat(CWD, &node, FileType::BlockDevice, Mode::RUSR, rustix::fs::makedev(4095, 0)).unwrap();
    assert!(open_node(&node).unwrap().is_none());
    assert!(open_node(&directory.path().join("x".repeat(5000))).is_err());
}

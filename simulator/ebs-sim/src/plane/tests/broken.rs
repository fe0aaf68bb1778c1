//! Tests of devices that disappear, fail, or are removed by force.

use std::io::Read as _;
use std::os::unix::fs::FileExt as _;

use super::*;

fn first_page(device: &PathBuf) -> std::io::Result<[u8; 4096]> {
    let mut page = [0; 4096];
    File::open(device)?.read_exact(&mut page)?;
    Ok(page)
}

#[test]
fn device_can_appear_without_its_link() {
    let bench = Bench::new();
    let volume = "vol-0a0000000000000d1";
    bench.create(volume, 1);
    let (volume_id, instance) = (volume.to_owned(), "i-1".to_owned());
    let connected = bench.done(&Effect::Connect { volume: volume_id, instance, linked: false, breakable: false });
    assert_eq!(size(&PathBuf::from(connected.unwrap())), GIB);
    assert!(bench.link(volume).symlink_metadata().is_err());
    bench.disconnect(volume);
}

/// Reads of a broken loop device fail with I/O errors. Healing restores its data.
#[test]
fn volume_with_failing_reads_has_its_data_after_healing() {
    let bench = Bench::new();
    let volume = "vol-0a0000000000000d2";
    bench.create(volume, 1);
    let device = bench.connect(volume);
    let user = open(&device);
    user.write_all_at(&[7; 4096], 0).unwrap();
    user.sync_all().unwrap();
    bench.done(&Effect::BreakIo { volume: volume.to_owned() });
    bench.done(&Effect::BreakIo { volume: volume.to_owned() });
    assert!(first_page(&device).is_err(), "reads fail");
    bench.done(&Effect::HealIo { volume: volume.to_owned() });
    assert_eq!(first_page(&device).unwrap(), [7; 4096]);
    drop(user);
    bench.disconnect(volume);
}

/// The kernel keeps the read-only flag with the device number, and the next disk with that number would inherit it.
#[test]
fn broken_volume_leaves_no_read_only_loop_device() {
    let bench = Bench::new();
    let volume = "vol-0a0000000000000d5";
    bench.create(volume, 1);
    let (volume_id, instance) = (volume.to_owned(), "i-1".to_owned());
    bench.done(&Effect::Connect { volume: volume_id, instance, linked: true, breakable: true });
    let lower = bench.plane.lower_of(volume).unwrap().expect("a breakable volume has a lower device");
    bench.done(&Effect::BreakIo { volume: volume.to_owned() });
    let is_read_only = || std::fs::read_to_string(format!("/sys/block/{}/ro", lower.name)).unwrap().trim() == "1";
    assert!(is_read_only(), "writes fail");
    // Hold the device open, so that no concurrent test gets its number before the check.
    let held = File::open(lower.device()).unwrap();
    bench.disconnect(volume);
    assert!(!is_read_only());
    drop(held);
}

#[test]
fn data_of_a_broken_volume_is_deleted_with_the_volume() {
    let bench = Bench::new();
    let volume = "vol-0a0000000000000d3";
    bench.create(volume, 1);
    bench.done(&Effect::BreakIo { volume: volume.to_owned() });
    bench.done(&Effect::DeleteBacking { volume: volume.to_owned() });
    assert_eq!(std::fs::read_dir(bench.image(volume).parent().unwrap()).unwrap().count(), 0);
}

#[test]
fn forced_disconnect_and_vanish_remove_a_device_in_use() {
    let bench = Bench::new();
    let volume = "vol-0a0000000000000d4";
    let (volume_id, instance) = (volume.to_owned(), "i-1".to_owned());
    let by_force = Effect::Disconnect { volume: volume_id.clone(), instance, force: true };
    for effect in [by_force, Effect::Vanish { volume: volume_id }] {
        bench.create(volume, 1);
        let device = bench.connect(volume);
        let mount = open_exclusively(&device);
        bench.done(&effect);
        assert!(bench.link(volume).symlink_metadata().is_err());
        drop(mount);
        let name = device.file_name().unwrap().to_str().unwrap();
        let gone = || sysfs::file_of(name).is_none_or(|file| file != bench.image(volume));
        assert!(soon(gone), "gone with its last user: {effect:?}");
    }
}

//! Tests that connect, grow and disconnect devices.

use super::*;

/// The name of the backing file contains the volume id.
#[test]
fn connected_volume_appears_as_device_with_its_size_and_link() {
    let bench = Bench::new();
    let volume = "vol-0a0000000000000a1";
    bench.create(volume, 3);
    let device = bench.connect(volume);
    assert_eq!(size(&device), 3 * GIB);
    let name = device.file_name().unwrap().to_str().unwrap();
    assert_eq!(sysfs::file_of(name), Some(bench.image(volume)), "the file's name carries the id");
    assert_eq!(bench.link(volume).canonicalize().unwrap(), device);
    assert_eq!(bench.connect(volume), device, "connecting twice is connecting once");

    bench.disconnect(volume);
    assert_eq!(sysfs::file_of(name).filter(|file| *file == bench.image(volume)), None);
    assert!(bench.link(volume).symlink_metadata().is_err());
    assert_eq!(bench.done(&disconnect(volume)), None, "disconnecting twice is disconnecting once");
}

#[test]
fn device_grows_while_in_use() {
    let bench = Bench::new();
    let volume = "vol-0a0000000000000a2";
    bench.create(volume, 1);
    let device = bench.connect(volume);
    let user = open_exclusively(&device);
    bench.done(&Effect::Grow { volume: volume.to_owned(), gib: 4 });
    assert_eq!(size(&device), 4 * GIB);
    bench.done(&Effect::Grow { volume: volume.to_owned(), gib: 2 });
    assert_eq!(size(&device), 4 * GIB, "never smaller");
    drop(user);
    let failed = bench.plane.carry_out(&Effect::Grow { volume: "vol-0a0000000000000af".into(), gib: 2 });
    assert!(matches!(failed, Outcome::Failed(_)), "a volume without data does not come into being by growing");
}

#[test]
fn mounted_device_is_not_disconnected() {
    let bench = Bench::new();
    let volume = "vol-0a0000000000000a3";
    bench.create(volume, 1);
    let device = bench.connect(volume);
    let mount = open_exclusively(&device);
    assert_eq!(bench.plane.carry_out(&disconnect(volume)), Outcome::Busy);
    assert_eq!(size(&device), GIB, "it goes on working");
    assert!(bench.link(volume).exists());
    drop(mount);
    bench.disconnect(volume);
}

#[test]
fn open_device_is_busy_until_closed() {
    let bench = Bench::new();
    let volume = "vol-0a0000000000000a4";
    bench.create(volume, 1);
    let device = bench.connect(volume);
    let user = open(&device);
    assert_eq!(bench.plane.carry_out(&disconnect(volume)), Outcome::Busy);
    assert_eq!(bench.plane.carry_out(&disconnect(volume)), Outcome::Busy);
    let again = bench.plane.carry_out(&connect(volume));
    assert!(matches!(again, Outcome::Failed(_)), "it would vanish under its new user");
    drop(user);
    bench.disconnect(volume);
    let name = device.file_name().unwrap().to_str().unwrap();
    assert_ne!(sysfs::file_of(name), Some(bench.image(volume)));
}

#[test]
fn deleted_data_leaves_no_file() {
    let bench = Bench::new();
    let volume = "vol-0a0000000000000a5";
    bench.create(volume, 1);
    bench.done(&Effect::DeleteBacking { volume: volume.to_owned() });
    assert!(!bench.image(volume).exists());
    bench.done(&Effect::DeleteBacking { volume: volume.to_owned() });
}

#[test]
fn take_down_disconnects_all_and_names_devices_in_use() {
    let bench = Bench::new();
    let (free, used) = ("vol-0a0000000000000a6", "vol-0a0000000000000a7");
    bench.create(free, 1);
    bench.create(used, 1);
    let (free_device, used_device) = (bench.connect(free), bench.connect(used));
    let mount = open_exclusively(&used_device);
    let left = || bench.plane.take_down().unwrap_err();
    assert!(soon(|| left().contains(used) && !left().contains(free)), "{}", left());
    let name = |device: &PathBuf| device.file_name().unwrap().to_str().unwrap().to_owned();
    assert_ne!(sysfs::file_of(&name(&free_device)), Some(bench.image(free)));
    assert!(bench.link(free).symlink_metadata().is_err() && bench.link(used).symlink_metadata().is_err());
    drop(mount);
    let gone = || sysfs::file_of(&name(&used_device)) != Some(bench.image(used));
    assert!(soon(gone), "gone with its last user");
}

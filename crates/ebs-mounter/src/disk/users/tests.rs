use std::os::unix::fs::{MetadataExt, symlink};

use ebs_testkit::loop_device::{LoopDevice, unused_volume_id};
use rustix::fs::makedev;

use super::*;
use crate::device::fake::Machine;

const BOUND: Duration = Duration::from_secs(60);

fn disk() -> (LoopDevice, DeviceNumber) {
    let disk = LoopDevice::new(&unused_volume_id(), 1 << 20).unwrap();
    let number = DeviceNumber::of(std::fs::metadata(disk.path()).unwrap().rdev());
    (disk, number)
}

fn mount_of(root: &str, target: &Path, fs_type: &str) -> MountEntry {
    let line = format!("30 1 0:6 {root} {} rw - {fs_type} source rw", target.display());
    MountTable::parse(line.as_bytes()).entries()[0].clone()
}

#[test]
fn binds_are_examined_only_on_local_file_systems() {
    let (disk, number) = disk();
    let config = MounterConfig::new("/nowhere");
    let seen = |root: &str, target: &Path, fs_type: &str| bound_devices(&config, &mount_of(root, target, fs_type));
    let root = format!("/{}", disk.name());
    for (fs_type, expected) in [("tmpfs", [Some(number), None]), ("nfs4", [None; 2]), ("devtmpfs", [Some(number); 2])] {
        assert_eq!(seen(&root, disk.path(), fs_type), expected, "{fs_type}");
        assert_eq!(seen("/", disk.path(), fs_type), [None; 2], "a whole file system is not a device node");
    }
    // Another mount hides the node, so only its name is known.
    assert_eq!(seen(&root, Path::new("/proc"), "devtmpfs"), [None, Some(number)]);
    assert_eq!(seen(&root, Path::new("/proc"), "tmpfs"), [None; 2]);
}

#[tokio::test]
async fn exclusive_open_rejects_a_node_of_another_disk() {
    let machine = Machine::new();
    let ((mine, number), (other, _)) = (disk(), disk());
    machine.list("loop", number);
    let raw = |disk: &LoopDevice| std::fs::metadata(disk.path()).unwrap().rdev();
    machine.add_node("loop", raw(&other));
    let config = machine.config();
    assert!(open_exclusively(&config, number).is_err(), "another disk was opened");
    std::fs::remove_file(machine.root.join("dev/loop")).unwrap();
    assert!(open_exclusively(&config, number).is_err(), "nothing was opened");
    machine.add_node("loop", raw(&mine));
    assert!(matches!(open_exclusively(&config, number).unwrap(), Opened::Exclusively(_)));
    // A node without a device in the kernel: no driver uses the highest major number.
    let nothing = DeviceNumber::of(makedev(4095, 0));
    machine.list("nothing", nothing);
    machine.add_node("nothing", makedev(4095, 0));
    assert!(matches!(open_exclusively(&config, nothing).unwrap(), Opened::Nothing));
}

#[tokio::test(start_paused = true)]
async fn brief_holder_is_awaited_and_lasting_holder_is_named() {
    let (disk, number) = disk();
    let state = tempfile::tempdir().unwrap();
    let mounter = Mounter::new(MounterConfig::new(state.path())).unwrap();
    let exclusively = || File::options().read(true).custom_flags(libc::O_EXCL).open(disk.path()).unwrap();
    let held = exclusively();
    let moment = async {
        tokio::time::sleep(RELEASE_TIMEOUT / 4).await;
        drop(held);
    };
    let (hold, ()) = tokio::join!(mounter.try_exclusive_open(number), moment);
    assert_eq!(hold.unwrap(), Hold::Free);
    let _held = exclusively();
    let hold = tokio::time::timeout(BOUND, mounter.try_exclusive_open(number)).await.expect("the wait has a limit");
    let who = format!("process {} (", std::process::id());
    assert!(matches!(&hold, Ok(Hold::Held(by)) if by.iter().any(|by| by.starts_with(&who))), "{hold:?}");
}

#[tokio::test]
async fn disk_is_gone_only_if_sysfs_does_not_list_it() {
    let machine = Machine::new();
    let (config, number) = (machine.config(), DeviceNumber::of(makedev(4095, 1)));
    let mounter = Mounter::new(config.clone()).unwrap();
    assert_eq!(mounter.try_exclusive_open(number).await.unwrap(), Hold::Gone);
    assert_eq!(disk_directory(&config, number).unwrap(), None);
    symlink(machine.root.join("nowhere"), machine.entry(number)).unwrap();
    assert!(mounter.try_exclusive_open(number).await.is_err());
    std::fs::remove_file(machine.entry(number)).unwrap();
    symlink(machine.entry(number), machine.entry(number)).unwrap();
    assert!(mounter.try_exclusive_open(number).await.is_err());
    assert!(disk_directory(&config, number).is_err());
}

#[tokio::test]
async fn disk_of_a_raw_bind_is_gone_if_its_size_is_zero() {
    let machine = Machine::new();
    let mounter = Mounter::new(machine.config()).unwrap();
    let number = DeviceNumber::of(makedev(4095, 2));
    let bind = mount_of("/nvme1n1", Path::new("/target"), "devtmpfs");
    assert!(!mounter.is_bound_disk_gone(&bind, number).await.unwrap());
    let size = machine.list("nvme1n1", number).join("size");
    for (sectors, is_gone) in [("2048\n", false), ("0\n", true)] {
        std::fs::write(&size, sectors).unwrap();
        assert_eq!(mounter.is_bound_disk_gone(&bind, number).await.unwrap(), is_gone, "{sectors}");
    }
    std::fs::remove_file(&size).unwrap();
    std::fs::create_dir(&size).unwrap();
    assert!(mounter.is_bound_disk_gone(&bind, number).await.is_err());
    let deleted = mount_of("/nvme1n1//deleted", Path::new("/target"), "devtmpfs");
    assert!(mounter.is_bound_disk_gone(&deleted, number).await.unwrap());
}

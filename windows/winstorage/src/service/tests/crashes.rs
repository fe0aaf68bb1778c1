//! The process dies after any step; the operation is asked for again.

use std::time::Duration;

use super::*;
use crate::fake::Effect;
use crate::host::EntryKind;

/// What a node plugin asks for from an empty disk to a mounted one, grown.
fn stage(storage: &Storage, target: &str) -> Result<(), crate::StorageError> {
    storage.set_disk_state(DiskNumber(1), true)?;
    storage.partition_disk(DiskNumber(1))?;
    let volume = storage.list_volumes_on_disk(DiskNumber(1), None)?.remove(0).to_string();
    if !storage.is_volume_formatted(&volume)? {
        storage.format_volume(&volume)?;
    }
    storage.mkdir(target)?;
    storage.mount_volume(&volume, target)?;
    storage.resize_volume(&volume, 0, Duration::ZERO)?;
    Ok(())
}

fn unstage(storage: &Storage, target: &str) -> Result<(), crate::StorageError> {
    if let Ok(volume) = storage.volume_of_path(target) {
        storage.unmount_volume(&volume.to_string(), target)?;
    }
    storage.rmdir(target, true)?;
    storage.set_disk_state(DiskNumber(1), false)
}

const STEPS: [&str; 23] = [
    "disk",
    "set_online",
    "system_disk",
    "initialize_gpt",
    "partitions",
    "create_data_partition",
    "refresh_disk",
    "online_partition",
    "volumes_of_partition",
    "volume",
    "partitions_of_volume",
    "format_ntfs",
    "open",
    "child",
    "kind",
    "create_directory",
    "mount",
    "largest_size",
    "resize_partition",
    "flush",
    "unmount",
    "remove",
    "children",
];

/// Wherever the process dies, the retry comes to the same end: one partition, one format, one mount, and after unstage the disk is offline.
#[test]
fn wherever_the_process_dies_the_retry_comes_to_the_same_end() {
    let mut crashes = 0;
    for step in STEPS {
        for call in 0..12 {
            let host = FakeHost::new();
            host.add_disk(1, SERIAL, 10 * GIB, false);
            host.add_directory(&at("pods"));
            host.inject(step, call, Effect::CrashAfter);
            let target = at(r"plugins\stage");
            // A crash may come in the first or in the second half.
            for half in [stage, unstage] {
                if half(&storage(&host), &target).is_err() {
                    assert!(host.is_down(), "{step} {call}");
                    crashes += 1;
                    host.restart();
                    half(&storage(&host), &target).unwrap();
                }
                let volumes = host.volumes_of(1);
                assert_eq!((volumes.len(), host.formats(&volumes[0])), (1, 1), "after call {call} of {step}");
                let is_staged = host.is_online(1);
                let mounted = is_staged.then(|| EntryKind::MountPoint(volumes[0].clone()));
                assert_eq!(host.kind_at(&target), mounted, "after call {call} of {step}");
            }
            assert!(!host.is_online(1), "after call {call} of {step}");
        }
    }
    assert!(crashes > 60, "only {crashes} crashes: the steps are not the operations' own");
}

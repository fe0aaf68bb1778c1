//! The steps of the self-test, in order.

use std::time::Duration;

use super::model::{Chance, Disk, Ground, Model, PLACES, Place, replay};
use super::{Bench, Step, done, equal, refused};
use crate::types::VolumeGuid;

const NOT_MOUNTED: &str = "(Get-Item -Path $Env:mountpath).Target, output: , error: <nil>";
const MISSING: &str = "because it does not exist";

pub(super) const ALL: [Step; 20] = [
    ("the disk is listed with its identifiers", is_listed),
    ("Windows' own disk is protected", windows_is_safe),
    ("an offline disk is not partitioned", offline_is_not_partitioned),
    ("the disk goes offline and online, even when repeated", goes_offline_and_online),
    ("bringing a read-only disk online makes it writable", becomes_writable),
    ("repeated partitioning creates one partition with one volume", is_partitioned),
    ("the volume is formatted once", is_formatted),
    ("errors about an unmounted and a missing directory have the expected text", is_told_unmounted),
    ("the volume is mounted, even if it is mounted already", is_mounted),
    ("the volume of a mount point is found", is_found),
    ("the volume and its free space are found through a link", is_found_through_a_link),
    ("a link in the middle of a path is not followed", links_are_not_followed),
    ("removing a link keeps its target", removal_leaves_the_target),
    ("removing a tree does not descend into a mount point", removal_stops_at_mount_points),
    ("growing a volume to its maximum size changes nothing", is_grown),
    ("the volume is flushed and unmounted, and the directory remains", is_unmounted),
    ("a path outside the working directories is rejected", outside_is_refused),
    ("random operations match the model", follows_the_model),
    ("the directory is removed, and removing it again succeeds", is_removed),
    ("the disk goes offline at the end", ends_offline),
];

fn is_listed(bench: &Bench<'_>) -> Result<(), String> {
    let ids = done(bench.storage.list_disk_ids())?;
    let known = ids.get(&bench.spare.disk).ok_or("the disk is not in the list")?;
    if known.serial_number.trim().is_empty() && known.page83.is_empty() {
        return Err("the disk has neither a serial number nor an identifier".to_owned());
    }
    Ok(())
}

fn windows_is_safe(bench: &Bench<'_>) -> Result<(), String> {
    let system = done(bench.storage.system_disk())?.ok_or("no disk holds %SystemRoot%")?;
    refused(bench.storage.partition_disk(system), "refused")?;
    refused(bench.storage.set_disk_state(system, false), "refused")
}

fn offline_is_not_partitioned(bench: &Bench<'_>) -> Result<(), String> {
    done(bench.storage.set_disk_state(bench.spare.disk, false))?;
    refused(bench.storage.partition_disk(bench.spare.disk), "")?;
    equal(&done(bench.storage.list_volumes_on_disk(bench.spare.disk, None))?.len(), &0)
}

fn goes_offline_and_online(bench: &Bench<'_>) -> Result<(), String> {
    for online in [false, false, true, true] {
        done(bench.storage.set_disk_state(bench.spare.disk, online))?;
        equal(&done(bench.storage.disk_state(bench.spare.disk))?, &online)?;
    }
    Ok(())
}

fn becomes_writable(bench: &Bench<'_>) -> Result<(), String> {
    for offline_first in [true, false] {
        if offline_first {
            done(bench.storage.set_disk_state(bench.spare.disk, false))?;
        }
        done(bench.storage.make_read_only(bench.spare.disk))?;
        equal(&done(bench.storage.is_read_only(bench.spare.disk))?, &true)?;
        done(bench.storage.set_disk_state(bench.spare.disk, true))?;
        equal(&done(bench.storage.is_read_only(bench.spare.disk))?, &false)?;
    }
    Ok(())
}

fn is_partitioned(bench: &Bench<'_>) -> Result<(), String> {
    let mut seen: Option<Vec<VolumeGuid>> = None;
    for _ in 0..2 {
        done(bench.storage.partition_disk(bench.spare.disk))?;
        let volumes = done(bench.storage.list_volumes_on_disk(bench.spare.disk, None))?;
        equal(&volumes.len(), &1)?;
        equal(seen.get_or_insert_with(|| volumes.clone()), &volumes)?;
    }
    *bench.volume.borrow_mut() = seen.and_then(|volumes| volumes.into_iter().next());
    let volume = bench.volume()?;
    equal(&done(bench.storage.disk_number_of_volume(&volume))?, &bench.spare.disk)
}

fn is_formatted(bench: &Bench<'_>) -> Result<(), String> {
    let volume = bench.volume()?;
    equal(&done(bench.storage.is_volume_formatted(&volume))?, &false)?;
    done(bench.storage.format_volume(&volume))?;
    equal(&done(bench.storage.is_volume_formatted(&volume))?, &true)?;
    refused(bench.storage.format_volume(&volume), "is already formatted")?;
    let (stats, size) = (done(bench.storage.volume_stats(&volume))?, done(bench.storage.disk_size(bench.spare.disk))?);
    if stats.total == 0 || stats.total > size || stats.used >= stats.total {
        return Err(format!("unexpected {stats:?} on a disk of {size} bytes"));
    }
    Ok(())
}

fn is_told_unmounted(bench: &Bench<'_>) -> Result<(), String> {
    for _ in 0..2 {
        done(bench.storage.mkdir(&bench.at("stage")))?;
    }
    equal(&done(bench.storage.path_exists(&bench.at("stage")))?, &true)?;
    equal(&done(bench.storage.path_exists(&bench.at("none")))?, &false)?;
    equal(&done(bench.storage.is_symlink(&bench.at("stage")))?, &false)?;
    refused(bench.storage.volume_of_path(&bench.at("stage")), NOT_MOUNTED)?;
    refused(bench.storage.volume_of_path(&bench.at("none")), MISSING)
}

fn is_mounted(bench: &Bench<'_>) -> Result<(), String> {
    for _ in 0..2 {
        done(bench.storage.mount_volume(&bench.volume()?, &bench.at("stage")))?;
    }
    equal(&done(bench.storage.is_symlink(&bench.at("stage")))?, &true)
}

fn is_found(bench: &Bench<'_>) -> Result<(), String> {
    let volume = bench.volume()?;
    equal(&done(bench.storage.volume_of_path(&bench.at("stage")))?.to_string(), &volume)?;
    equal(&done(bench.storage.closest_volume_of_path(&bench.at("stage")))?.to_string(), &volume)?;
    refused(bench.storage.mount_volume(&volume, &bench.spare.directory), "is not empty")
}

fn is_found_through_a_link(bench: &Bench<'_>) -> Result<(), String> {
    for _ in 0..2 {
        done(bench.storage.create_symlink(&bench.at("stage"), &bench.at("link")))?;
    }
    let volume = bench.volume()?;
    equal(&done(bench.storage.is_symlink(&bench.at("link")))?, &true)?;
    equal(&done(bench.storage.volume_of_path(&bench.at("link")))?.to_string(), &volume)?;
    let total = done(bench.storage.volume_stats(&volume))?.total;
    equal(&done(bench.storage.space(&bench.at("link")))?.total, &total)
}

fn links_are_not_followed(bench: &Bench<'_>) -> Result<(), String> {
    done(bench.storage.mkdir(&bench.at("place")))?;
    done(bench.storage.create_symlink(&bench.at("place"), &bench.at("way")))?;
    refused(bench.storage.mkdir(&bench.at(r"way\made")), "is not followed")?;
    refused(bench.storage.path_exists(&bench.at(r"way\made")), "is not followed")?;
    equal(&done(bench.storage.path_exists(&bench.at(r"place\made")))?, &false)
}

fn removal_leaves_the_target(bench: &Bench<'_>) -> Result<(), String> {
    done(bench.storage.mkdir(&bench.at(r"place\inside")))?;
    done(bench.storage.rmdir(&bench.at("way"), true))?;
    done(bench.storage.rmdir(&bench.at("link"), true))?;
    for (path, exists) in [("way", false), ("link", false), (r"place\inside", true)] {
        equal(&done(bench.storage.path_exists(&bench.at(path)))?, &exists)?;
    }
    equal(&done(bench.storage.volume_of_path(&bench.at("stage")))?.to_string(), &bench.volume()?)
}

fn removal_stops_at_mount_points(bench: &Bench<'_>) -> Result<(), String> {
    let volume = bench.volume()?;
    done(bench.storage.mkdir(&bench.at(r"tree\mount")))?;
    done(bench.storage.mkdir(&bench.at(r"tree\more")))?;
    done(bench.storage.mount_volume(&volume, &bench.at(r"tree\mount")))?;
    let used = done(bench.storage.volume_stats(&volume))?.used;
    refused(bench.storage.rmdir(&bench.at("tree"), false), "is not empty")?;
    done(bench.storage.rmdir_contents(&bench.at("tree")))?;
    equal(&done(bench.storage.path_exists(&bench.at(r"tree\mount")))?, &false)?;
    done(bench.storage.rmdir(&bench.at("tree"), false))?;
    equal(&done(bench.storage.volume_stats(&volume))?.used, &used)
}

fn is_grown(bench: &Bench<'_>) -> Result<(), String> {
    let volume = bench.volume()?;
    let first = done(bench.storage.resize_volume(&volume, 0, Duration::from_secs(30)))?;
    equal(&done(bench.storage.resize_volume(&volume, 0, Duration::from_secs(30)))?, &first)?;
    refused(bench.storage.resize_volume(&volume, -1, Duration::ZERO), "invalid negative size -1")
}

fn is_unmounted(bench: &Bench<'_>) -> Result<(), String> {
    let volume = bench.volume()?;
    done(bench.storage.write_volume_cache(&volume))?;
    for _ in 0..2 {
        done(bench.storage.unmount_volume(&volume, &bench.at("stage")))?;
    }
    equal(&done(bench.storage.path_exists(&bench.at("stage")))?, &true)?;
    refused(bench.storage.volume_of_path(&bench.at("stage")), NOT_MOUNTED)
}

fn outside_is_refused(bench: &Bench<'_>) -> Result<(), String> {
    let outside = r"C:\Windows\winstorage-selftest";
    refused(bench.storage.mkdir(outside), "is not within the working directories")?;
    refused(bench.storage.create_symlink(outside, &bench.at("out")), "is not within the working directories")?;
    refused(bench.storage.mount_volume(&bench.volume()?, outside), "is not within the working directories")
}

const ROUNDS: u64 = 4;
const OPERATIONS: usize = 100;

fn follows_the_model(bench: &Bench<'_>) -> Result<(), String> {
    let volume = bench.volume.borrow().clone().ok_or("the disk has no volume")?;
    let path = |place: usize| bench.at(&format!("place-{place}"));
    let ground =
        Ground { storage: bench.storage, disks: &[bench.spare.disk], volume: &|_| Some(volume.clone()), path: &path };
    let disk = Disk { is_online: true, is_partitioned: true, is_formatted: true };
    let mut model = Model { disks: vec![disk], places: [Place::Nothing; PLACES] };
    for seed in 1..=ROUNDS {
        replay(&ground, &mut model, &mut Chance(seed), OPERATIONS)?;
    }
    done(bench.storage.set_disk_state(bench.spare.disk, true))
}

fn is_removed(bench: &Bench<'_>) -> Result<(), String> {
    for _ in 0..2 {
        done(bench.storage.rmdir(&bench.spare.directory, true))?;
    }
    refused(bench.storage.rmdir(&bench.spare.directory, false), MISSING)
}

fn ends_offline(bench: &Bench<'_>) -> Result<(), String> {
    done(bench.storage.set_disk_state(bench.spare.disk, false))?;
    equal(&done(bench.storage.disk_state(bench.spare.disk))?, &false)
}

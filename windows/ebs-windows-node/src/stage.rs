//! NodeStageVolume: finds the disk, brings it online, reads its contents, formats it only if that is proven safe,
//! mounts it, and grows the file system to its disk. A previous call may have completed any of these steps.

use std::time::Duration;

use ebs_driver::status::Meaning;
use ebs_ec2::{Bytes, Waiters};
use winstorage::service::{Contents, Found};
use winstorage::types::{DiskNumber, VolumeGuid};

use crate::disks::{Disks, Owner, ensure_free};
use crate::error::{Cause, NodeRefusal, ensure_wanted};
use crate::growth;
use crate::request::{Stage, device};
use crate::storage::{Role, Seen};

/// Maximum number of times that NodeStageVolume reads the disk while it turns a raw disk into a file system: once after
/// each step (partition, volume, format). If more reads are needed, the steps make no progress.
const LOOKS: usize = 5;
/// How long Windows may take to show the contents of a disk that has gone online. PowerShell's storage modules wait 3
/// to 30 s (dsccommunity/StorageDsc#183).
const SETTLING: Duration = Duration::from_secs(10);
/// How long the state of a disk that cannot be read must stay the same before the driver formats it.
const UNCHANGED: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

pub(crate) fn run(disks: &Disks, plan: &Stage, waiters: &Waiters) -> Result<(), Cause> {
    let storage = &disks.storage;
    let device = device(&plan.attachment);
    match storage.look(&plan.staging.to_string(), Role::Staging)? {
        Found::MountPoint(there) => {
            if let Owner::Other(disk) = disks.owner(&there, &plan.volume, device.as_deref())? {
                return Err(NodeRefusal::OtherMount { found: format!("{there} of disk {disk}") }.into());
            }
        }
        found => ensure_free(&found)?,
    }
    let disk = disks.disk_of(&plan.volume, device.as_deref())?;
    ensure_large_enough(disks, plan, disk)?;
    let was_online = storage.disk_state(disk)?;
    if !was_online {
        ensure_wanted(waiters, "bringing the disk online")?;
    }
    // Bring the disk online first, because an offline disk can be neither partitioned nor read. The same call makes a
    // read-only disk writable.
    storage.set_disk_state(disk, true)?;
    match mounted(disks, plan, disk, waiters) {
        Ok(volume) => {
            growth::after_mount(disks, plan, (disk, &volume), waiters);
            Ok(())
        }
        Err(error) => {
            // Leave the disk online while Windows may still discover its contents.
            if !was_online && error.meaning() != Meaning::Unavailable {
                take_offline(disks, plan, disk);
            }
            Err(error)
        }
    }
}

/// Checks the size of the disk. If it is smaller than in EC2, it is not the whole volume. A larger disk is normal after
/// an expansion.
fn ensure_large_enough(disks: &Disks, plan: &Stage, disk: DiskNumber) -> Result<(), Cause> {
    let Some(promised) = plan.attachment.size else { return Ok(()) };
    let found = Bytes(disks.storage.disk_size(disk)?);
    if found < promised.bytes() { Err(NodeRefusal::TooSmall { found, promised }.into()) } else { Ok(()) }
}

fn mounted(disks: &Disks, plan: &Stage, disk: DiskNumber, waiters: &Waiters) -> Result<VolumeGuid, Cause> {
    let (storage, path) = (&disks.storage, plan.staging.to_string());
    let volume = format_if_blank(disks, plan, disk, waiters)?;
    match storage.look(&path, Role::Staging)? {
        Found::MountPoint(there) if there == volume => return Ok(volume),
        Found::MountPoint(there) => match disks.owner(&there, &plan.volume, device(&plan.attachment).as_deref())? {
            // The disk was detached or is offline, so the mount point leads to no volume.
            Owner::Vanished => {
                ensure_wanted(waiters, "removing a stale mount point")?;
                tracing::warn!(volume = %plan.volume, path, mounted = %there, "removing the mount point of a missing volume");
                storage.rmdir(&path, false)?;
            }
            Owner::Volume(disk) | Owner::Other(disk) => {
                return Err(NodeRefusal::OtherMount { found: format!("{there} of disk {disk}") }.into());
            }
        },
        found => ensure_free(&found)?,
    }
    ensure_wanted(waiters, "mounting")?;
    disks.ensure_unchanged(disk, &plan.volume, device(&plan.attachment).as_deref())?;
    storage.mkdir(&path)?;
    storage.mount_volume(&volume.to_string(), &path)?;
    tracing::debug!(volume = %plan.volume, %disk, path, "staged");
    Ok(volume)
}

fn format_if_blank(disks: &Disks, plan: &Stage, disk: DiskNumber, waiters: &Waiters) -> Result<VolumeGuid, Cause> {
    let storage = &disks.storage;
    for _ in 0..LOOKS {
        match settled_contents(disks, plan, disk)? {
            Contents::FileSystem(volume) => return Ok(volume),
            Contents::Blank => {
                may_write(disks, plan, disk, waiters)?;
                storage.partition_disk(disk)?;
            }
            // Write nothing: only bring online the partition that a previous call created.
            Contents::Offline => {
                ensure_wanted(waiters, "bringing a partition online")?;
                disks.ensure_unchanged(disk, &plan.volume, device(&plan.attachment).as_deref())?;
                storage.partition_disk(disk)?;
            }
            Contents::BlankVolume(volume) => {
                may_write(disks, plan, disk, waiters)?;
                tracing::info!(volume = %plan.volume, %disk, "formatting as NTFS");
                storage.format_volume(&volume.to_string())?;
            }
            Contents::Coming => return Err(NodeRefusal::VolumeNotShown { disk }.into()),
            Contents::Foreign(contents) => return Err(NodeRefusal::NotBlank { contents }.into()),
        }
    }
    Err(NodeRefusal::VolumeNotShown { disk }.into())
}

/// Waits until Windows shows all contents of the disk, and returns them. Partitions, volumes and file systems appear
/// some time after a disk goes online or is partitioned. Until then, a disk with data may look like a disk with unknown
/// contents, or like a blank one if no call can read it.
fn settled_contents(disks: &Disks, plan: &Stage, disk: DiskNumber) -> Result<Contents, Cause> {
    let storage = &disks.storage;
    let (mut waited, mut pause) = (Duration::ZERO, FIRST_PAUSE);
    let mut unread: Option<(Contents, Duration)> = None;
    loop {
        let is_late = waited >= SETTLING;
        match storage.disk_contents(disk, plan.volume.as_str())? {
            Seen::Read(Contents::Coming | Contents::Foreign(_)) if !is_late => {}
            Seen::Read(contents) => return Ok(contents),
            Seen::Unread { may_format: false, .. } if !is_late => {}
            Seen::Unread { may_format: false, .. } => return Err(NodeRefusal::NotProvenBlank { disk }.into()),
            Seen::Unread { contents, may_format: true } => {
                let since = unread.filter(|(before, _)| *before == contents).map_or(waited, |(_, since)| since);
                if waited - since >= UNCHANGED {
                    return Ok(contents);
                }
                if is_late {
                    return Err(NodeRefusal::VolumeNotShown { disk }.into());
                }
                unread = Some((contents, since));
            }
        }
        storage.pause(pause);
        waited += pause;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Checks that the driver may write to a blank disk: the volume was created empty, and the disk still belongs to the
/// volume.
fn may_write(disks: &Disks, plan: &Stage, disk: DiskNumber, waiters: &Waiters) -> Result<(), Cause> {
    if let Some(origin) = plan.attachment.restored_from().filter(|_| !plan.may_format_restored) {
        return Err(NodeRefusal::BlankRestore { origin: origin.clone() }.into());
    }
    ensure_wanted(waiters, "formatting")?;
    disks.ensure_unchanged(disk, &plan.volume, device(&plan.attachment).as_deref())
}

/// Takes a disk offline that this call has brought online but not mounted, because EC2 may detach it next.
fn take_offline(disks: &Disks, plan: &Stage, disk: DiskNumber) {
    let offline = || {
        let is_mounted = disks.volume_at(&plan.staging.to_string())?.is_some();
        if !is_mounted && disks.present(&plan.volume, device(&plan.attachment).as_deref())? == Some(disk) {
            disks.storage.set_disk_state(disk, false)?;
        }
        Ok::<(), Cause>(())
    };
    if let Err(error) = offline() {
        tracing::warn!(volume = %plan.volume, %disk, error = ebs_driver::status::chain(&error), "keeping the disk online after a failure");
    }
}

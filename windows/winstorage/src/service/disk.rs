//! Disks.

use std::collections::BTreeMap;

use tracing::warn;

use super::ACCESS_PATH_IN_USE;
use crate::host::{Disk, DiskRow, Partition, PartitionKind, PartitionStyle};
use crate::types::{DiskIds, DiskLocation, DiskNumber};
use crate::{Storage, StorageError, locate, page83};

impl Storage {
    /// Returns the location of every disk. Omits disks whose location Windows does not report.
    pub fn list_disk_locations(&self) -> Result<BTreeMap<DiskNumber, DiskLocation>, StorageError> {
        let disks = self.host.disk_locations()?;
        let place = |(disk, text): (DiskNumber, String)| Some((disk, locate::location(&text)?));
        Ok(disks.into_iter().filter_map(place).collect())
    }

    /// Returns the identifiers of every disk, by the number that the device itself reports. If a query of a disk fails,
    /// its entry is incomplete. If its number is missing, the disk is omitted with a warning. So one odd disk never
    /// hides the others.
    pub fn list_disk_ids(&self) -> Result<BTreeMap<DiskNumber, DiskIds>, StorageError> {
        let mut all = BTreeMap::new();
        for DiskRow { device, serial } in self.host.disks()? {
            let number = match self.host.native().device_number(&device) {
                Ok(number) => number,
                Err(error) => {
                    warn!(device, %error, "skipping a disk without a number");
                    continue;
                }
            };
            let page83 = match self.host.native().device_ids(&device) {
                Ok(descriptor) => page83::identifier(&descriptor),
                Err(error) => {
                    warn!(disk = %number, %error, "failed to read the identifiers of a disk");
                    String::new()
                }
            };
            all.insert(number, DiskIds { page83, serial_number: serial });
        }
        Ok(all)
    }

    pub fn disk_number_by_name(&self, name: &str) -> Result<DiskNumber, StorageError> {
        let mut disks = self.list_disk_ids()?.into_iter();
        let found = disks.find(|(_, ids)| !name.is_empty() && ids.page83 == name);
        found.map(|(disk, _)| disk).ok_or_else(|| StorageError::NoPage83(name.to_owned()))
    }

    /// Creates a GPT with one basic-data partition on a blank disk. Leaves a disk with partitions unchanged. Unless
    /// `--allow-reformat` is set, writes only if the bytes of the disk prove that the disk is blank. A repeated call
    /// continues an interrupted one.
    pub fn partition_disk(&self, number: DiskNumber) -> Result<(), StorageError> {
        let _held = self.hold(number, "PartitionDisk")?;
        let disk = self.changeable_disk("PartitionDisk", number)?;
        if let Some(partition) = self.first_partition(number)? {
            // Bring a partition online only if an interrupted call of this operation left it behind.
            if partition.is_offline && partition.kind == PartitionKind::Data {
                self.host.online_partition(&partition)?;
            }
            return Ok(());
        }
        self.prove_blank_disk("PartitionDisk", &disk)?;
        if disk.style == PartitionStyle::Raw {
            self.host.initialize_gpt(&disk)?;
        }
        match self.host.create_data_partition(&disk) {
            Err(error) if error.is_method(ACCESS_PATH_IN_USE) => {}
            created => created?,
        }
        self.host.refresh_disk(&disk)?;
        let partition = self.first_partition(number)?.ok_or(StorageError::NoPartition(number))?;
        Ok(self.host.online_partition(&partition)?)
    }

    pub fn rescan(&self) -> Result<(), StorageError> {
        Ok(self.host.rescan()?)
    }

    pub fn disk_size(&self, number: DiskNumber) -> Result<u64, StorageError> {
        Ok(self.host.disk(number)?.ok_or(StorageError::DiskNotFound(number))?.size)
    }

    /// Brings the disk online and makes it writable, or takes it offline. Does nothing if the disk is already in that
    /// state.
    ///
    /// Windows makes a disk read-only if its SAN policy keeps the disk offline, or if the disk's signature collides
    /// with another disk's signature. In the second case, the disk goes online only after the attribute is cleared
    /// (kubernetes-csi/csi-proxy#287, #437).
    pub fn set_disk_state(&self, number: DiskNumber, online: bool) -> Result<(), StorageError> {
        let _held = self.hold(number, if online { "SetDiskState(online)" } else { "SetDiskState(offline)" })?;
        if online {
            return self.bring_online(number);
        }
        let disk = self.changeable_disk("SetDiskState(offline)", number)?;
        if disk.is_offline { Ok(()) } else { Ok(self.host.set_online(&disk, false)?) }
    }

    fn bring_online(&self, number: DiskNumber) -> Result<(), StorageError> {
        let disk = self.host.disk(number)?.ok_or(StorageError::DiskNotFound(number))?;
        self.make_writable(&disk)?;
        if !disk.is_offline {
            return Ok(());
        }
        let reason = disk.offline_reason;
        let failed = |cause| StorageError::NotOnline { disk: number, reason, cause };
        self.host.set_online(&disk, true).map_err(failed)?;
        // Windows may have set the read-only attribute while the disk went online.
        self.make_writable(&self.host.disk(number)?.ok_or(StorageError::DiskNotFound(number))?)
    }

    pub(super) fn make_writable(&self, disk: &Disk) -> Result<(), StorageError> {
        if disk.is_read_only {
            warn!(disk = %disk.number, "clearing the read-only attribute that Windows has set");
            self.host.set_disk_read_only(disk, false)?;
        }
        Ok(())
    }

    pub fn disk_state(&self, number: DiskNumber) -> Result<bool, StorageError> {
        Ok(!self.host.disk(number)?.ok_or(StorageError::DiskNotFound(number))?.is_offline)
    }

    /// Returns the first partition that is not Microsoft Reserved. Does not filter in the query: partitions of an MBR
    /// disk have no such type, so a condition would match none of them.
    fn first_partition(&self, number: DiskNumber) -> Result<Option<Partition>, StorageError> {
        let partitions = self.host.partitions(number, None)?;
        Ok(partitions.into_iter().find(|partition| partition.kind != PartitionKind::Reserved))
    }
}

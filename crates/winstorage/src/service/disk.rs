//! Disks.

use std::collections::BTreeMap;

use tracing::warn;

use super::ACCESS_PATH_IN_USE;
use crate::host::{Disk, DiskRow, Partition, PartitionKind, PartitionStyle};
use crate::locate::{DiskSearch, Look};
use crate::types::{DiskIds, DiskLocation, DiskNumber};
use crate::{Storage, StorageError, locate, page83};

impl Storage {
    /// Where every disk is; without those of which Windows says no place.
    ///
    /// # Errors
    /// The host failed.
    pub fn list_disk_locations(&self) -> Result<BTreeMap<DiskNumber, DiskLocation>, StorageError> {
        let disks = self.host.disk_locations()?;
        let place = |(disk, text): (DiskNumber, String)| Some((disk, locate::location(&text)?));
        Ok(disks.into_iter().filter_map(place).collect())
    }

    /// What every disk says it is, under the number that the device itself tells. A disk that cannot be asked is in it with less, or,
    /// without a number, is left out with a warning: one odd disk never hides the others.
    ///
    /// # Errors
    /// The list of disks failed.
    pub fn list_disk_ids(&self) -> Result<BTreeMap<DiskNumber, DiskIds>, StorageError> {
        let mut all = BTreeMap::new();
        for DiskRow { device, serial } in self.host.disks()? {
            let number = match self.host.device_number(&device) {
                Ok(number) => number,
                Err(error) => {
                    warn!(device, %error, "a disk that does not tell its number is left out");
                    continue;
                }
            };
            let page83 = match self.host.device_ids(&device) {
                Ok(descriptor) => page83::identifier(&descriptor),
                Err(error) => {
                    warn!(disk = %number, %error, "a disk does not tell its identifiers");
                    String::new()
                }
            };
            all.insert(number, DiskIds { page83, serial_number: serial });
        }
        Ok(all)
    }

    /// The disk whose page 83 says `name`.
    ///
    /// # Errors
    /// There is none, or the list of disks failed.
    pub fn disk_number_by_name(&self, name: &str) -> Result<DiskNumber, StorageError> {
        let mut disks = self.list_disk_ids()?.into_iter();
        let found = disks.find(|(_, ids)| !name.is_empty() && ids.page83 == name);
        found.map(|(disk, _)| disk).ok_or_else(|| StorageError::NoPage83(name.to_owned()))
    }

    /// The disk of the EBS volume `volume` (`vol-…`), which EC2 has attached as `device`; a late one is waited for, for some seconds.
    ///
    /// # Errors
    /// No disk names the volume, or several do, or the host failed.
    pub fn disk_of_ebs_volume(&self, volume: &str, device: &str) -> Result<DiskNumber, StorageError> {
        let mut search = DiskSearch::new(volume, device);
        loop {
            // Only disks without a serial number of EBS are told by their place.
            let places = self.list_disk_locations().unwrap_or_else(|error| {
                warn!(%error, "disks do not tell their places");
                BTreeMap::new()
            });
            match search.look(&self.list_disk_ids()?, &places)? {
                Look::Found(disk) => return Ok(disk),
                Look::RescanAndWait(time) => {
                    if let Err(error) = self.rescan() {
                        warn!(%error, "the rescan for a disk failed");
                    }
                    self.host.pause(time);
                }
            }
        }
    }

    /// As [`Self::disk_of_ebs_volume`], of the disks that there are now: nothing is waited for.
    ///
    /// # Errors
    /// Several disks name the volume, or the host failed.
    pub fn present_disk_of_ebs_volume(&self, volume: &str, device: &str) -> Result<Option<DiskNumber>, StorageError> {
        let places = self.list_disk_locations().unwrap_or_else(|error| {
            warn!(%error, "disks do not tell their places");
            BTreeMap::new()
        });
        match DiskSearch::new(volume, device).look(&self.list_disk_ids()?, &places)? {
            Look::Found(disk) => Ok(Some(disk)),
            Look::RescanAndWait(_) => Ok(None),
        }
    }

    /// Gives a blank disk a GPT with one basic-data partition. A disk that has a partition stays as it is. That the disk is blank is proven
    /// here, from its bytes, unless `--allow-reformat` is given.
    ///
    /// # Errors
    /// The disk is not there, offline, not blank or Windows' own, or the host failed; asking again goes on from there.
    pub fn partition_disk(&self, number: DiskNumber) -> Result<(), StorageError> {
        let _held = self.hold(number, "PartitionDisk")?;
        let disk = self.changeable_disk("PartitionDisk", number)?;
        if let Some(partition) = self.first_partition(number)? {
            // Only what an interrupted call of this kind has left behind.
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

    /// Looks for disks that came, went or grew.
    ///
    /// # Errors
    /// The host failed.
    pub fn rescan(&self) -> Result<(), StorageError> {
        Ok(self.host.rescan()?)
    }

    /// Bytes of the disk.
    ///
    /// # Errors
    /// The disk is not there, or the host failed.
    pub fn disk_size(&self, number: DiskNumber) -> Result<u64, StorageError> {
        Ok(self.host.disk(number)?.ok_or(StorageError::DiskNotFound(number))?.size)
    }

    /// Brings the disk online and makes it writable, or takes it offline; what is so already is left alone.
    ///
    /// Windows makes disks read-only that its SAN policy keeps offline, and disks whose signature collides with another disk's. The latter go
    /// online only after the attribute was cleared (kubernetes-csi/csi-proxy#287, #437).
    ///
    /// # Errors
    /// The disk is not there, is to go offline and Windows' own, or the host failed.
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
        // Windows may have set the attribute while the disk went online.
        self.make_writable(&self.host.disk(number)?.ok_or(StorageError::DiskNotFound(number))?)
    }

    /// Clears the attribute that keeps Windows from writing.
    pub(super) fn make_writable(&self, disk: &Disk) -> Result<(), StorageError> {
        if disk.is_read_only {
            warn!(disk = %disk.number, "Windows has made the disk read-only; the attribute is cleared");
            self.host.set_disk_read_only(disk, false)?;
        }
        Ok(())
    }

    /// True where the disk is online.
    ///
    /// # Errors
    /// The disk is not there, or the host failed.
    pub fn disk_state(&self, number: DiskNumber) -> Result<bool, StorageError> {
        Ok(!self.host.disk(number)?.ok_or(StorageError::DiskNotFound(number))?.is_offline)
    }

    /// The first partition that is not Microsoft Reserved; told apart here and not by the query, which compares nothing with the
    /// missing types of an MBR disk and then sees none.
    fn first_partition(&self, number: DiskNumber) -> Result<Option<Partition>, StorageError> {
        let partitions = self.host.partitions(number, None)?;
        Ok(partitions.into_iter().find(|partition| partition.kind != PartitionKind::Reserved))
    }
}

//! Disks and partitions.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{FakeHost, State};
use crate::host::{
    Answer, Disk, DiskHost, DiskRow, HostError, ObjectPath, OfflineReason, Partition, PartitionKind, PartitionStyle,
    code,
};
use crate::types::{DiskNumber, PartitionNumber, VolumeGuid};

pub(super) const MIB: u64 = 1 << 20;
/// Bytes that GPT and alignment use at both ends of a disk.
const OVERHEAD: u64 = 2 * MIB;
pub(super) const RESERVED: u64 = 16 * MIB;
/// Offset of a GPT from either end, in bytes.
const SECTOR: u64 = 512;

pub(super) mod result {
    pub(in super::super) const NOT_INITIALIZED: u32 = 41000;
    pub(in super::super) const ALREADY_INITIALIZED: u32 = 41001;
    pub(in super::super) const READ_ONLY: u32 = 41002;
    pub(in super::super) const OFFLINE: u32 = 41003;
    pub(in super::super) const NO_SPACE: u32 = 40000;
    pub(in super::super) const FAILED: u32 = 4;
    pub(in super::super) const INVALID_PARAMETER: u32 = 5;
}

/// What Windows can show with a delay after a disk has gone online.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// Its partitions, and everything on them.
    Partitions,
    Volumes,
    FileSystems,
}

#[derive(Debug, Clone)]
pub(super) struct FakeDisk {
    pub(super) serial: String,
    pub(super) page83: String,
    pub(super) location: String,
    pub(super) style: PartitionStyle,
    pub(super) is_online: bool,
    pub(super) size: u64,
    pub(super) is_boot: bool,
    pub(super) is_system: bool,
    pub(super) is_read_only: bool,
    /// It has the signature of another disk, so it goes online only when it is writable.
    pub(super) collides: bool,
    /// What Windows shows only this long after the disk has gone online.
    pub(super) late: Option<(Late, Duration)>,
    /// When it went online, by the clock of the machine.
    pub(super) online_since: Duration,
    pub(super) partitions: Vec<FakePartition>,
    /// Nonzero bytes, by offset.
    pub(super) content: BTreeMap<u64, Vec<u8>>,
}

#[derive(Debug, Clone)]
pub(super) struct FakePartition {
    pub(super) number: u32,
    pub(super) kind: PartitionKind,
    pub(super) size: u64,
    pub(super) is_offline: bool,
    pub(super) letter: Option<char>,
    pub(super) volume: Option<VolumeGuid>,
}

#[derive(Debug, Clone)]
pub(super) struct FakeVolume {
    pub(super) id: VolumeGuid,
    pub(super) is_formatted: bool,
    pub(super) size: u64,
    pub(super) used: u64,
    pub(super) formats: usize,
}

#[derive(Debug, Default)]
pub(super) struct Disks {
    pub(super) disks: BTreeMap<u32, FakeDisk>,
    pub(super) volumes: Vec<FakeVolume>,
    /// Disks that the next rescan finds.
    pub(super) arriving: BTreeMap<u32, FakeDisk>,
    pub(super) away: Vec<FakeDisk>,
    pub(super) now: Duration,
    next_volume: u64,
}

impl FakeHost {
    /// Attaches an empty disk of `size` bytes, online or offline. It is visible at once.
    pub fn add_disk(&self, number: u32, serial: &str, size: u64, online: bool) {
        self.state().disks.disks.insert(number, FakeDisk::raw(serial, size, online));
    }

    /// Attaches a disk that only a rescan finds.
    pub fn add_arriving_disk(&self, number: u32, serial: &str, size: u64) {
        self.state().disks.arriving.insert(number, FakeDisk::raw(serial, size, false));
    }

    /// Detaches a disk, without notice.
    pub fn remove_disk(&self, number: u32) {
        self.state().disks.disks.remove(&number);
    }

    pub fn set_disk_size(&self, number: u32, size: u64) {
        if let Some(disk) = self.state().disks.disks.get_mut(&number) {
            disk.size = size;
        }
    }

    pub fn set_drive_letter(&self, number: u32, letter: char) {
        let mut state = self.state();
        let partition = state.disks.disks.get_mut(&number).and_then(|disk| disk.partitions.last_mut());
        if let Some(partition) = partition {
            partition.letter = Some(letter);
        }
    }

    /// Makes the disk read-only. A disk that `collides` with another one refuses to go online while it is read-only.
    pub fn set_read_only(&self, number: u32, collides: bool) {
        if let Some(disk) = self.state().disks.disks.get_mut(&number) {
            (disk.is_read_only, disk.collides) = (true, collides);
        }
    }

    /// Returns whether the disk is attached and read-only.
    pub fn is_read_only(&self, number: u32) -> bool {
        self.state().disks.disks.get(&number).is_some_and(|disk| disk.is_read_only)
    }

    pub fn show_late(&self, number: u32, what: Late, after: Duration) {
        if let Some(disk) = self.state().disks.disks.get_mut(&number) {
            disk.late = Some((what, after));
        }
    }

    pub fn is_online(&self, number: u32) -> bool {
        self.state().disks.disks.get(&number).is_some_and(|disk| disk.is_online)
    }

    /// Returns the volumes of a disk, also those that Windows does not show.
    pub fn volumes_of(&self, number: u32) -> Vec<VolumeGuid> {
        let state = self.state();
        let partitions = state.disks.disks.get(&number).into_iter().flat_map(|disk| &disk.partitions);
        partitions.filter_map(|partition| partition.volume.clone()).collect()
    }

    pub fn formats(&self, volume: &VolumeGuid) -> usize {
        self.state().disks.volume(volume).map_or(0, |volume| volume.formats)
    }

    /// Makes the volume formatted from the start, with `used` bytes in use.
    pub fn set_formatted(&self, volume: &VolumeGuid, used: u64) {
        if let Some(volume) = self.state().disks.volumes.iter_mut().find(|known| known.id == *volume) {
            (volume.is_formatted, volume.used) = (true, used);
        }
    }
}

impl FakeDisk {
    pub(super) fn raw(serial: &str, size: u64, is_online: bool) -> Self {
        Self {
            serial: serial.to_owned(),
            page83: String::new(),
            location: String::new(),
            style: PartitionStyle::Raw,
            is_online,
            size,
            is_boot: false,
            is_system: false,
            is_read_only: false,
            collides: false,
            late: None,
            online_since: Duration::ZERO,
            partitions: Vec::new(),
            content: BTreeMap::new(),
        }
    }

    /// Returns whether this part of the disk is still hidden at `now`.
    pub(super) fn hides(&self, what: Late, now: Duration) -> bool {
        self.late.is_some_and(|(late, after)| late == what && now < self.online_since + after)
    }

    fn free(&self) -> u64 {
        let used: u64 = self.partitions.iter().map(|partition| partition.size).sum();
        self.size.saturating_sub(used + OVERHEAD)
    }
}

impl Disks {
    pub(super) fn volume(&self, id: &VolumeGuid) -> Option<&FakeVolume> {
        self.volumes.iter().find(|volume| volume.id == *id)
    }

    pub(super) fn new_volume(&mut self, size: u64) -> VolumeGuid {
        self.next_volume += 1;
        let text = format!(r"\\?\Volume{{00000000-0000-4000-8000-{:012x}}}\", self.next_volume);
        let id = VolumeGuid::parse(&text).expect("a GUID by construction");
        self.volumes.push(FakeVolume { id: id.clone(), is_formatted: false, size, used: 0, formats: 0 });
        id
    }

    /// Returns the partitions that hold a volume, with their disks. Only disks that are online and show their volumes
    /// count.
    pub(super) fn holders(&self, id: &VolumeGuid) -> Vec<(u32, &FakePartition)> {
        let shows = |disk: &FakeDisk| ![Late::Partitions, Late::Volumes].iter().any(|late| disk.hides(*late, self.now));
        let online = self.disks.iter().filter(|(_, disk)| disk.is_online && shows(disk));
        let all = online.flat_map(|(number, disk)| disk.partitions.iter().map(move |partition| (*number, partition)));
        all.filter(|(_, partition)| partition.volume.as_ref() == Some(id) && !partition.is_offline).collect()
    }

    /// Returns the disk that holds a volume, also if Windows does not show the volume.
    pub(super) fn disk_of(&self, id: &VolumeGuid) -> Option<&FakeDisk> {
        let holds = |disk: &&FakeDisk| disk.partitions.iter().any(|partition| partition.volume.as_ref() == Some(id));
        self.disks.values().find(holds)
    }

    pub(super) fn is_visible(&self, id: &VolumeGuid) -> bool {
        !self.holders(id).is_empty()
    }

    fn disk_mut(&mut self, step: &'static str, disk: &Disk) -> Result<&mut FakeDisk, HostError> {
        let gone = || HostError { step, object: format!("disk {}", disk.number), answer: Answer::Com(0x8004_1002) };
        self.disks.get_mut(&disk.number.0).ok_or_else(gone)
    }

    pub(super) fn partition_mut(
        &mut self,
        step: &'static str,
        of: &Partition,
    ) -> Result<(&mut FakePartition, u64), HostError> {
        let gone = || HostError { step, object: of.object.to_string(), answer: Answer::Com(0x8004_1002) };
        let disk = self.disks.get_mut(&of.disk.0).ok_or_else(gone)?;
        let free = disk.free();
        let partition = disk.partitions.iter_mut().find(|partition| partition.number == of.number.get());
        Ok((partition.ok_or_else(gone)?, free))
    }

    pub(super) fn shown(&self, disk: u32, partition: &FakePartition) -> Partition {
        let (is_boot, is_system) = self.disks.get(&disk).map_or((false, false), |disk| (disk.is_boot, disk.is_system));
        Partition {
            object: ObjectPath(format!("disk {disk} partition {}", partition.number)),
            disk: DiskNumber(disk),
            number: PartitionNumber::new(partition.number).expect("partitions are numbered from 1"),
            kind: partition.kind,
            size: partition.size,
            is_offline: partition.is_offline,
            is_boot: is_boot && partition.letter.is_some(),
            is_system: is_system && partition.letter.is_some(),
            drive_letter: partition.letter,
        }
    }
}

fn named(disk: &Disk) -> String {
    format!("disk {}", disk.number)
}

pub(super) fn place(partition: &Partition) -> String {
    partition.object.to_string()
}

impl DiskHost for FakeHost {
    fn disk_locations(&self) -> Result<Vec<(DiskNumber, String)>, HostError> {
        self.step("disk_locations", "all", |state| {
            let all = state.disks.disks.iter();
            Ok(all.map(|(number, disk)| (DiskNumber(*number), disk.location.clone())).collect())
        })
    }

    fn disks(&self) -> Result<Vec<DiskRow>, HostError> {
        self.step("disks", "all", |state| {
            let all = state.disks.disks.iter();
            Ok(all.map(|(number, disk)| DiskRow { device: device(*number), serial: disk.serial.clone() }).collect())
        })
    }

    fn disk(&self, number: DiskNumber) -> Result<Option<Disk>, HostError> {
        self.step("disk", &format!("disk {number}"), |state| {
            Ok(state.disks.disks.get(&number.0).map(|disk| Disk {
                object: ObjectPath(format!("disk {number}")),
                number,
                style: disk.style,
                serial: disk.serial.clone(),
                is_offline: !disk.is_online,
                offline_reason: disk.collides.then_some(OfflineReason(4)).filter(|_| !disk.is_online),
                is_read_only: disk.is_read_only,
                size: disk.size,
                is_boot: disk.is_boot,
                is_system: disk.is_system,
            }))
        })
    }

    fn system_disk(&self) -> Result<Option<DiskNumber>, HostError> {
        self.step("system_disk", "all", |state| {
            let holds = |disk: &FakeDisk| disk.partitions.iter().any(|partition| partition.letter == Some('C'));
            Ok(state.disks.disks.iter().find(|(_, disk)| holds(disk)).map(|(number, _)| DiskNumber(*number)))
        })
    }

    fn rescan(&self) -> Result<(), HostError> {
        self.step("rescan", "all", |state| {
            let arrived = std::mem::take(&mut state.disks.arriving);
            state.disks.disks.extend(arrived);
            Ok(())
        })
    }

    fn initialize_gpt(&self, of: &Disk) -> Result<(), HostError> {
        self.step("initialize_gpt", &named(of), |state| {
            let refuse = |code| Err(HostError::method("initialize_gpt", named(of), code));
            let disk = state.disks.disk_mut("initialize_gpt", of)?;
            if !disk.is_online {
                return refuse(result::OFFLINE);
            }
            if disk.is_read_only {
                return refuse(result::READ_ONLY);
            }
            if disk.style != PartitionStyle::Raw {
                return refuse(result::ALREADY_INITIALIZED);
            }
            disk.style = PartitionStyle::Gpt;
            let tables = [SECTOR, disk.size.saturating_sub(SECTOR)];
            disk.content.extend(tables.map(|at| (at, b"EFI PART".to_vec())));
            disk.partitions = vec![FakePartition {
                number: 1,
                kind: PartitionKind::Reserved,
                size: RESERVED,
                is_offline: false,
                letter: None,
                volume: None,
            }];
            Ok(())
        })
    }

    fn create_data_partition(&self, of: &Disk) -> Result<(), HostError> {
        self.step("create_data_partition", &named(of), |state| {
            let refuse = |code| Err(HostError::method("create_data_partition", named(of), code));
            let disk = state.disks.disk_mut("create_data_partition", of)?;
            let size = disk.free();
            match disk.style {
                _ if !disk.is_online => return refuse(result::OFFLINE),
                _ if disk.is_read_only => return refuse(result::READ_ONLY),
                PartitionStyle::Raw => return refuse(result::NOT_INITIALIZED),
                PartitionStyle::Mbr => return refuse(result::INVALID_PARAMETER),
                PartitionStyle::Gpt if size == 0 => return refuse(result::NO_SPACE),
                PartitionStyle::Gpt => {}
            }
            let number = disk.partitions.iter().map(|partition| partition.number).max().unwrap_or(0) + 1;
            let volume = Some(state.disks.new_volume(size));
            let kind = PartitionKind::Data;
            let made = FakePartition { number, kind, size, is_offline: true, letter: None, volume };
            state.disks.disk_mut("create_data_partition", of)?.partitions.push(made);
            Ok(())
        })
    }

    fn refresh_disk(&self, of: &Disk) -> Result<(), HostError> {
        self.step("refresh_disk", &named(of), |state| state.disks.disk_mut("refresh_disk", of).map(drop))
    }

    fn set_online(&self, of: &Disk, online: bool) -> Result<(), HostError> {
        self.step("set_online", &format!("{} {online}", named(of)), |state| {
            let now = state.disks.now;
            let disk = state.disks.disk_mut("set_online", of)?;
            if online && disk.is_read_only && disk.collides {
                return Err(HostError::method("set_online", named(of), result::READ_ONLY));
            }
            (disk.is_online, disk.online_since) = (online, now);
            Ok(())
        })
    }

    fn set_disk_read_only(&self, of: &Disk, read_only: bool) -> Result<(), HostError> {
        self.step("set_disk_read_only", &format!("{} {read_only}", named(of)), |state| {
            state.disks.disk_mut("set_disk_read_only", of)?.is_read_only = read_only;
            Ok(())
        })
    }

    fn partitions(&self, disk: DiskNumber, number: Option<PartitionNumber>) -> Result<Vec<Partition>, HostError> {
        self.step("partitions", &format!("disk {disk}"), |state| {
            let shows = |disk: &&FakeDisk| !disk.hides(Late::Partitions, state.disks.now);
            let all = state.disks.disks.get(&disk.0).filter(shows).into_iter().flat_map(|disk| &disk.partitions);
            let wanted = all.filter(|partition| number.is_none_or(|number| number.get() == partition.number));
            Ok(wanted.map(|partition| state.disks.shown(disk.0, partition)).collect())
        })
    }

    fn online_partition(&self, partition: &Partition) -> Result<(), HostError> {
        self.step("online_partition", &place(partition), |state| {
            state.disks.partition_mut("online_partition", partition)?.0.is_offline = false;
            Ok(())
        })
    }

    fn largest_size(&self, partition: &Partition) -> Result<u64, HostError> {
        self.step("largest_size", &place(partition), |state| {
            let (partition, free) = state.disks.partition_mut("largest_size", partition)?;
            Ok(partition.size + free)
        })
    }

    fn resize_partition(&self, of: &Partition, size: u64) -> Result<(), HostError> {
        self.step("resize_partition", &format!("{} {size}", place(of)), |state| {
            if state.disks.disks.get(&of.disk.0).is_some_and(|disk| disk.is_read_only) {
                return Err(HostError::method("resize_partition", place(of), result::READ_ONLY));
            }
            let (partition, free) = state.disks.partition_mut("resize_partition", of)?;
            if size < partition.size || size - partition.size > free {
                return Err(HostError::method("resize_partition", place(of), result::INVALID_PARAMETER));
            }
            partition.size = size;
            let id = partition.volume.clone();
            if let Some(volume) = state.disks.volumes.iter_mut().find(|volume| Some(&volume.id) == id.as_ref()) {
                volume.size = size;
            }
            Ok(())
        })
    }
}

fn device(number: u32) -> String {
    format!(r"\\?\fake#disk{number}")
}

pub(super) fn by_device<'a>(state: &'a State, step: &'static str, name: &str) -> Result<(DiskNumber, &'a FakeDisk), HostError> {
    let found = state.disks.disks.iter().find(|(number, _)| device(**number) == name);
    let (number, disk) = found.ok_or_else(|| HostError::win32(step, name, code::FILE_NOT_FOUND))?;
    Ok((DiskNumber(*number), disk))
}

/// Builds a device id descriptor with one identifier, binary if the text is hex, else ASCII. An empty text makes a
/// descriptor without identifiers.
pub(super) fn descriptor(page83: &str) -> Vec<u8> {
    let (code_set, bytes) = match hex::decode(page83) {
        Ok(bytes) => (1_u32, bytes),
        Err(_) => (2, page83.as_bytes().to_vec()),
    };
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    let count = u32::from(!bytes.is_empty());
    let mut all = [16_u32.to_le_bytes(), (28 + u32::from(length)).to_le_bytes(), count.to_le_bytes()].concat();
    all.extend(code_set.to_le_bytes());
    all.extend(3_u32.to_le_bytes());
    all.extend(length.to_le_bytes());
    all.extend(0_u16.to_le_bytes());
    all.extend(0_u32.to_le_bytes());
    all.extend(bytes);
    all
}

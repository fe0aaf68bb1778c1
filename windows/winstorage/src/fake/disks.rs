//! Disks and partitions of the fake machine.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::{FakeHost, State};
use crate::host::{
    Answer, Disk, DiskHost, DiskRow, HostError, ObjectPath, OfflineReason, Partition, PartitionKind, PartitionStyle,
    code,
};
use crate::types::{DiskNumber, PartitionNumber, VolumeGuid};

pub(super) const MIB: u64 = 1 << 20;
/// Total number of bytes that GPT and alignment use at both ends of a disk.
const OVERHEAD: u64 = 2 * MIB;
pub(super) const RESERVED: u64 = 16 * MIB;
/// Distance in bytes of a GPT from the start and from the end of the disk.
const SECTOR: u64 = 512;
/// WMI's error for an object that does not exist.
const GONE: Answer = Answer::Com(0x8004_1002);

mod result {
    pub(super) const FAILED: u32 = 4;
    pub(super) const INVALID_PARAMETER: u32 = 5;
    pub(super) const NO_SPACE: u32 = 40000;
    pub(super) const NOT_INITIALIZED: u32 = 41000;
    pub(super) const ALREADY_INITIALIZED: u32 = 41001;
    pub(super) const READ_ONLY: u32 = 41002;
    pub(super) const OFFLINE: u32 = 41003;
}

/// What Windows may show only some time after a disk has gone online.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// The partitions of the disk, and everything on them.
    Partitions,
    Volumes,
    /// The file systems of the volumes. Until they are visible, the volumes look unformatted.
    FileSystems,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FakeDisk {
    pub(super) number: u32,
    pub(super) serial: String,
    page83: String,
    location: String,
    style: PartitionStyle,
    pub(super) online: bool,
    pub(super) size: u64,
    boot: bool,
    system: bool,
    pub(super) arriving: bool,
    pub(super) partitions: Vec<FakePartition>,
    /// Whether the disk is read-only, because of Windows' SAN policy or a collision with another disk.
    #[serde(skip)]
    pub(super) read_only: bool,
    /// Whether the disk has the signature of another disk. Such a disk goes online only if it is writable.
    #[serde(skip)]
    pub(super) collides: bool,
    /// What Windows shows late, and how long after the disk has gone online.
    #[serde(skip)]
    pub(super) late: Option<(Late, Duration)>,
    #[serde(skip)]
    online_since: Duration,
    #[serde(skip)]
    pub(super) content: BTreeMap<u64, Vec<u8>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FakePartition {
    pub(super) number: u32,
    pub(super) kind: PartitionKind,
    pub(super) size: u64,
    pub(super) letter: Option<char>,
    pub(super) volume: Option<FakeVolume>,
    #[serde(skip)]
    pub(super) offline: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FakeVolume {
    pub(super) id: VolumeGuid,
    #[serde(default)]
    pub(super) formatted: bool,
    #[serde(default)]
    pub(super) used: u64,
    #[serde(skip)]
    pub(super) formats: usize,
}

#[derive(Debug, Default)]
pub(super) struct Disks {
    pub(super) disks: BTreeMap<u32, FakeDisk>,
    pub(super) arriving: BTreeMap<u32, FakeDisk>,
    pub(super) away: Vec<FakeDisk>,
    pub(super) now: Duration,
    next_volume: u64,
}

impl FakeDisk {
    pub(super) fn raw(serial: &str, size: u64, online: bool) -> Self {
        Self { serial: serial.to_owned(), size, online, ..Self::default() }
    }

    /// Returns whether Windows does not show this part of the disk yet at `now`.
    pub(super) fn hides(&self, what: Late, now: Duration) -> bool {
        self.late.is_some_and(|(late, after)| late == what && now < self.online_since + after)
    }

    fn free(&self) -> u64 {
        let used: u64 = self.partitions.iter().map(|partition| partition.size).sum();
        self.size.saturating_sub(used + OVERHEAD)
    }

    pub(super) fn holds(&self, id: &VolumeGuid) -> bool {
        self.partitions.iter().any(|partition| partition.holds(id))
    }

    fn ensure_writable(&self) -> Result<(), Answer> {
        match (self.online, self.read_only) {
            (false, _) => Err(Answer::Method(result::OFFLINE)),
            (true, true) => Err(Answer::Method(result::READ_ONLY)),
            (true, false) => Ok(()),
        }
    }

    /// Returns the bytes in a range. Bytes that were never written are zero.
    pub(super) fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let end = self.size.min(offset.saturating_add(u64::try_from(length).unwrap_or(u64::MAX)));
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(offset)).unwrap_or(0)];
        for (start, written) in &self.content {
            for (at, byte) in (*start..).zip(written).filter(|(at, _)| (offset..end).contains(at)) {
                bytes[usize::try_from(at - offset).unwrap_or(0)] = *byte;
            }
        }
        bytes
    }

    /// Builds a device id descriptor with one identifier, which is binary if the text is hexadecimal, otherwise ASCII.
    /// Without an identifier, the descriptor is empty.
    pub(super) fn descriptor(&self) -> Vec<u8> {
        let (code_set, bytes) = match hex::decode(&self.page83) {
            Ok(bytes) => (1_u32, bytes),
            Err(_) => (2, self.page83.as_bytes().to_vec()),
        };
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let words = [16, 28 + length, u32::from(length > 0), code_set, 3, length & 0xffff, 0];
        words.into_iter().flat_map(u32::to_le_bytes).chain(bytes).collect()
    }
}

impl FakePartition {
    pub(super) fn holds(&self, id: &VolumeGuid) -> bool {
        self.volume.as_ref().is_some_and(|volume| volume.id == *id)
    }

    pub(super) fn has_letter(&self, letter: char) -> bool {
        self.letter == Some(letter.to_ascii_uppercase())
    }

    pub(super) fn volume_id(&self) -> Option<VolumeGuid> {
        self.volume.as_ref().map(|volume| volume.id.clone())
    }
}

impl Disks {
    pub(super) fn add_system_disk(&mut self) {
        let size = 50 << 30;
        let volume = FakeVolume { formatted: true, used: 20 << 30, ..self.new_volume() };
        let partition = FakePartition {
            number: 1,
            kind: PartitionKind::Data,
            size,
            letter: Some('C'),
            volume: Some(volume),
            offline: false,
        };
        let disk = FakeDisk {
            style: PartitionStyle::Gpt,
            boot: true,
            system: true,
            partitions: vec![partition],
            ..FakeDisk::raw("vol00000000000000000_00000001.", size + (1 << 30), true)
        };
        self.disks.insert(0, disk);
    }

    fn new_volume(&mut self) -> FakeVolume {
        self.next_volume += 1;
        let text = format!(r"\\?\Volume{{00000000-0000-4000-8000-{:012x}}}\", self.next_volume);
        let id = VolumeGuid::parse(&text).expect("a valid GUID");
        FakeVolume { id, formatted: false, used: 0, formats: 0 }
    }

    /// Returns a volume and its size, even if Windows does not show the volume.
    pub(super) fn volume_mut(&mut self, id: &VolumeGuid) -> Option<(&mut FakeVolume, u64)> {
        let mut all = self.disks.values_mut().flat_map(|disk| &mut disk.partitions);
        let partition = all.find(|partition| partition.holds(id))?;
        Some((partition.volume.as_mut()?, partition.size))
    }

    pub(super) fn space(&mut self, id: &VolumeGuid) -> Option<(u64, u64)> {
        self.volume_mut(id).map(|(volume, size)| (size, size.saturating_sub(volume.used)))
    }

    /// Returns the partitions of a volume, with their disks. Ignores disks that are offline or do not show their
    /// volumes yet.
    pub(super) fn holders(&self, id: &VolumeGuid) -> Vec<(u32, &FakePartition)> {
        let shows = |disk: &FakeDisk| ![Late::Partitions, Late::Volumes].iter().any(|late| disk.hides(*late, self.now));
        let online = self.disks.iter().filter(|(_, disk)| disk.online && shows(disk));
        let all = online.flat_map(|(number, disk)| disk.partitions.iter().map(move |partition| (*number, partition)));
        all.filter(|(_, partition)| partition.holds(id) && !partition.offline).collect()
    }

    pub(super) fn is_visible(&self, id: &VolumeGuid) -> bool {
        !self.holders(id).is_empty()
    }

    /// Checks that Windows shows the volume and that it is writable.
    pub(super) fn ensure_writable(&self, id: &VolumeGuid) -> Result<(), Answer> {
        if !self.is_visible(id) {
            return Err(Answer::Method(result::FAILED));
        }
        self.disks.values().find(|disk| disk.holds(id)).map_or(Ok(()), FakeDisk::ensure_writable)
    }

    fn disk_mut(&mut self, disk: &Disk) -> Result<&mut FakeDisk, Answer> {
        self.disks.get_mut(&disk.number.0).ok_or(GONE)
    }

    pub(super) fn partition_mut(&mut self, of: &Partition) -> Result<(&mut FakePartition, u64), Answer> {
        let disk = self.disks.get_mut(&of.disk.0).ok_or(GONE)?;
        let free = disk.free();
        let partition = disk.partitions.iter_mut().find(|partition| partition.number == of.number.get());
        Ok((partition.ok_or(GONE)?, free))
    }

    pub(super) fn row(&self, number: u32, partition: &FakePartition) -> Partition {
        let disk = &self.disks[&number];
        Partition {
            object: ObjectPath(format!("disk {number} partition {}", partition.number)),
            disk: DiskNumber(number),
            number: PartitionNumber::new(partition.number).expect("partitions are numbered from 1"),
            kind: partition.kind,
            size: partition.size,
            is_offline: partition.offline,
            is_boot: disk.boot && partition.letter.is_some(),
            is_system: disk.system && partition.letter.is_some(),
            drive_letter: partition.letter,
        }
    }
}

fn named(disk: &Disk) -> String {
    format!("disk {}", disk.number)
}

fn device(number: u32) -> String {
    format!(r"\\?\fake#disk{number}")
}

pub(super) fn by_device<'a>(state: &'a State, name: &str) -> Result<(DiskNumber, &'a FakeDisk), Answer> {
    let found = state.disks.disks.iter().find(|(number, _)| device(**number) == name);
    found.map(|(number, disk)| (DiskNumber(*number), disk)).ok_or(Answer::Win32(code::FILE_NOT_FOUND))
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
        self.step("disk", format!("disk {number}"), |state| {
            Ok(state.disks.disks.get(&number.0).map(|disk| Disk {
                object: ObjectPath(format!("disk {number}")),
                number,
                style: disk.style,
                serial: disk.serial.clone(),
                is_offline: !disk.online,
                offline_reason: disk.collides.then_some(OfflineReason(4)).filter(|_| !disk.online),
                is_read_only: disk.read_only,
                size: disk.size,
                is_boot: disk.boot,
                is_system: disk.system,
            }))
        })
    }

    fn system_disk(&self) -> Result<Option<DiskNumber>, HostError> {
        self.step("system_disk", "all", |state| {
            let is_it = |disk: &FakeDisk| disk.partitions.iter().any(|partition| partition.has_letter('C'));
            Ok(state.disks.disks.iter().find(|(_, disk)| is_it(disk)).map(|(number, _)| DiskNumber(*number)))
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
        self.step("initialize_gpt", named(of), |state| {
            let disk = state.disks.disk_mut(of)?;
            disk.ensure_writable()?;
            if disk.style != PartitionStyle::Raw {
                return Err(Answer::Method(result::ALREADY_INITIALIZED));
            }
            disk.style = PartitionStyle::Gpt;
            let tables = [SECTOR, disk.size.saturating_sub(SECTOR)];
            disk.content.extend(tables.map(|at| (at, b"EFI PART".to_vec())));
            let kind = PartitionKind::Reserved;
            let (number, size, letter, volume, offline) = (1, RESERVED, None, None, false);
            disk.partitions = vec![FakePartition { number, kind, size, letter, volume, offline }];
            Ok(())
        })
    }

    fn create_data_partition(&self, of: &Disk) -> Result<(), HostError> {
        self.step("create_data_partition", named(of), |state| {
            let volume = Some(state.disks.new_volume());
            let disk = state.disks.disk_mut(of)?;
            disk.ensure_writable()?;
            let size = disk.free();
            match disk.style {
                PartitionStyle::Raw => return Err(Answer::Method(result::NOT_INITIALIZED)),
                PartitionStyle::Mbr => return Err(Answer::Method(result::INVALID_PARAMETER)),
                PartitionStyle::Gpt if size == 0 => return Err(Answer::Method(result::NO_SPACE)),
                PartitionStyle::Gpt => {}
            }
            let number = disk.partitions.iter().map(|partition| partition.number).max().unwrap_or(0) + 1;
            let (kind, letter, offline) = (PartitionKind::Data, None, true);
            disk.partitions.push(FakePartition { number, kind, size, letter, volume, offline });
            Ok(())
        })
    }

    fn refresh_disk(&self, of: &Disk) -> Result<(), HostError> {
        self.step("refresh_disk", named(of), |state| state.disks.disk_mut(of).map(drop))
    }

    fn set_online(&self, of: &Disk, online: bool) -> Result<(), HostError> {
        self.step("set_online", format!("{} {online}", named(of)), |state| {
            let now = state.disks.now;
            let disk = state.disks.disk_mut(of)?;
            if online && disk.read_only && disk.collides {
                return Err(Answer::Method(result::READ_ONLY));
            }
            (disk.online, disk.online_since) = (online, now);
            Ok(())
        })
    }

    fn set_disk_read_only(&self, of: &Disk, read_only: bool) -> Result<(), HostError> {
        self.step("set_disk_read_only", format!("{} {read_only}", named(of)), |state| {
            state.disks.disk_mut(of)?.read_only = read_only;
            Ok(())
        })
    }

    fn partitions(&self, disk: DiskNumber, number: Option<PartitionNumber>) -> Result<Vec<Partition>, HostError> {
        self.step("partitions", format!("disk {disk}"), |state| {
            let shows = |disk: &&FakeDisk| !disk.hides(Late::Partitions, state.disks.now);
            let all = state.disks.disks.get(&disk.0).filter(shows).into_iter().flat_map(|disk| &disk.partitions);
            let wanted = all.filter(|partition| number.is_none_or(|number| number.get() == partition.number));
            Ok(wanted.map(|partition| state.disks.row(disk.0, partition)).collect())
        })
    }

    fn online_partition(&self, partition: &Partition) -> Result<(), HostError> {
        self.step("online_partition", &partition.object, |state| {
            state.disks.partition_mut(partition)?.0.offline = false;
            Ok(())
        })
    }

    fn largest_size(&self, partition: &Partition) -> Result<u64, HostError> {
        self.step("largest_size", &partition.object, |state| {
            let (partition, free) = state.disks.partition_mut(partition)?;
            Ok(partition.size + free)
        })
    }

    fn resize_partition(&self, of: &Partition, size: u64) -> Result<(), HostError> {
        self.step("resize_partition", format!("{} {size}", of.object), |state| {
            if state.disks.disks.get(&of.disk.0).is_some_and(|disk| disk.read_only) {
                return Err(Answer::Method(result::READ_ONLY));
            }
            let (partition, free) = state.disks.partition_mut(of)?;
            if size < partition.size || size - partition.size > free {
                return Err(Answer::Method(result::INVALID_PARAMETER));
            }
            partition.size = size;
            Ok(())
        })
    }
}

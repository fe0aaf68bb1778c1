//! Runs random operations on the fake machine and on a real one, and compares their results, and the state after them,
//! with a small model.

use std::time::Duration;

use super::equal;
use crate::types::{DiskNumber, VolumeGuid};
use crate::{Storage, StorageError};

/// Number of paths at which volumes may be mounted.
pub(crate) const PLACES: usize = 3;
/// How long Windows may take to show the volume of a disk that has gone online.
const SETTLE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);

/// A source of random numbers that are the same in every run.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from((mixed ^ (mixed >> 27)) % end).unwrap_or(0)
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Disk {
    pub(crate) is_online: bool,
    pub(crate) is_partitioned: bool,
    pub(crate) is_formatted: bool,
}

impl Disk {
    fn is_shown(self) -> bool {
        self.is_online && self.is_partitioned
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Nothing,
    Directory,
    Mount(usize),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Request {
    State(usize, bool),
    Partition(usize),
    Format(usize),
    Resize(usize),
    Mount(usize, usize),
    Unmount(usize, usize),
    Mkdir(usize),
    Rmdir(usize, bool),
    VolumeOf(usize),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Done,
    NoVolume,
    Formatted,
    Missing,
    NotMounted,
    Elsewhere,
    Offline,
}

pub(crate) struct Model {
    pub(crate) disks: Vec<Disk>,
    pub(crate) places: [Place; PLACES],
}

/// Maps the disks and paths of the model to disks and paths on a machine.
pub(crate) struct Ground<'a> {
    pub(crate) storage: &'a Storage,
    pub(crate) disks: &'a [DiskNumber],
    /// Returns the volume of the disk with this index, if it has one.
    pub(crate) volume: &'a dyn Fn(usize) -> Option<VolumeGuid>,
    pub(crate) path: &'a dyn Fn(usize) -> String,
}

impl Request {
    pub(crate) fn any(chance: &mut Chance, disks: usize) -> Self {
        let (disk, place) = (chance.below(disks), chance.below(PLACES));
        match chance.below(12) {
            0 | 1 => Self::State(disk, chance.below(4) > 0),
            2 => Self::Partition(disk),
            3 => Self::Format(disk),
            4 => Self::Resize(disk),
            5 | 6 => Self::Mount(disk, place),
            7 | 8 => Self::Unmount(disk, place),
            9 => Self::Mkdir(place),
            10 => Self::Rmdir(place, chance.below(2) > 0),
            _ => Self::VolumeOf(place),
        }
    }

    pub(crate) fn run(self, on: &Ground<'_>) -> Result<(), StorageError> {
        // A disk without partitions gets the id of an unknown volume.
        let unknown = || r"\\?\Volume{ffffffff-0000-4000-8000-000000000000}\".to_owned();
        let volume = |disk| (on.volume)(disk).map_or_else(unknown, |volume| volume.to_string());
        let (storage, path) = (on.storage, on.path);
        match self {
            Self::State(disk, online) => storage.set_disk_state(on.disks[disk], online),
            Self::Partition(disk) => storage.partition_disk(on.disks[disk]),
            Self::Format(disk) => storage.format_volume(&volume(disk)),
            Self::Resize(disk) => storage.resize_volume(&volume(disk), 0, Duration::ZERO).map(drop),
            Self::Mount(disk, place) => storage.mount_volume(&volume(disk), &path(place)),
            Self::Unmount(disk, place) => storage.unmount_volume(&volume(disk), &path(place)),
            Self::Mkdir(place) => storage.mkdir(&path(place)),
            Self::Rmdir(place, force) => storage.rmdir(&path(place), force),
            Self::VolumeOf(place) => storage.volume_of_path(&path(place)).map(drop),
        }
    }
}

impl Model {
    pub(crate) fn expect(&mut self, request: Request) -> Told {
        match request {
            Request::State(disk, online) => {
                self.disks[disk].is_online = online;
                Told::Done
            }
            Request::Partition(disk) => {
                let disk = &mut self.disks[disk];
                if !disk.is_online && !disk.is_partitioned {
                    return Told::Offline;
                }
                disk.is_partitioned = true;
                Told::Done
            }
            Request::Format(disk) => match self.disks[disk] {
                hidden if !hidden.is_shown() => Told::NoVolume,
                Disk { is_formatted: true, .. } => Told::Formatted,
                _ => {
                    self.disks[disk].is_formatted = true;
                    Told::Done
                }
            },
            Request::Resize(disk) if !self.disks[disk].is_shown() => Told::NoVolume,
            Request::Resize(_) => Told::Done,
            Request::Mount(disk, _) if !self.disks[disk].is_shown() => Told::NoVolume,
            Request::Mount(disk, place) => self.become_mount(disk, place),
            Request::Unmount(disk, place) => match (self.places[place], self.disks[disk].is_shown()) {
                (Place::Nothing, _) => Told::Missing,
                (Place::Directory, _) => Told::Done,
                (Place::Mount(other), _) if other != disk => Told::Elsewhere,
                (Place::Mount(_), false) => Told::NoVolume,
                (Place::Mount(_), true) => {
                    self.places[place] = Place::Directory;
                    Told::Done
                }
            },
            Request::Mkdir(place) => {
                if self.places[place] == Place::Nothing {
                    self.places[place] = Place::Directory;
                }
                Told::Done
            }
            Request::Rmdir(place, force) => {
                let was = std::mem::replace(&mut self.places[place], Place::Nothing);
                if was == Place::Nothing && !force { Told::Missing } else { Told::Done }
            }
            Request::VolumeOf(place) => match self.places[place] {
                Place::Nothing => Told::Missing,
                Place::Directory => Told::NotMounted,
                Place::Mount(_) => Told::Done,
            },
        }
    }

    fn become_mount(&mut self, disk: usize, place: usize) -> Told {
        match self.places[place] {
            Place::Nothing => Told::Missing,
            Place::Mount(other) if other != disk => Told::Elsewhere,
            _ => {
                self.places[place] = Place::Mount(disk);
                Told::Done
            }
        }
    }
}

pub(crate) fn told(result: &Result<(), StorageError>) -> Result<Told, String> {
    match result {
        Ok(()) => Ok(Told::Done),
        Err(StorageError::VolumeNotFound(_)) => Ok(Told::NoVolume),
        Err(StorageError::AlreadyFormatted(_)) => Ok(Told::Formatted),
        Err(StorageError::Missing { .. }) => Ok(Told::Missing),
        Err(StorageError::NotMounted { .. }) => Ok(Told::NotMounted),
        Err(StorageError::MountedElsewhere { .. }) => Ok(Told::Elsewhere),
        Err(StorageError::DiskOffline(_)) => Ok(Told::Offline),
        Err(error) => Err(error.text()),
    }
}

pub(crate) fn replay(on: &Ground<'_>, model: &mut Model, chance: &mut Chance, count: usize) -> Result<(), String> {
    let seed = chance.0;
    for nth in 0..count {
        let request = Request::any(chance, on.disks.len());
        let at = |text: String| format!("{request:?}, random operation {nth} of seed {seed}: {text}");
        let expected = model.expect(request);
        let is = told(&request.run(on)).map_err(&at)?;
        equal(&is, &expected).map_err(&at)?;
        if let Request::State(disk, true) = request {
            settle(on, model.disks[disk], disk).map_err(&at)?;
        }
        for (place, expected) in model.places.iter().enumerate() {
            equal(&there(on, place)?, expected).map_err(|text| at(format!("place {place}: {text}")))?;
        }
        for (disk, expected) in model.disks.iter().enumerate() {
            let is = on.storage.disk_state(on.disks[disk]).map_err(|error| at(error.text()))?;
            equal(&is, &expected.is_online).map_err(|text| at(format!("disk {disk} online: {text}")))?;
        }
    }
    Ok(())
}

/// Returns the state of a path, as the operations report it.
fn there(on: &Ground<'_>, place: usize) -> Result<Place, String> {
    match on.storage.volume_of_path(&(on.path)(place)) {
        Err(StorageError::Missing { .. }) => Ok(Place::Nothing),
        Err(StorageError::NotMounted { .. }) => Ok(Place::Directory),
        Err(error) => Err(error.text()),
        Ok(volume) => {
            let disk = (0..on.disks.len()).find(|disk| (on.volume)(*disk).as_ref() == Some(&volume));
            disk.map(Place::Mount).ok_or_else(|| format!("volume {volume} at place {place} has no disk"))
        }
    }
}

/// Waits until Windows shows the volume of a disk that has gone online.
fn settle(on: &Ground<'_>, expected: Disk, disk: usize) -> Result<(), String> {
    let mut waited = Duration::ZERO;
    loop {
        let volumes = on.storage.list_volumes_on_disk(on.disks[disk], None).map_err(|error| error.text())?;
        if !expected.is_partitioned || !volumes.is_empty() {
            return Ok(());
        }
        if waited >= SETTLE {
            return Err(format!("its volume does not appear within {SETTLE:?}"));
        }
        on.storage.pause(PAUSE);
        waited += PAUSE;
    }
}

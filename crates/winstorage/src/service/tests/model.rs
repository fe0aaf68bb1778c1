//! Operations by chance, against a model of ten lines: what is answered, and what is there afterwards.

use std::time::Duration;

use super::*;
use crate::host::EntryKind;
use crate::{StorageError, WayError};

/// A source of chance that is the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 27)) % end
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Disk {
    is_online: bool,
    is_partitioned: bool,
    is_formatted: bool,
}

impl Disk {
    /// Windows shows its volume.
    fn is_shown(self) -> bool {
        self.is_online && self.is_partitioned
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Nothing,
    Directory,
    /// Of the disk with this number.
    Mount(u32),
}

#[derive(Debug, Clone, Copy)]
enum Request {
    State(u32, bool),
    Partition(u32),
    Format(u32),
    Resize(u32),
    Mount(u32, usize),
    Unmount(u32, usize),
    Mkdir(usize),
    Rmdir(usize, bool),
    VolumeOf(usize),
}

/// What an operation comes to, as far as the model tells.
#[derive(Debug, PartialEq)]
enum Told {
    Done,
    NoVolume,
    Formatted,
    Missing,
    NotMounted,
    Elsewhere,
    Offline,
}

struct Model {
    disks: [Disk; 3],
    places: [Place; 3],
}

impl Request {
    fn any(chance: &mut Chance) -> Self {
        let disk = u32::try_from(1 + chance.below(2)).unwrap();
        let place = usize::try_from(chance.below(3)).unwrap();
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

    fn run(self, host: &FakeHost, storage: &Storage) -> Result<(), StorageError> {
        let path = |place: usize| at(&format!(r"pods\{place}"));
        // Before it is partitioned a disk has a volume that nobody knows.
        let unknown = || VolumeGuid::parse(r"\\?\Volume{ffffffff-0000-4000-8000-000000000000}\").unwrap();
        let volume = |disk: u32| host.volumes_of(disk).pop().unwrap_or_else(unknown).to_string();
        match self {
            Self::State(disk, online) => storage.set_disk_state(DiskNumber(disk), online),
            Self::Partition(disk) => storage.partition_disk(DiskNumber(disk)),
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
    fn disk(&mut self, number: u32) -> &mut Disk {
        &mut self.disks[usize::try_from(number).unwrap()]
    }

    fn expect(&mut self, request: Request) -> Told {
        match request {
            Request::State(number, online) => {
                self.disk(number).is_online = online;
                Told::Done
            }
            Request::Partition(number) => {
                let disk = self.disk(number);
                if !disk.is_online && !disk.is_partitioned {
                    return Told::Offline;
                }
                disk.is_partitioned = true;
                Told::Done
            }
            Request::Format(number) => match *self.disk(number) {
                disk if !disk.is_shown() => Told::NoVolume,
                Disk { is_formatted: true, .. } => Told::Formatted,
                _ => {
                    self.disk(number).is_formatted = true;
                    Told::Done
                }
            },
            Request::Resize(number) if !self.disk(number).is_shown() => Told::NoVolume,
            Request::Resize(_) => Told::Done,
            Request::Mount(number, _) if !self.disk(number).is_shown() => Told::NoVolume,
            Request::Mount(number, place) => self.become_mount(number, place),
            Request::Unmount(number, place) => match (self.places[place], self.disk(number).is_shown()) {
                (Place::Nothing, _) => Told::Missing,
                (Place::Directory, _) => Told::Done,
                (Place::Mount(other), _) if other != number => Told::Elsewhere,
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

    fn become_mount(&mut self, number: u32, place: usize) -> Told {
        match self.places[place] {
            Place::Nothing => Told::Missing,
            Place::Mount(other) if other != number => Told::Elsewhere,
            _ => {
                self.places[place] = Place::Mount(number);
                Told::Done
            }
        }
    }
}

fn told(result: &Result<(), StorageError>) -> Told {
    match result {
        Ok(()) => Told::Done,
        Err(StorageError::VolumeNotFound(_)) => Told::NoVolume,
        Err(StorageError::AlreadyFormatted(_)) => Told::Formatted,
        Err(StorageError::Missing { .. }) => Told::Missing,
        Err(StorageError::NotMounted { .. }) => Told::NotMounted,
        Err(StorageError::MountedElsewhere { .. }) => Told::Elsewhere,
        Err(StorageError::Host(error)) if error.is_method(41003) => Told::Offline,
        Err(StorageError::Way(WayError::NotEmpty { .. })) => panic!("nothing is ever in a directory"),
        Err(error) => panic!("{error}"),
    }
}

/// Whatever is asked for in whatever order, the answer and what is there afterwards are the model's; no volume is formatted twice, and
/// Windows' own disk stays as it is.
///
/// Rule: see `crates/winstorage/src/service/tests/crashes.rs::wherever_the_process_dies_the_retry_comes_to_the_same_end`
#[test]
fn operations_by_chance_come_to_what_the_model_says() {
    for run in 0..40 {
        let mut chance = Chance(run);
        let (host, storage) = machine();
        host.add_disk(2, "vol2", GIB, false);
        let mut model = Model { disks: [Disk::default(); 3], places: [Place::Nothing; 3] };
        model.disks[1].is_online = true;
        for step in 0..200 {
            let request = Request::any(&mut chance);
            let expected = model.expect(request);
            let result = request.run(&host, &storage);
            assert_eq!(told(&result), expected, "{request:?}, step {step} of run {run}: {result:?}");
            for (place, expected) in model.places.iter().enumerate() {
                let is = match host.kind_at(&at(&format!(r"pods\{place}"))) {
                    None => Place::Nothing,
                    Some(EntryKind::MountPoint(volume)) if host.volumes_of(1).contains(&volume) => Place::Mount(1),
                    Some(EntryKind::MountPoint(_)) => Place::Mount(2),
                    Some(_) => Place::Directory,
                };
                assert_eq!(is, *expected, "place {place} after {request:?}, step {step} of run {run}");
            }
        }
        let volumes = [host.volumes_of(1), host.volumes_of(2)].concat();
        assert!(volumes.len() <= 2 && volumes.iter().all(|volume| host.formats(volume) <= 1), "run {run}");
        assert!(host.is_online(0) && host.volumes_of(0).len() == 1, "run {run}");
    }
}

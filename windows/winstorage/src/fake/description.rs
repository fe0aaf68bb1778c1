//! The description of a fake machine in JSON, for `--host=fake:FILE` of test builds:
//!
//! ```json
//! {
//! "disks": [{"number": 1, "serial": "vol0123456789abcdef0_00000001.", "size": 10737418240, "online": false}],
//! "tree": {"C:\\var\\lib\\kubelet": "directory", "C:\\var\\lib\\kubelet\\l": {"link": "C:\\var\\lib\\kubelet\\s"}},
//! "faults": [{"step": "format_ntfs", "delay_ms": 5000}]
//! }
//! ```
//!
//! If the description has no disk 0, the machine gets a disk 0 with `C:`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::disks::FakeDisk;
use super::files::Kind;
use super::network::{FakePortal, FakeShare};
use super::system::{FakeService, Running};
use super::{Effect, State};
use crate::host::Answer;
use crate::types::{PortalAddress, VolumeGuid, WinPath};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Description {
    /// Whether the clock advances only while the program waits, and independently of real time.
    pub virtual_time: bool,
    pub disks: Vec<FakeDisk>,
    pub tree: BTreeMap<String, Entry>,
    pub shares: Vec<FakeShare>,
    pub portals: Vec<FakePortal>,
    pub known_portals: Vec<(String, u16)>,
    pub services: Vec<FakeService>,
    pub bios_serial: String,
    pub faults: Vec<FaultDescription>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    Directory,
    File,
    /// A link, written `{"link": TARGET}`.
    Link(String),
    /// A junction, written `{"junction": TARGET}`.
    Junction(String),
    MountPoint(VolumeGuid),
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FaultDescription {
    pub step: String,
    pub skip: usize,
    delay_ms: Option<u64>,
    win32: Option<u32>,
    result: Option<u32>,
    com: Option<u32>,
}

impl FaultDescription {
    pub(super) fn effect(&self) -> Result<Effect, String> {
        match (self.delay_ms, self.win32, self.result, self.com) {
            (Some(delay), None, None, None) => Ok(Effect::Delay(Duration::from_millis(delay))),
            (None, Some(code), None, None) => Ok(Effect::Fail(Answer::Win32(code))),
            (None, None, Some(code), None) => Ok(Effect::Fail(Answer::Method(code))),
            (None, None, None, Some(code)) => Ok(Effect::Fail(Answer::Com(code))),
            _ => Err(format!("the fault of {} requires exactly one of delay_ms, win32, result, com", self.step)),
        }
    }
}

impl Description {
    pub(super) fn state(&self) -> Result<State, String> {
        let mut state = State::default();
        if self.disks.iter().all(|disk| disk.number != 0) {
            state.add_system_disk();
        }
        for disk in &self.disks {
            state.add_described(disk)?;
        }
        for (path, entry) in &self.tree {
            let path = WinPath::normalise(path).ok_or_else(|| format!("{path} is not an absolute path"))?;
            state.files.place(&path, entry.kind());
        }
        state.shares.all.clone_from(&self.shares);
        state.iscsi.portals.clone_from(&self.portals);
        for (address, port) in &self.known_portals {
            let known = PortalAddress::parse(address, (*port).into()).map_err(|error| error.to_string())?;
            state.iscsi.known.push(known);
        }
        let services = self.services.iter().cloned();
        state.system.services = services.map(|service| Running { service, ahead: None }).collect();
        state.system.bios_serials = vec![self.bios_serial.clone()];
        Ok(state)
    }
}

impl Entry {
    fn kind(&self) -> Kind {
        match self {
            Self::Directory => Kind::Directory(BTreeMap::new()),
            Self::File => Kind::File,
            Self::Link(target) => Kind::Link { target: target.clone(), is_directory: true },
            Self::Junction(target) => Kind::Junction(target.clone()),
            Self::MountPoint(volume) => Kind::Mount(volume.clone()),
        }
    }
}

impl State {
    pub(super) fn add_system_disk(&mut self) {
        self.disks.add_system_disk();
        let root = WinPath::normalise(r"C:\Windows").expect("a valid path");
        self.files.place(&root, Kind::Directory(BTreeMap::new()));
    }

    fn add_described(&mut self, disk: &FakeDisk) -> Result<(), String> {
        let number = disk.number;
        if disk.size == 0 || disk.partitions.iter().any(|partition| partition.number == 0) {
            return Err(format!("disk {number} has a partition with number 0 or no size"));
        }
        let among = if disk.arriving { &mut self.disks.arriving } else { &mut self.disks.disks };
        match among.insert(number, disk.clone()) {
            None => Ok(()),
            Some(_) => Err(format!("disk {number} is described twice")),
        }
    }
}

//! The file system. Nodes have numbers, so an open entry remains the same node when its name changes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::disks::{FakePartition, by_device};
use super::{FakeHost, State};
use crate::host::{Answer, EntryKind, FsEntry, HostError, NativeHost, Space, SpaceHost, code};
use crate::types::{DiskNumber, VolumeGuid, WinPath};

pub(super) type Node = usize;

/// Maximum number of links that Windows follows on one path.
const HOPS: u32 = 63;
/// `ERROR_CANT_RESOLVE_FILENAME`
const TOO_MANY_LINKS: u32 = 1921;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory(BTreeMap<String, (String, Node)>),
    Link { target: String, is_directory: bool },
    Junction(String),
    Mount(VolumeGuid),
    Other(u32),
    Removed,
}

#[derive(Debug, Default)]
pub(super) struct Files {
    nodes: Vec<Kind>,
    drives: BTreeMap<char, Node>,
    volumes: Vec<(VolumeGuid, Node)>,
}

struct Open {
    host: FakeHost,
    node: Node,
    name: String,
}

impl FakeHost {
    /// Creates a directory with its parents. Follows links.
    pub fn add_directory(&self, path: &str) {
        self.place(path, Kind::Directory(BTreeMap::new()));
    }

    pub fn add_file(&self, path: &str) {
        self.place(path, Kind::File);
    }

    /// Creates a symbolic link and its missing parents. Stores the target unchanged.
    pub fn add_link(&self, path: &str, target: &str) {
        self.place(path, Kind::Link { target: target.to_owned(), is_directory: true });
    }

    pub fn add_junction(&self, path: &str, target: &str) {
        self.place(path, Kind::Junction(target.to_owned()));
    }

    pub fn add_mount_point(&self, path: &str, volume: &VolumeGuid) {
        self.place(path, Kind::Mount(volume.clone()));
    }

    pub fn add_reparse_point(&self, path: &str, tag: u32) {
        self.place(path, Kind::Other(tag));
    }

    /// Returns the kind of the entry at `path`, or `None` if it does not exist. Follows links in the parents only.
    pub fn kind_at(&self, path: &str) -> Option<EntryKind> {
        let state = self.state();
        let path = WinPath::normalise(path)?;
        let node = state.files.find(&path, false).ok()?;
        state.files.shown(node)
    }

    pub fn rename(&self, from: &str, to: &str) {
        let mut state = self.state();
        let (from, to) = (WinPath::normalise(from), WinPath::normalise(to));
        let (Some(from), Some(to)) = (from, to) else { return };
        let Ok(node) = state.files.find(&from, false) else { return };
        state.files.unlink(node);
        let parents = to.parent().and_then(|parent| state.files.find(&parent, true).ok());
        if let (Some(parent), Some(name)) = (parents, to.components().last()) {
            state.files.insert(parent, name.as_str(), node);
        }
    }

    pub fn remove_path(&self, path: &str) {
        let mut state = self.state();
        let node = WinPath::normalise(path).and_then(|path| state.files.find(&path, false).ok());
        if let Some(node) = node {
            state.files.unlink(node);
        }
    }

    fn place(&self, path: &str, kind: Kind) {
        let path = WinPath::normalise(path).expect("a test names absolute paths");
        self.state().files.place(&path, kind);
    }
}

impl Files {
    pub(super) fn place(&mut self, path: &WinPath, kind: Kind) {
        let mut at = self.drive(path.drive());
        let Some((last, above)) = path.components().split_last() else { return };
        for name in above {
            at = match self.child(at, name.as_str()) {
                Some(node) => self.entered(node).expect("a test's parents are directories"),
                None => self.add(at, name.as_str(), Kind::Directory(BTreeMap::new())),
            };
        }
        match (self.child(at, last.as_str()), kind) {
            (Some(_), Kind::Directory(_)) => {}
            (Some(node), kind) => self.nodes[node] = kind,
            (None, kind) => {
                self.add(at, last.as_str(), kind);
            }
        }
    }

    fn drive(&mut self, letter: char) -> Node {
        if let Some(root) = self.drives.get(&letter) {
            return *root;
        }
        let root = self.node(Kind::Directory(BTreeMap::new()));
        self.drives.insert(letter, root);
        root
    }

    fn volume_root(&mut self, volume: &VolumeGuid) -> Node {
        if let Some((_, root)) = self.volumes.iter().find(|(known, _)| known == volume) {
            return *root;
        }
        let root = self.node(Kind::Directory(BTreeMap::new()));
        self.volumes.push((volume.clone(), root));
        root
    }

    pub(super) fn clear_volume(&mut self, volume: &VolumeGuid) {
        let root = self.volume_root(volume);
        self.nodes[root] = Kind::Directory(BTreeMap::new());
    }

    fn node(&mut self, kind: Kind) -> Node {
        self.nodes.push(kind);
        self.nodes.len() - 1
    }

    fn add(&mut self, directory: Node, name: &str, kind: Kind) -> Node {
        let node = self.node(kind);
        self.insert(directory, name, node);
        node
    }

    fn insert(&mut self, directory: Node, name: &str, node: Node) {
        if let Kind::Directory(entries) = &mut self.nodes[directory] {
            entries.insert(name.to_lowercase(), (name.to_owned(), node));
        }
    }

    fn unlink(&mut self, node: Node) {
        for kind in &mut self.nodes {
            if let Kind::Directory(entries) = kind {
                entries.retain(|_, (_, child)| *child != node);
            }
        }
    }

    fn child(&self, directory: Node, name: &str) -> Option<Node> {
        match &self.nodes[directory] {
            Kind::Directory(entries) => entries.get(&name.to_lowercase()).map(|(_, node)| *node),
            _ => None,
        }
    }

    fn entered(&mut self, node: Node) -> Result<Node, u32> {
        match self.nodes[node].clone() {
            Kind::Directory(_) => Ok(node),
            Kind::Mount(volume) => Ok(self.volume_root(&volume)),
            Kind::Link { target, .. } | Kind::Junction(target) => {
                let path = WinPath::normalise(target.trim_start_matches(r"\\?\")).ok_or(code::PATH_NOT_FOUND)?;
                let node = self.find(&path, true)?;
                self.entered(node)
            }
            Kind::File | Kind::Other(_) => Err(code::DIRECTORY),
            Kind::Removed => Err(code::FILE_NOT_FOUND),
        }
    }

    /// Returns the node at a path. Follows links in the parents, and if `follow` is true, in the last component too.
    fn find(&self, path: &WinPath, follow: bool) -> Result<Node, u32> {
        self.find_within(path, follow, HOPS)
    }

    fn find_within(&self, path: &WinPath, follow: bool, hops: u32) -> Result<Node, u32> {
        let hops = hops.checked_sub(1).ok_or(TOO_MANY_LINKS)?;
        let mut at = *self.drives.get(&path.drive()).ok_or(code::PATH_NOT_FOUND)?;
        for (depth, name) in path.components().iter().enumerate() {
            let is_last = depth + 1 == path.components().len();
            let missing = if is_last { code::FILE_NOT_FOUND } else { code::PATH_NOT_FOUND };
            at = self.child(at, name.as_str()).ok_or(missing)?;
            if is_last && !follow {
                return Ok(at);
            }
            at = match &self.nodes[at] {
                Kind::Link { target, .. } | Kind::Junction(target) => {
                    let to = WinPath::normalise(target.trim_start_matches(r"\\?\")).ok_or(code::PATH_NOT_FOUND)?;
                    self.find_within(&to, true, hops)?
                }
                Kind::Mount(volume) => {
                    let root = self.volumes.iter().find(|(known, _)| known == volume).map(|(_, root)| *root);
                    root.ok_or(code::PATH_NOT_FOUND)?
                }
                _ => at,
            };
        }
        Ok(at)
    }

    fn shown(&self, node: Node) -> Option<EntryKind> {
        Some(match self.nodes[node].clone() {
            Kind::File => EntryKind::File,
            Kind::Directory(_) => EntryKind::Directory,
            Kind::Link { target, is_directory } => EntryKind::SymbolicLink { target, is_directory },
            Kind::Junction(target) => EntryKind::Junction { target },
            Kind::Mount(volume) => EntryKind::MountPoint(volume),
            Kind::Other(tag) => EntryKind::OtherReparse(tag),
            Kind::Removed => return None,
        })
    }
}

impl State {
    pub(super) fn with_system_disk() -> Self {
        let mut state = Self::default();
        state.add_system_disk();
        state
    }
}

impl NativeHost for FakeHost {
    fn open(&self, path: &WinPath) -> Result<Box<dyn FsEntry>, HostError> {
        let name = path.to_string();
        self.step("open", &name, |state| {
            let node = state.files.find(path, true).map_err(Answer::Win32)?;
            Ok(Box::new(Open { host: self.clone(), node, name: name.clone() }) as Box<dyn FsEntry>)
        })
    }

    fn open_volume(&self, volume: &VolumeGuid) -> Result<Box<dyn FsEntry>, HostError> {
        let name = volume.to_string();
        self.step("open_volume", &name, |state| {
            if !state.disks.is_visible(volume) {
                return Err(Answer::Win32(code::FILE_NOT_FOUND));
            }
            let node = state.files.volume_root(volume);
            Ok(Box::new(Open { host: self.clone(), node, name: name.clone() }) as Box<dyn FsEntry>)
        })
    }

    fn path_valid(&self, path: &str) -> Result<bool, HostError> {
        self.step("path_valid", path, |state| {
            if path.starts_with(r"\\") {
                return state.shares.is_reachable(path);
            }
            Ok(WinPath::normalise(path).is_some_and(|path| state.files.find(&path, true).is_ok()))
        })
    }

    fn device_number(&self, device: &str) -> Result<DiskNumber, HostError> {
        self.step("device_number", device, |state| by_device(state, device).map(|(number, _)| number))
    }

    fn device_ids(&self, device: &str) -> Result<Vec<u8>, HostError> {
        self.step("device_ids", device, |state| by_device(state, device).map(|(_, disk)| disk.descriptor()))
    }

    fn read_disk(&self, number: DiskNumber, offset: u64, length: usize) -> Result<Vec<u8>, HostError> {
        self.step("read_disk", format!("disk {number} {offset}"), |state| {
            let disk = state.disks.disks.get(&number.0).ok_or(Answer::Win32(code::FILE_NOT_FOUND))?;
            Ok(disk.read(offset, length))
        })
    }

    fn volume_of_drive(&self, letter: char) -> Result<VolumeGuid, HostError> {
        self.step("volume_of_drive", letter, |state| {
            let mut all = state.disks.disks.values().flat_map(|disk| &disk.partitions);
            let lettered = all.find(|partition| partition.has_letter(letter));
            lettered.and_then(FakePartition::volume_id).ok_or(Answer::Win32(code::FILE_NOT_FOUND))
        })
    }

    fn system_drive(&self) -> Result<char, HostError> {
        Ok('C')
    }

    fn elapsed(&self) -> Duration {
        self.time()
    }

    fn pause(&self, time: Duration) {
        self.wait(time);
    }
}

impl SpaceHost for FakeHost {
    fn space(&self, path: &WinPath) -> Result<Space, HostError> {
        let name = path.to_string();
        self.step("space", &name, |state| {
            let node = state.files.find(path, true).map_err(Answer::Win32)?;
            let root = state.files.volumes.iter().find(|(_, root)| *root == node).map(|(volume, _)| volume);
            let space = root.and_then(|volume| state.disks.space(volume));
            let (total, free) = space.ok_or(Answer::Win32(code::PATH_NOT_FOUND))?;
            Ok(Space { available: free, total, free })
        })
    }
}

impl Open {
    fn step<T>(
        &self,
        step: &'static str,
        object: &str,
        act: impl FnOnce(&mut Files, Node) -> Result<T, u32>,
    ) -> Result<T, HostError> {
        let object = if object.is_empty() { self.name.clone() } else { format!(r"{}\{object}", self.name) };
        self.host.step(step, &object, |state| act(&mut state.files, self.node).map_err(Answer::Win32))
    }

    fn opened(&self, name: &str, node: Node) -> Box<dyn FsEntry> {
        Box::new(Self { host: self.host.clone(), node, name: format!(r"{}\{name}", self.name) })
    }
}

impl FsEntry for Open {
    fn kind(&self) -> Result<EntryKind, HostError> {
        self.step("kind", "", |files, node| files.shown(node).ok_or(code::FILE_NOT_FOUND))
    }

    fn child(&self, name: &str) -> Result<Option<Box<dyn FsEntry>>, HostError> {
        self.step("child", name, |files, node| match &files.nodes[node] {
            Kind::Directory(_) => Ok(files.child(node, name).map(|child| self.opened(name, child))),
            _ => Err(code::DIRECTORY),
        })
    }

    fn children(&self) -> Result<Vec<String>, HostError> {
        self.step("children", "", |files, node| match &files.nodes[node] {
            Kind::Directory(entries) => Ok(entries.values().map(|(name, _)| name.clone()).collect()),
            _ => Err(code::DIRECTORY),
        })
    }

    fn create_directory(&self, name: &str) -> Result<Box<dyn FsEntry>, HostError> {
        self.step("create_directory", name, |files, node| {
            let made = files.create(node, name, Kind::Directory(BTreeMap::new()))?;
            Ok(self.opened(name, made))
        })
    }

    fn create_link(&self, name: &str, target: &str, is_directory: bool) -> Result<(), HostError> {
        self.step("create_link", name, |files, node| {
            files.create(node, name, Kind::Link { target: target.to_owned(), is_directory }).map(drop)
        })
    }

    fn remove(self: Box<Self>) -> Result<(), HostError> {
        self.step("remove", "", |files, node| {
            match &files.nodes[node] {
                Kind::Directory(entries) if !entries.is_empty() => return Err(code::DIR_NOT_EMPTY),
                Kind::Removed => return Err(code::FILE_NOT_FOUND),
                _ => {}
            }
            files.unlink(node);
            files.nodes[node] = Kind::Removed;
            Ok(())
        })
    }

    fn leads_somewhere(&self) -> Result<bool, HostError> {
        self.step("leads_somewhere", "", |files, node| match files.nodes[node].clone() {
            Kind::Link { target, .. } | Kind::Junction(target) => {
                let path = WinPath::normalise(target.trim_start_matches(r"\\?\"));
                Ok(path.is_some_and(|path| files.find(&path, true).is_ok()))
            }
            Kind::Removed => Err(code::FILE_NOT_FOUND),
            _ => Ok(true),
        })
    }

    fn mount(&self, volume: &VolumeGuid) -> Result<(), HostError> {
        let is_there = self.host.state().disks.is_visible(volume);
        self.step("mount", "", |files, node| match &files.nodes[node] {
            _ if !is_there => Err(code::FILE_NOT_FOUND),
            Kind::Directory(entries) if entries.is_empty() => {
                files.volume_root(volume);
                files.nodes[node] = Kind::Mount(volume.clone());
                Ok(())
            }
            Kind::Directory(_) | Kind::Mount(_) | Kind::Junction(_) => Err(code::DIR_NOT_EMPTY),
            _ => Err(code::DIRECTORY),
        })
    }

    fn unmount(&self) -> Result<(), HostError> {
        self.step("unmount", "", |files, node| match &files.nodes[node] {
            Kind::Mount(_) => {
                files.nodes[node] = Kind::Directory(BTreeMap::new());
                Ok(())
            }
            _ => Err(code::NOT_A_REPARSE_POINT),
        })
    }
}

impl Files {
    fn create(&mut self, directory: Node, name: &str, kind: Kind) -> Result<Node, u32> {
        match &self.nodes[directory] {
            Kind::Directory(entries) if entries.contains_key(&name.to_lowercase()) => Err(code::ALREADY_EXISTS),
            Kind::Directory(_) => Ok(self.add(directory, name, kind)),
            _ => Err(code::PATH_NOT_FOUND),
        }
    }
}

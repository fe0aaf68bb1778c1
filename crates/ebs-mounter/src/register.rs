//! The register of the volumes that the driver has staged or published on this node, and their paths, in the state
//! directory. It distinguishes the driver's volumes among those that the metadata service counted at boot, identifies a
//! vanished device and, on Xen, has the device name that leads to a volume's disk.
//!
//! The map in memory answers at once, and a separate thread writes the changes. If an entry is lost, in a crash or
//! because the directory is not writable, the next NodeStageVolume restores it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ebs_ec2::VolumeId;
use tokio::sync::watch;

use crate::config::MounterConfig;
use crate::mountinfo::unescape;
use crate::os::if_exists;
use crate::path::NodePath;

/// The owner of a volume's attachment to this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attacher {
    /// The driver's controller. The volume uses one of the slots that the driver reports.
    Driver,
    /// Another owner, as for node-local volumes, or an unknown one.
    Other,
}

/// A volume and the paths where it is mounted or bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredVolume {
    pub attacher: Attacher,
    pub paths: BTreeSet<NodePath>,
    /// The device name under which EC2 attached the volume. Kept only on Xen, until the volume is unstaged.
    pub device: Option<PathBuf>,
}

#[derive(Debug)]
pub(crate) struct Register {
    directory: PathBuf,
    /// True on Xen.
    keeps_device_names: bool,
    /// Never locked during file system access.
    state: Mutex<State>,
    /// True while a thread writes or is about to write.
    writing: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    volumes: BTreeMap<VolumeId, RegisteredVolume>,
    /// Volumes whose file differs from `volumes`.
    unwritten: BTreeSet<VolumeId>,
    /// Volumes whose last write failed. The next change retries the write.
    failed: BTreeSet<VolumeId>,
    at_boot: u32,
}

impl Attacher {
    fn as_str(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Other => "other",
        }
    }
}

impl RegisteredVolume {
    fn unknown() -> Self {
        Self { attacher: Attacher::Other, paths: BTreeSet::new(), device: None }
    }

    /// Formats an entry. Earlier versions stop reading at the end mark, so the device name follows it.
    fn to_text(&self) -> String {
        let paths = self.paths.iter().map(|path| format!("path={}\n", escape(&path.to_string())));
        let device = self.device.iter().map(|name| format!("device={}\nend\n", escape(&name.to_string_lossy())));
        format!("attacher={}\n{}end\n{}", self.attacher.as_str(), paths.collect::<String>(), device.collect::<String>())
    }

    /// Parses an entry. Returns `None` for a text that is incomplete or from an incompatible version.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let word = lines.next()?.strip_prefix("attacher=")?;
        let attacher = [Attacher::Driver, Attacher::Other].into_iter().find(|attacher| attacher.as_str() == word)?;
        let mut volume = Self { attacher, ..Self::unknown() };
        loop {
            match lines.next()? {
                "end" => break,
                line => drop(volume.paths.insert(NodePath::parse(&unescaped(line.strip_prefix("path=")?)?).ok()?)),
            }
        }
        if let (Some(device), Some("end")) = (lines.next(), lines.next()) {
            volume.device = Some(unescaped(device.strip_prefix("device=")?)?.into());
        }
        Some(volume)
    }

    fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.device.is_none()
    }
}

impl Register {
    pub(crate) fn new(config: &MounterConfig) -> Self {
        let directory = config.state_dir.join("volumes");
        let (state, writing) = (Mutex::default(), watch::Sender::new(false));
        Self { directory, keeps_device_names: config.xen, state, writing }
    }

    /// Loads the entries, and counts once per boot how many of the driver's registered volumes are attached. Keeps
    /// entries that were registered in the meantime. Logs errors, and leaves out unreadable entries.
    pub(crate) fn load(self: &Arc<Self>, config: &MounterConfig, volumes_here: impl FnOnce() -> BTreeSet<VolumeId>) {
        let mut loaded = read(&self.directory);
        let settled = config.state_dir.join("volumes-at-boot");
        let boot = std::fs::read_to_string(&config.boot_id);
        let boot =
            boot.inspect_err(|error| tracing::warn!(%error, "failed to read the kernel's boot id")).unwrap_or_default();
        let known = std::fs::read_to_string(&settled).ok().and_then(|text| count_of(&text, boot.trim()));
        let gone: Vec<VolumeId> = match known {
            Some(_) => Vec::new(),
            None => {
                let here = volumes_here();
                loaded.keys().filter(|volume| !here.contains(volume)).cloned().collect()
            }
        };
        loaded.retain(|volume, _| !gone.contains(volume));
        let at_boot = known.unwrap_or_else(|| {
            let ours = loaded.values().filter(|volume| volume.attacher == Attacher::Driver).count();
            u32::try_from(ours).unwrap_or(u32::MAX)
        });
        {
            let mut state = self.state();
            state.at_boot = at_boot;
            for (volume, entry) in loaded {
                state.volumes.entry(volume).or_insert(entry);
            }
            state.unwritten.extend(gone);
        }
        if known.is_none()
            && let Err(error) = write(&settled, &format!("boot={}\ncount={at_boot}\n", boot.trim()))
        {
            tracing::warn!(
                path = %settled.display(), %error,
                "failed to save the count of volumes at boot: the next run of the driver counts them again"
            );
        }
        self.write_changes();
    }

    /// Returns a number that stays the same until the next boot. It is 0 until the register has been read.
    pub(crate) fn own_volumes_at_boot(&self) -> u32 {
        self.state().at_boot
    }

    pub(crate) fn add(self: &Arc<Self>, volume: &VolumeId, attacher: Attacher, at: &NodePath, device: Option<&Path>) {
        let device = device.filter(|name| self.keeps_device_names && name.is_absolute());
        self.change(|volumes| {
            let mut changed = Vec::new();
            // A device name belongs to one volume at a time: remove it from the others.
            for (other, entry) in volumes.iter_mut().filter(|(other, _)| *other != volume) {
                if device.is_some() && entry.device.as_deref() == device {
                    entry.device = None;
                    changed.push(other.clone());
                }
            }
            volumes.retain(|_, entry| !entry.is_empty());
            let entry = volumes.entry(volume.clone()).or_insert_with(RegisteredVolume::unknown);
            let before = entry.clone();
            // A later registration without an attacher or device name keeps the registered one.
            if attacher == Attacher::Driver {
                entry.attacher = attacher;
            }
            entry.device = device.map(Path::to_owned).or(entry.device.take());
            entry.paths.insert(at.clone());
            if *entry != before {
                changed.push(volume.clone());
            }
            changed
        });
    }

    pub(crate) fn remove_path(self: &Arc<Self>, at: &NodePath) {
        self.change(|volumes| {
            let without =
                |(volume, entry): (&VolumeId, &mut RegisteredVolume)| entry.paths.remove(at).then(|| volume.clone());
            let changed = volumes.iter_mut().filter_map(without).collect();
            volumes.retain(|_, entry| !entry.is_empty());
            changed
        });
    }

    pub(crate) fn remove_volume(self: &Arc<Self>, volume: &VolumeId) {
        self.change(|volumes| volumes.remove(volume).map(|_| volume.clone()).into_iter().collect());
    }

    pub(crate) fn device_name(&self, volume: &VolumeId) -> Option<PathBuf> {
        self.state().volumes.get(volume)?.device.clone()
    }

    pub(crate) fn volumes(&self) -> BTreeMap<VolumeId, RegisteredVolume> {
        self.state().volumes.clone()
    }

    /// Waits at most `bound` for the writes. Returns false on timeout. A failed write counts as written.
    pub(crate) async fn wait_until_written(&self, bound: Duration) -> bool {
        let mut writing = self.writing.subscribe();
        let idle = writing.wait_for(|writing| !writing);
        matches!(tokio::time::timeout(bound, idle).await, Ok(Ok(_)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(self: &Arc<Self>, change: impl FnOnce(&mut BTreeMap<VolumeId, RegisteredVolume>) -> Vec<VolumeId>) {
        {
            let mut state = self.state();
            let mut changed: BTreeSet<VolumeId> = change(&mut state.volumes).into_iter().collect();
            if changed.is_empty() {
                return;
            }
            changed.append(&mut state.failed);
            state.unwritten.append(&mut changed);
        }
        self.write_changes();
    }

    /// Starts a thread that writes all pending changes, unless one is running. A hung directory blocks only the thread.
    fn write_changes(self: &Arc<Self>) {
        let is_needed = {
            let state = self.state();
            !state.unwritten.is_empty() && !self.writing.send_replace(true)
        };
        if !is_needed {
            return;
        }
        let register = Arc::clone(self);
        let writer = std::thread::Builder::new().name("register".to_owned()).spawn(move || register.write_all());
        if let Err(error) = writer {
            tracing::warn!(%error, "failed to start the writer of the volume register, retrying with the next change");
            self.writing.send_replace(false);
        }
    }

    fn write_all(&self) {
        loop {
            let (volume, entry) = {
                let mut state = self.state();
                let Some(volume) = state.unwritten.pop_first() else {
                    // Set under the lock, so that the next change starts another thread.
                    self.writing.send_replace(false);
                    return;
                };
                let entry = state.volumes.get(&volume).cloned();
                (volume, entry)
            };
            let file = self.directory.join(volume.as_str());
            let written = match entry {
                Some(entry) => write(&file, &entry.to_text()),
                None => if_exists(std::fs::remove_file(&file)).map(drop),
            };
            if let Err(error) = written {
                tracing::warn!(
                    %volume, path = %file.display(), %error,
                    "failed to write the volume register, retrying with the next change"
                );
                self.state().failed.insert(volume);
            }
        }
    }
}

/// Escapes a path as the mount table does, but only as needed to store one path per line.
fn escape(path: &str) -> String {
    path.replace('\\', "\\134").replace('\n', "\\012")
}

fn unescaped(text: &str) -> Option<String> {
    String::from_utf8(unescape(text.as_bytes())).ok()
}

/// Reads all valid entries. Leaves invalid files in place, because a later NodeStageVolume overwrites them.
fn read(directory: &Path) -> BTreeMap<VolumeId, RegisteredVolume> {
    let mut volumes = BTreeMap::new();
    let entries = match std::fs::create_dir_all(directory).and_then(|()| std::fs::read_dir(directory)) {
        Ok(entries) => entries,
        Err(error) => {
            tracing::warn!(
                path = %directory.display(), %error,
                "failed to read the volume register in the state directory, starting without it"
            );
            return volumes;
        }
    };
    for entry in entries.flatten() {
        let Some(volume) = entry.file_name().to_str().and_then(|name| VolumeId::parse(name).ok()) else { continue };
        let text = std::fs::read(entry.path()).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        match text.as_deref().map(RegisteredVolume::parse) {
            Ok(Some(registered)) => drop(volumes.insert(volume, registered)),
            Ok(None) => tracing::warn!(%volume, "ignoring the invalid register entry of a volume"),
            Err(error) => {
                tracing::warn!(%volume, %error, "failed to read the register entry of a volume")
            }
        }
    }
    volumes
}

fn count_of(text: &str, boot: &str) -> Option<u32> {
    let mut lines = text.lines();
    let same = lines.next()?.strip_prefix("boot=")? == boot;
    let count = lines.next()?.strip_prefix("count=")?.parse().ok()?;
    same.then_some(count)
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(attacher: Attacher, paths: &[&str]) -> RegisteredVolume {
        let paths = paths.iter().map(|path| NodePath::parse(path).unwrap()).collect();
        RegisteredVolume { attacher, paths, device: None }
    }

    #[test]
    fn register_entry_is_parsed_up_to_its_last_complete_part() {
        let plain = entry(Attacher::Driver, &["/a b", "/line\nbreak", "/back\\slash"]);
        let named = RegisteredVolume { device: Some("/dev/xvdba".into()), ..plain.clone() };
        for (written, incomplete) in [(&plain, None), (&named, Some(&plain))] {
            let text = written.to_text();
            assert_eq!(RegisteredVolume::parse(&text).as_ref(), Some(written));
            assert_eq!(RegisteredVolume::parse(text.strip_suffix("end\n").unwrap()).as_ref(), incomplete);
        }
        assert_eq!(RegisteredVolume::parse(""), None);
    }

    fn register(state: &Path, xen: bool) -> Arc<Register> {
        let config = MounterConfig { xen, ..MounterConfig::new(state) };
        let register = Arc::new(Register::new(&config));
        register.load(&config, BTreeSet::new);
        register
    }

    fn volume(id: &str) -> VolumeId {
        VolumeId::parse(id).unwrap()
    }

    const BOUND: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn xen_device_name_is_kept_until_unstage_or_reuse() {
        let state = tempfile::tempdir().unwrap();
        let (first, second, at) = (volume("vol-01"), volume("vol-02"), NodePath::parse("/target").unwrap());
        let name = Path::new("/dev/xvdba");
        let nitro = register(&state.path().join("nitro"), false);
        nitro.add(&first, Attacher::Driver, &at, Some(name));
        assert_eq!(nitro.device_name(&first), None);
        nitro.remove_path(&at);
        assert!(nitro.volumes().is_empty());
        let xen = register(state.path(), true);
        xen.add(&first, Attacher::Driver, &at, Some(name));
        xen.add(&first, Attacher::Other, &NodePath::parse("/seen").unwrap(), None);
        xen.remove_path(&at);
        xen.remove_path(&NodePath::parse("/seen").unwrap());
        assert_eq!(xen.device_name(&first).as_deref(), Some(name), "it is unpublished but not unstaged");
        assert!(xen.wait_until_written(BOUND).await);
        assert_eq!(register(state.path(), true).volumes(), xen.volumes(), "a restarted driver knows it");
        xen.add(&second, Attacher::Driver, &at, Some(name));
        assert_eq!((xen.device_name(&first), xen.device_name(&second).as_deref()), (None, Some(name)));
        xen.remove_volume(&second);
        assert!(xen.volumes().is_empty() && xen.wait_until_written(BOUND).await);
        assert_eq!(std::fs::read_dir(state.path().join("volumes")).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn failed_register_write_is_retried_with_the_next_change() {
        let state = tempfile::tempdir().unwrap();
        let register = register(state.path(), false);
        let (first, second) = (volume("vol-01"), volume("vol-02"));
        // A directory with the name of the entry, which a file cannot replace.
        let in_the_way = state.path().join("volumes").join(first.as_str());
        std::fs::create_dir_all(in_the_way.join("x")).unwrap();
        register.add(&first, Attacher::Driver, &NodePath::parse("/a").unwrap(), None);
        assert!(register.wait_until_written(BOUND).await && in_the_way.is_dir());
        std::fs::remove_dir_all(&in_the_way).unwrap();
        register.add(&second, Attacher::Driver, &NodePath::parse("/b").unwrap(), None);
        assert!(register.wait_until_written(BOUND).await);
        assert_eq!(self::read(&state.path().join("volumes")), register.volumes());
    }
}

//! Which volumes the driver has staged or published on this node, and where: kept in the state directory, so that a driver
//! that starts anew, also after a reboot, knows its volumes from others.
//!
//! Two things need it. The metadata service counts the volumes that were attached when the machine booted, and cannot tell
//! the driver's own among them (`node.md` N-22). And a device that vanished tells nobody which volume it was (`decisions.md`
//! D-35). Nothing else is decided by it; what is lost of it in a crash comes back with the next stage.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ebs_types::VolumeId;

use crate::bounded;
use crate::device::volumes_here;
use crate::mounter::{Mounter, MounterConfig};
use crate::mountinfo::unescape;
use crate::path::NodePath;

/// Who attaches a volume to this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attacher {
    /// The driver's controller: the volume takes one of the places that the driver reports.
    Driver,
    /// Somebody else, as with node-local volumes; or it is not known who.
    Other,
}

/// A volume and where it is mounted or bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredVolume {
    pub attacher: Attacher,
    pub paths: BTreeSet<NodePath>,
}

/// The register of this node.
#[derive(Debug)]
pub(crate) struct Register {
    directory: PathBuf,
    volumes: Mutex<BTreeMap<VolumeId, RegisteredVolume>>,
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
    fn to_text(&self) -> String {
        let paths = self.paths.iter().map(|path| format!("path={}\n", escape(&path.to_string())));
        format!("attacher={}\n{}end\n", self.attacher.as_str(), paths.collect::<String>())
    }

    /// `None` for a text that was not written to its end or by another version.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let word = lines.next()?.strip_prefix("attacher=")?;
        let attacher = [Attacher::Driver, Attacher::Other].into_iter().find(|attacher| attacher.as_str() == word)?;
        let mut paths = BTreeSet::new();
        for line in lines {
            let Some(path) = line.strip_prefix("path=") else {
                return (line == "end").then_some(Self { attacher, paths });
            };
            let path = String::from_utf8(unescape(path.as_bytes())).ok()?;
            paths.insert(NodePath::parse(&path).ok()?);
        }
        None
    }
}

impl Register {
    /// Reads what is there, and settles how many of the driver's volumes the machine had when it booted: once in each run
    /// of the kernel, by those that are registered and here.
    pub(crate) fn open(config: &MounterConfig) -> io::Result<Self> {
        let directory = config.state_dir.join("volumes");
        std::fs::create_dir_all(&directory)?;
        let mut volumes = read(&directory)?;
        let boot = std::fs::read_to_string(&config.boot_id)?;
        let settled = config.state_dir.join("volumes-at-boot");
        let at_boot = match std::fs::read_to_string(&settled).ok().and_then(|text| count_of(&text, boot.trim())) {
            Some(count) => count,
            None => {
                let here = volumes_here(config);
                let gone: Vec<VolumeId> = volumes.keys().filter(|volume| !here.contains(volume)).cloned().collect();
                for volume in gone {
                    volumes.remove(&volume);
                    remove(&directory.join(volume.as_str()))?;
                }
                let ours = volumes.values().filter(|volume| volume.attacher == Attacher::Driver).count();
                let count = u32::try_from(ours).unwrap_or(u32::MAX);
                write(&settled, &format!("boot={}\ncount={count}\n", boot.trim()))?;
                count
            }
        };
        Ok(Self { directory, volumes: Mutex::new(volumes), at_boot })
    }

    fn volumes(&self) -> MutexGuard<'_, BTreeMap<VolumeId, RegisteredVolume>> {
        self.volumes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes a volume's entry and its file as one.
    fn change(&self, volume: &VolumeId, change: impl FnOnce(&mut RegisteredVolume)) -> io::Result<()> {
        let mut volumes = self.volumes();
        let before = volumes.get(volume).cloned();
        let mut entry =
            before.clone().unwrap_or(RegisteredVolume { attacher: Attacher::Other, paths: BTreeSet::new() });
        change(&mut entry);
        if before.as_ref() == Some(&entry) {
            return Ok(());
        }
        let file = self.directory.join(volume.as_str());
        if entry.paths.is_empty() {
            volumes.remove(volume);
            return remove(&file);
        }
        volumes.insert(volume.clone(), entry.clone());
        write(&file, &entry.to_text())
    }
}

/// As the mount table writes paths, as far as it must be for one path a line.
fn escape(path: &str) -> String {
    path.replace('\\', "\\134").replace('\n', "\\012")
}

/// All entries that can be understood. Others are left alone: a later stage writes them anew.
fn read(directory: &Path) -> io::Result<BTreeMap<VolumeId, RegisteredVolume>> {
    let mut volumes = BTreeMap::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let Some(volume) = entry.file_name().to_str().and_then(|name| VolumeId::parse(name).ok()) else { continue };
        let text = std::fs::read(entry.path())?;
        match RegisteredVolume::parse(&String::from_utf8_lossy(&text)) {
            Some(registered) => drop(volumes.insert(volume, registered)),
            None => tracing::warn!(%volume, "the entry of a volume in the state directory cannot be read"),
        }
    }
    Ok(volumes)
}

fn count_of(text: &str, boot: &str) -> Option<u32> {
    let mut lines = text.lines();
    let same = lines.next()?.strip_prefix("boot=")? == boot;
    let count = lines.next()?.strip_prefix("count=")?.parse().ok()?;
    same.then_some(count)
}

/// Replaces a file as a whole.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(&new, path)
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl Mounter {
    /// How many volumes that the driver had attached were attached when the machine booted. The same as long as the
    /// machine runs.
    pub fn own_volumes_at_boot(&self) -> u32 {
        self.register.at_boot
    }

    /// Registers a volume at a path. One that is registered there already costs nothing.
    ///
    /// # Errors
    /// When the state directory cannot be written.
    pub async fn register(&self, volume: &VolumeId, attacher: Attacher, at: &NodePath) -> io::Result<()> {
        let (register, volume, at) = (Arc::clone(&self.register), volume.clone(), at.clone());
        let change = move || {
            register.change(&volume, |entry| {
                // Who it was stays known when it is only seen again.
                if attacher == Attacher::Driver {
                    entry.attacher = attacher;
                }
                entry.paths.insert(at);
            })
        };
        bounded::changing("registering a volume in", &self.config.state_dir, change).await
    }

    /// Takes a path out of the register, whichever volume it is of; the volume with its last one.
    ///
    /// # Errors
    /// As [`Mounter::register`].
    pub async fn unregister(&self, at: &NodePath) -> io::Result<()> {
        let (register, at) = (Arc::clone(&self.register), at.clone());
        let change = move || {
            let volumes = register.volumes();
            let of: Vec<VolumeId> = volumes
                .iter()
                .filter(|(_, entry)| entry.paths.contains(&at))
                .map(|(volume, _)| volume.clone())
                .collect();
            drop(volumes);
            of.iter().try_for_each(|volume| {
                register.change(volume, |entry| {
                    entry.paths.remove(&at);
                })
            })
        };
        bounded::changing("taking a volume out of", &self.config.state_dir, change).await
    }

    /// All registered volumes.
    pub fn registered(&self) -> BTreeMap<VolumeId, RegisteredVolume> {
        self.register.volumes().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(attacher: Attacher, paths: &[&str]) -> RegisteredVolume {
        RegisteredVolume { attacher, paths: paths.iter().map(|path| NodePath::parse(path).unwrap()).collect() }
    }

    #[test]
    fn an_entry_is_read_as_it_was_written_and_half_of_one_is_none() {
        let written = entry(Attacher::Driver, &["/a b", "/line\nbreak", "/back\\slash"]);
        let text = written.to_text();
        assert_eq!(RegisteredVolume::parse(&text), Some(written));
        let half = text.strip_suffix("end\n").unwrap();
        assert_eq!(RegisteredVolume::parse(half), None);
        assert_eq!(RegisteredVolume::parse(""), None);
    }
}

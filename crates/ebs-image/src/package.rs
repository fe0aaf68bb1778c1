//! Debian packages: the metadata and the files of a `.deb`.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use tar::EntryType;

use crate::child;
use crate::platform::Platform;

const DPKG_DEB: &str = "/usr/bin/dpkg-deb";

/// A file of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    File { contents: Vec<u8>, executable: bool },
    Link(String),
}

/// A package of one machine, or of all.
#[derive(Debug, Clone)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// Its source package, with the version if it differs, as in the control file.
    pub source: String,
    /// Its control file, which scanners read in the image.
    pub(crate) control: String,
    /// Its files by path on a system with everything below `/usr`, without the leading slash.
    pub(crate) entries: BTreeMap<String, Entry>,
}

impl Package {
    /// Reads a `.deb`.
    ///
    /// # Errors
    /// It cannot be read, or is for another machine.
    pub(crate) async fn read(deb: &Path, platform: Platform) -> anyhow::Result<Self> {
        let named = || format!("the package {}", deb.display());
        let control = child::output(DPKG_DEB, &["--field".as_ref(), deb.as_os_str()]).await.with_context(named)?;
        let control = String::from_utf8(control).with_context(named)?;
        let files = child::output(DPKG_DEB, &["--fsys-tarfile".as_ref(), deb.as_os_str()]).await.with_context(named)?;
        let package = Self::of(control, &files).with_context(named)?;
        let machine = field(&package.control, "Architecture").unwrap_or_default();
        ensure!([platform.name(), "all"].contains(&machine), "{} is for {machine}, not for {platform}", deb.display());
        Ok(package)
    }

    fn of(control: String, files: &[u8]) -> anyhow::Result<Self> {
        let name = field(&control, "Package").context("a package without a name")?.to_owned();
        let version = field(&control, "Version").context("a package without a version")?.to_owned();
        let source = field(&control, "Source").unwrap_or(&name).to_owned();
        Ok(Self { name, version, source, entries: entries(files)?, control })
    }

    /// Returns the contents of a file, by its path on a system with everything below `/usr`, without the leading slash.
    pub fn file(&self, path: &str) -> Option<&[u8]> {
        match self.entries.get(path) {
            Some(Entry::File { contents, .. }) => Some(contents),
            _ => None,
        }
    }

    /// Returns its own copyright file, if it has one.
    pub(crate) fn copyright(&self) -> Option<(String, &[u8])> {
        let path = format!("usr/share/doc/{}/copyright", self.name);
        self.file(&path).map(|text| (path.clone(), text))
    }
}

/// Returns the files `NAME_VERSION_ARCHITECTURE.deb` of a directory, sorted by name.
///
/// # Errors
/// The directory contains no package. The text explains how to get them.
pub(crate) fn debs(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let fetch = || format!("no packages in {}; run deploy/image/fetch", directory.display());
    let listed = std::fs::read_dir(directory).with_context(fetch)?;
    let paths = listed.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<PathBuf>>>()?;
    let mut debs: Vec<PathBuf> =
        paths.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "deb")).collect();
    ensure!(!debs.is_empty(), "{}", fetch());
    debs.sort();
    Ok(debs)
}

/// Returns a field of one line.
fn field<'a>(control: &'a str, name: &str) -> Option<&'a str> {
    control.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn entries(archive: &[u8]) -> anyhow::Result<BTreeMap<String, Entry>> {
    let mut entries = BTreeMap::new();
    for entry in tar::Archive::new(archive).entries().context("its files")? {
        let mut entry = entry.context("its files")?;
        let path = entry.path().context("a path")?.to_str().context("a path that is not UTF-8")?.to_owned();
        let kind = entry.header().entry_type();
        let read = if kind == EntryType::Regular {
            let executable = entry.header().mode().context("a mode")? & 0o100 != 0;
            let mut contents = Vec::new();
            entry.read_to_end(&mut contents).with_context(|| format!("read {path}"))?;
            Entry::File { contents, executable }
        } else if kind == EntryType::Symlink {
            let to = entry.link_name().context("a link")?.context("a link without a target")?;
            Entry::Link(to.to_str().context("a link that is not UTF-8")?.to_owned())
        } else {
            continue;
        };
        entries.insert(merged(&path), read);
    }
    Ok(entries)
}

/// Normalises a path for a system where `/bin`, `/sbin`, `/lib` and `/lib64` are links into `/usr`, without `.`, `..`
/// and the leading slash.
pub(crate) fn merged(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    if parts.first().is_some_and(|first| ["bin", "sbin", "lib", "lib64"].contains(first)) {
        parts.insert(0, "usr");
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_merged_into_usr() {
        assert_eq!(merged("./sbin/blkid"), "usr/sbin/blkid");
        assert_eq!(merged("/lib64/ld.so"), "usr/lib64/ld.so");
        assert_eq!(merged("usr/lib/../bin/./a"), "usr/bin/a");
        assert_eq!(merged("./etc/os-release"), "etc/os-release");
        assert_eq!(merged("./library/x"), "library/x");
    }

    #[test]
    fn control_field_is_found_by_its_whole_name() {
        let control = "Package: a\nVersion: 1:2.3-4\nDepends: b (>= 1)\nDescription: text\n Version: no\n";
        assert_eq!(field(control, "Version"), Some("1:2.3-4"));
        assert_eq!(field(control, "Source"), None);
    }
}

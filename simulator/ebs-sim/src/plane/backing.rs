//! Backing files: `devices/<volume id>.img` and `snapshots/<snapshot id>.img` below the state directory.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use ebs_ec2::Gib;

use super::copy::{Copied, copy};

#[derive(Debug)]
pub(super) struct Backing {
    dir: PathBuf,
}

impl Backing {
    pub(super) fn open(dir: PathBuf) -> io::Result<Self> {
        std::fs::create_dir_all(&dir)?;
        Ok(Self { dir })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn file(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.img"))
    }

    /// Creates a file atomically: writes it under a temporary name and then renames it.
    fn whole<T>(&self, id: &str, make: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
        let aside = self.dir.join(format!("{id}.img.new"));
        let made = make(&aside).and_then(|made| std::fs::rename(&aside, self.file(id)).map(|()| made));
        if made.is_err() {
            // Report the original error. If the temporary file cannot be removed now, the next run removes it.
            let _left = std::fs::remove_file(&aside);
        }
        made
    }

    pub(super) fn make_blank(&self, id: &str, gib: u32) -> io::Result<()> {
        self.whole(id, |aside| File::create(aside)?.set_len(Gib(gib).bytes().0))
    }

    /// Creates a copy of another file, extended with zeros to the size.
    pub(super) fn make_copy(&self, id: &str, of: &Path, gib: Option<u32>) -> io::Result<Copied> {
        self.whole(id, |aside| {
            let copied = copy(of, aside)?;
            if let Some(gib) = gib {
                extend(aside, gib)?;
            }
            Ok(copied)
        })
    }

    /// Extends a file to the size. Never shrinks or recreates it.
    pub(super) fn extend(&self, id: &str, gib: u32) -> io::Result<()> {
        extend(&self.file(id), gib)
    }

    pub(super) fn remove(&self, id: &str) -> io::Result<()> {
        match std::fs::remove_file(self.file(id)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    pub(super) fn ids(&self) -> io::Result<BTreeSet<String>> {
        let mut ids = BTreeSet::new();
        for entry in std::fs::read_dir(&self.dir)? {
            ids.extend(id_of(&entry?.path()).map(str::to_owned));
        }
        Ok(ids)
    }

    /// Removes incomplete files, and the files of objects that do not exist.
    pub(super) fn sweep(&self, known: &BTreeSet<String>) -> io::Result<()> {
        for id in self.ids()?.difference(known) {
            self.remove(id)?;
        }
        for entry in std::fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if path.to_str().is_some_and(|p| p.ends_with(".img.new")) {
                std::fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

fn extend(path: &Path, gib: u32) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let wanted = Gib(gib).bytes().0;
    if file.metadata()?.len() < wanted { file.set_len(wanted) } else { Ok(()) }
}

pub(super) fn id_of(file: &Path) -> Option<&str> {
    let is_ours = file.extension() == Some(OsStr::new("img"));
    file.file_stem().and_then(OsStr::to_str).filter(|id| is_ours && (id.starts_with("vol-") || id.starts_with("snap-")))
}

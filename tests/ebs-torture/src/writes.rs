//! Writes of pods and other programs. Records which of them were acknowledged as safe.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use ebs_testkit::content;

use crate::shared::Shared;
use crate::truth::{Kept, Raw, has_magic, is_free};
use crate::volume::{MIB, Volume};

/// Size of the ranges at both ends of a disk that the driver reads in full to prove that the disk is blank.
const READ_WHOLE: u64 = MIB;
const MOST_FILES: usize = 24;

impl Volume {
    pub(crate) async fn write_file(&mut self, shared: &Shared, synced: bool) -> anyhow::Result<()> {
        let target = self.node(shared).target(&self.id);
        if self.truth.named >= MOST_FILES || !self.node(shared).is_file_system_at(&target).await? {
            return Ok(());
        }
        let cuts = self.cuts(shared);
        let name = format!("file-{}", self.truth.named);
        self.truth.named += 1;
        let (path, seed, length) = (target.join(&name), self.rng.draw(), 1 + self.rng.below(60_000));
        let write = move || -> io::Result<String> {
            if synced {
                let hash = content::write_file(&path, seed, length)?;
                std::fs::File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()?;
                return Ok(hash);
            }
            std::fs::write(&path, vec![0x5a; usize::try_from(length).unwrap_or(1)])?;
            content::hash_file(&path)
        };
        match tokio::task::spawn_blocking(write).await? {
            Ok(hash) if synced => {
                self.tell(shared, &format!("wrote {name}"));
                shared.count("acknowledged files");
                self.truth.files.push(Kept { name, hash });
            }
            Ok(hash) => {
                self.tell(shared, &format!("wrote {name}, not synced"));
                self.truth.unsynced.push(Kept { name, hash });
            }
            Err(error) if self.has_power(shared, cuts) => {
                self.broken(shared, &format!("a pod cannot write {name}: {error}"));
            }
            Err(error) => self.tell(shared, &format!("failed to write {name}: {error}")),
        }
        Ok(())
    }

    /// Writes to the raw device like a pod. Without a sync, the data stays in memory even after the pod has closed the
    /// device: this process keeps a descriptor open, as an agent might, and the kernel writes the data only at the last
    /// close.
    pub(crate) async fn write_raw(&mut self, shared: &Shared, synced: bool) -> anyhow::Result<()> {
        if !self.is_raw_published(shared).await? {
            return Ok(());
        }
        let target = self.node(shared).raw_target(&self.id);
        self.put(shared, target, "a pod", synced).await
    }

    /// Writes to the disk like another program, after the driver has rejected the disk.
    pub(crate) async fn write_foreign(&mut self, shared: &Shared) -> anyhow::Result<()> {
        if !self.truth.refused {
            return Ok(());
        }
        let device = self.device()?.to_owned();
        self.put(shared, device, "somebody", true).await
    }

    /// Returns whether another program is allowed to write to the raw device: only if there is no file system, no
    /// running mkfs, and no record of an interrupted mkfs, which permits another format.
    pub(crate) fn may_write_raw(&self) -> anyhow::Result<bool> {
        let device = self.device()?;
        let quiet =
            !self.truth.has_file_system && !self.truth.unclear && self.truth.raw.len() + self.truth.unflushed.len() < 8;
        // A disk without power cannot be read, so it counts as not writable.
        Ok(quiet && is_free(device)? && !has_magic(device).unwrap_or(true))
    }

    /// Writes bytes that the driver's check for a blank disk must find: in the first or last MiB, or over two whole
    /// stretches, because the check reads one page of each stretch.
    async fn put(&mut self, shared: &Shared, path: PathBuf, who: &str, synced: bool) -> anyhow::Result<()> {
        if !self.may_write_raw()? {
            return Ok(());
        }
        let (bytes, cuts) = (self.bytes, self.cuts(shared));
        let stretch = (bytes / 1024).next_multiple_of(4096);
        let (offset, length) = match self.rng.below(3) {
            0 => (self.rng.below(READ_WHOLE / 512 - 8) * 512, 4096),
            1 => (bytes - READ_WHOLE + self.rng.below(READ_WHOLE / 512 - 8) * 512, 4096),
            _ => (READ_WHOLE + self.rng.below((bytes - 3 * READ_WHOLE - 2 * stretch) / 4096) * 4096, 2 * stretch),
        };
        let overlaps = |raw: &Raw| offset < raw.offset + raw.length as u64 && raw.offset < offset + length;
        if self.truth.raw.iter().chain(&self.truth.unflushed).any(overlaps) {
            return Ok(());
        }
        let raw = Raw { offset, length: usize::try_from(length)?, seed: self.rng.draw() };
        let bytes = raw.bytes();
        let write = move || {
            let device = std::fs::File::options().write(true).open(path)?;
            device.write_all_at(&bytes, offset)?;
            if synced { device.sync_all() } else { Ok(()) }
        };
        match tokio::task::spawn_blocking(write).await? {
            Ok(()) if synced => {
                self.tell(shared, &format!("{who} wrote {length} bytes at {offset} of the device"));
                shared.count("acknowledged raw writes");
                self.truth.raw.push(raw);
            }
            Ok(()) => {
                self.tell(shared, &format!("{who} wrote {length} bytes at {offset} of the device, not synced"));
                shared.count("raw writes without a sync");
                self.truth.unflushed.push(raw);
            }
            Err(error) if self.has_power(shared, cuts) => return Err(error).context("write to the device"),
            Err(_) => self.truth.maybe_raw = true,
        }
        Ok(())
    }
}

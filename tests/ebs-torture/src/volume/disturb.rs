//! Steps in which pods, backups and agents leave something behind on a volume, or in which the volume's disk is
//! damaged. The driver must handle the result.

use std::time::Duration;

use anyhow::Context;
use ebs_mounter::MountEntry;
use ebs_testkit::ext_damage::{self, Damage};
use ebs_testkit::replaced_tool::ReplacedTool;

use super::Volume;
use crate::calls::Answer;
use crate::frozen;
use crate::mount_copy::{Copied, MountCopy};
use crate::planted::Planted;
use crate::shared::Shared;
use crate::truth::is_free;

/// Damage that makes the kernel refuse to mount the file system, and that `e2fsck -p` repairs.
const DAMAGES: [Damage; 3] = [Damage::GroupChecksum, Damage::JournalChecksum, Damage::RootChecksum];
const STATE_ERRORS: u16 = 2;
/// Scripts that replace a tool and do not grow the file system: one fails with an error, one is killed by a signal, and
/// one silently does nothing.
const FAILURES: [&str; 3] = ["echo planted by the torture >&2; exit 1", "kill -9 $$", "exit 0"];
/// How many times to repeat NodeStageVolume after an unknown outcome, and the pause in between.
const REPEATS: u32 = 10;
const REPEAT: Duration = Duration::from_millis(40);

/// Returns whether the kernel rejects writes although the mount itself is writable.
fn turned_read_only(entry: &MountEntry) -> bool {
    let emergency = entry.super_options.iter().any(|word| word == "emergency_ro");
    emergency || (entry.is_file_system_read_only() && !entry.is_read_only())
}

impl Volume {
    pub(crate) fn is_ext(&self) -> bool {
        self.fs_type.starts_with("ext")
    }

    /// Freezes the file system that a pod has mounted, like a backup.
    pub(crate) async fn freeze(&mut self, shared: &Shared) -> anyhow::Result<()> {
        let (cuts, target) = (self.cuts(shared), self.node(shared).target(&self.id));
        self.trouble.was_frozen = true;
        // If an xfs file system loses its disk in the middle of the freeze, the kernel never thaws the file system.
        let frozen = shared.without_cuts(frozen::freeze(&target)).await;
        match frozen {
            Ok(()) => {
                self.trouble.is_frozen = true;
                shared.count("file systems frozen");
                self.tell(shared, "a backup froze the file system");
                Ok(())
            }
            Err(error) if self.has_power(shared, cuts) => Err(error).context("freeze a file system"),
            Err(_) => Ok(()),
        }
    }

    /// Thaws the file system, because of a power cut or the end of a cycle. The disk may no longer answer.
    pub(crate) fn thaw(&mut self, shared: &Shared) -> anyhow::Result<()> {
        if !std::mem::take(&mut self.trouble.was_frozen) {
            return Ok(());
        }
        let Some(disk) = &self.disk else { return Ok(()) };
        let place = shared.nodes[self.at].directory().with_file_name(format!("thawed-{}", self.index));
        frozen::thaw_device(disk.path(), &place).map(drop).context("thaw the file system of a disk without power")
    }

    /// Starts an agent that mounts the host's root and thus has copies of the volume's mounts.
    pub(crate) fn copy_mounts(&mut self, shared: &Shared, is_open: bool) -> anyhow::Result<()> {
        let node = self.node(shared);
        let staging = node.staging(&self.id);
        let is_held = is_open || shared.planted == Some(Planted::CopyHoldsVolume);
        let what = Copied {
            // All nodes and the disks' files are in this directory.
            below: node.directory().parent().context("a node's directory has a parent")?.to_owned(),
            kept: vec![staging.clone(), node.target(&self.id)],
            open: is_held.then_some(staging),
        };
        let copy = MountCopy::new(what);
        // Opening a file fails on a disk that has just lost power.
        let Ok(copy) = copy else { return Ok(()) };
        (self.trouble.copy, self.trouble.copy_is_used) = (Some(copy), is_open);
        let use_of_it = if is_open { "and has a file open there" } else { "and does not use it" };
        self.tell(shared, &format!("a container copied the mount {use_of_it}"));
        shared.count("mounts copied to another mount namespace");
        Ok(())
    }

    /// Damages an unmounted file system so that `e2fsck -p` can repair it.
    pub(crate) fn damage(&mut self, shared: &Shared) -> anyhow::Result<()> {
        let (cuts, device) = (self.cuts(shared), self.device()?.to_owned());
        let is_ext4 = self.fs_type == "ext4";
        let kind = self.rng.below(if is_ext4 { DAMAGES.len() as u64 + 2 } else { 1 });
        let damage = usize::try_from(kind).ok().and_then(|kind| DAMAGES.get(kind.checked_sub(2)?));
        let inflict = || -> anyhow::Result<Option<String>> {
            if !ext_damage::is_clean(&device)? {
                return Ok(None);
            }
            match damage {
                Some(damage) => damage.inflict(&device)?,
                None => ext_damage::record_journal_error(&device)?,
            }
            Ok(Some(damage.map_or_else(
                || "the journal has recorded an error".to_owned(),
                |damage| format!("metadata is damaged: {damage:?}"),
            )))
        };
        match inflict() {
            Ok(Some(what)) => {
                self.trouble.is_damaged = true;
                shared.count("file systems damaged");
                self.tell(shared, &what);
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) if self.has_power(shared, cuts) => Err(error).context("damage a file system"),
            Err(_) => Ok(()),
        }
    }

    /// Returns whether the file system may be damaged: the driver has made it, it is complete, and no process uses it.
    pub(crate) async fn may_be_damaged(&self, shared: &Shared) -> anyhow::Result<bool> {
        let place = &shared.places[self.index];
        let is_settled = self.truth.has_file_system && !self.truth.unclear && !self.truth.half_grown;
        let is_reachable = !place.is_dead.get() && self.is_ext();
        Ok(is_settled && is_reachable && !self.is_staged(shared).await? && is_free(self.device()?)?)
    }

    /// Makes the kernel find an error in the mounted file system, so that the kernel rejects later writes.
    pub(crate) async fn kernel_finds_error(&mut self, shared: &Shared) -> anyhow::Result<()> {
        let (cuts, staging) = (self.cuts(shared), self.node(shared).staging(&self.id));
        let name = self.device()?.file_name().unwrap_or_default().to_owned();
        let trigger = std::path::Path::new("/sys/fs/ext4").join(name).join("trigger_fs_error");
        let found = tokio::task::spawn_blocking(move || {
            stop_at_errors(&staging)?;
            std::fs::write(trigger, "torture")
        });
        match found.await? {
            Ok(()) => {
                self.trouble.is_read_only = true;
                self.truth.unsynced.clear();
                shared.count("file systems that became read-only");
                self.tell(shared, "the kernel found an error and made the file system read-only");
                Ok(())
            }
            Err(error) if self.has_power(shared, cuts) => Err(error).context("trigger a file system error"),
            Err(_) => Ok(()),
        }
    }

    /// Enlarges the disk while the tools that grow file systems fail. The driver must still stage the volume, at its
    /// current size.
    pub(crate) async fn stage_without_growth(&mut self, shared: &Shared) -> anyhow::Result<()> {
        self.enlarge(shared).await?;
        // An interrupted growth or a mount copy explains a failure, too.
        let was_explained = self.truth.half_grown || self.trouble.copy.is_some();
        let script = FAILURES[usize::try_from(self.rng.below(FAILURES.len() as u64))?];
        let _failing = [ReplacedTool::by_script("resize2fs", script)?, ReplacedTool::by_script("xfs_growfs", script)?];
        let (cuts, kills, tool_kills) = (self.cuts(shared), self.kills(shared), self.node(shared).tool_kills.get());
        self.tell(shared, &format!("growth tools fail ({script})"));
        shared.count("failed growths");
        self.growth_fails = true;
        let mut answer = self.stage(shared, false, None).await?;
        for _ in 0..REPEATS {
            if !matches!(answer, Answer::Unknown(_)) {
                break;
            }
            // A call whose client has disconnected may still be running.
            tokio::time::sleep(REPEAT).await;
            answer = self.stage(shared, false, None).await?;
        }
        self.growth_fails = false;
        let is_explained = was_explained
            || self.kills(shared) != kills
            || self.node(shared).tool_kills.get() != tool_kills
            || self.node(shared).client().is_none()
            || !self.has_power(shared, cuts);
        if !is_explained && answer != Answer::Done {
            self.broken(shared, &format!("a failed growth prevents staging: {answer:?}"));
        }
        Ok(())
    }

    /// Checks that a staged volume is neither frozen nor read-only, and has no errors that a check repairs.
    pub(crate) async fn look_at_staged(&mut self, shared: &Shared, cuts: u64, was_used: bool) -> anyhow::Result<()> {
        let staging = self.node(shared).staging(&self.id);
        if shared.planted == Some(Planted::FrozenStaysFrozen) && self.trouble.was_frozen && !self.trouble.is_frozen {
            self.tell(shared, "planted: the file system is still frozen");
            let _no_power = frozen::freeze(&staging).await;
        }
        if self.trouble.was_frozen
            && !self.trouble.is_frozen
            && frozen::thaw(&staging).await.unwrap_or(false)
            && self.has_power(shared, cuts)
        {
            self.broken(shared, "NodeStageVolume succeeded with a frozen file system");
        }
        if was_used {
            return Ok(());
        }
        let is_read_only = self.is_read_only_at(shared, &staging).await?;
        if is_read_only && self.has_power(shared, cuts) {
            self.broken(
                shared,
                "NodeStageVolume succeeded with an otherwise unused file system that the kernel made read-only",
            );
        }
        self.trouble.is_read_only = is_read_only;
        let has_errors =
            self.is_ext() && ext_damage::state(self.device()?).is_ok_and(|state| state & STATE_ERRORS != 0);
        if has_errors && self.has_power(shared, cuts) {
            self.broken(shared, "NodeStageVolume succeeded with a file system whose errors e2fsck has not repaired");
        }
        Ok(())
    }

    pub(crate) async fn is_read_only_at(&self, shared: &Shared, path: &std::path::Path) -> anyhow::Result<bool> {
        Ok(self.node(shared).mounts_at(path).await?.last().is_some_and(turned_read_only))
    }

    pub(crate) async fn is_staged(&self, shared: &Shared) -> anyhow::Result<bool> {
        let node = self.node(shared);
        Ok(!node.mounts_at(&node.staging(&self.id)).await?.is_empty())
    }

    /// Returns how many times the service of the volume's node was killed.
    pub(crate) fn kills(&self, shared: &Shared) -> u64 {
        self.node(shared).kills.get()
    }
}

/// Makes the mounted ext file system become read-only at its first error, whatever its mount options.
fn stop_at_errors(at: &std::path::Path) -> std::io::Result<()> {
    use rustix::mount::{FsPickFlags, fsconfig_reconfigure, fsconfig_set_string, fspick};
    let picked = fspick(rustix::fs::CWD, at, FsPickFlags::FSPICK_CLOEXEC)?;
    fsconfig_set_string(&picked, "errors", "remount-ro")?;
    Ok(fsconfig_reconfigure(&picked)?)
}

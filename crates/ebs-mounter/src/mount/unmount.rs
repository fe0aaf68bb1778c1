//! Unmounts a path, one mount at a time.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::thaw_before_last_unmount;
use crate::mounter::Mounter;
use crate::mountinfo::{MountEntry, MountTable, MountTableError};
use crate::path::NodePath;
use crate::{bounded, os};

/// How many times to try to unmount a busy mount, and the pause between two tries.
const BUSY_TRIES: u32 = 6;
const BUSY_PAUSE: Duration = Duration::from_millis(200);

/// Why a mount remains.
#[derive(Debug, thiserror::Error)]
pub enum UnmountError {
    #[error("find the mounts at {path}")]
    Table { path: NodePath, source: MountTableError },
    #[error("unmount {}: it is in use by a process with an open file or working directory on it", path.display())]
    Busy { path: PathBuf },
    #[error("unmount {}", path.display())]
    Refused { path: PathBuf, source: io::Error },
    #[error("unmount {}: another file system was mounted there in the meantime", path.display())]
    Changed { path: PathBuf },
    #[error("unmount {}: it is still mounted after {mounts} unmounts", path.display())]
    Endless { path: PathBuf, mounts: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unmounted {
    pub mounts: usize,
    /// How many of `mounts` had lost their device, and with it their unflushed data.
    pub vanished: usize,
    /// True if the file system was frozen and was thawed before its last unmount.
    pub thawed: bool,
}

impl Mounter {
    /// Unmounts the visible mount at a path, which must still be the given one. Detaches it lazily only if its device
    /// has vanished; one that hangs or returns errors has not vanished. `is_gone` means that the disk behind a raw bind
    /// has vanished. Retries a busy unmount for a second, because a program that this process is starting holds copies
    /// of its descriptors. Thaws a frozen file system before its last mount in this mount table is removed.
    pub async fn unmount_top(
        &self,
        path: &NodePath,
        seen: &MountEntry,
        is_gone: bool,
    ) -> Result<Unmounted, UnmountError> {
        let mut tries = 1;
        loop {
            match self.try_unmount_top(path, seen, is_gone).await {
                Err(UnmountError::Busy { .. }) if tries < BUSY_TRIES => tries += 1,
                ended => return ended,
            }
            tokio::time::sleep(BUSY_PAUSE).await;
        }
    }

    async fn try_unmount_top(
        &self,
        path: &NodePath,
        seen: &MountEntry,
        is_gone: bool,
    ) -> Result<Unmounted, UnmountError> {
        let unknown = |source| UnmountError::Table { path: path.clone(), source };
        let at = path.in_table().await.map_err(|error| unknown(MountTableError::Read(error)))?;
        let table = MountTable::read().await.map_err(unknown)?;
        if table.topmost(&at).is_none_or(|entry| entry.id != seen.id) {
            return Err(UnmountError::Changed { path: at });
        }
        let exists = self.exists(seen.device).await.map_err(|error| unknown(MountTableError::Read(error)))?;
        let vanished = !exists || (seen.device.major == 0 && is_gone);
        if vanished {
            tracing::error!(path = %at.display(), device = %seen.device, source = %seen.source.display(),
                "device disappeared while mounted: unflushed data is lost");
        }
        let thawed = !vanished && thaw_before_last_unmount(&table, seen, &at).await;
        let target = at.clone();
        let outcome = bounded::changing("unmounting", &at, move || os::unmount(&target, vanished)).await;
        outcome.map_err(|source| match source.kind() {
            io::ErrorKind::ResourceBusy => UnmountError::Busy { path: at },
            _ => UnmountError::Refused { path: at, source },
        })?;
        Ok(Unmounted { mounts: 1, vanished: usize::from(vanished), thawed })
    }
}

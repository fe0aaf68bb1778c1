//! Remembers which disks could not be flushed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::disk_parts::DiskIdentity;
use crate::os::DeviceNumber;

/// The disks whose last flush failed.
#[derive(Debug, Default)]
pub(crate) struct FailedFlushes(Mutex<BTreeMap<DeviceNumber, DiskIdentity>>);

impl FailedFlushes {
    /// Forgets a disk that no longer exists, because the kernel may reuse its number for another one.
    pub(crate) fn forget(&self, number: DeviceNumber) {
        self.disks().remove(&number);
    }

    pub(crate) fn disks(&self) -> MutexGuard<'_, BTreeMap<DeviceNumber, DiskIdentity>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

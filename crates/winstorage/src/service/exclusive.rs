//! One change of a disk at a time.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::types::DiskNumber;

/// The disks that are being changed.
#[derive(Debug, Default)]
pub(super) struct Disks {
    busy: Mutex<BTreeSet<DiskNumber>>,
    freed: Condvar,
}

/// Holds a disk until it is dropped.
pub(super) struct Held<'a> {
    disks: &'a Disks,
    disk: DiskNumber,
}

impl Disks {
    /// Waits until nobody changes `disk`. A change always ends: no operation waits for a second disk while it holds one.
    pub(super) fn hold(&self, disk: DiskNumber) -> Held<'_> {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        while !busy.insert(disk) {
            busy = self.freed.wait(busy).unwrap_or_else(PoisonError::into_inner);
        }
        Held { disks: self, disk }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.disks.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.disk);
        self.disks.freed.notify_all();
    }
}

//! Permits only one change of a disk at a time.
//!
//! If a disk hangs, a change may hang within Windows as long as the disk does. So a second change of the disk does not
//! wait: it fails with the name of the operation that holds the disk. A caller that can wait without blocking a thread
//! registers a callback with [`Storage::on_release`]. Each disk permits one such waiter.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::types::DiskNumber;
use crate::{Storage, StorageError};

type Wake = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub(super) struct Disks {
    busy: Mutex<BTreeMap<DiskNumber, Holder>>,
    next: AtomicU64,
}

struct Holder {
    operation: &'static str,
    since: Duration,
    waiter: Option<(u64, Wake)>,
}

pub(super) struct Held<'a> {
    disks: &'a Disks,
    disk: DiskNumber,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskBusy {
    pub disk: DiskNumber,
    pub operation: &'static str,
    pub held: Duration,
}

impl fmt::Display for DiskBusy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { disk, operation, held } = self;
        write!(f, "disk {disk} is in use by {operation}, which started {} s ago", held.as_secs())
    }
}

/// The registration of a waiter. Dropping it cancels the registration.
pub struct Waiting {
    disks: Arc<Disks>,
    disk: DiskNumber,
    number: u64,
}

impl Disks {
    /// Holds `disk`, unless another operation holds it. `now` is the time on the machine's clock.
    fn hold(&self, disk: DiskNumber, operation: &'static str, now: Duration) -> Result<Held<'_>, StorageError> {
        let mut all = self.all();
        if let Some(holder) = all.get(&disk) {
            let held = now.saturating_sub(holder.since);
            return Err(StorageError::DiskBusy(DiskBusy { disk, operation: holder.operation, held }));
        }
        all.insert(disk, Holder { operation, since: now, waiter: None });
        Ok(Held { disks: self, disk })
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<DiskNumber, Holder>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let released = self.disks.all().remove(&self.disk);
        if let Some((_, wake)) = released.and_then(|holder| holder.waiter) {
            wake();
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(holder) = self.disks.all().get_mut(&self.disk) {
            holder.waiter.take_if(|(number, _)| *number == self.number);
        }
    }
}

impl Storage {
    /// Holds the disk until the returned value is dropped. Does not wait. Errors: another operation holds the disk.
    pub(super) fn hold(&self, disk: DiskNumber, operation: &'static str) -> Result<Held<'_>, StorageError> {
        self.busy.hold(disk, operation, self.host.native().elapsed())
    }

    /// Calls `wake` when the disk is released, or immediately if no operation holds it. Returns `None` if another
    /// caller is already registered.
    ///
    /// This does not reserve the disk for the caller: another operation may hold it before the caller tries again.
    pub fn on_release(&self, disk: DiskNumber, wake: impl FnOnce() + Send + 'static) -> Option<Waiting> {
        let number = self.busy.next.fetch_add(1, Ordering::Relaxed);
        let mut all = self.busy.all();
        match all.get_mut(&disk) {
            None => {
                drop(all);
                wake();
            }
            Some(Holder { waiter: Some(_), .. }) => return None,
            Some(holder) => holder.waiter = Some((number, Box::new(wake))),
        }
        Some(Waiting { disks: Arc::clone(&self.busy), disk, number })
    }
}

//! A driver's process as seen from outside: its callers, leases, death, and the device names that it has assigned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ebs_ec2::ConnectionId;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::sidecar::Sidecar;

#[derive(Debug)]
pub(crate) struct DriverProcess {
    pub(crate) id: usize,
    pub(crate) started: Instant,
    /// Number of the orchestrator's requests that are in flight at this driver.
    callers: AtomicUsize,
    cuts: Mutex<Cuts>,
    /// The volume of each device name that the driver has assigned, by instance and name.
    devices: Mutex<BTreeMap<(String, String), String>>,
    /// Volumes that have a ModifyVolume call of this driver in flight.
    modifying: Mutex<BTreeSet<String>>,
    clock: Clock,
    /// True if the driver's last dry run did not return EC2's maximum IOPS.
    knows_no_maximum: AtomicBool,
    /// The connection that a driver with a planted bug always takes for the resizer's.
    one_connection: ConnectionId,
    /// The connection of each sidecar. A new one replaces it when the sidecar's calls must end.
    terms: [watch::Sender<ConnectionId>; Sidecar::ALL.len()],
}

#[derive(Debug)]
struct Clock {
    /// True if the clock is so wrong that EC2 rejects the signatures.
    is_wrong: bool,
    /// True once a response has contained the right time.
    is_corrected: AtomicBool,
}

#[derive(Debug, Default)]
struct Cuts {
    leases_lost: Vec<(Sidecar, Instant)>,
    died: Option<Instant>,
}

pub(crate) struct Caller(Arc<DriverProcess>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.callers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl DriverProcess {
    /// Creates a process. With `clock_is_wrong`, its calls fail until a response contains the time.
    pub(crate) fn new(id: usize, clock_is_wrong: bool) -> Self {
        Self {
            id,
            started: Instant::now(),
            callers: AtomicUsize::new(0),
            cuts: Mutex::default(),
            devices: Mutex::default(),
            modifying: Mutex::default(),
            clock: Clock { is_wrong: clock_is_wrong, is_corrected: AtomicBool::new(false) },
            knows_no_maximum: AtomicBool::new(false),
            one_connection: ConnectionId::unique(),
            terms: Sidecar::ALL.map(|_| watch::Sender::new(ConnectionId::unique())),
        }
    }

    pub(crate) fn caller(self: &Arc<Self>) -> Caller {
        self.callers.fetch_add(1, Ordering::SeqCst);
        Caller(Arc::clone(self))
    }

    pub(crate) fn has_callers(&self) -> bool {
        self.callers.load(Ordering::SeqCst) > 0
    }

    /// Kills the process: none of its calls returns, and calls in flight can reach EC2 only for a short time.
    pub(crate) fn die(&self) {
        lock(&self.cuts).died = Some(Instant::now());
        Sidecar::ALL.iter().for_each(|sidecar| self.dismiss(*sidecar));
    }

    /// Takes a lease from the process: the calls of that sidecar end, and the process continues.
    pub(crate) fn lose_lease(&self, of: Sidecar) {
        lock(&self.cuts).leases_lost.push((of, Instant::now()));
        self.dismiss(of);
    }

    fn dismiss(&self, sidecar: Sidecar) {
        self.terms[sidecar.place()].send_replace(ConnectionId::unique());
    }

    /// Returns the sidecar's current connection. A sidecar that loses its lease exits, which closes its connection.
    pub(crate) fn connection(&self, of: Sidecar) -> ConnectionId {
        *self.terms[of.place()].borrow()
    }

    /// Returns a channel that changes when the sidecar's current calls must end.
    pub(crate) fn term(&self, of: Sidecar) -> watch::Receiver<ConnectionId> {
        self.terms[of.place()].subscribe()
    }

    /// Records that EC2 accepted an attachment that this driver requested.
    pub(crate) fn gave_device(&self, instance: &str, device: &str, volume: &str) {
        lock(&self.devices).insert((instance.to_owned(), device.to_owned()), volume.to_owned());
    }

    /// Records that the driver has detached the volume, or has found that it is not attached.
    pub(crate) fn took_device(&self, instance: &str, volume: &str) {
        lock(&self.devices).retain(|(on, _), of| on != instance || of != volume);
    }

    pub(crate) fn has_given(&self, instance: &str, device: &str) -> Option<String> {
        lock(&self.devices).get(&(instance.to_owned(), device.to_owned())).cloned()
    }

    /// Records the start of a ModifyVolume call. Returns false if one is already in flight.
    pub(crate) fn begins_to_modify(&self, volume: &str) -> bool {
        lock(&self.modifying).insert(volume.to_owned())
    }

    pub(crate) fn has_modified(&self, volume: &str) {
        lock(&self.modifying).remove(volume);
    }

    /// Returns whether EC2 rejects a call that the process signs now.
    pub(crate) fn signs_by_a_wrong_clock(&self) -> bool {
        self.clock.is_wrong && !self.clock.is_corrected.load(Ordering::SeqCst)
    }

    pub(crate) fn learn_the_time(&self) {
        self.clock.is_corrected.store(true, Ordering::SeqCst);
    }

    /// Records whether the driver's dry run returned EC2's maximum IOPS.
    pub(crate) fn record_dry_run(&self, has_maximum: bool) {
        self.knows_no_maximum.store(!has_maximum, Ordering::SeqCst);
    }

    pub(crate) fn knows_no_maximum(&self) -> bool {
        self.knows_no_maximum.load(Ordering::SeqCst)
    }

    pub(crate) fn one_connection(&self) -> ConnectionId {
        self.one_connection
    }

    /// Returns immediately while the process is alive. Never returns after its death.
    pub(crate) async fn alive(&self) {
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns true if the sidecar lost the lease while the call sent at `sent` was in flight, which permits a late
    /// effect.
    pub(crate) fn had_in_flight_at_loss(&self, of: Sidecar, sent: Instant) -> bool {
        lock(&self.cuts).leases_lost.iter().any(|(lost, at)| *lost == of && sent <= *at)
    }

    pub(crate) fn is_dead(&self) -> bool {
        lock(&self.cuts).died.is_some()
    }

    /// Returns whether this call was in flight for the sidecar when the process died or lost the lease.
    pub(crate) fn had_in_flight(&self, of: Sidecar, sent: Instant) -> bool {
        self.had_in_flight_at_loss(of, sent) || lock(&self.cuts).died.is_some_and(|died| sent <= died)
    }

    /// Returns whether a call that was sent at that time can still reach EC2.
    pub(crate) fn reaches(&self, sent: Instant, latest: Duration) -> bool {
        let cuts = lock(&self.cuts);
        let first = cuts.leases_lost.iter().map(|(_, at)| at).chain(&cuts.died).filter(|cut| sent <= **cut).min();
        first.is_none_or(|cut| Instant::now() <= *cut + latest)
    }
}

/// Locks a mutex, even if another run panicked while it held the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

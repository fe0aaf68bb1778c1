//! A driver's process, seen from outside: its callers, its leases, its death, and the device names that it has given.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebs_types::ConnectionId;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::fault_plan::SETTLE;
use crate::network::lock;
use crate::sidecar::Sidecar;

/// A driver's process, seen from outside.
#[derive(Debug)]
pub(crate) struct DriverProcess {
    pub(crate) id: usize,
    pub(crate) started: Instant,
    /// Requests of the orchestrator in flight at this driver.
    callers: AtomicUsize,
    cuts: Mutex<Cuts>,
    /// Since when each sidecar calls this driver without a pause in which it may have called another, by sidecar.
    services: Mutex<[Option<Service>; Sidecar::ALL.len()]>,
    /// Which volume this driver has given a device name, by instance and name.
    devices: Mutex<BTreeMap<(String, String), String>>,
    /// Volumes for which a ModifyVolume of this driver is on its way.
    modifying: Mutex<BTreeSet<String>>,
    clock: Clock,
    /// Its last dry run was not answered with a maximum.
    knows_no_maximum: AtomicBool,
    /// The connection over which a driver believes that the resizer always asks: a planted bug.
    one_connection: ConnectionId,
    /// The connection of each sidecar; another one whenever its calls have to end.
    terms: [watch::Sender<ConnectionId>; Sidecar::ALL.len()],
}

/// The clock that a process signs its calls by.
#[derive(Debug)]
struct Clock {
    /// It is so wrong that EC2 refuses what is signed by it.
    is_wrong: bool,
    /// A reply has told the right time.
    is_corrected: AtomicBool,
}

/// A time in which a sidecar called again and again, or kept its connection.
#[derive(Debug, Clone, Copy)]
struct Service {
    began: Instant,
    last: Instant,
    connection: ConnectionId,
}

/// When a process lost its callers.
#[derive(Debug, Default)]
struct Cuts {
    leases_lost: Vec<(Sidecar, Instant)>,
    died: Option<Instant>,
}

/// A request in flight at a driver.
pub(crate) struct Caller(Arc<DriverProcess>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.callers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl DriverProcess {
    /// `clock_is_wrong`: by more than EC2 takes, so its calls are refused until a reply has taught it the time.
    pub(crate) fn new(id: usize, clock_is_wrong: bool) -> Self {
        Self {
            id,
            started: Instant::now(),
            callers: AtomicUsize::new(0),
            cuts: Mutex::default(),
            services: Mutex::default(),
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

    /// From now on no call of this process returns, and those under way have little time left to reach EC2.
    pub(crate) fn die(&self) {
        lock(&self.cuts).died = Some(Instant::now());
        Sidecar::ALL.iter().for_each(|sidecar| self.dismiss(*sidecar));
    }

    /// A lease is lost: that sidecar's calls end. The process lives on.
    pub(crate) fn lose_lease(&self, of: Sidecar) {
        lock(&self.cuts).leases_lost.push((of, Instant::now()));
        self.dismiss(of);
    }

    fn dismiss(&self, sidecar: Sidecar) {
        self.terms[sidecar.place()].send_replace(ConnectionId::unique());
    }

    /// The sidecar's present connection: it ends with its process, which ends when it loses its lease.
    pub(crate) fn connection(&self, of: Sidecar) -> ConnectionId {
        *self.terms[of.place()].borrow()
    }

    /// Changes when the sidecar's calls of now have to end.
    pub(crate) fn term(&self, of: Sidecar) -> watch::Receiver<ConnectionId> {
        self.terms[of.place()].subscribe()
    }

    /// A call of the sidecar arrives.
    pub(crate) fn serve(&self, sidecar: Sidecar) {
        let (now, mut services) = (Instant::now(), lock(&self.services));
        let service = &mut services[sidecar.place()];
        let connection = self.connection(sidecar);
        let goes_on = |s: &Service| s.connection == connection || now < s.last + SETTLE;
        let began = service.filter(goes_on).map_or(now, |s| s.began);
        *service = Some(Service { began, last: now, connection });
    }

    /// Since when the sidecar has called without a pause. What another process sent before that, this one must reckon
    /// with; of what was sent later it cannot know.
    pub(crate) fn served_since(&self, sidecar: Sidecar) -> Option<Instant> {
        lock(&self.services)[sidecar.place()].map(|service| service.began)
    }

    /// This driver's attachment was accepted.
    pub(crate) fn gave_device(&self, instance: &str, device: &str, volume: &str) {
        lock(&self.devices).insert((instance.to_owned(), device.to_owned()), volume.to_owned());
    }

    /// It has asked for the end of the attachment, or was answered that there is none.
    pub(crate) fn took_device(&self, instance: &str, volume: &str) {
        lock(&self.devices).retain(|(on, _), of| on != instance || of != volume);
    }

    /// The volume that it has given the device name.
    pub(crate) fn has_given(&self, instance: &str, device: &str) -> Option<String> {
        lock(&self.devices).get(&(instance.to_owned(), device.to_owned())).cloned()
    }

    /// False: a ModifyVolume of it is on its way already.
    pub(crate) fn begins_to_modify(&self, volume: &str) -> bool {
        lock(&self.modifying).insert(volume.to_owned())
    }

    /// It has been answered.
    pub(crate) fn has_modified(&self, volume: &str) {
        lock(&self.modifying).remove(volume);
    }

    /// EC2 refuses a call that is signed now.
    pub(crate) fn signs_by_a_wrong_clock(&self) -> bool {
        self.clock.is_wrong && !self.clock.is_corrected.load(Ordering::SeqCst)
    }

    /// A reply has told the time.
    pub(crate) fn learn_the_time(&self) {
        self.clock.is_corrected.store(true, Ordering::SeqCst);
    }

    /// Its dry run was answered, maybe with EC2's maximum of IOPS.
    pub(crate) fn note_dry_run(&self, has_maximum: bool) {
        self.knows_no_maximum.store(!has_maximum, Ordering::SeqCst);
    }

    pub(crate) fn knows_no_maximum(&self) -> bool {
        self.knows_no_maximum.load(Ordering::SeqCst)
    }

    pub(crate) fn one_connection(&self) -> ConnectionId {
        self.one_connection
    }

    /// Comes back only in a process that lives.
    pub(crate) async fn alive(&self) {
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
    }

    /// What a lost lease allows: that calls which the driver had in flight for the sidecar have their effect still.
    pub(crate) fn had_in_flight_at_loss(&self, of: Sidecar, sent: Instant) -> bool {
        lock(&self.cuts).leases_lost.iter().any(|(lost, at)| *lost == of && sent <= *at)
    }

    pub(crate) fn is_dead(&self) -> bool {
        lock(&self.cuts).died.is_some()
    }

    /// Whether it had this in flight for the sidecar when its process died or the lease was lost.
    pub(crate) fn had_in_flight(&self, of: Sidecar, sent: Instant) -> bool {
        self.had_in_flight_at_loss(of, sent) || lock(&self.cuts).died.is_some_and(|died| sent <= died)
    }

    /// Whether a call sent then can still reach EC2 now.
    pub(crate) fn reaches(&self, sent: Instant, latest: Duration) -> bool {
        let cuts = lock(&self.cuts);
        let first = cuts.leases_lost.iter().map(|(_, at)| at).chain(&cuts.died).filter(|cut| sent <= **cut).min();
        first.is_none_or(|cut| Instant::now() <= *cut + latest)
    }
}

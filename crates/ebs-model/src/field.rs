//! What lies between the drivers and EC2: the weather, the calls under way, and a record of what EC2 did.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ebs_ec2::{Action, Ec2Error, ErrorClass};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::dice::Dice;
use crate::planted::Planted;
use crate::weather::{Fate, Reach, Told, Weather};

/// Something that EC2 did for a driver, in the order in which it did it.
#[derive(Debug, Clone)]
pub(crate) struct Deed {
    pub(crate) line: Arc<Line>,
    /// When the driver sent the call.
    pub(crate) sent: Instant,
    /// When EC2 did it.
    pub(crate) at: Instant,
    pub(crate) what: What,
}

/// Successful calls only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    Created { name: String, id: String },
    Attached { volume: String, instance: String },
    Detached { volume: String, instance: String },
    Snapshotted { name: String, id: String },
    Other,
}

/// One driver's line to EC2.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) id: usize,
    pub(crate) started: Instant,
    /// Requests of the orchestrator in flight at this driver.
    callers: AtomicUsize,
    cuts: Mutex<Cuts>,
    /// Grows whenever its callers have to leave.
    term: watch::Sender<u64>,
}

/// When a process lost its callers.
#[derive(Debug, Default)]
struct Cuts {
    lease_lost: Vec<Instant>,
    died: Option<Instant>,
}

/// A request in flight at a driver.
pub(crate) struct Caller(Arc<Line>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.callers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Line {
    pub(crate) fn new(id: usize) -> Self {
        let term = watch::Sender::new(0);
        Self { id, started: Instant::now(), callers: AtomicUsize::new(0), cuts: Mutex::default(), term }
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
        self.dismiss();
    }

    /// The lease is lost: all callers leave. The process lives on.
    pub(crate) fn lose_lease(&self) {
        lock(&self.cuts).lease_lost.push(Instant::now());
        self.dismiss();
    }

    fn dismiss(&self) {
        self.term.send_modify(|term| *term += 1);
    }

    /// Changes when the callers of now have to leave.
    pub(crate) fn term(&self) -> watch::Receiver<u64> {
        self.term.subscribe()
    }

    /// Comes back only in a process that lives.
    pub(crate) async fn alive(&self) {
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
    }

    /// What a lost lease allows: that calls which the driver had in flight when it lost it have their effect still.
    pub(crate) fn had_in_flight_at_loss(&self, sent: Instant) -> bool {
        lock(&self.cuts).lease_lost.iter().any(|lost| sent <= *lost)
    }

    pub(crate) fn is_dead(&self) -> bool {
        lock(&self.cuts).died.is_some()
    }

    /// Whether it had this in flight when its process died or lost its lease.
    pub(crate) fn had_in_flight(&self, sent: Instant) -> bool {
        self.had_in_flight_at_loss(sent) || lock(&self.cuts).died.is_some_and(|died| sent <= died)
    }

    /// Whether a call sent then can still reach EC2 now.
    fn reaches(&self, sent: Instant, latest: Duration) -> bool {
        let cuts = lock(&self.cuts);
        let first = cuts.lease_lost.iter().chain(&cuts.died).filter(|cut| sent <= **cut).min();
        first.is_none_or(|cut| Instant::now() <= *cut + latest)
    }
}

/// Shared by all lines of a run.
#[derive(Debug)]
pub(crate) struct Field {
    dice: Mutex<Dice>,
    pub(crate) weather: Mutex<Weather>,
    deeds: Mutex<Vec<Deed>>,
    /// Tokens with which EC2 may have made a volume: it would repeat its answer to them, not refuse for want of room.
    tokens: Mutex<BTreeSet<String>>,
    /// Calls on their way whose callers may be gone.
    couriers: Mutex<JoinSet<()>>,
    violations: Mutex<Vec<String>>,
    calls: Mutex<Vec<String>>,
    pub(crate) planted: Option<Planted>,
    began: Instant,
    verbose: bool,
}

impl Field {
    pub(crate) fn new(dice: Dice, weather: Weather, planted: Option<Planted>, verbose: bool) -> Self {
        Self {
            dice: Mutex::new(dice),
            weather: Mutex::new(weather),
            deeds: Mutex::default(),
            tokens: Mutex::default(),
            couriers: Mutex::default(),
            violations: Mutex::default(),
            calls: Mutex::default(),
            planted,
            began: Instant::now(),
            verbose,
        }
    }

    pub(crate) fn fate(&self, action: Action) -> Fate {
        lock(&self.weather).fate(&mut lock(&self.dice), action)
    }

    /// From now on a volume may exist under the token.
    pub(crate) fn use_token(&self, token: &str) {
        lock(&self.tokens).insert(token.to_owned());
    }

    /// True when a volume may exist under the token.
    pub(crate) fn knows_token(&self, token: &str) -> bool {
        lock(&self.tokens).contains(token)
    }

    pub(crate) fn is_planted(&self, bug: Planted) -> bool {
        self.planted == Some(bug)
    }

    /// What EC2 did since the last time.
    pub(crate) fn take_deeds(&self) -> Vec<Deed> {
        std::mem::take(&mut *lock(&self.deeds))
    }

    /// A rule that was broken on the way to EC2.
    pub(crate) fn violated(&self, rule: String) {
        lock(&self.violations).push(rule);
    }

    pub(crate) fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.violations))
    }

    pub(crate) fn note(&self, deed: Deed) {
        lock(&self.deeds).push(deed);
    }

    /// Since the run began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// One line of what happens, for a run that is looked at.
    pub(crate) fn tell(&self, text: impl FnOnce() -> String) {
        if self.verbose {
            lock(&self.calls).push(format!("{:>9.3}     {}", self.elapsed().as_secs_f64(), text()));
        }
    }

    pub(crate) fn take_told(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.calls))
    }

    /// Carries a call to EC2 even when its caller is gone by then.
    pub(crate) fn dispatch(&self, courier: impl Future<Output = ()> + Send + 'static) {
        let mut couriers = lock(&self.couriers);
        while couriers.try_join_next().is_some() {}
        couriers.spawn(courier);
    }

    pub(crate) fn reaches(&self, line: &Line, sent: Instant) -> bool {
        line.reaches(sent, lock(&self.weather).latest)
    }
}

/// How a call is told of, when it is not EC2's own answer.
pub(crate) fn made_up(action: Action, told: Told, planted: Option<Planted>) -> Option<Ec2Error> {
    let (class, message) = match told {
        Told::Answer => return None,
        Told::Unclear if planted == Some(Planted::UnclearIsRefused) => (ErrorClass::Other, "it did not work"),
        Told::Unclear => (ErrorClass::Ambiguous, "the reply was lost"),
        Told::NotSent => (ErrorClass::NotSent, "the connection was refused"),
        Told::Throttled => (ErrorClass::Throttled, "Request limit exceeded."),
        Told::NoRoom => (ErrorClass::InsufficientCapacity, "There is not enough room in the zone."),
    };
    Some(Ec2Error::new(action, class, message))
}

impl Fate {
    /// Nothing out of the ordinary.
    pub(crate) fn is_plain(&self) -> bool {
        self.before.is_zero() && self.after.is_zero() && self.reach == Reach::Now && self.told == Told::Answer
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

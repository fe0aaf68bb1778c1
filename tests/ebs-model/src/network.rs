//! The network between the drivers and EC2: the fault plan, the calls in flight, and a record of the changes in EC2.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ebs_ec2::{Action, Ec2Error, ErrorClass};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::driver_process::{DriverProcess, lock};
use crate::fault_plan::{CallOutcome, Delivery, FaultPlan, Response};
use crate::planted::Planted;
use crate::rng::Rng;

/// A change that a driver's call made in EC2. The record lists the changes in their order.
#[derive(Debug, Clone)]
pub(crate) struct Ec2Event {
    pub(crate) process: Arc<DriverProcess>,
    pub(crate) sent: Instant,
    pub(crate) at: Instant,
    pub(crate) what: EventKind,
}

/// The change that a successful call made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EventKind {
    Created {
        name: String,
        id: String,
    },
    Attached {
        volume: String,
        instance: String,
    },
    Detached {
        volume: String,
        instance: String,
    },
    Snapshotted {
        name: String,
        id: String,
    },
    Gone {
        id: String,
    },
    /// EC2 rejected a device name that another volume uses on the instance.
    NameTaken {
        volume: String,
        instance: String,
        device: String,
    },
    Locked {
        snapshot: String,
    },
    /// Fast restores of the snapshot are enabled in these zones.
    Restoring {
        snapshot: String,
        zones: Vec<String>,
    },
    Other,
}

/// State that all drivers of a run share.
#[derive(Debug)]
pub(crate) struct Network {
    rng: Mutex<Rng>,
    pub(crate) fault_plan: Mutex<FaultPlan>,
    events: Mutex<Vec<Ec2Event>>,
    /// Facts about EC2 that the model cannot see in describes.
    facts: Mutex<Facts>,
    /// The actions for which drivers lack the permission, and until when.
    rights_missing: Mutex<BTreeMap<Action, Instant>>,
    /// Tokens with which EC2 may have created a volume. For such a token, EC2 would repeat its response instead of
    /// failing for lack of capacity.
    tokens: Mutex<BTreeSet<String>>,
    /// Calls in flight, whose callers may be gone.
    in_flight: Mutex<JoinSet<()>>,
    violations: Mutex<Vec<String>>,
    calls: Mutex<Vec<String>>,
    pub(crate) planted: Option<Planted>,
    began: Instant,
    verbose: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// When volumes, snapshots and attachments (by volume and instance) were created.
    pub(crate) born: BTreeMap<(String, String), Instant>,
    /// Existing objects that EC2 has reported to a driver as unknown at least once.
    pub(crate) unknown: BTreeSet<String>,
    pub(crate) gone: BTreeSet<String>,
    pub(crate) locked: BTreeSet<String>,
    /// Snapshots whose lock has expired.
    pub(crate) unlocked: BTreeSet<String>,
    pub(crate) restoring: BTreeSet<(String, String)>,
    /// Volumes that end in state `error`.
    pub(crate) broken: BTreeSet<String>,
    /// True once a call of a driver has failed for lack of a permission.
    pub(crate) denied: bool,
    /// True once a call of a driver has failed because the driver's clock is wrong.
    pub(crate) wrong_clock: bool,
}

impl Network {
    pub(crate) fn new(rng: Rng, fault_plan: FaultPlan, planted: Option<Planted>, verbose: bool) -> Self {
        Self {
            rng: Mutex::new(rng),
            fault_plan: Mutex::new(fault_plan),
            events: Mutex::default(),
            facts: Mutex::default(),
            rights_missing: Mutex::default(),
            tokens: Mutex::default(),
            in_flight: Mutex::default(),
            violations: Mutex::default(),
            calls: Mutex::default(),
            planted,
            began: Instant::now(),
            verbose,
        }
    }

    pub(crate) fn facts(&self) -> MutexGuard<'_, Facts> {
        lock(&self.facts)
    }

    pub(crate) fn outcome(&self, action: Action) -> CallOutcome {
        let mut outcome = lock(&self.fault_plan).outcome(&mut lock(&self.rng), action);
        if lock(&self.rights_missing).get(&action).is_some_and(|until| Instant::now() < *until) {
            (outcome.delivery, outcome.response) = (Delivery::Never, Response::Denied);
        }
        lock(&self.facts).denied |= outcome.response == Response::Denied;
        outcome
    }

    pub(crate) fn throttles_a_dry_run(&self) -> bool {
        lock(&self.fault_plan).throttles_a_dry_run(&mut lock(&self.rng))
    }

    pub(crate) fn take_right(&self, action: Action, time: Duration) {
        lock(&self.rights_missing).insert(action, Instant::now() + time);
    }

    pub(crate) fn give_rights(&self) {
        lock(&self.rights_missing).clear();
    }

    pub(crate) fn refusal_for_a_clock(&self, action: Action, driver: usize) -> Ec2Error {
        lock(&self.facts).wrong_clock = true;
        self.tell(|| format!("driver {driver}: {action} is rejected because its clock is wrong"));
        Ec2Error::new(action, ErrorClass::Unauthenticated, "the signature has expired")
    }

    /// Returns whether EC2 checks everything else before the client token.
    pub(crate) fn looks_at_tokens_last(&self) -> bool {
        lock(&self.fault_plan).token_last
    }

    pub(crate) fn end_locks(&self) {
        let facts = &mut *lock(&self.facts);
        facts.unlocked.clone_from(&facts.locked);
    }

    /// Returns whether a lock may prevent the deletion of the snapshot.
    pub(crate) fn is_held_by_a_lock(&self, snapshot: &str) -> bool {
        let facts = lock(&self.facts);
        facts.locked.contains(snapshot) && !facts.unlocked.contains(snapshot)
    }

    pub(crate) fn is_restored_fast(&self, snapshot: &str, zone: &str) -> bool {
        lock(&self.facts).restoring.contains(&(snapshot.to_owned(), zone.to_owned()))
    }

    pub(crate) fn has_fast_restores(&self, snapshot: &str) -> bool {
        lock(&self.facts).restoring.iter().any(|(restored, _)| restored == snapshot)
    }

    /// Draws whether EC2 still reports a new object as unknown in this call.
    pub(crate) fn is_behind(&self, id: &str) -> bool {
        let born = lock(&self.facts).born.get(&(id.to_owned(), String::new())).copied();
        let is_behind = born.is_some_and(|born| lock(&self.fault_plan).is_behind(&mut lock(&self.rng), born.elapsed()));
        if is_behind {
            lock(&self.facts).unknown.insert(id.to_owned());
        }
        is_behind
    }

    /// Returns the outcome of a call that changes objects that EC2 may not know yet. `of` contains the id of each
    /// object and, for an attachment, its instance.
    pub(crate) fn outcome_of_change(&self, action: Action, of: &[(&str, &str)]) -> CallOutcome {
        let mut outcome = self.outcome(action);
        let born = |(id, instance): &(&str, &str)| {
            lock(&self.facts).born.get(&((*id).to_owned(), (*instance).to_owned())).map(Instant::elapsed)
        };
        let Some(age) = of.iter().filter_map(born).min() else { return outcome };
        if outcome.response == Response::Answer && lock(&self.fault_plan).is_behind(&mut lock(&self.rng), age) {
            (outcome.delivery, outcome.response) = (Delivery::Never, Response::NotYet);
            lock(&self.facts).unknown.extend(of.iter().map(|(id, _)| (*id).to_owned()));
        }
        outcome
    }

    /// Records that a volume with this token may exist.
    pub(crate) fn use_token(&self, token: &str) {
        lock(&self.tokens).insert(token.to_owned());
    }

    /// Returns whether a volume with this token may exist.
    pub(crate) fn knows_token(&self, token: &str) -> bool {
        lock(&self.tokens).contains(token)
    }

    pub(crate) fn is_planted(&self, bug: Planted) -> bool {
        self.planted == Some(bug)
    }

    /// Returns the changes in EC2 since the last call.
    pub(crate) fn take_events(&self) -> Vec<Ec2Event> {
        std::mem::take(&mut *lock(&self.events))
    }

    pub(crate) fn violated(&self, rule: String) {
        lock(&self.violations).push(rule);
    }

    pub(crate) fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.violations))
    }

    pub(crate) fn record_event(&self, event: Ec2Event) {
        let mut facts = lock(&self.facts);
        match &event.what {
            EventKind::Attached { volume, instance } => {
                facts.born.insert((volume.clone(), instance.clone()), event.at);
            }
            EventKind::Snapshotted { id, .. } => {
                facts.born.entry((id.clone(), String::new())).or_insert(event.at);
            }
            EventKind::Created { id, .. } => {
                let object = (id.clone(), String::new());
                let is_new = !facts.born.contains_key(&object);
                facts.born.entry(object).or_insert(event.at);
                if is_new && lock(&self.fault_plan).breaks(&mut lock(&self.rng)) {
                    facts.broken.insert(id.clone());
                }
            }
            EventKind::Gone { id } => drop(facts.gone.insert(id.clone())),
            EventKind::Locked { snapshot } => {
                facts.unlocked.remove(snapshot);
                facts.locked.insert(snapshot.clone());
            }
            EventKind::Restoring { snapshot, zones } => {
                facts.restoring.extend(zones.iter().map(|zone| (snapshot.clone(), zone.clone())));
            }
            _ => {}
        }
        drop(facts);
        lock(&self.events).push(event);
    }

    /// Returns the time since the start of the run.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn tell(&self, text: impl FnOnce() -> String) {
        if self.verbose {
            lock(&self.calls).push(format!("{:>9.3}     {}", self.elapsed().as_secs_f64(), text()));
        }
    }

    pub(crate) fn take_told(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.calls))
    }

    /// Delivers a call to EC2 even if its caller is gone.
    pub(crate) fn dispatch(&self, call: impl Future<Output = ()> + Send + 'static) {
        let mut in_flight = lock(&self.in_flight);
        while in_flight.try_join_next().is_some() {}
        in_flight.spawn(call);
    }

    pub(crate) fn reaches(&self, process: &DriverProcess, sent: Instant) -> bool {
        process.reaches(sent, lock(&self.fault_plan).latest)
    }
}

/// Returns the error with which a fault replaces EC2's response.
pub(crate) fn injected_error(action: Action, response: Response, planted: Option<Planted>) -> Option<Ec2Error> {
    let (class, message) = match response {
        Response::Answer => return None,
        Response::Denied => (ErrorClass::Unauthorized, "You are not authorized to perform this operation."),
        Response::NoKey => (ErrorClass::Encryption, "The key is disabled."),
        Response::NotYet => (not_found(action), "It does not exist."),
        Response::NoSource if action == Action::CopyVolumes => {
            (ErrorClass::VolumeNotFound, "The volume does not exist.")
        }
        Response::NoSource => (ErrorClass::SnapshotNotFound, "The snapshot does not exist."),
        Response::Unclear if planted == Some(Planted::UnclearIsRefused) => (ErrorClass::Other, "internal failure"),
        Response::Unclear => (ErrorClass::Ambiguous, "the reply was lost"),
        Response::NotSent => (ErrorClass::NotSent, "the connection was refused"),
        Response::Throttled => (ErrorClass::Throttled, "Request limit exceeded."),
        Response::NoRoom => (ErrorClass::InsufficientCapacity, "There is not enough capacity in the zone."),
    };
    Some(Ec2Error::new(action, class, message))
}

fn not_found(action: Action) -> ErrorClass {
    match action {
        Action::DetachVolume => ErrorClass::AttachmentNotFound,
        Action::DeleteSnapshot | Action::LockSnapshot | Action::EnableFastSnapshotRestores => {
            ErrorClass::SnapshotNotFound
        }
        _ => ErrorClass::VolumeNotFound,
    }
}

impl CallOutcome {
    pub(crate) fn is_plain(&self) -> bool {
        self.before.is_zero()
            && self.after.is_zero()
            && self.delivery == Delivery::Now
            && self.response == Response::Answer
    }
}

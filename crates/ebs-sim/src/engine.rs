//! The running simulator core: the state behind a lock, on tokio's clock, with a data plane beside it.
//!
//! **Order.** Calls are carried out one after the other in the order in which they arrive. A reply leaves after the
//! change that it speaks of is in the journal, so that a killed simulator never forgets what it has promised.
//!
//! **Data.** Work on files and devices runs on blocking threads and reports back; a resource settles only when its work
//! is done. CreateSnapshot and CopyVolumes are answered after their data are copied, so the copy holds the data of a
//! moment between call and reply: writers that need a certain moment sync first and write on after the reply.
//!
//! **Time.** Wall clock = start of the engine + tokio's clock since then, so paused tests move EC2's time too. Without
//! a data plane nothing runs in the background: time takes effect when somebody looks.

mod clock;
mod core;
#[cfg(test)]
mod device_tests;
mod gate;
mod journal;
mod latency;
mod pipeline;
#[cfg(test)]
mod pipeline_tests;
mod store;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod tests;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use crate::api::{Call, Fault, Reply, StateView};
use crate::faults::FaultInjection;
use crate::iam::{Audit, Caller, LeastRights, Rights};
use crate::plane::{Plane, PlaneError};
use crate::state::Sim;

pub use crate::config::{
    AccountSettings, BurntToken, Consistency, Devices, EngineConfig, Oddities, Quotas, Timing, TimingOverride,
    ZoneConfig,
};
pub use gate::Faults;

pub(crate) use pipeline::{Answer, Served};

use clock::Clock;
use core::{Applied, Core};
use gate::Guarded;
use store::Store;
use worker::{Stopped, Worker};

/// How often, and how long apart, a locked state directory is asked for again.
const LOCK_TRIES: usize = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Why an engine did not start or not stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Another simulator uses the state directory.
    #[error("another simulator uses {0}: stop it, or choose another state directory")]
    StateDirInUse(PathBuf),
    /// A file or directory could not be used.
    #[error("cannot {step} {path}")]
    Io { step: &'static str, path: PathBuf, source: std::io::Error },
    /// The saved state cannot be read.
    #[error("cannot use the state in {path}: {reason}; move it away to start afresh")]
    State { path: PathBuf, reason: String },
    /// The configuration contradicts itself.
    #[error("{0}")]
    Config(String),
    /// The data plane could not be set up or taken down.
    #[error("{0}")]
    Plane(String),
    /// The engine has been shut down already.
    #[error("the simulator core has ended")]
    Ended,
}

impl From<PlaneError> for EngineError {
    fn from(error: PlaneError) -> Self {
        match error {
            PlaneError::Missing(what) => Self::Plane(what),
            PlaneError::Create { path, source } => Self::Io { step: "create", path, source },
        }
    }
}

/// The simulated EC2. Clones are handles on the same engine, which ends with [`Engine::shutdown`] or with its last
/// handle.
#[derive(Debug, Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: EngineConfig,
    clock: Clock,
    core: Core,
    gate: Guarded,
    rights: Rights,
    /// Calls that take time: they go on when their clients leave.
    slow_calls: TaskTracker,
    /// Asks the worker to stop; `None` without a data plane.
    stop_worker: Option<mpsc::Sender<oneshot::Sender<Stopped>>>,
    /// Holds the worker: dropped with the last handle, it ends the worker, whose data plane takes its devices down.
    _worker: Mutex<JoinSet<()>>,
}

impl Engine {
    /// Starts it: takes the state directory, loads the state of a former run, removes what that run left behind and
    /// connects what the state says is attached. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// [`EngineError`] says what is in the way.
    pub async fn start(mut config: EngineConfig) -> Result<Self, EngineError> {
        config.check().map_err(EngineError::Config)?;
        let Parts { sim, clock, plane, store } =
            if config.state_dir.is_some() { open_soon(&config).await? } else { Parts::in_memory(&config) };
        // Resolved, as the kernel shows the backing files in it.
        config.state_dir = store.as_ref().map(|store| store.dir().to_owned());
        let core = Core::new(sim, clock.clone(), !plane.is_none(), store);
        let mut tasks = JoinSet::new();
        let stop_worker = (!plane.is_none()).then(|| {
            let (stop, asked) = mpsc::channel(1);
            tasks.spawn(Worker::new(core.clone(), Arc::new(plane)).run(asked));
            stop
        });
        let (gate, rights) = (Guarded::new(&config), Rights::new(config.iam.clone()));
        let (slow_calls, worker) = (TaskTracker::new(), Mutex::new(tasks));
        let shared = Shared { config, clock, core, gate, rights, slow_calls, stop_worker, _worker: worker };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Makes one call with the simulator's own hand, which needs no rights, and with all that may happen to it. It is
    /// carried out also when the returned future is dropped.
    ///
    /// # Errors
    /// The [`Fault`] that EC2 would answer with; `NoReply` for a reply that a fault rule took away.
    pub async fn call(&self, call: Call) -> Result<Reply, Fault> {
        let none = || Err(Fault::with_status(504, "NoReply", "A fault rule took the reply away."));
        self.serve(Caller::Own, call, |_| ()).await.answer.into_result().unwrap_or_else(none)
    }

    /// Hands a call to the state, if the caller has the right to it; returns also what the shipped policies say.
    async fn apply(
        &self,
        caller: Caller,
        call: Call,
        injection: FaultInjection,
    ) -> (Result<Reply, Fault>, Option<Audit>) {
        let ended = || Err(Fault::with_status(503, "Unavailable", "The simulator is shutting down."));
        let judgement = self.shared.core.authorize(&self.shared.rights, &caller, &call);
        let result = match judgement.refusal {
            Some(fault) => Err(fault),
            None => match self.shared.core.apply(call, judgement.key_refused, injection) {
                Applied::Now(result) => result,
                Applied::Later(result) => result.await.unwrap_or_else(|_| ended()),
            },
        };
        (result, judgement.audit)
    }

    /// Audits a call that never gets to the state.
    pub(crate) fn audit(&self, caller: &Caller, call: &Call) -> Option<Audit> {
        self.shared.core.authorize(&self.shared.rights, caller, call).audit
    }

    /// Whether clients got along with the rights that the shipped policies give.
    pub fn least_rights(&self) -> &LeastRights {
        self.shared.rights.least_rights()
    }

    /// Everything there is, now; nothing once the engine has ended.
    pub async fn snapshot_of_state(&self) -> StateView {
        let nothing = StateView { volumes: Vec::new(), snapshots: Vec::new(), instances: Vec::new() };
        self.shared.core.view().unwrap_or(nothing)
    }

    /// Replaces times from now on; transitions under way keep theirs.
    pub async fn set_timing(&self, timing: TimingOverride) {
        self.replace_timing(timing);
    }

    /// Like [`Engine::set_timing`], for callers that cannot wait.
    pub fn replace_timing(&self, timing: TimingOverride) {
        self.shared.gate.lock().latency.replace(timing);
        self.shared.core.set_timing(timing);
    }

    pub fn timing(&self) -> TimingOverride {
        let mut times = self.shared.core.timing();
        self.shared.gate.lock().latency.show(&mut times);
        times
    }

    /// Lets time leap forward: what is due by then has happened when the next call arrives. Calls and delays that are
    /// under way take as long as before.
    pub fn advance(&self, time: Duration) {
        self.shared.clock.leap(time);
        self.shared.core.changed.notify_one();
    }

    /// How far reads may lag behind from now on.
    pub fn set_consistency(&self, consistency: Consistency) {
        self.shared.core.set_max_lag(consistency.max_lag);
    }

    /// How far reads may lag behind.
    pub fn consistency(&self) -> Consistency {
        Consistency { max_lag: self.shared.core.max_lag() }
    }

    /// Lets all attachments go on that fault rules have stuck.
    pub fn release_all(&self) {
        let volumes = self.shared.core.view().map(|view| view.volumes).unwrap_or_default();
        for attachment in volumes.into_iter().flat_map(|volume| volume.attachments) {
            // One that left meanwhile is released all the more.
            let _gone = self.release_attachment(&attachment.volume_id, Some(&attachment.instance_id));
        }
    }

    /// Lets an attachment go on that a fault rule has stuck; without an instance, the volume's only one.
    ///
    /// # Errors
    /// `IncorrectState` when there is no such attachment.
    pub fn release_attachment(&self, volume: &str, instance: Option<&str>) -> Result<(), Fault> {
        self.shared.core.release(volume, instance)
    }

    /// Brings back a device that a fault rule let vanish, and ends its I/O errors.
    ///
    /// # Errors
    /// `IncorrectState` when the volume is not attached.
    pub fn heal_device(&self, volume: &str) -> Result<(), Fault> {
        self.shared.core.heal(volume)
    }

    /// Now, on the clock of the simulated EC2.
    pub fn now(&self) -> SystemTime {
        self.shared.clock.now()
    }

    /// What it was started with; the state directory is resolved.
    pub fn config(&self) -> &EngineConfig {
        &self.shared.config
    }

    /// Directory of the backing files, when there is a state directory; resolved, as `/sys/block/loopN` shows them.
    pub fn devices_dir(&self) -> Option<PathBuf> {
        self.config().state_dir.as_ref().map(|dir| dir.join("devices"))
    }

    /// Waits for data being moved, disconnects all devices, removes the links and saves the state. A device that
    /// somebody still uses disappears when its last user leaves it.
    ///
    /// # Errors
    /// [`EngineError`] names what was left behind.
    pub async fn shutdown(&self) -> Result<(), EngineError> {
        if !self.shared.core.end() {
            return Err(EngineError::Ended);
        }
        let taken_down = match &self.shared.stop_worker {
            None => Ok(()),
            Some(stop) => {
                let (answer, stopped) = oneshot::channel();
                stop.send(answer).await.map_err(|_| EngineError::Ended)?;
                stopped.await.map_err(|_| EngineError::Ended)?
            }
        };
        // Whoever asked may start another engine here as soon as they are told.
        let store = self.shared.core.lock().take_store();
        if let Some((store, sim, now)) = store {
            store.close(sim, now).await;
        }
        taken_down.map_err(EngineError::Plane)
    }
}

/// What an engine owns.
struct Parts {
    sim: Sim,
    clock: Clock,
    plane: Plane,
    store: Option<Store>,
}

impl Parts {
    fn in_memory(config: &EngineConfig) -> Self {
        let clock = if config.seed.is_some() { Clock::repeatable() } else { Clock::start(None) };
        Self { sim: Sim::new(config, clock.now()), clock, plane: Plane::None, store: None }
    }

    /// Opens everything that lives outside the process; blocks.
    fn open(config: &EngineConfig, dir: &Path) -> Result<Self, EngineError> {
        let mut store = Store::open(dir)?;
        let found = store.load(config)?;
        let clock = Clock::start(found.as_ref().map(|found| found.now));
        let mut sim = found.map_or_else(|| Sim::new(config, clock.now()), |found| found.sim);
        let plane = Plane::open(config, store.dir())?;
        plane.clean(&sim.connected_volumes(), &sim.volumes_with_data(), &sim.snapshots_with_data());
        sim.resume(clock.now());
        store.begin(&sim, clock.now())?;
        Ok(Self { sim, clock, plane, store: Some(store) })
    }
}

/// A lock outlives its simulator for a moment, in a child that was just being started: a directory in use is asked
/// for again before it is believed.
async fn open_soon(config: &EngineConfig) -> Result<Parts, EngineError> {
    let open = async || {
        let (config, dir) = (config.clone(), config.state_dir.clone().unwrap_or_default());
        blocking(move || Parts::open(&config, &dir)).await
    };
    for _ in 0..LOCK_TRIES {
        match open().await {
            Err(EngineError::StateDirInUse(_)) => tokio::time::sleep(LOCK_PAUSE).await,
            opened => return opened,
        }
    }
    open().await
}

/// Runs blocking work to its end.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

//! The running simulator core: the state behind a lock, on tokio's clock, with a data plane.
//!
//! Calls are executed in the order of their arrival, and a reply is sent after its change is in the journal. Work on
//! files and devices runs on blocking threads, and a resource changes state only after its work is done. CreateSnapshot
//! and CopyVolumes reply after the data is copied, so the copy is from a moment between call and reply.
//!
//! EC2's time follows tokio's clock, which tests can pause. Without a data plane nothing runs in the background: the
//! next access applies due changes.

mod clock;
mod core;
mod gate;
mod journal;
mod latency;
mod pipeline;
mod store;
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

pub(crate) use pipeline::{CallResponse, Served};

use clock::Clock;
use core::{Applied, Core};
use gate::Guarded;
use store::Store;
use worker::{Stopped, Worker};

/// How many times the engine tries to lock the state directory, and how long it pauses between the attempts.
const LOCK_TRIES: usize = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Why an engine could not start, or could not stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Another simulator uses the state directory.
    #[error("lock {0}: another simulator uses it; stop that simulator, or choose another state directory")]
    StateDirInUse(PathBuf),
    /// A file or directory could not be used.
    #[error("{step} {path}")]
    Io { step: &'static str, path: PathBuf, source: std::io::Error },
    /// The saved state cannot be read.
    #[error("load state from {path}: {reason}; move it away to start with an empty state")]
    State { path: PathBuf, reason: String },
    /// The configuration contradicts itself.
    #[error("{0}")]
    Config(String),
    /// The data plane could not be set up or removed.
    #[error("{0}")]
    Plane(String),
    /// The engine has already been shut down.
    #[error("the simulator core has stopped")]
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

/// The simulated EC2. It ends when [`Engine::shutdown`] is called, or when its last clone is dropped.
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
    /// Calls that take time. They continue even if their clients disconnect.
    slow_calls: TaskTracker,
    /// Asks the worker to stop. `None` without a data plane.
    stop_worker: Option<mpsc::Sender<oneshot::Sender<Stopped>>>,
    /// Holds the worker. Dropping the last handle ends the worker, and then the data plane removes its devices.
    _worker: Mutex<JoinSet<()>>,
}

impl Engine {
    /// Starts the engine: locks the state directory, loads the state of a previous run, removes that run's leftovers,
    /// and connects all attached volumes. Must be called on a tokio runtime.
    pub async fn start(mut config: EngineConfig) -> Result<Self, EngineError> {
        config.check().map_err(EngineError::Config)?;
        let Parts { sim, clock, plane, store } =
            if config.state_dir.is_some() { open_soon(&config).await? } else { Parts::in_memory(&config) };
        // Use the resolved path, because the kernel shows the resolved paths of backing files.
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

    /// Makes one call as the simulator itself, without a permission check. Fault rules apply to it. The call is
    /// executed even when the caller drops the returned future.
    ///
    /// # Errors
    /// The [`Fault`] that EC2 would return, or `NoReply` for a reply that a fault rule dropped.
    pub async fn call(&self, call: Call) -> Result<Reply, Fault> {
        let none = || Err(Fault::with_status(504, "NoReply", "A fault rule dropped the reply."));
        self.serve(Caller::Own, call, |_| ()).await.answer.into_result().unwrap_or_else(none)
    }

    /// Passes a call to the state if the caller has the permission. Also returns the decisions of the shipped policies.
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

    pub(crate) fn audit(&self, caller: &Caller, call: &Call) -> Option<Audit> {
        self.shared.core.authorize(&self.shared.rights, caller, call).audit
    }

    /// Returns the record of calls that the shipped policies do not allow.
    pub fn least_rights(&self) -> &LeastRights {
        self.shared.rights.least_rights()
    }

    /// Returns the current state of all objects, or an empty view once the engine has ended.
    pub async fn snapshot_of_state(&self) -> StateView {
        let nothing =
            StateView { volumes: Vec::new(), snapshots: Vec::new(), locks: Vec::new(), instances: Vec::new() };
        self.shared.core.view().unwrap_or(nothing)
    }

    /// Replaces times for future transitions. Running transitions keep their times.
    pub async fn set_timing(&self, timing: TimingOverride) {
        self.replace_timing(timing);
    }

    /// Like [`Engine::set_timing`], for synchronous callers.
    pub fn replace_timing(&self, timing: TimingOverride) {
        self.shared.gate.lock().latency.replace(timing);
        self.shared.core.set_timing(timing);
    }

    pub fn timing(&self) -> TimingOverride {
        let mut times = self.shared.core.timing();
        self.shared.gate.lock().latency.show(&mut times);
        times
    }

    /// Advances the time. Everything that is due by the new time happens before the next call. Running calls and delays
    /// do not become shorter.
    pub fn advance(&self, time: Duration) {
        self.shared.clock.leap(time);
        self.shared.core.changed.notify_one();
    }

    /// Sets the maximum lag of reads.
    pub fn set_consistency(&self, consistency: Consistency) {
        self.shared.core.set_max_lag(consistency.max_lag);
    }

    /// Returns the maximum lag of reads.
    pub fn consistency(&self) -> Consistency {
        Consistency { max_lag: self.shared.core.max_lag() }
    }

    /// Releases all attachments that fault rules keep stuck.
    pub fn release_all(&self) {
        let volumes = self.shared.core.view().map(|view| view.volumes).unwrap_or_default();
        for attachment in volumes.into_iter().flat_map(|volume| volume.attachments) {
            // An attachment that has already ended needs no release.
            let _gone = self.release_attachment(&attachment.volume_id, Some(&attachment.instance_id));
        }
    }

    /// Releases an attachment that a fault rule keeps stuck. Without an instance, the volume must have only one
    /// attachment.
    ///
    /// # Errors
    /// `IncorrectState` when no such attachment exists.
    pub fn release_attachment(&self, volume: &str, instance: Option<&str>) -> Result<(), Fault> {
        self.shared.core.release(volume, instance)
    }

    /// Restores a device that a fault rule removed, and ends I/O errors that a rule injected.
    ///
    /// # Errors
    /// `IncorrectState` when the volume is not attached.
    pub fn heal_device(&self, volume: &str) -> Result<(), Fault> {
        self.shared.core.heal(volume)
    }

    /// Returns the time of the simulated EC2.
    pub fn now(&self) -> SystemTime {
        self.shared.clock.now()
    }

    /// Returns the configuration with which the engine started, with the state directory resolved.
    pub fn config(&self) -> &EngineConfig {
        &self.shared.config
    }

    /// Returns the directory of the backing files, if there is a state directory. The path is resolved, as
    /// `/sys/block/loopN` shows it.
    pub fn devices_dir(&self) -> Option<PathBuf> {
        self.config().state_dir.as_ref().map(|dir| dir.join("devices"))
    }

    /// Waits for running copies, disconnects all devices, removes the links and saves the state. A device in use
    /// disappears when its last user closes it.
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
        // The caller may start another engine on this directory as soon as this function returns.
        let store = self.shared.core.lock().take_store();
        if let Some((store, sim, now)) = store {
            store.close(sim, now).await;
        }
        taken_down.map_err(EngineError::Plane)
    }
}

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

    /// Opens all external resources. Blocks.
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

/// Opens everything. Retries the lock, because a child process that the previous simulator was starting when it ended
/// may still hold it.
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

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

//! The running simulator core: one task owns the state, on tokio's clock, with a data plane beside it.
//!
//! **Order.** Calls are carried out one after the other in the order in which they arrive. A reply leaves after the
//! state that it speaks of is on disk, so that a killed simulator never forgets what it has promised.
//!
//! **Data.** Work on files and devices runs on blocking threads and reports back; a resource settles only when its work
//! is done. CreateSnapshot and CopyVolumes are answered after their data are copied, so the copy holds the data of a
//! moment between call and reply: writers that need a certain moment sync first and write on after the reply.
//!
//! **Time.** Wall clock = start of the engine + tokio's clock since then, so paused tests move EC2's time too.

mod clock;
mod config;
#[cfg(test)]
mod device_tests;
mod gate;
mod latency;
mod owner;
mod pipeline;
#[cfg(test)]
mod pipeline_tests;
mod store;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use crate::api::{Call, Fault, Reply, SimInstance, SimSnapshot, SimVolume};
use crate::faults::Twist;
use crate::plane::Plane;
use crate::state::Sim;

pub use config::{BurntToken, Consistency, Devices, EngineConfig, Timing, TimingOverride, ZoneConfig};
pub use gate::Faults;

pub(crate) use pipeline::{Answer, Served};

use clock::Clock;
use gate::Guarded;
use owner::{Command, Owner};
use store::Store;

/// Calls that may wait for the owner before callers wait themselves.
const QUEUE: usize = 1024;
/// How often, and how long apart, a locked state directory is asked for again.
const LOCK_TRIES: usize = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Everything there is, for the control API's `/state`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateView {
    /// Volumes by id, those being deleted included; attachments carry their loop device.
    pub volumes: Vec<SimVolume>,
    /// Snapshots by id.
    pub snapshots: Vec<SimSnapshot>,
    /// Instances, the machine's own first.
    pub instances: Vec<SimInstance>,
}

/// Why an engine did not start or not stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Another simulator uses the state directory.
    #[error("another simulator uses {0}: stop it, or choose another state directory")]
    StateDirInUse(PathBuf),
    /// A file or directory could not be used.
    #[error("cannot {step} {path}")]
    Io {
        /// What was being done.
        step: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The saved state cannot be read.
    #[error("cannot use the state in {path}: {reason}; move it away to start afresh")]
    State {
        /// The file.
        path: PathBuf,
        /// In words.
        reason: String,
    },
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
    gate: Guarded,
    /// Calls that take time: they go on when their clients leave.
    visits: TaskTracker,
    commands: mpsc::Sender<Command>,
    /// Holds the owner: dropped with the last handle, it ends the owner, whose data plane takes its devices down.
    _owner: Mutex<JoinSet<()>>,
}

impl Engine {
    /// Starts it: takes the state directory, loads the state of a former run, removes what that run left behind and
    /// connects what the state says is attached. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// [`EngineError`] says what is in the way.
    pub async fn start(mut config: EngineConfig) -> Result<Self, EngineError> {
        config.check()?;
        let clock = Clock::start();
        let (mut sim, plane, store) = open_soon(&config, clock).await?;
        // Resolved, as the kernel shows the backing files in it.
        config.state_dir = store.as_ref().map(|store| store.dir().to_owned());
        sim.resume(clock.now());
        let (commands, inbox) = mpsc::channel(QUEUE);
        let mut tasks = JoinSet::new();
        tasks.spawn(Owner::new(sim, clock, plane, store).run(inbox));
        let (gate, visits) = (Guarded::new(&config), TaskTracker::new());
        Ok(Self { shared: Arc::new(Shared { config, clock, gate, visits, commands, _owner: Mutex::new(tasks) }) })
    }

    /// Makes one call, with all that may happen to it. It is carried out also when the returned future is dropped.
    ///
    /// # Errors
    /// The [`Fault`] that EC2 would answer with; `NoReply` for a reply that a fault rule took away.
    pub async fn call(&self, call: Call) -> Result<Reply, Fault> {
        let none = || Err(Fault::with_status(504, "NoReply", "A fault rule took the reply away."));
        self.serve(call, |_| ()).await.answer.told().unwrap_or_else(none)
    }

    /// Hands a call to the state.
    async fn apply(&self, call: Call, twist: Twist) -> Result<Reply, Fault> {
        let ended = || Fault::with_status(503, "Unavailable", "The simulator is shutting down.");
        self.ask(|reply| Command::Call { call: Box::new(call), twist, reply }).await.map_err(|_| ended())?
    }

    /// Everything there is, now; nothing once the engine has ended.
    pub async fn snapshot_of_state(&self) -> StateView {
        let nothing = StateView { volumes: Vec::new(), snapshots: Vec::new(), instances: Vec::new() };
        self.ask(Command::View).await.unwrap_or(nothing)
    }

    /// Replaces times from now on; transitions under way keep theirs.
    pub async fn set_timing(&self, timing: TimingOverride) {
        self.shared.gate.lock().latency.replace(timing);
        // An engine that has ended has no times.
        let _ended = self.ask(|reply| Command::SetTiming { timing, reply }).await;
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
        self.ask(Command::Shutdown).await?
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.shared.commands.send(command(reply)).await.map_err(|_| EngineError::Ended)?;
        answer.await.map_err(|_| EngineError::Ended)
    }
}

/// What an engine owns.
type Parts = (Sim, Arc<Plane>, Option<Store>);

/// A lock outlives its simulator for a moment, in a child that was just being started: a directory in use is asked
/// for again before it is believed.
async fn open_soon(config: &EngineConfig, clock: Clock) -> Result<Parts, EngineError> {
    for _ in 0..LOCK_TRIES {
        let config = config.clone();
        match blocking(move || open(&config, clock.now())).await {
            Err(EngineError::StateDirInUse(_)) => tokio::time::sleep(LOCK_PAUSE).await,
            opened => return opened,
        }
    }
    let config = config.clone();
    blocking(move || open(&config, clock.now())).await
}

/// Opens everything that lives outside the process; blocks.
fn open(config: &EngineConfig, now: SystemTime) -> Result<Parts, EngineError> {
    let Some(dir) = &config.state_dir else {
        return Ok((Sim::new(config, now), Arc::new(Plane::None), None));
    };
    let store = Store::open(dir)?;
    let sim = store.load(config)?.unwrap_or_else(|| Sim::new(config, now));
    let plane = Plane::open(config, store.dir())?;
    plane.clean(&sim.connected_volumes(), &sim.volumes_with_data(), &sim.snapshots_with_data());
    Ok((sim, Arc::new(plane), Some(store)))
}

/// Runs blocking work to its end.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

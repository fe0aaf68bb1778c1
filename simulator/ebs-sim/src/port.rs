//! The EC2 port with an engine in this process, for tests without HTTP. It records every call. Tests can drop replies
//! and hold calls.

mod calls;
mod classify;
mod convert;
mod hooks;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use ebs_ec2::{Action, Ec2Error, ErrorClass, InstanceId, Volume};

use crate::api::{Call, Reply, SimInstance};
use crate::config::EngineConfig;
use crate::engine::{Engine, EngineError, Faults};
use crate::iam::{Caller, Extra};

pub use hooks::Gate;

use hooks::{Hooks, Planned};

/// A simulated EC2 in this process. Clones share everything. Dropping a `SimEc2` panics if it has received a call that
/// no project policy allows; see [`SimEc2::declare`] and [`SimEc2::by_test`].
#[derive(Debug, Clone)]
pub struct SimEc2 {
    engine: Engine,
    caller: Caller,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    calls: Vec<PortCall>,
    hooks: Hooks,
}

/// A call through the port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortCall {
    pub action: Action,
    /// Time of the reply, on the engine's clock.
    pub at: SystemTime,
    /// Time from the arrival of the call to its reply.
    pub took: Duration,
    pub dry_run: bool,
    pub request: Call,
    /// The error that the caller received, or `None` for success.
    pub error: Option<ErrorClass>,
}

impl SimEc2 {
    /// Starts a new engine.
    pub async fn start(config: EngineConfig) -> Result<Self, EngineError> {
        Ok(Self::over(Engine::start(config).await?))
    }

    /// Creates a port to a running engine.
    pub fn over(engine: Engine) -> Self {
        Self { engine, caller: Caller::Client(None), shared: Arc::default() }
    }

    /// Returns the same EC2 for the test itself, whose calls need no permissions.
    #[must_use]
    pub fn by_test(&self) -> Self {
        Self { engine: self.engine.clone(), caller: Caller::Own, shared: Arc::clone(&self.shared) }
    }

    /// Declares that the test uses a feature that needs this optional statement of the policies.
    pub fn declare(&self, extra: Extra) {
        self.engine.least_rights().declare(extra);
    }

    /// Returns the engine, for example for [`Engine::set_timing`] and [`Engine::snapshot_of_state`].
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns this machine's own instance, and the instance in another zone.
    pub async fn instances(&self) -> Vec<SimInstance> {
        self.engine.snapshot_of_state().await.instances
    }

    /// Returns the ids of this machine's own instance and of the instance in another zone.
    pub async fn instance_ids(&self) -> [InstanceId; 2] {
        let instances = self.instances().await;
        [0, 1].map(|at| convert::instance_id(&instances[at].id))
    }

    /// Returns the fault rules. They affect calls through the port and over HTTP.
    pub fn faults(&self) -> Faults {
        self.engine.faults()
    }

    /// Returns every call answered so far, in the order of the replies.
    pub fn calls(&self) -> Vec<PortCall> {
        self.lock().calls.clone()
    }

    /// Returns how many calls of an action have been answered so far.
    pub fn count(&self, action: Action) -> usize {
        self.lock().calls.iter().filter(|c| c.action == action).count()
    }

    /// Removes the recorded calls.
    pub fn clear_calls(&self) {
        self.lock().calls.clear();
    }

    /// Makes the next call of the action fail with this class. If `after_doing` is true, the call is executed and only
    /// its reply is lost; otherwise it is not executed. Several plans for one action are used in order.
    pub fn fail_next(&self, action: Action, class: ErrorClass, after_doing: bool) {
        self.lock().hooks.plan(action, Planned { class, after_doing });
    }

    /// Holds the next call of the action before it is executed, until the gate is released or dropped.
    pub fn hold(&self, action: Action) -> Gate {
        self.lock().hooks.hold(action)
    }

    /// Returns the `Date` that a reply would have now, in whole seconds.
    fn date(&self) -> SystemTime {
        let since = self.engine.now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
    }

    fn dated_volume(&self, volume: Volume) -> Volume {
        Volume { said_at: Some(self.date()), ..volume }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }

    /// Makes one call. The hooks of the test apply first, then the engine's pipeline.
    async fn make(&self, action: Action, call: Call) -> Result<Reply, Ec2Error> {
        let barrier = self.lock().hooks.next_barrier(action);
        if let Some(barrier) = barrier {
            barrier.pass().await;
        }
        let planned = self.lock().hooks.next_plan(action);
        let (dry_run, request) = (call.dry_run(), call.clone());
        if let Some(Planned { class, after_doing: false }) = planned {
            self.engine.audit(&self.caller, &call);
            let (at, error) = (self.engine.now(), Some(class));
            self.lock().calls.push(PortCall { action, at, took: Duration::ZERO, dry_run, request, error });
            return Err(planned_failure(action, class));
        }
        let shared = Arc::clone(&self.shared);
        let served = self.engine.serve(self.caller.clone(), call, move |served| {
            let error = planned.map(|planned| planned.class).or_else(|| classify::of_answer(&served.answer));
            let (at, took) = (served.arrived + served.took, served.took);
            lock(&shared).calls.push(PortCall { action, at, took, dry_run, request, error });
        });
        let answer = served.await.answer;
        match planned {
            // The call may have succeeded or failed. Its reply is lost.
            Some(Planned { class, .. }) => Err(planned_failure(action, class)),
            None => classify::understood(action, answer),
        }
    }
}

impl Drop for SimEc2 {
    /// Fails the test if none of the three policies allows a call that this EC2 has received. Every suite must stay
    /// within the permissions of the project's policies, and no test can forget a check that runs on drop.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        if let Err(violations) = self.engine.least_rights().check() {
            panic!("{violations}");
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn planned_failure(action: Action, class: ErrorClass) -> Ec2Error {
    Ec2Error::new(action, class, "failure planned by the test")
}

/// Makes a call of an action and extracts the content of its reply.
macro_rules! call {
    ($sim:expr, $action:ident, $parameters:expr) => {
        match $sim.make(ebs_ec2::Action::$action, crate::api::Call::$action($parameters)).await {
            Ok(crate::api::Reply::$action(reply)) => Ok(reply),
            Ok(other) => Err($crate::port::unexpected(ebs_ec2::Action::$action, &other)),
            Err(error) => Err(error),
        }
    };
}
use call;

/// Returns the error for a reply that belongs to another action, which is a bug in the engine.
fn unexpected(action: Action, reply: &Reply) -> Ec2Error {
    Ec2Error::new(action, ErrorClass::Other, format!("unexpected reply of the simulator: {reply:?}"))
}

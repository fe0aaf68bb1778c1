//! The state of one run: a simulated EC2, drivers, nodes, and the orchestrator that uses them.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ebs_ec2::Ec2;
use ebs_sim::port::SimEc2;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::beliefs::Beliefs;
use crate::driver::Driver;
use crate::driver_process::lock;
use crate::network::{Ec2Event, Network};
use crate::planted::Planted;
use crate::retries::SidecarRetries;
use crate::rng::Rng;
use crate::rpc::RpcResult;
use crate::sidecar::Sidecar;
use crate::target::{Call, Target};

/// The options of a run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// A bug to plant.
    pub planted: Option<Planted>,
    /// Whether the trace includes every call to EC2.
    pub verbose: bool,
}

/// A future that creates an EC2 client.
pub type Made<E> = Pin<Box<dyn Future<Output = Arc<E>> + Send>>;

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) zone: String,
    /// True once the instance is terminated. EC2 detaches its volumes, and nothing can be attached to it.
    pub(crate) is_gone: bool,
}

/// A violated rule, which ends the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation(pub(crate) String);

pub(crate) type Checked<T = ()> = Result<T, Violation>;

pub(crate) fn broken<T>(rule: impl Into<String>) -> Checked<T> {
    Err(Violation(rule.into()))
}

pub(crate) struct World<E> {
    pub(crate) sim: SimEc2,
    pub(crate) client: Box<dyn Fn(SimEc2) -> Made<E> + Send>,
    pub(crate) network: Arc<Network>,
    pub(crate) rng: Rng,
    /// Draws which machines have a wrong clock.
    pub(crate) clocks: Rng,
    pub(crate) retries: SidecarRetries,
    pub(crate) beliefs: Beliefs,
    pub(crate) nodes: Vec<Node>,
    /// Foreign volumes, including root volumes, in the state that they must keep.
    pub(crate) foreign: BTreeMap<String, ebs_sim::api::SimVolume>,
    pub(crate) foreign_snapshots: BTreeSet<String>,
    pub(crate) drivers: Vec<Driver<E>>,
    /// The driver that each sidecar calls.
    pub(crate) holders: [usize; Sidecar::ALL.len()],
    pub(crate) no_driver_until: Instant,
    pub(crate) calls: BTreeMap<u64, Call>,
    pub(crate) next_call: u64,
    pub(crate) running: JoinSet<(u64, RpcResult)>,
    /// Earlier calls, from which late duplicates are drawn.
    pub(crate) history: Vec<Target>,
    /// Every volume that was created for a driver.
    pub(crate) made: BTreeSet<String>,
    /// Device names that EC2 rejected as in use and that the model has not checked yet.
    pub(crate) names_taken: Vec<Ec2Event>,
    pub(crate) snapshot_events: Vec<(String, String, Ec2Event)>,
    pub(crate) quota_is_small: bool,
    /// True if only one snapshot at a time can have fast restores in a zone.
    pub(crate) few_fast_restores: bool,
    /// True once the locks of snapshots, which last a day, have expired.
    pub(crate) locks_have_ended: bool,
    /// Snapshots whose fast restores the administrator must disable, because they prevent the snapshot's deletion.
    pub(crate) to_switch_off: BTreeSet<String>,
    pub(crate) trace: Vec<String>,
    /// True if a response in this run, even a late one, can report that a zone is full.
    pub(crate) can_lack_room: bool,
    pub(crate) sticky_until: Option<Instant>,
}

impl<E: Ec2> World<E> {
    pub(crate) fn tell(&mut self, text: impl AsRef<str>) {
        self.trace.append(&mut self.network.take_told());
        let at = self.network.elapsed().as_secs_f64();
        self.trace.push(format!("{at:>9.3} {}", text.as_ref()));
    }

    /// Lets this time pass, and processes every response that arrives.
    pub(crate) async fn pass(&mut self, time: Duration) -> Checked {
        let end = Instant::now() + time;
        self.unstick();
        loop {
            let ended = tokio::select! {
                biased;
                Some(ended) = self.running.join_next(), if !self.running.is_empty() => Some(ended),
                () = tokio::time::sleep_until(end) => None,
            };
            self.check_events()?;
            match ended {
                None => return self.check().await,
                Some(Ok((id, answer))) => self.process_response(id, answer).await?,
                Some(Err(failed)) => return broken(format!("a call panicked: {failed}")),
            }
        }
    }

    /// Waits for responses until no call is in flight.
    pub(crate) async fn quiet(&mut self, at_most: Duration) -> Checked {
        let end = Instant::now() + at_most;
        while !self.running.is_empty() {
            if Instant::now() >= end {
                return broken("a call ran past its deadline");
            }
            self.pass(Duration::from_secs(1)).await?;
        }
        Ok(())
    }

    pub(crate) fn driver(&self, of: Sidecar) -> Option<Driver<E>> {
        (Instant::now() >= self.no_driver_until).then(|| self.drivers[self.holders[of.place()]].clone())
    }

    pub(crate) fn end_faults(&mut self) {
        lock(&self.network.fault_plan).end_faults();
        self.network.give_rights();
        self.sim.faults().clear();
        self.release();
        self.tell("-- the faults end");
    }
}

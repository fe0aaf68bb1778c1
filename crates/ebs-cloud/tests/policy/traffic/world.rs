//! An account under load: one EC2, one or more drivers, and volume lifecycles.

use std::sync::Arc;
use std::time::Duration;

use ebs_cloud::{Cloud, CloudConfig, CloudError, CloudErrorKind, VolumeSpec};
use ebs_ec2::{Action, DriverName, ErrorClass, InstanceId, NodeId, Observer, Waiters};
use ebs_sim::api::{Call, RunInstances};
use ebs_sim::engine::{EngineConfig, Timing, TimingOverride};
use ebs_sim::port::{PortCall, SimEc2};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::fixture::{self, in_zone};

/// Times of the simulated EC2. They are fixed, so that the time that a driver adds can be measured.
const MUTATING: Duration = Duration::from_millis(250);
const CREATE: Duration = Duration::from_secs(2);
const ATTACH: Duration = Duration::from_millis(2_500);
const DETACH: Duration = Duration::from_secs(4);
/// Returns the lifetime of an attachment: from 1 to 30 s, short and long ones mixed.
fn used_for(n: u32) -> Duration {
    Duration::from_secs(u64::from(1 + n * 7 % 30))
}

/// The interval between the retries of a sidecar.
const RETRY: Duration = Duration::from_secs(1);

pub(super) struct World {
    pub(super) sim: SimEc2,
    nodes: Vec<NodeId>,
}

impl World {
    /// Creates an account with EC2's own limits and usual times.
    pub(super) async fn realistic() -> Self {
        let config = EngineConfig {
            timing: Timing::Realistic,
            instance_type: "m7i.48xlarge".to_owned(),
            seed: Some(4),
            ..EngineConfig::default()
        };
        let world = Self::with(config).await;
        world.sim.engine().set_timing(times()).await;
        world
    }

    /// Creates an account without limits, in which calls and transitions take no time.
    pub(super) async fn instant() -> Self {
        Self::with(EngineConfig::default()).await
    }

    async fn with(config: EngineConfig) -> Self {
        let sim = SimEc2::start(config).await.expect("an engine in memory starts");
        let more = RunInstances {
            instance_type: Some("m7i.48xlarge".to_owned()),
            image_id: Some("ami-12345678".to_owned()),
            min_count: Some(15),
            max_count: Some(15),
            availability_zone: Some("us-west-2a".to_owned()),
            ..RunInstances::default()
        };
        sim.engine().call(Call::RunInstances(more)).await.expect("instances can be run");
        sleep(Duration::from_secs(60)).await;
        let here = sim.instances().await.into_iter().filter(|i| i.zone == "us-west-2a");
        let nodes = here.map(|i| NodeId::Instance(InstanceId::parse(&i.id).expect("an id"))).collect();
        Self { sim, nodes }
    }

    pub(super) fn driver(&self) -> Driver {
        self.driver_with(true)
    }

    pub(super) fn driver_with(&self, batching: bool) -> Driver {
        let config = CloudConfig { batching, ..CloudConfig::new(DriverName::default()) };
        Driver { cloud: Arc::new(Cloud::new(Arc::new(self.sim.clone()), config)), nodes: self.nodes.clone() }
    }

    /// Creates a driver with the observer.
    pub(super) fn observed(&self, observer: Arc<dyn Observer>) -> Driver {
        let config = CloudConfig::new(DriverName::default());
        let cloud = Cloud::observed(Arc::new(self.sim.clone()), config, observer);
        Driver { cloud: Arc::new(cloud), nodes: self.nodes.clone() }
    }

    pub(super) fn describes(&self) -> Vec<PortCall> {
        self.sim.calls().into_iter().filter(|c| !c.action.mutates()).collect()
    }

    pub(super) fn count(&self, action: Action) -> usize {
        self.sim.count(action)
    }
}

fn times() -> TimingOverride {
    let ms = |time: Duration| Some(u64::try_from(time.as_millis()).expect("short"));
    TimingOverride {
        create_ms: ms(CREATE),
        attach_ms: ms(ATTACH),
        detach_ms: ms(DETACH),
        mutating_call_ms: ms(MUTATING).map(|ms| [ms, ms]),
        describe_call_ms: Some([100, 100]),
        ..TimingOverride::default()
    }
}

#[derive(Clone)]
pub(super) struct Driver {
    pub(super) cloud: Arc<Cloud<SimEc2>>,
    nodes: Vec<NodeId>,
}

/// The time that the RPCs of one lifecycle take in addition to EC2's own times.
pub(super) struct Added {
    pub(super) create: Duration,
    pub(super) attach: Duration,
    pub(super) detach: Duration,
    pub(super) delete: Duration,
}

impl Driver {
    /// Runs a whole lifecycle of one volume, and retries every RPC as a sidecar does.
    pub(super) async fn life(&self, n: usize, used: Duration) -> Added {
        let (name, node) = (&format!("pvc-{n}"), &self.nodes[n % self.nodes.len()]);
        let waiters = Waiters::default();
        let _waiter = waiters.join();
        let (cloud, spec) = (&self.cloud, spec(name));
        // EC2 begins its work halfway through a mutating call.
        let begun = MUTATING / 2;
        let (volume, create) = timed(|| cloud.volumes.create(&spec, &waiters)).await;
        let id = volume.id;
        let (_, attach) = timed(|| cloud.attachments.attach(&id, node, &waiters)).await;
        sleep(used).await;
        let ((), detach) = timed(|| cloud.attachments.detach(&id, node, &waiters)).await;
        let ((), delete) = timed(|| cloud.volumes.delete(&id, &waiters)).await;
        Added {
            create: create.saturating_sub(begun + CREATE),
            attach: attach.saturating_sub(begun + ATTACH),
            detach: detach.saturating_sub(begun + DETACH),
            delete: delete.saturating_sub(MUTATING),
        }
    }
}

async fn timed<T, F: Future<Output = Result<T, CloudError>>>(mut rpc: impl FnMut() -> F) -> (T, Duration) {
    let began = Instant::now();
    loop {
        match rpc().await {
            Ok(value) => return (value, began.elapsed()),
            Err(
                CloudError { kind: CloudErrorKind::Unavailable, .. }
                | CloudError { kind: CloudErrorKind::InProgress, .. }
                | CloudError { kind: CloudErrorKind::OutcomeUnknown, .. },
            ) => sleep(RETRY).await,
            Err(other) => panic!("{other:?}"),
        }
    }
}

pub(super) fn spec(name: &str) -> VolumeSpec {
    in_zone(fixture::spec(name), "us-west-2a")
}

pub(super) async fn lives(drivers: &[Driver], count: u32, per_second: f64) -> Vec<Added> {
    lives_of(drivers, count, per_second, used_for).await
}

/// Works like [`lives`], but each volume lives as long as `used` returns for its number.
pub(super) async fn lives_of(drivers: &[Driver], count: u32, per_second: f64, used: fn(u32) -> Duration) -> Vec<Added> {
    let mut running = JoinSet::new();
    let start = Instant::now();
    for (n, driver) in (0..count).zip(drivers.iter().cycle()) {
        let driver = driver.clone();
        running.spawn(async move {
            sleep_until(start + Duration::from_secs_f64(f64::from(n) / per_second)).await;
            driver.life(usize::try_from(n).expect("few"), used(n)).await
        });
    }
    running.join_all().await
}

#[derive(Debug)]
pub(super) struct Bill {
    /// Mutating calls per lifecycle, including throttled calls but not spare ones.
    pub(super) mutating: f64,
    /// Spare calls per lifecycle: DetachVolume calls that EC2 refused because nothing was attached any more.
    pub(super) spare: f64,
    /// Describes of all kinds per lifecycle.
    pub(super) describes: f64,
    /// Percentage of all calls.
    pub(super) throttled: f64,
}

pub(super) fn bill(world: &World, lives: u32) -> Bill {
    let calls = world.sim.calls();
    let count =
        |of: &dyn Fn(&PortCall) -> bool| f64::from(u32::try_from(calls.iter().filter(|c| of(c)).count()).expect("few"));
    let is_spare = |c: &PortCall| c.action == Action::DetachVolume && c.error == Some(ErrorClass::IncorrectState);
    Bill {
        mutating: count(&|c| c.action.mutates() && !is_spare(c)) / f64::from(lives),
        spare: count(&is_spare) / f64::from(lives),
        describes: count(&|c| !c.action.mutates()) / f64::from(lives),
        throttled: 100.0 * count(&|c| c.error == Some(ErrorClass::Throttled)) / count(&|_| true),
    }
}

pub(super) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

use std::sync::Arc;
use std::time::Duration;

use ebs_cloud::{Cloud, CloudError, CloudErrorKind, Volume};
use ebs_ec2::{Action, ErrorClass, VolumeId, Waiters};
use ebs_sim::api::Call;
use ebs_sim::engine::TimingOverride;
use ebs_sim::port::SimEc2;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::world::{Driver, World, spec};

fn asked(world: &World) -> Vec<usize> {
    let values = |call: &Call| match call {
        Call::DescribeVolumes(c) => c.filters.iter().map(|f| f.values.len()).sum(),
        _ => 0,
    };
    world.describes().iter().filter(|c| c.action == Action::DescribeVolumes).map(|c| values(&c.request)).collect()
}

async fn create(driver: &Driver, name: &str) -> VolumeId {
    let waiters = Waiters::default();
    let _waiter = waiters.join();
    driver.cloud.volumes.create(&spec(name), &waiters).await.expect("a plain volume can be created").id
}

async fn volumes(driver: &Driver, count: u32) -> Vec<VolumeId> {
    let mut ids = Vec::new();
    for n in 0..count {
        ids.push(create(driver, &format!("pvc-{n}")).await);
    }
    ids
}

async fn describe_all(cloud: &Arc<Cloud<SimEc2>>, ids: &[VolumeId]) -> Vec<Result<Volume, CloudError>> {
    let mut running = JoinSet::new();
    for (n, id) in ids.iter().cloned().enumerate() {
        let cloud = Arc::clone(cloud);
        running.spawn(async move { (n, cloud.volumes.get(&id).await) });
    }
    let mut found = running.join_all().await;
    found.sort_by_key(|(n, _)| *n);
    found.into_iter().map(|(_, volume)| volume).collect()
}

#[tokio::test(start_paused = true)]
async fn concurrent_lookups_share_calls_of_200_ids() {
    let world = World::instant().await;
    let driver = world.driver();
    let ids = volumes(&driver, 450).await;
    world.sim.clear_calls();
    let gate = world.sim.hold(Action::DescribeVolumes);
    let (found, ()) = tokio::join!(describe_all(&driver.cloud, &ids), async {
        gate.reached().await;
        gate.release();
    });
    for (id, volume) in ids.iter().zip(found) {
        assert_eq!(volume.expect("it exists").id, *id);
    }
    let asked = asked(&world);
    assert!(asked.len() <= 4 && asked.iter().all(|keys| *keys <= 200), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn without_batching_each_lookup_makes_its_own_call_at_once() {
    let world = World::instant().await;
    let driver = world.driver_with(false);
    let ids = volumes(&driver, 40).await;
    world.sim.clear_calls();
    let began = Instant::now();
    let gate = world.sim.hold(Action::DescribeVolumes);
    let (found, ()) = tokio::join!(describe_all(&driver.cloud, &ids), async {
        gate.reached().await;
        while world.count(Action::DescribeVolumes) < 39 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        gate.release();
    });
    assert!(found.iter().all(Result::is_ok));
    assert_eq!(asked(&world), [1; 40], "one that is held holds up no other");
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn cancelled_lookup_does_not_affect_other_lookups() {
    let world = World::instant().await;
    let driver = world.driver();
    let ids = volumes(&driver, 2).await;
    let gate = world.sim.hold(Action::DescribeVolumes);
    let leaving = tokio::time::timeout(Duration::from_millis(5), driver.cloud.volumes.get(&ids[0]));
    let (left, stayed, ()) = tokio::join!(leaving, driver.cloud.volumes.get(&ids[1]), async {
        gate.reached().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        gate.release();
    });
    assert!(left.is_err());
    assert_eq!(stayed.unwrap().id, ids[1]);
}

#[tokio::test(start_paused = true)]
async fn throttles_and_lost_answers_only_delay_a_lookup() {
    let world = World::instant().await;
    let driver = world.driver();
    let ids = volumes(&driver, 3).await;
    for class in [ErrorClass::Throttled, ErrorClass::Ambiguous, ErrorClass::Throttled, ErrorClass::Ambiguous] {
        world.sim.fail_next(Action::DescribeVolumes, class, false);
    }
    assert!(describe_all(&driver.cloud, &ids).await.iter().all(Result::is_ok));
}

#[tokio::test(start_paused = true)]
async fn unanswered_lookup_fails_within_21_s() {
    let world = World::instant().await;
    let driver = world.driver();
    let ids = volumes(&driver, 1).await;
    let gates: Vec<_> = (0..10).map(|_| world.sim.hold(Action::DescribeVolumes)).collect();
    let began = Instant::now();
    let error = driver.cloud.volumes.get(&ids[0]).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::Unavailable), "{error:?}");
    assert!(began.elapsed() <= Duration::from_secs(21), "{:?}", began.elapsed());
    drop(gates);
}

#[tokio::test(start_paused = true)]
async fn dropped_driver_leaves_no_task() {
    let world = World::instant().await;
    let driver = world.driver();
    let ids = volumes(&driver, 1).await;
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let gate = world.sim.hold(Action::DescribeVolumes);
    let left = tokio::time::timeout(Duration::from_millis(5), driver.cloud.volumes.get(&ids[0])).await;
    assert!(left.is_err());
    drop(driver);
    let until = Instant::now() + Duration::from_secs(5);
    while tokio::runtime::Handle::current().metrics().num_alive_tasks() >= before && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let after = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(after < before, "{after} tasks, {before} with the driver");
    drop(gate);
}

/// A transition with a known time needs few describes.
#[tokio::test(start_paused = true)]
async fn typical_time_of_a_transition_is_learned() {
    let world = World::instant().await;
    let timing = TimingOverride { create_ms: Some(5_000), ..TimingOverride::default() };
    world.sim.engine().set_timing(timing).await;
    let driver = world.driver();
    volumes(&driver, 20).await;
    world.sim.clear_calls();
    let began = Instant::now();
    create(&driver, "pvc-last").await;
    let describes = world.count(Action::DescribeVolumes);
    assert!(describes <= 3, "{describes} describes for a transition that always takes 5 s");
    assert!(began.elapsed() < Duration::from_millis(5_500), "{:?}", began.elapsed());
}

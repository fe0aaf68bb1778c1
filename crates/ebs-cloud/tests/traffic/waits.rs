use std::time::Duration;

use ebs_ec2::{Action, Waiters};
use ebs_sim::engine::TimingOverride;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::world::{Driver, World, spec};

async fn create(driver: Driver, name: String) -> Duration {
    let waiters = Waiters::default();
    let _waiter = waiters.join();
    let began = Instant::now();
    let made = driver.cloud.volumes.create(&spec(&name), &waiters).await;
    made.expect("a plain volume can be created");
    began.elapsed()
}

async fn create_all(driver: &Driver, names: impl Iterator<Item = String>) {
    let mut running = JoinSet::new();
    for name in names {
        running.spawn(create(driver.clone(), name));
    }
    running.join_all().await;
}

#[tokio::test(start_paused = true)]
async fn waits_of_one_kind_share_their_describes() {
    let world = World::instant().await;
    let timing = TimingOverride { create_ms: Some(3_000), ..TimingOverride::default() };
    world.sim.engine().set_timing(timing).await;
    create_all(&world.driver(), (0..100).map(|n| format!("pvc-{n}"))).await;
    let describes = world.count(Action::DescribeVolumes);
    assert!(describes <= 14, "{describes} describes for 100 volumes that are created within 5 s");
}

/// A transition with a known time needs few describes.
#[tokio::test(start_paused = true)]
async fn typical_time_of_a_transition_is_learned() {
    let world = World::instant().await;
    let timing = TimingOverride { create_ms: Some(5_000), ..TimingOverride::default() };
    world.sim.engine().set_timing(timing).await;
    let driver = world.driver();
    for n in 0..20 {
        create(driver.clone(), format!("pvc-{n}")).await;
    }
    world.sim.clear_calls();
    let took = create(driver.clone(), "pvc-last".into()).await;
    let describes = world.count(Action::DescribeVolumes);
    assert!(describes <= 3, "{describes} describes for a transition that always takes 5 s");
    assert!(took < Duration::from_millis(5_500), "{took:?}");
}

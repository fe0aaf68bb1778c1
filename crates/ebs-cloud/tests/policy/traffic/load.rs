use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebs_ec2::{Action, Observation, Observer, Waiters};
use ebs_sim::faults::{Effect, Rule};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::world::{Added, Driver, World, bill, lives, lives_of, median, spec};

#[tokio::test(start_paused = true)]
async fn four_lifecycles_per_second_meet_the_cost_limits() {
    // There are so many lifecycles that the low traffic at the beginning and the end hardly affects the result.
    const LIVES: u32 = 1_500;
    let world = World::realistic().await;
    let added = lives(&[world.driver()], LIVES, 4.0).await;
    let bill = bill(&world, LIVES);
    let of = |of: fn(&Added) -> Duration| median(added.iter().map(of).collect());
    let each = [of(|a| a.create), of(|a| a.attach), of(|a| a.detach), of(|a| a.delete)];
    let all = median(added.iter().flat_map(|a| [a.create, a.attach, a.detach, a.delete]).collect());
    let mut detach: Vec<Duration> = added.iter().map(|a| a.detach).collect();
    detach.sort();
    let late = detach[detach.len() * 99 / 100];
    let summary = format!(
        "{bill:?}; added in the median {all:?}, by create, attach, detach, delete {each:?}, the last hundredth of detach {late:?}"
    );
    assert!(late < Duration::from_secs(1), "{summary}");
    assert!(bill.mutating <= 4.08 && bill.spare <= 0.6 && bill.throttled <= 2.0 && bill.describes <= 0.8, "{summary}");
    assert!(all < Duration::from_millis(300) && each.iter().all(|a| *a < Duration::from_millis(400)), "{summary}");
}

/// Each detach needs an extra DetachVolume as its proof, so EC2's refill of 5/s suffices for two such lifecycles per
/// second.
#[tokio::test(start_paused = true)]
async fn short_lived_volumes_are_detached_without_a_wait() {
    let world = World::realistic().await;
    let added = lives_of(&[world.driver()], 400, 2.0, |_| Duration::from_secs(1)).await;
    let mut detach: Vec<Duration> = added.iter().map(|a| a.detach).collect();
    detach.sort();
    let (middle, late) = (detach[200], detach[395]);
    assert!(
        middle < Duration::from_millis(700) && late < Duration::from_secs(2),
        "{middle:?}, 99th percentile {late:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn thousand_concurrent_lifecycles_all_succeed() {
    const LIVES: u32 = 1_000;
    let world = World::realistic().await;
    let began = Instant::now();
    let all = lives(&[world.driver()], LIVES, 1e6).await;
    assert_eq!(all.len(), 1_000);
    let bill = bill(&world, LIVES);
    assert!(bill.mutating <= 4.3 && bill.throttled <= 5.0, "{bill:?}");
    // 900 creations beyond the full bucket take 180 s at 5/s.
    assert!(began.elapsed() < Duration::from_secs(260), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn describes_per_lifecycle_decrease_as_the_load_grows() {
    let mut costs = Vec::new();
    for per_second in [0.05, 1.0, 4.0] {
        let world = World::realistic().await;
        lives(&[world.driver()], 40, per_second).await;
        costs.push(bill(&world, 40).describes);
    }
    assert!(costs.is_sorted_by(|a, b| a > b), "{costs:?}");
}

/// How long each DescribeVolumes call waited for a token.
#[derive(Debug, Default)]
struct DescribeWaits(Mutex<Vec<Duration>>);

impl Observer for DescribeWaits {
    fn observe(&self, _: &Observation<'_>) {}

    fn waited(&self, action: Action, time: Duration) {
        if action == Action::DescribeVolumes {
            self.0.lock().expect("no test panics with it").push(time);
        }
    }
}

/// The interval between describes, not the token bucket, limits their rate.
#[tokio::test(start_paused = true)]
async fn describes_rarely_wait_for_a_token() {
    for eaten in [0.0, 0.5, 0.8] {
        let world = World::realistic().await;
        if eaten > 0.0 {
            world.sim.faults().add(Rule::new(Effect::Eat { fraction: eaten })).expect("a sound rule");
        }
        let waits = Arc::<DescribeWaits>::default();
        lives(&[world.observed(Arc::clone(&waits) as _)], 200, 3.0).await;
        let waits = waits.0.lock().expect("no test panics with it");
        let long = waits.iter().filter(|wait| **wait > Duration::from_millis(100)).count();
        let calls = world.count(Action::DescribeVolumes);
        assert!(calls > 50 && long * 20 <= calls, "{eaten}: {long} of {calls} waited for a token: {waits:?}");
    }
}

async fn create(driver: Driver, name: String, waiters: Waiters) -> bool {
    driver.cloud.volumes.create(&spec(&name), &waiters).await.is_ok()
}

/// After many timeouts in the queue, a sidecar pauses for up to half an hour.
#[tokio::test(start_paused = true)]
async fn queue_place_outlasts_the_longest_pause_of_a_sidecar() {
    let world = World::realistic().await;
    world.sim.faults().add(Rule::new(Effect::Eat { fraction: 0.9 }).on("CreateVolume")).expect("a sound rule");
    let driver = world.driver();
    let waiters = Waiters::default();
    let _waiter = waiters.join();
    let mut others = JoinSet::new();
    let made_later = Arc::<AtomicUsize>::default();
    let mut come = |names: &str, many: u32, made: Arc<AtomicUsize>| {
        for n in 0..many {
            let (driver, name, waiters, made) =
                (driver.clone(), format!("{names}-{n}"), waiters.clone(), Arc::clone(&made));
            others.spawn(async move {
                while !create(driver.clone(), name.clone(), waiters.clone()).await {}
                made.fetch_add(1, Ordering::SeqCst);
            });
        }
    };
    come("before", 900, Arc::default());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let impatient = Waiters::default();
    let waiter = impatient.join();
    let (made, ()) = tokio::join!(create(driver.clone(), "pvc-early".to_owned(), impatient.clone()), async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        drop(waiter);
    });
    assert!(!made, "it was not its turn yet");
    come("later", 200, Arc::clone(&made_later));
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert!(made_later.load(Ordering::SeqCst) < 200, "there is a queue still");
    let before = made_later.load(Ordering::SeqCst);
    while !create(driver.clone(), "pvc-early".to_owned(), waiters.clone()).await {}
    let meanwhile = made_later.load(Ordering::SeqCst) - before;
    assert!(meanwhile < 20, "{meanwhile} of those that came later were served before it");
    others.abort_all();
}

//! Tests in which the process crashes after any call to the machine, and another process gets the same request.

use std::collections::BTreeMap;

use winstorage::fake::Effect;

use super::*;

/// Reads change nothing, so among the many reads that prove a disk blank, the test crashes only after these (by index).
const READS: [usize; 3] = [0, 1, 700];

/// The RPCs of a volume's lifecycle, in order.
const LIFE: [&str; 5] = ["stage", "publish", "expand", "unpublish", "unstage"];

async fn perform(world: &World, rpc: &str) -> Result<(), Status> {
    match rpc {
        "stage" => world.stage().await,
        "publish" => world.publish().await,
        "expand" => world.expand(20 * GIB).await.map(drop),
        "unpublish" => world.unpublish().await,
        _ => world.unstage().await,
    }
}

async fn before(rpc: &str) -> World {
    let world = World::new();
    for earlier in LIFE.iter().take_while(|earlier| **earlier != rpc) {
        if *earlier == "expand" {
            world.host.set_disk_size(1, 20 * GIB);
        }
        perform(&world, earlier).await.unwrap();
    }
    if rpc == "expand" {
        world.host.set_disk_size(1, 20 * GIB);
    }
    world.host.clear_log();
    world
}

fn check(world: &World, rpc: &str, at: &str) {
    let is_last = rpc == "unstage";
    assert_eq!(world.host.volumes_of(1).len(), 1, "{at}: partitions");
    assert_eq!(world.formats(), 1, "{at}: formats");
    assert_eq!(world.host.is_online(1), !is_last, "{at}: online");
    assert_eq!(world.is_staged(), !is_last, "{at}: staged");
    assert_eq!(world.host.kind_at(STAGING).is_some(), !is_last, "{at}: what is at the staging path");
    let is_published = ["publish", "expand"].contains(&rpc);
    assert_eq!(world.is_published(), is_published, "{at}: published");
    assert_eq!(world.host.kind_at(TARGET).is_some(), is_published, "{at}: what is at the target");
    let is_grown = world.host.volumes_of(1).iter().all(|volume| world.host.size_of(volume) > 19 * GIB);
    assert!(is_grown || rpc != "expand", "{at}: size");
}

/// Returns each call that `rpc` makes to the machine: the name of the primitive operation, and the number of earlier
/// calls of that operation.
async fn calls_of(rpc: &str) -> Vec<(String, usize)> {
    let world = before(rpc).await;
    perform(&world, rpc).await.unwrap();
    check(&world, rpc, rpc);
    let mut seen = BTreeMap::<String, usize>::new();
    let mut calls = Vec::new();
    for line in world.host.log() {
        let step = line.split(' ').next().unwrap_or_default().to_owned();
        let count = seen.entry(step.clone()).or_default();
        if step != "read_disk" || READS.contains(count) {
            calls.push((step, *count));
        }
        *count += 1;
    }
    calls
}

async fn dies_after_every_call_of(rpc: &str) {
    let calls = calls_of(rpc).await;
    let mut crashes = 0;
    for (step, skip) in &calls {
        let at = format!("{rpc}, after call {skip} of {step}");
        let mut world = before(rpc).await;
        world.host.inject(step, *skip, Effect::CrashAfter);
        let first = perform(&world, rpc).await;
        if first.is_err() {
            assert!(world.host.is_down(), "{at}: {first:?}");
            crashes += 1;
        }
        world.replace_driver();
        perform(&world, rpc).await.unwrap_or_else(|error| panic!("{at}: {error}"));
        check(&world, rpc, &at);
    }
    // An RPC survives a crash only if the driver merely logs the failed call and makes no further call to the machine.
    // So nearly all crashes end the RPC.
    assert!(crashes * 10 >= calls.len() * 9, "only {crashes} of {} calls ended the RPC", calls.len());
}

#[tokio::test]
async fn rpc_after_a_crash_at_any_call_reaches_the_same_state() {
    for rpc in LIFE {
        dies_after_every_call_of(rpc).await;
    }
}

//! Tests of the engine on a paused clock, without devices.

mod devices;
mod pipeline;
mod store;

use std::time::Duration;

use super::*;
use crate::api::SimVolume;

/// Creates a gp3 volume of 1 GiB in the machine's zone.
const GP3: &str = "CreateVolume AvailabilityZone=us-west-2a Size=1 VolumeType=gp3";

async fn ask(engine: &Engine, line: &str) -> Result<Reply, Fault> {
    engine.call(Call::line(line).unwrap()).await
}

async fn own_instance(engine: &Engine) -> String {
    engine.snapshot_of_state().await.instances.remove(0).id
}

fn realistic() -> EngineConfig {
    EngineConfig { timing: Timing::Realistic, ..EngineConfig::default() }
}

fn in_dir(dir: &tempfile::TempDir) -> EngineConfig {
    EngineConfig { state_dir: Some(dir.path().join("state")), ..EngineConfig::default() }
}

async fn create(engine: &Engine) -> SimVolume {
    match ask(engine, GP3).await {
        Ok(Reply::CreateVolume(volume)) => volume,
        other => panic!("not created: {other:?}"),
    }
}

async fn volume(engine: &Engine, id: &str) -> SimVolume {
    match ask(engine, &format!("DescribeVolumes VolumeId.1={id}")).await {
        Ok(Reply::DescribeVolumes(mut listing)) => listing.items.remove(0),
        other => panic!("not described: {other:?}"),
    }
}

async fn attach(engine: &Engine, volume: &str) -> Result<Reply, Fault> {
    let instance = own_instance(engine).await;
    ask(engine, &format!("AttachVolume VolumeId={volume} InstanceId={instance} Device=/dev/xvdaa")).await
}

#[tokio::test(start_paused = true)]
async fn resource_states_follow_the_tokio_clock() {
    for seed in 0..100 {
        let engine = Engine::start(EngineConfig { seed: Some(seed), ..realistic() }).await.unwrap();
        // EC2 begins the creation between the call and its reply.
        let called = engine.now();
        let id = create(&engine).await.id;
        while volume(&engine, &id).await.state == "creating" {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // The creation takes 2 s plus or minus a quarter. It begins after at most 200 ms, and reads show its end after
        // at most 250 ms.
        let took = engine.now().duration_since(called).unwrap();
        assert!((Duration::from_millis(1500)..Duration::from_millis(2950)).contains(&took), "seed {seed}: {took:?}");
        attach(&engine, &id).await.unwrap();
        assert_eq!(volume(&engine, &id).await.attachments[0].state, "attaching", "seed {seed}");
        // Wait for the longest creation: 2.5 s plus 25%.
        tokio::time::sleep(Duration::from_millis(3_125)).await;
        assert_eq!(volume(&engine, &id).await.attachments[0].state, "attached", "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn instant_timing_completes_transitions_before_the_next_call() {
    let engine = Engine::start(EngineConfig::default()).await.unwrap();
    let created = create(&engine).await;
    assert_eq!(created.state, "creating", "as EC2 replies");
    assert_eq!(volume(&engine, &created.id).await.state, "available");
    attach(&engine, &created.id).await.unwrap();
    assert_eq!(volume(&engine, &created.id).await.attachments[0].state, "attached");
    ask(&engine, &format!("DetachVolume VolumeId={}", created.id)).await.unwrap();
    let delete = format!("DeleteVolume VolumeId={}", created.id);
    ask(&engine, &delete).await.unwrap();
    assert_eq!(ask(&engine, &delete).await.unwrap_err().code, "InvalidVolume.NotFound");
}

#[tokio::test]
async fn second_simulator_on_same_directory_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let first = Engine::start(in_dir(&dir)).await.unwrap();
    let refused = Engine::start(in_dir(&dir)).await.unwrap_err().to_string();
    assert!(refused.contains("another simulator uses") && refused.contains("state"), "{refused}");
    first.shutdown().await.unwrap();
    Engine::start(in_dir(&dir)).await.unwrap();
}

#[tokio::test]
async fn damaged_state_is_rejected_and_not_modified() {
    let dir = tempfile::tempdir().unwrap();
    let config = in_dir(&dir);
    let file = config.state_dir.clone().unwrap().join("state.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "{ half a sta").unwrap();
    let refused = Engine::start(config).await.unwrap_err().to_string();
    assert!(refused.contains("state.json") && refused.contains("move it away"), "{refused}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "{ half a sta");
}

#[tokio::test(start_paused = true)]
async fn engine_returns_unavailable_after_shutdown() {
    let engine = Engine::start(EngineConfig::default()).await.unwrap();
    let other = engine.clone();
    engine.shutdown().await.unwrap();
    let fault = ask(&other, GP3).await.unwrap_err();
    assert_eq!((fault.code.as_str(), fault.status), ("Unavailable", 503));
    assert!(matches!(other.shutdown().await, Err(EngineError::Ended)));
    assert_eq!(other.snapshot_of_state().await.volumes, []);
}

#[tokio::test]
async fn contradictory_configuration_is_rejected() {
    let with = |change: fn(&mut EngineConfig)| {
        let mut config = EngineConfig::default();
        change(&mut config);
        Engine::start(config)
    };
    for (change, says) in [
        ((|c| c.devices = Devices::Loop) as fn(&mut EngineConfig), "state directory"),
        (|c| c.zone = "us-west-2z".into(), "zone us-west-2z not found"),
        (|c| c.second_zone = "us-west-2a".into(), "another zone"),
    ] {
        let error = with(change).await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_callers_get_their_own_replies() {
    let engine = Engine::start(EngineConfig::default()).await.unwrap();
    let mut callers = JoinSet::new();
    for n in 0..200 {
        let engine = engine.clone();
        callers.spawn(async move {
            match ask(&engine, &format!("{GP3} Size={} ClientToken=token-{}", 1 + n % 100, n % 100)).await {
                Ok(Reply::CreateVolume(volume)) => (n % 100, volume.id, volume.size_gib),
                other => panic!("{other:?}"),
            }
        });
    }
    let mut ids = std::collections::BTreeMap::new();
    while let Some(answer) = callers.join_next().await {
        let (n, id, size) = answer.unwrap();
        assert_eq!(i64::from(size), 1 + n);
        assert_eq!(*ids.entry(n).or_insert_with(|| id.clone()), id, "one token, one volume");
    }
    assert_eq!(ids.len(), 100);
}

#[tokio::test]
async fn devices_directory_path_has_symlinks_resolved() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(dir.path(), dir.path().join("alias")).unwrap();
    let state_dir = Some(dir.path().join("alias/state"));
    let engine = Engine::start(EngineConfig { state_dir, ..EngineConfig::default() }).await.unwrap();
    let real = dir.path().canonicalize().unwrap();
    assert_eq!(engine.devices_dir(), Some(real.join("state/devices")));
}

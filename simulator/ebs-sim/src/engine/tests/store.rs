//! Tests that start from the state directory of a killed simulator.

use std::path::Path;

use super::*;
use crate::faults::{Effect, Rule};

fn config(dir: &Path) -> EngineConfig {
    EngineConfig { state_dir: Some(dir.join("state")), ..EngineConfig::default() }
}

async fn made(engine: &Engine, token: &str) -> String {
    match ask(engine, &format!("{GP3} ClientToken={token}")).await {
        Ok(Reply::CreateVolume(volume)) => volume.id,
        other => panic!("not created: {other:?}"),
    }
}

/// Makes calls of all kinds, so that the journal has every kind of input.
async fn live(engine: &Engine, name: &str) {
    let (volume, instance) = (made(engine, name).await, own_instance(engine).await);
    for call in [
        format!("CreateTags ResourceId.1={volume} Tag.1.Key=k Tag.1.Value={name}"),
        format!("AttachVolume VolumeId={volume} InstanceId={instance} Device=/dev/xvdaa"),
        format!("ModifyVolume VolumeId={volume} Size=2"),
        format!("CreateSnapshot VolumeId={volume}"),
        format!("DetachVolume VolumeId={volume}"),
    ] {
        ask(engine, &call).await.unwrap();
    }
}

fn files(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir.join("state")).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The state and the ids are the same as before, and the time does not go back.
#[tokio::test]
async fn journal_replay_restores_the_same_state() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let engine = Engine::start(config(dir.path())).await.unwrap();
        live(&engine, &format!("a{round}")).await;
        engine.set_timing(TimingOverride { attach_ms: Some(60_000), ..Default::default() }).await;
        live(&engine, &format!("b{round}")).await;
        engine.advance(Duration::from_secs(120));
        let gone = made(&engine, &format!("c{round}")).await;
        ask(&engine, &format!("DeleteVolume VolumeId={gone}")).await.unwrap();
        let before = engine.snapshot_of_state().await;
        let now = engine.now();
        // The engine did not shut down, so the directory looks as it does after a kill.
        drop(engine);
        let engine = Engine::start(config(dir.path())).await.unwrap();
        assert_eq!(engine.snapshot_of_state().await, before, "round {round}");
        assert!(engine.now() >= now, "time does not go back, leaps included");
    }
}

#[tokio::test]
async fn incomplete_last_journal_line_is_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::start(config(dir.path())).await.unwrap();
    let kept = made(&engine, "kept").await;
    let number = files(dir.path()).into_iter().find_map(|f| f.strip_prefix("journal-").map(str::to_owned)).unwrap();
    drop(engine);
    let path = dir.path().join("state").join(format!("journal-{number}"));
    let whole = std::fs::read(&path).unwrap();
    let piece = whole.split(|b| *b == b'\n').next().unwrap();
    std::fs::write(&path, [&whole[..], &piece[..piece.len() - 3]].concat()).unwrap();
    let engine = Engine::start(config(dir.path())).await.unwrap();
    assert!(engine.snapshot_of_state().await.volumes.iter().any(|v| v.id == kept));
    assert_eq!(made(&engine, "kept").await, kept);
}

#[tokio::test]
async fn diverging_journal_is_rejected_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::start(config(dir.path())).await.unwrap();
    made(&engine, "a").await;
    made(&engine, "b").await;
    drop(engine);
    let name = files(dir.path()).into_iter().find(|f| f.starts_with("journal-")).unwrap();
    let path = dir.path().join("state").join(&name);
    let whole = std::fs::read_to_string(&path).unwrap();
    // Remove the first input from the journal.
    let other: String = whole.lines().skip(1).map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, other).unwrap();
    let refused = Engine::start(config(dir.path())).await.unwrap_err().to_string();
    assert!(refused.contains(&name) && refused.contains("replays to a different state"), "{refused}");
}

#[tokio::test]
async fn clean_shutdown_leaves_state_without_journal() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::start(config(dir.path())).await.unwrap();
    live(&engine, "a").await;
    let before = engine.snapshot_of_state().await;
    engine.shutdown().await.unwrap();
    assert_eq!(files(dir.path()), ["lock", "state.json"]);
    let engine = Engine::start(config(dir.path())).await.unwrap();
    assert_eq!(engine.snapshot_of_state().await, before);
}

#[tokio::test]
async fn journal_is_rotated_during_calls_without_loss() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::start(config(dir.path())).await.unwrap();
    for n in 0..900 {
        made(&engine, &format!("t{n}")).await;
    }
    let saved = async {
        while files(dir.path()).contains(&"journal-0".to_owned()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), saved).await.expect("the state is saved, and its old journal gone");
    let before = engine.snapshot_of_state().await;
    drop(engine);
    let engine = Engine::start(config(dir.path())).await.unwrap();
    assert_eq!(engine.snapshot_of_state().await, before);
}

#[tokio::test]
async fn stuck_attachments_and_releases_survive_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::start(config(dir.path())).await.unwrap();
    engine.faults().add(Rule::new(Effect::StuckAttaching)).unwrap();
    engine.faults().add(Rule::new(Effect::Stale { lag_ms: 15_000 }).chance(0.5)).unwrap();
    let instance = own_instance(&engine).await;
    let mut volumes = Vec::new();
    for (name, device) in [("a", "/dev/xvdaa"), ("b", "/dev/xvdab")] {
        let volume = made(&engine, name).await;
        ask(&engine, &format!("AttachVolume VolumeId={volume} InstanceId={instance} Device={device}")).await.unwrap();
        volumes.push(volume);
    }
    engine.release_attachment(&volumes[0], None).unwrap();
    let before = engine.snapshot_of_state().await;
    drop(engine);
    let engine = Engine::start(config(dir.path())).await.unwrap();
    assert_eq!(engine.snapshot_of_state().await, before);
    let state = |id: &str| before.volumes.iter().find(|v| v.id == id).unwrap().attachments[0].state.clone();
    assert_eq!([state(&volumes[0]), state(&volumes[1])], ["attached", "attaching"]);
    engine.release_all();
    assert!(
        engine.snapshot_of_state().await.volumes.iter().all(|v| v.attachments.iter().all(|a| a.state == "attached"))
    );
}

//! Tests of the engine with real loop devices. They need root. Links are in the test's own directory.

use std::time::Duration;

use super::*;
use crate::api::SimAttachment;

struct Machine {
    config: EngineConfig,
    _temporary: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        assert!(
            rustix::process::geteuid().is_root(),
            "this test sets up loop devices: run it as root (sudo -E env \"PATH=$PATH\" cargo test -p ebs-sim)"
        );
        let temporary = tempfile::tempdir().unwrap();
        let config = EngineConfig {
            state_dir: Some(temporary.path().join("state")),
            by_id_dir: temporary.path().join("by-id"),
            devices: Devices::Loop,
            ..EngineConfig::default()
        };
        Self { config, _temporary: temporary }
    }

    async fn start(&self) -> Engine {
        Engine::start(self.config.clone()).await.unwrap()
    }
}

async fn create(engine: &Engine, more: &str) -> String {
    match ask(engine, &format!("{GP3} {more}")).await {
        Ok(Reply::CreateVolume(volume)) => volume.id,
        other => panic!("not created: {other:?}"),
    }
}

/// Waits with a timeout until a volume and its only attachment have these states.
async fn reach(engine: &Engine, volume: &str, state: &str, attachment: &str) -> Option<SimAttachment> {
    let wait = async {
        loop {
            let view = engine.snapshot_of_state().await;
            let volume = view.volumes.into_iter().find(|v| v.id == volume).expect("the volume exists");
            let first = volume.attachments.into_iter().next();
            if volume.state == state && first.as_ref().map_or("", |a| a.state.as_str()) == attachment {
                return first;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap_or_else(|_| panic!("never {state} {attachment}"))
}

async fn attach(engine: &Engine, volume: &str, device: &str) -> String {
    reach(engine, volume, "available", "").await;
    let instance = own_instance(engine).await;
    ask(engine, &format!("AttachVolume VolumeId={volume} InstanceId={instance} Device={device}")).await.unwrap();
    reach(engine, volume, "in-use", "attached").await.unwrap().loop_device.expect("a device")
}

#[tokio::test]
async fn restored_volume_has_data_from_time_of_snapshot() {
    use std::os::unix::fs::FileExt as _;
    let machine = Machine::new();
    let engine = machine.start().await;
    let volume = create(&engine, "").await;
    let device = attach(&engine, &volume, "/dev/xvdaa").await;
    let disk = std::fs::OpenOptions::new().write(true).open(&device).unwrap();
    disk.write_all_at(&[1; 4096], 8192).unwrap();
    let reply = ask(&engine, &format!("CreateSnapshot VolumeId={volume}")).await;
    let Ok(Reply::CreateSnapshot(snapshot)) = reply else { panic!("{reply:?}") };
    assert_eq!(snapshot.state, "pending");
    // The reply has arrived, so the snapshot does not contain later writes.
    disk.write_all_at(&[2; 4096], 8192).unwrap();
    drop(disk);
    let reply = ask(&engine, &format!("DescribeSnapshots SnapshotId.1={}", snapshot.id)).await;
    let Ok(Reply::DescribeSnapshots(found)) = reply else { panic!("{reply:?}") };
    assert_eq!(found.items[0].state, "completed", "the data were copied before the reply");
    let restored = create(&engine, &format!("SnapshotId={}", snapshot.id)).await;
    let device = attach(&engine, &restored, "/dev/xvdab").await;
    let mut bytes = vec![0; 4096];
    std::fs::File::open(device).unwrap().read_exact_at(&mut bytes, 8192).unwrap();
    assert_eq!(bytes, [1; 4096]);
    engine.shutdown().await.unwrap();
}

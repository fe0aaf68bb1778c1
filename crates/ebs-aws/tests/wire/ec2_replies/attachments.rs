//! AttachVolume and DetachVolume, and the same for nodes of a cluster.

use std::time::Duration;

use ebs_sim::engine::TimingOverride;
use ebs_sim::faults::{Effect, Rule};

use super::account::{Account, LONG_MS, Said};

const DEVICE: &str = "/dev/xvdaa";
/// A type with at most 11 volumes, including the root volume.
const SMALL_TYPE: &str = "inf1.24xlarge";

pub(super) async fn provoke(id: &str) -> Option<Said> {
    Some(match id {
        "attach-in-use" => in_use().await,
        "attach-name-taken" => second_name(DEVICE, DEVICE).await,
        "attach-name-taken-as-sd" => second_name("/dev/sdb", "/dev/xvdb").await,
        "attach-name-impossible" => {
            let account = Account::new().await;
            account.attach(&account.volume().await, "/dev/loop0").await
        }
        "attach-other-zone" => {
            let account = Account::new().await;
            account.attach_to(&account.second, &account.volume().await, DEVICE).await
        }
        "attach-instance-not-running" => {
            let account = Account::timed(TimingOverride { run_ms: Some(LONG_MS), ..Default::default() }).await;
            account.attach_to(&account.launched().await, &account.volume().await, DEVICE).await
        }
        "attach-instance-stopped" => {
            let account = Account::new().await;
            account.done(&format!("Action=StopInstances&InstanceId.1={}", account.instance)).await;
            account.attach(&account.volume().await, DEVICE).await
        }
        "attach-volume-creating" => {
            let account = Account::timed(TimingOverride { create_ms: Some(LONG_MS), ..Default::default() }).await;
            account.attach(&account.volume().await, DEVICE).await
        }
        "attach-being-modified" => {
            let account = Account::timed(TimingOverride { modify_ms: Some(LONG_MS), ..Default::default() }).await;
            let volume = account.volume().await;
            account.done(&format!("Action=ModifyVolume&Size=5&VolumeId={volume}")).await;
            account.attach(&volume, DEVICE).await
        }
        "attach-limit" => beyond_the_limit(false).await.1,
        "attach-limit-earlier" => never_attached(beyond_the_limit(true).await).await,
        "attach-name-used-before" => never_attached(stuck().await).await,
        "attach-done-and-unavailable" => done_and_unavailable().await,
        _ if id.starts_with("node-") => return of_node(id).await,
        _ => return detach(id).await,
    })
}

async fn in_use() -> Said {
    let account = Account::new().await;
    let neighbour = account.launched().await;
    let volume = account.attached(DEVICE).await;
    let elsewhere = account.attach_to(&neighbour, &volume, "/dev/xvdab").await;
    let here = account.attach(&volume, "/dev/xvdab").await;
    assert_eq!((&here.code, &here.text), (&elsewhere.code, &elsewhere.text));
    here
}

async fn second_name(taken: &str, wanted: &str) -> Said {
    let account = Account::new().await;
    account.attached(taken).await;
    account.attach(&account.volume().await, wanted).await
}

/// Attaches one volume more than the type supports, and returns EC2's reply.
async fn beyond_the_limit(attach_for_ever: bool) -> ((Account, String), Said) {
    let account = Account::with(|config| {
        config.instance_type = SMALL_TYPE.to_owned();
        config.account.oddities.full_instances_attach_for_ever = attach_for_ever;
    })
    .await;
    for letter in 'b'..='k' {
        account.attached(&format!("/dev/xvd{letter}")).await;
    }
    let volume = account.volume().await;
    let said = account.attach(&volume, "/dev/xvdz").await;
    ((account, volume), said)
}

async fn stuck() -> ((Account, String), Said) {
    let account = Account::new().await;
    account.engine.faults().add(Rule::new(Effect::StuckAttaching)).unwrap();
    let volume = account.volume().await;
    let said = account.attach(&volume, DEVICE).await;
    ((account, volume), said)
}

/// An hour later the volume is still attaching.
async fn never_attached(((account, volume), said): ((Account, String), Said)) -> Said {
    account.engine.advance(Duration::from_hours(1));
    assert_eq!(account.attachment_state(&volume).await.as_deref(), Some("attaching"));
    said
}

async fn done_and_unavailable() -> Said {
    let account = Account::new().await;
    let message = "The server is overloaded and can't handle the request.".to_owned();
    let effect = Effect::Error { code: "Unavailable".to_owned(), message, status: 503, after_doing: true };
    account.engine.faults().add(Rule::new(effect).on("AttachVolume").times(1)).unwrap();
    let volume = account.volume().await;
    let said = account.attach(&volume, DEVICE).await;
    assert_eq!(account.attach(&volume, DEVICE).await.code, "VolumeInUse");
    said
}

async fn detach(id: &str) -> Option<Said> {
    let account = Account::timed(TimingOverride { terminate_ms: Some(LONG_MS), ..Default::default() }).await;
    Some(match id {
        "detach-not-attached" => account.detach(&account.volume().await).await,
        "detach-instance-ending" => {
            let volume = account.attached(DEVICE).await;
            account.done(&format!("Action=TerminateInstances&InstanceId.1={}", account.instance)).await;
            account.detach(&volume).await
        }
        "detach-root" => {
            let volumes = account.engine.snapshot_of_state().await.volumes;
            let is_root =
                |id: &String| volumes.iter().any(|v| v.id == *id && v.attachments[0].instance_id == account.instance);
            let root = volumes.iter().map(|v| v.id.clone()).find(is_root)?;
            account.detach(&root).await
        }
        "detach-other-instance" => {
            let volume = account.attached(DEVICE).await;
            account.ask(&format!("Action=DetachVolume&VolumeId={volume}&InstanceId={}", account.second)).await
        }
        "detach-mounted" => {
            account.engine.faults().add(Rule::new(Effect::Busy)).unwrap();
            let volume = account.attached(DEVICE).await;
            let said = account.detach(&volume).await;
            account.engine.advance(Duration::from_mins(30));
            assert_eq!(account.attachment_state(&volume).await.as_deref(), Some("busy"));
            account.engine.release_all();
            assert_eq!(account.attachment_state(&volume).await, None, "unmounted");
            said
        }
        "detach-again" => {
            let volume = account.attached(DEVICE).await;
            account.engine.set_timing(TimingOverride { detach_ms: Some(LONG_MS), ..Default::default() }).await;
            assert_eq!(account.detach(&volume).await.status, 200);
            account.detach(&volume).await
        }
        _ => return None,
    })
}

async fn of_node(id: &str) -> Option<Said> {
    let account = Account::new().await;
    Some(match id {
        "node-attach-no-slot" => {
            for _ in 0..27 {
                let volume = account.volume().await;
                assert_eq!(account.ask_for_node("AttachClusterNodeVolume", &volume).await.status, 200);
            }
            account.ask_for_node("AttachClusterNodeVolume", &account.volume().await).await
        }
        "node-attach-volume-missing" => account.ask_for_node("AttachClusterNodeVolume", "vol-00000000000000000").await,
        "node-detach-not-attached" => {
            let elsewhere = account.attached(DEVICE).await;
            let other = account.ask_for_node("DetachClusterNodeVolume", &elsewhere).await;
            assert!(other.text.starts_with("HyperPod - Ec2ErrCode: InvalidAttachment.NotFound"), "{other:?}");
            account.ask_for_node("DetachClusterNodeVolume", &account.volume().await).await
        }
        _ => return None,
    })
}

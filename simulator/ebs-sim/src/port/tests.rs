//! Tests of the port with hooks.

use std::time::Duration;

use ebs_ec2::{
    CreateVolume, Gib, PageRequest, Place, Tags, Volume, VolumeId, VolumeQuery, VolumeState, VolumeType, Volumes as _,
    ZoneName,
};

use super::*;

/// A simulator for a test, whose calls need no permissions.
async fn sim() -> SimEc2 {
    SimEc2::start(EngineConfig::default()).await.unwrap().by_test()
}

fn request(token: &str) -> CreateVolume {
    let place = Place::Zone(ZoneName::parse("us-west-2a").unwrap());
    let tags = Tags::from([("CSIVolumeName".to_owned(), token.to_owned())]);
    CreateVolume { tags, ..CreateVolume::plain(token, place, Gib(4), VolumeType::Gp3) }
}

async fn only(sim: &SimEc2, id: &VolumeId) -> Volume {
    let query = VolumeQuery::FilterIds(vec![id.clone()]);
    let mut page = sim.describe_volumes(&query, &PageRequest::default()).await.unwrap();
    assert_eq!(page.items.len(), 1);
    page.items.remove(0)
}

#[tokio::test(start_paused = true)]
async fn call_with_lost_reply_is_executed_and_rejected_is_not() {
    let sim = sim().await;
    sim.fail_next(Action::CreateVolume, ErrorClass::Ambiguous, true);
    sim.fail_next(Action::CreateVolume, ErrorClass::Throttled, false);
    let volumes = async || sim.engine().snapshot_of_state().await.volumes.len();
    let before = volumes().await;
    assert_eq!(sim.create_volume(&request("a")).await.unwrap_err().class, ErrorClass::Ambiguous);
    assert_eq!(volumes().await, before + 1);
    assert_eq!(sim.create_volume(&request("b")).await.unwrap_err().class, ErrorClass::Throttled);
    assert_eq!(volumes().await, before + 1);
    let adopted = sim.create_volume(&request("a")).await.unwrap();
    assert_eq!(volumes().await, before + 1);
    assert_eq!(adopted.csi_name(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn held_call_is_not_executed_before_its_gate_opens() {
    let sim = sim().await;
    let gate = sim.hold(Action::CreateVolume);
    let other = sim.clone();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { other.create_volume(&request("a")).await });
    gate.reached().await;
    assert_eq!(sim.count(Action::CreateVolume), 0);
    let before = sim.engine().snapshot_of_state().await.volumes.len();
    sim.create_volume(&request("b")).await.expect("only the next call is held");
    gate.release();
    tasks.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(sim.engine().snapshot_of_state().await.volumes.len(), before + 2);
    assert_eq!(sim.count(Action::CreateVolume), 2);
}

#[tokio::test(start_paused = true)]
async fn every_call_is_recorded_with_its_result() {
    let sim = sim().await;
    let volume = sim.create_volume(&request("a")).await.unwrap().id;
    let dry = CreateVolume { dry_run: true, ..request("b") };
    assert_eq!(sim.create_volume(&dry).await.unwrap_err().class, ErrorClass::DryRunSucceeded);
    tokio::time::sleep(Duration::from_secs(5)).await;
    sim.delete_volume(&volume).await.unwrap();
    let calls = sim.calls();
    let shown: Vec<_> = calls.iter().map(|c| (c.action, c.dry_run, c.error)).collect();
    assert_eq!(
        shown,
        [
            (Action::CreateVolume, false, None),
            (Action::CreateVolume, true, Some(ErrorClass::DryRunSucceeded)),
            (Action::DeleteVolume, false, None),
        ]
    );
    assert!(calls[2].at.duration_since(calls[0].at).unwrap() >= Duration::from_secs(5));
    sim.clear_calls();
    assert_eq!(sim.calls(), []);
}

/// Returns the failure of a suite that drops an EC2 after these calls; `None`: it passes.
async fn failure_at_the_end(calls: impl AsyncFnOnce(&SimEc2)) -> Option<String> {
    let sim = SimEc2::start(EngineConfig::default()).await.unwrap();
    calls(&sim).await;
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || drop(sim)));
    ended.err().map(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())
}

/// The suite fails even if the call failed.
#[tokio::test(start_paused = true)]
async fn call_without_allowing_policy_fails_its_suite() {
    let untagged = || CreateVolume { tags: Tags::new(), ..request("a") };
    let failure = failure_at_the_end(async |sim| drop(sim.create_volume(&untagged()).await.unwrap())).await.unwrap();
    for word in ["CreateVolume", "us-west-2a", "aws:RequestTag/ebs.csi.aws.com/cluster = true"] {
        assert!(failure.contains(word), "{failure}");
    }
    assert_eq!(failure_at_the_end(async |sim| drop(sim.create_volume(&request("a")).await.unwrap())).await, None);
    let by_test = async |sim: &SimEc2| drop(sim.by_test().create_volume(&untagged()).await.unwrap());
    assert_eq!(failure_at_the_end(by_test).await, None);
}

/// Calls that were lost or rejected before EC2 saw them are audited, too.
#[tokio::test(start_paused = true)]
async fn lost_call_is_audited() {
    let untagged = || CreateVolume { tags: Tags::new(), ..request("a") };
    let planned = async |sim: &SimEc2| {
        sim.fail_next(Action::CreateVolume, ErrorClass::Throttled, false);
        sim.create_volume(&untagged()).await.unwrap_err();
    };
    assert!(failure_at_the_end(planned).await.unwrap().contains("CreateVolume"));
    let lost = async |sim: &SimEc2| {
        let rule = crate::faults::Rule::new(crate::faults::Effect::LoseRequest { after_ms: 0 });
        sim.faults().add(rule).unwrap();
        sim.create_volume(&untagged()).await.unwrap_err();
    };
    assert!(failure_at_the_end(lost).await.unwrap().contains("CreateVolume"));
}

async fn strict() -> SimEc2 {
    let policy = crate::iam::Policy::parse("managed-v2", crate::iam::Shipped::ManagedV2.text()).unwrap();
    let iam = crate::iam::IamConfig { policies: vec![policy], ..Default::default() };
    SimEc2::start(EngineConfig { iam, ..EngineConfig::default() }).await.unwrap()
}

fn managed(token: &str) -> CreateVolume {
    let tags = Tags::from([("ebs.csi.aws.com/cluster".to_owned(), "true".to_owned())]);
    CreateVolume { tags, ..request(token) }
}

/// The volume is accepted first.
#[tokio::test(start_paused = true)]
async fn volume_with_forbidden_key_vanishes_after_reply() {
    let sim = strict().await;
    sim.declare(Extra::Kms);
    let secret = CreateVolume { encrypted: true, kms_key_id: Some("alias/mine".to_owned()), ..managed("a") };
    let volume = sim.create_volume(&secret).await.unwrap();
    let query = VolumeQuery::FilterIds(vec![volume.id]);
    assert!(sim.describe_volumes(&query, &PageRequest::default()).await.unwrap().items.is_empty());
    let default_key = CreateVolume { encrypted: true, ..managed("b") };
    let kept = sim.create_volume(&default_key).await.unwrap();
    assert_eq!(only(&sim, &kept.id).await.state, VolumeState::Available);
}

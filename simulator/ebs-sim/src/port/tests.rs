//! Tests of the port's audit.

use ebs_ec2::{CreateVolume, Gib, Place, VolumeType, Volumes as _, ZoneName};

use super::*;

/// Returns the failure of a test that makes these calls and then drops its EC2, or `None` if the test passes.
async fn failure_at_the_end(calls: impl AsyncFnOnce(&SimEc2)) -> Option<String> {
    let sim = SimEc2::start(EngineConfig::default()).await.unwrap();
    calls(&sim).await;
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || drop(sim)));
    ended.err().map(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())
}

/// Calls that were lost or rejected before EC2 saw them are audited, too. Calls of the test itself are not.
#[tokio::test(start_paused = true)]
async fn lost_call_is_audited() {
    let zone = || Place::Zone(ZoneName::parse("us-west-2a").unwrap());
    let untagged = || CreateVolume::plain("a", zone(), Gib(4), VolumeType::Gp3);
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
    let by_test = async |sim: &SimEc2| drop(sim.by_test().create_volume(&untagged()).await.unwrap());
    assert_eq!(failure_at_the_end(by_test).await, None);
}

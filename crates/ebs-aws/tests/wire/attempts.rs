//! Checks what the client reports to the observer about each HTTP attempt.

use ebs_ec2::{Action, ErrorClass, PageRequest, VolumeId, Volumes, Zones};

use crate::server::{Reply, Wire, managed_volumes};

/// Metrics count HTTP attempts by outcome and mark dry runs.
#[tokio::test]
async fn every_attempt_is_reported_with_its_own_outcome() {
    let wire = Wire::answering([
        Reply::error(500, "InternalError", "x"),
        Reply::Say(502, "<html/>".into()),
        Reply::ok("<DescribeVolumesResponse><volumeSet/></DescribeVolumesResponse>"),
        Reply::error(503, "RequestLimitExceeded", "x"),
        Reply::error(400, "InvalidVolume.NotFound", "x"),
        Reply::ok("<html/>"),
        Reply::error(400, "DryRunOperation", "x"),
    ])
    .await;
    let vol = VolumeId::parse("vol-1").unwrap();
    wire.ec2.describe_volumes(&managed_volumes(), &PageRequest::default()).await.unwrap();
    for _ in 0..3 {
        wire.ec2.delete_volume(&vol).await.unwrap_err();
    }
    wire.ec2.check_access().await.unwrap();
    let wanted = [
        "DescribeVolumes: Refused(\"InternalError\")",
        "DescribeVolumes: Unanswered",
        "DescribeVolumes: Succeeded",
        "DeleteVolume: Throttled",
        "DeleteVolume: Refused(\"InvalidVolume.NotFound\")",
        "DeleteVolume: Unanswered",
        "DescribeAvailabilityZones (dry run): Refused(\"DryRunOperation\")",
    ];
    assert_eq!(*wire.seen.1.lock().unwrap(), wanted);
    let calls = [
        (Action::DescribeVolumes, None),
        (Action::DeleteVolume, Some(ErrorClass::Throttled)),
        (Action::DeleteVolume, Some(ErrorClass::VolumeNotFound)),
        (Action::DeleteVolume, Some(ErrorClass::Ambiguous)),
        (Action::DescribeAvailabilityZones, Some(ErrorClass::DryRunSucceeded)),
    ];
    assert_eq!(wire.seen.0.lock().unwrap().clone(), calls, "each call is reported once");
}

#[tokio::test]
async fn attempt_that_times_out_is_reported_as_unanswered() {
    let wire = Wire::answering([Reply::Hang]).await;
    let id = VolumeId::parse("vol-1").unwrap();
    let (outcome, ()) = tokio::join!(wire.ec2.delete_volume(&id), wire.time_passes_after_a_request());
    outcome.unwrap_err();
    assert_eq!(*wire.seen.1.lock().unwrap(), ["DeleteVolume: Unanswered"]);
}

//! Volumes of SageMaker HyperPod nodes.

use super::*;

const CLUSTER: &str = "arn:aws:sagemaker:us-west-2:123456789012:cluster/abc";
const NODE: &str = "i-0123456789abcdef0";

fn node_volume(action: &str, volume: &str) -> String {
    format!("{action}ClusterNodeVolume ClusterArn={CLUSTER} NodeId={NODE} VolumeId={volume}")
}

/// EC2 does not detach the volume.
#[test]
fn volume_of_cluster_node_shows_node_and_no_instance() {
    let mut world = World::instant();
    let volume = world.gp3();
    let reply = world.call(&node_volume("Attach", &volume));
    let Ok(Reply::AttachClusterNodeVolume(reply)) = reply else { panic!("{reply:?}") };
    let seen = world.attachment(&volume);
    assert_eq!((seen.state.as_str(), seen.instance_id.as_str()), ("attached", ""));
    assert_eq!(seen.associated_resource, Some(format!("{CLUSTER}-{NODE}")));
    assert_eq!(seen.device, reply.device);
    world.refuses([
        (format!("DescribeInstances InstanceId.1={NODE}"), "InvalidInstanceID.NotFound"),
        (format!("DetachVolume VolumeId={volume}"), "UnsupportedOperation"),
    ]);
    world.done(&node_volume("Detach", &volume));
    assert_eq!(world.volume(&volume).state, "available");
}

/// The code is in a ValidationException.
#[test]
fn sagemaker_error_contains_ec2_code() {
    let mut world = World::instant();
    let (volume, missing) = (world.gp3(), "vol-00000000000000000");
    let (other, _) = world.attached();
    for _ in 0..27 {
        let volume = world.gp3();
        world.done(&node_volume("Attach", &volume));
    }
    for (action, volume, code) in [
        ("Detach", missing, "InvalidVolume.NotFound"),
        ("Detach", &volume, "IncorrectState"),
        ("Detach", &other, "InvalidAttachment.NotFound"),
        ("Attach", &volume, "AttachmentLimitExceeded"),
    ] {
        let call = node_volume(action, volume);
        assert_eq!(world.refused(&call), "ValidationException");
        let fault = world.call(&call).unwrap_err();
        assert!(fault.message.contains(&format!("HyperPod - Ec2ErrCode: {code}")), "{fault}");
    }
    let mut world = World::instant();
    let (other, _) = world.attached();
    for (volume, code) in [(missing, "InvalidVolume.NotFound"), (&other, "VolumeInUse")] {
        let fault = world.call(&node_volume("Attach", volume)).unwrap_err();
        assert!(fault.message.contains(&format!("HyperPod - Ec2ErrCode: {code}")), "{fault}");
    }
    assert_eq!(world.refused(&(node_volume("Attach", &volume) + " ClusterArn=abc")), "ValidationException");
}

//! Volumes of SageMaker HyperPod nodes.

use super::*;
use crate::api::{ClusterNodeVolume, DescribeInstances};

const CLUSTER: &str = "arn:aws:sagemaker:us-west-2:123456789012:cluster/abc";
const NODE: &str = "i-0123456789abcdef0";

fn node_volume(volume: &str) -> ClusterNodeVolume {
    ClusterNodeVolume { cluster_arn: CLUSTER.to_owned(), node_id: NODE.to_owned(), volume_id: volume.to_owned() }
}

impl World {
    fn refused_by_sagemaker(&mut self, call: Call, code: &str) {
        let before = self.sim.save();
        let fault = self.call(call).unwrap_err();
        assert_eq!(fault.code, "ValidationException");
        assert!(fault.message.contains(&format!("HyperPod - Ec2ErrCode: {code}")), "{fault}");
        assert_eq!(self.sim.save(), before);
    }
}

/// EC2 does not detach the volume.
#[test]
fn volume_of_cluster_node_shows_node_and_no_instance() {
    let mut world = World::instant();
    let volume = world.gp3();
    let Ok(Reply::AttachClusterNodeVolume(reply)) = world.call(Call::AttachClusterNodeVolume(node_volume(&volume)))
    else {
        panic!()
    };
    let seen = world.volume(&volume).attachments.remove(0);
    assert_eq!((seen.state.as_str(), seen.instance_id.as_str()), ("attached", ""));
    assert_eq!(seen.associated_resource, Some(format!("{CLUSTER}-{NODE}")));
    assert_eq!(seen.device, reply.device);
    let instances = DescribeInstances { instance_ids: vec![NODE.to_owned()], ..Default::default() };
    assert_eq!(world.refused(Call::DescribeInstances(instances)), "InvalidInstanceID.NotFound");
    let by_ec2 = DetachVolume { volume_id: volume.clone(), ..Default::default() };
    assert_eq!(world.refused(Call::DetachVolume(by_ec2)), "UnsupportedOperation");
    world.call(Call::DetachClusterNodeVolume(node_volume(&volume))).unwrap();
    assert_eq!(world.volume(&volume).state, "available");
}

/// The code is in a ValidationException.
#[test]
fn sagemaker_error_contains_ec2_code() {
    let mut world = World::instant();
    let (volume, other) = (world.gp3(), world.gp3());
    let missing = "vol-00000000000000000";
    world.refused_by_sagemaker(Call::AttachClusterNodeVolume(node_volume(missing)), "InvalidVolume.NotFound");
    world.refused_by_sagemaker(Call::DetachClusterNodeVolume(node_volume(missing)), "InvalidVolume.NotFound");
    world.refused_by_sagemaker(Call::DetachClusterNodeVolume(node_volume(&volume)), "IncorrectState");
    world.attach(&other, "/dev/xvdaa");
    world.refused_by_sagemaker(Call::DetachClusterNodeVolume(node_volume(&other)), "InvalidAttachment.NotFound");
    world.refused_by_sagemaker(Call::AttachClusterNodeVolume(node_volume(&other)), "VolumeInUse");
    for _ in 0..27 {
        let volume = world.gp3();
        world.call(Call::AttachClusterNodeVolume(node_volume(&volume))).unwrap();
    }
    world.refused_by_sagemaker(Call::AttachClusterNodeVolume(node_volume(&volume)), "AttachmentLimitExceeded");
    let bad = ClusterNodeVolume { cluster_arn: "abc".into(), ..node_volume(&volume) };
    assert_eq!(world.refused(Call::AttachClusterNodeVolume(bad)), "ValidationException");
}

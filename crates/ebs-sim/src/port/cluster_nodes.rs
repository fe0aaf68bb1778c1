//! HyperPod nodes through the port. The state knows instances only, so the books are here: an instance that is
//! once named as a cluster's node is one from then on. EC2 no longer describes it, and lists what is attached to it
//! by the associated resource instead of the instance.

use ebs_ec2::{Action, ClusterNodes, Result, Volume};
use ebs_types::{DeviceName, HyperPodNode, InstanceId, VolumeId};

use crate::api::{self, Call, Reply};

use super::{SimEc2, unexpected};

/// Device names that SageMaker takes by turns, `/dev/xvdaa` to `/dev/xvdbz`.
const DEVICES: u32 = 52;

impl ClusterNodes for SimEc2 {
    async fn attach_cluster_node_volume(&self, node: &HyperPodNode, volume: &VolumeId) -> Result<DeviceName> {
        let action = Action::AttachClusterNodeVolume;
        self.remember(node);
        let call = api::AttachVolume {
            volume_id: volume.to_string(),
            instance_id: node.instance().to_string(),
            device: Some(self.free_device(node).await),
            ebs_card_index: None,
            dry_run: false,
        };
        match self.make(action, Call::AttachVolume(call)).await? {
            Reply::AttachVolume(attachment) => Ok(DeviceName::new(attachment.device)),
            other => Err(unexpected(action, &other)),
        }
    }

    async fn detach_cluster_node_volume(&self, node: &HyperPodNode, volume: &VolumeId) -> Result<()> {
        self.remember(node);
        let call = api::DetachVolume {
            volume_id: volume.to_string(),
            instance_id: Some(node.instance().to_string()),
            device: None,
            force: false,
            dry_run: false,
        };
        self.make(Action::DetachClusterNodeVolume, Call::DetachVolume(call)).await.map(drop)
    }
}

impl SimEc2 {
    fn remember(&self, node: &HyperPodNode) {
        self.lock().cluster_nodes.insert(node.instance().clone(), node.cluster().to_owned());
    }

    /// True for an instance that is a HyperPod node.
    pub(super) fn is_cluster_node(&self, instance: &InstanceId) -> bool {
        self.lock().cluster_nodes.contains_key(instance)
    }

    /// The volume with its attachments to HyperPod nodes as EC2 shows them.
    pub(super) fn with_cluster_nodes(&self, mut volume: Volume) -> Volume {
        let shared = self.lock();
        for attachment in &mut volume.attachments {
            let Some(instance) = &attachment.instance else { continue };
            let Some(cluster) = shared.cluster_nodes.get(instance) else { continue };
            attachment.associated_resource =
                Some(format!("arn:aws:sagemaker:us-west-2:000000000000:cluster/{cluster}-{instance}"));
            attachment.instance = None;
        }
        volume
    }

    /// The next name in turn that the node does not use.
    async fn free_device(&self, node: &HyperPodNode) -> String {
        let instances = self.engine.snapshot_of_state().await.instances;
        let devices = instances.into_iter().find(|i| i.id == node.instance().as_str()).map(|i| i.devices);
        let taken = |name: &str| devices.iter().flatten().any(|d| d.device == name);
        let mut shared = self.lock();
        let first = shared.cluster_devices;
        let free = (0..DEVICES).map(|n| (first + n) % DEVICES).find(|turn| !taken(&device(*turn))).unwrap_or(first);
        shared.cluster_devices = (free + 1) % DEVICES;
        device(free)
    }
}

fn device(turn: u32) -> String {
    let letter = |n: u32| char::from_u32(u32::from('a') + n).unwrap_or('a');
    format!("/dev/xvd{}{}", letter(turn / 26), letter(turn % 26))
}

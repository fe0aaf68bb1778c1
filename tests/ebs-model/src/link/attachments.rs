//! The port's calls for attachments to EC2 instances and HyperPod nodes.

use std::sync::Arc;
use std::time::Duration;

use ebs_ec2::{
    Action, AttachRequest, Attachment, Attachments, ClusterNodeDevice, ClusterNodes, DetachRequest, Ec2, ErrorClass,
    HyperPodNode, Result, VolumeId,
};

use super::{Ec2Call, Link, Subject};
use crate::network::{Ec2Event, EventKind};
use crate::planted::Planted;

fn pair(volume: impl ToString, instance: impl ToString) -> Subject {
    Subject { name: volume.to_string(), other: instance.to_string() }
}

fn attached<T>(_: &T, of: &Subject) -> EventKind {
    EventKind::Attached { volume: of.name.clone(), instance: of.other.clone() }
}

fn detached(_: &Attachment, of: &Subject) -> EventKind {
    EventKind::Detached { volume: of.name.clone(), instance: of.other.clone() }
}

/// How long a planted bug waits before it makes a call that no request caused.
pub(super) const LATER: Duration = Duration::from_secs(40);

impl<E: Ec2> Link<E> {
    /// Records the device name if EC2 accepted it, or the error if another volume uses the name.
    fn judge_device(&self, asked: &AttachRequest, answer: &Result<Attachment>) {
        let (volume, instance) = (asked.volume.as_str(), asked.instance.as_str());
        let device = asked.device.as_str();
        match answer {
            Ok(_) => self.process.gave_device(instance, device, volume),
            Err(e) if e.class == ErrorClass::DeviceNameInUse => {
                let [volume, instance, device] = [volume, instance, device].map(str::to_owned);
                let (process, now) = (Arc::clone(&self.process), tokio::time::Instant::now());
                let what = EventKind::NameTaken { volume, instance, device };
                self.network.record_event(Ec2Event { process, sent: now, at: now, what });
            }
            Err(_) => {}
        }
    }

    /// Planted bug: a policy that detaches volumes without a request.
    fn detach_later(&self, request: &AttachRequest) {
        let detach = DetachRequest { volume: request.volume.clone(), instance: request.instance.clone() };
        let ec2 = self.ec2();
        self.call_later(LATER, async move { drop(ec2.detach_volume(&detach).await) });
    }

    /// Planted bug: a policy that deletes detached volumes.
    fn delete_later(&self, volume: &VolumeId) {
        let (ec2, volume) = (self.ec2(), volume.clone());
        self.call_later(LATER, async move { drop(ec2.delete_volume(&volume).await) });
    }
}

impl<E: Ec2> Attachments for Link<E> {
    async fn attach_volume(&self, request: &AttachRequest) -> Result<Attachment> {
        let (ec2, mut request) = (self.ec2(), request.clone());
        if self.network.is_planted(Planted::DetachUnasked) {
            self.detach_later(&request);
        }
        if self.network.is_planted(Planted::SameDevice) {
            request.device = crate::content::some_device();
        }
        let (subject, asked) = (pair(&request.volume, &request.instance), request.clone());
        let outcome = self.network.outcome_of_change(Action::AttachVolume, &[(asked.volume.as_str(), "")]);
        let ec2_call = Ec2Call::change(Action::AttachVolume, subject, attached).with(outcome);
        let answer = self.make(ec2_call, Box::pin(async move { ec2.attach_volume(&request).await })).await;
        self.judge_device(&asked, &answer);
        answer
    }

    async fn detach_volume(&self, request: &DetachRequest) -> Result<Attachment> {
        let (ec2, request) = (self.ec2(), request.clone());
        if self.network.is_planted(Planted::DeleteUnasked) {
            self.delete_later(&request.volume);
        }
        self.process.took_device(request.instance.as_str(), request.volume.as_str());
        let of = [(request.volume.as_str(), request.instance.as_str()), (request.volume.as_str(), "")];
        let outcome = self.network.outcome_of_change(Action::DetachVolume, &of);
        let ec2_call =
            Ec2Call::change(Action::DetachVolume, pair(&request.volume, &request.instance), detached).with(outcome);
        self.make(ec2_call, Box::pin(async move { ec2.detach_volume(&request).await })).await
    }
}

impl<E: Ec2> ClusterNodes for Link<E> {
    async fn attach_cluster_node_volume(&self, node: &HyperPodNode, volume: &VolumeId) -> Result<ClusterNodeDevice> {
        let (ec2, node, volume) = (self.ec2(), node.clone(), volume.clone());
        let ec2_call = Ec2Call::change(Action::AttachClusterNodeVolume, pair(&volume, format!("{node:?}")), attached);
        self.make(ec2_call, Box::pin(async move { ec2.attach_cluster_node_volume(&node, &volume).await })).await
    }

    async fn detach_cluster_node_volume(&self, node: &HyperPodNode, volume: &VolumeId) -> Result<()> {
        let (ec2, node, volume) = (self.ec2(), node.clone(), volume.clone());
        let subject = pair(&volume, format!("{node:?}"));
        let ec2_call = Ec2Call::change(Action::DetachClusterNodeVolume, subject, |(), _| EventKind::Other);
        self.make(ec2_call, Box::pin(async move { ec2.detach_cluster_node_volume(&node, &volume).await })).await
    }
}

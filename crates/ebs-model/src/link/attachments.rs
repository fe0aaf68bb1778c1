//! Attachments, of instances and of HyperPod nodes.

use std::sync::Arc;
use std::time::Duration;

use ebs_ec2::{
    Action, AttachRequest, Attachment, AttachmentState, Attachments, ClusterNodes, DetachRequest, Ec2, Result,
};
use ebs_types::{DeviceName, HyperPodNode, VolumeId};

use super::{Link, Subject, Trip};
use crate::field::What;
use crate::planted::Planted;

fn pair(volume: impl ToString, instance: impl ToString) -> Subject {
    Subject { name: volume.to_string(), other: instance.to_string() }
}

fn attached<T>(_: &T, of: &Subject) -> What {
    What::Attached { volume: of.name.clone(), instance: of.other.clone() }
}

fn detached(_: &Attachment, of: &Subject) -> What {
    What::Detached { volume: of.name.clone(), instance: of.other.clone() }
}

/// After this long a planted second attach goes out.
const SECOND_ATTACH: Duration = Duration::from_secs(40);

impl<E: Ec2> Link<E> {
    /// The planted bug of a policy that tries an attach again by itself.
    fn attach_again_later(&self, request: &AttachRequest) {
        let (ec2, request) = (self.ec2(), request.clone());
        let subject = pair(&request.volume, &request.instance);
        let again = Box::pin(async move { ec2.attach_volume(&request).await });
        let record = (tokio::time::Instant::now(), attached as fn(&Attachment, &Subject) -> What, subject);
        let carried = self.carried(Action::AttachVolume, record, again);
        let line = Arc::clone(&self.line);
        self.field.dispatch(async move {
            tokio::time::sleep(SECOND_ATTACH).await;
            line.alive().await;
            let _nobody_hears = carried.await;
        });
    }
}

impl<E: Ec2> Attachments for Link<E> {
    async fn attach_volume(&self, request: &AttachRequest) -> Result<Attachment> {
        let (ec2, request) = (self.ec2(), request.clone());
        if self.field.is_planted(Planted::AttachTwice) {
            self.attach_again_later(&request);
        }
        let trip = Trip::change(Action::AttachVolume, pair(&request.volume, &request.instance), attached);
        self.make(trip, Box::pin(async move { ec2.attach_volume(&request).await })).await
    }

    async fn detach_volume(&self, request: &DetachRequest) -> Result<Attachment> {
        let (ec2, request) = (self.ec2(), request.clone());
        if self.field.is_planted(Planted::DetachForgotten) {
            return Ok(Attachment {
                volume: request.volume,
                instance: Some(request.instance),
                associated_resource: None,
                device: None,
                state: AttachmentState::Detaching,
                card: None,
                attach_time: None,
            });
        }
        let trip = Trip::change(Action::DetachVolume, pair(&request.volume, &request.instance), detached);
        self.make(trip, Box::pin(async move { ec2.detach_volume(&request).await })).await
    }
}

impl<E: Ec2> ClusterNodes for Link<E> {
    async fn attach_cluster_node_volume(&self, node: &HyperPodNode, volume: &VolumeId) -> Result<DeviceName> {
        let (ec2, node, volume) = (self.ec2(), node.clone(), volume.clone());
        let trip = Trip::change(Action::AttachClusterNodeVolume, pair(&volume, format!("{node:?}")), attached);
        self.make(trip, Box::pin(async move { ec2.attach_cluster_node_volume(&node, &volume).await })).await
    }

    async fn detach_cluster_node_volume(&self, node: &HyperPodNode, volume: &VolumeId) -> Result<()> {
        let (ec2, node, volume) = (self.ec2(), node.clone(), volume.clone());
        let subject = pair(&volume, format!("{node:?}"));
        let trip = Trip::change(Action::DetachClusterNodeVolume, subject, |(), _| What::Other);
        self.make(trip, Box::pin(async move { ec2.detach_cluster_node_volume(&node, &volume).await })).await
    }
}

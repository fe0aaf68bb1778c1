//! The call that attaches, without a describe before it: EC2's refusal says what a describe would have shown
//! (`decisions.md` D-20, D-24).

use ebs_ec2::{AttachRequest, Attachments, ClusterNodes, Ec2, Ec2Error, ErrorClass};
use ebs_types::{HyperPodNode, InstanceId, NodeId};
use tokio::time::Instant;

use super::device_name::Reservation;
use super::pairs::Pair;
use super::proof::Expected;
use crate::call::mutate;
use crate::op::Op;
use crate::{Cloud, CloudError};

/// What became of the call.
pub(super) enum AttachCall {
    /// EC2 took it, or may have: this attachment is to be waited for.
    Sent(Expected),
    /// It did nothing.
    Refused(Ec2Error),
}

impl<E: Ec2> Cloud<E> {
    /// Asks for the attachment, once.
    pub(super) async fn call_attach(&self, op: &Op<'_>, pair: &Pair) -> Result<AttachCall, CloudError> {
        let called = match &pair.node {
            NodeId::Instance(id) => self.attach_to_instance(op, pair, id).await?,
            NodeId::HyperPod(node) => self.attach_to_cluster_node(op, pair, node).await?,
        };
        if let AttachCall::Sent(expected) = &called {
            self.pairs.attach_called(pair, expected);
        }
        Ok(called)
    }

    async fn attach_to_instance(&self, op: &Op<'_>, pair: &Pair, id: &InstanceId) -> Result<AttachCall, CloudError> {
        // An earlier attempt that EC2 took holds its name: this one must not give it back.
        let held = self.devices.holds(id, &pair.volume);
        let holds = self.reserve(op, pair, id).await?;
        let request =
            AttachRequest { volume: pair.volume.clone(), instance: id.clone(), device: holds.device, card: holds.card };
        let answer = match mutate(op, || self.ec2.attach_volume(&request)).await {
            Ok(answer) => answer,
            Err(abandoned) => {
                if !held {
                    self.devices.release(id, &pair.volume);
                }
                return Err(abandoned);
            }
        };
        match answer {
            Ok(attachment) => Ok(AttachCall::Sent(Expected::accepted(attachment.attach_time))),
            Err(e) if e.class == ErrorClass::Ambiguous => Ok(AttachCall::Sent(unclear(op, &e))),
            Err(e) => {
                if !held || e.class == ErrorClass::DeviceNameInUse {
                    self.devices.release(id, &pair.volume);
                }
                if e.class == ErrorClass::DeviceNameInUse {
                    self.devices.mark_likely_bad(id, &request.device);
                    self.instances.forget(id);
                }
                Ok(AttachCall::Refused(e))
            }
        }
    }

    /// A name, and on instances with several cards a card. A description that has no free name is looked at again.
    async fn reserve(&self, op: &Op<'_>, pair: &Pair, id: &InstanceId) -> Result<Reservation, CloudError> {
        for _ in 0..2 {
            let instance_type = self.instance(op, id).await?.instance_type.clone();
            let cards = self.card_counts.get(&instance_type).await;
            // If that took long, the description is too old to show which names are free.
            let instance = self.instance(op, id).await?;
            match self.devices.reserve(&instance, &pair.volume, cards) {
                Ok(holds) => return Ok(holds),
                Err(_) => self.instances.forget(id),
            }
        }
        let message = format!("{}: every device name of the instance is in use", op.what);
        Err(CloudError::LimitExceeded { message, cause: None })
    }

    /// SageMaker chooses the device name; when it answered tells which attachment is its own.
    async fn attach_to_cluster_node(
        &self,
        op: &Op<'_>,
        pair: &Pair,
        node: &HyperPodNode,
    ) -> Result<AttachCall, CloudError> {
        let asked = Instant::now();
        match mutate(op, || self.ec2.attach_cluster_node_volume(node, &pair.volume)).await? {
            Ok(said) => Ok(AttachCall::Sent(Expected::begun(said.said_at, asked.elapsed()))),
            Err(e) if e.class == ErrorClass::Ambiguous => Ok(AttachCall::Sent(unclear(op, &e))),
            Err(e) => Ok(AttachCall::Refused(e)),
        }
    }
}

fn unclear(op: &Op<'_>, error: &Ec2Error) -> Expected {
    tracing::info!(step = %op.what, %error, "looking whether the volume is attached");
    Expected::unclear()
}

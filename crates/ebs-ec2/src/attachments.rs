//! Attachments of volumes to instances.

use std::time::SystemTime;

use crate::{DeviceName, InstanceId, Result, VolumeId};

/// The state of an attachment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AttachmentState {
    Attaching,
    Attached,
    Detaching,
    Detached,
    Busy,
    /// A state that this version does not know. The driver never treats it as detached.
    Other(String),
}

/// An attachment as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    pub volume: VolumeId,
    /// The instance, or `None` if the volume is not attached to an instance of this account.
    pub instance: Option<InstanceId>,
    /// The ARN of another resource that the volume is attached to, such as a HyperPod node or a container task.
    pub associated_resource: Option<String>,
    pub device: Option<DeviceName>,
    pub state: AttachmentState,
    pub card: Option<u32>,
    /// When the attachment was requested, by EC2's clock.
    pub attach_time: Option<SystemTime>,
    /// The time of this reply by AWS's clock, in whole seconds: the `Date` of the reply to AttachVolume, DetachVolume
    /// or DescribeVolumes. `None` for other calls, and for a reply without a date.
    pub said_at: Option<SystemTime>,
}

impl Attachment {
    /// Returns the instance of the HyperPod node that the volume is attached to, if any: the last two dash-separated
    /// fields of [`Attachment::associated_resource`].
    pub fn cluster_node(&self) -> Option<InstanceId> {
        let resource = self.associated_resource.as_deref()?;
        let (before, digits) = resource.rsplit_once('-')?;
        let prefix = before.rsplit('-').next()?;
        InstanceId::parse(&format!("{prefix}-{digits}")).ok()
    }
}

/// The parameters of AttachVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachRequest {
    pub volume: VolumeId,
    pub instance: InstanceId,
    pub device: DeviceName,
    /// The EBS card. Set it only for instances with several cards.
    pub card: Option<u32>,
}

/// The parameters of DetachVolume. The driver never forces a detach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachRequest {
    pub volume: VolumeId,
    pub instance: InstanceId,
}

/// Calls EC2's actions on attachments.
pub trait Attachments {
    /// Calls AttachVolume. The new attachment is `attaching` at first.
    fn attach_volume(&self, request: &AttachRequest) -> impl Future<Output = Result<Attachment>> + Send;

    /// Calls DetachVolume. The attachment is `detaching` at first.
    fn detach_volume(&self, request: &DetachRequest) -> impl Future<Output = Result<Attachment>> + Send;
}

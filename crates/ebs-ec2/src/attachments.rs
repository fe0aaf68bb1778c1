//! Attachments of volumes to instances.

use std::time::SystemTime;

use ebs_types::{DeviceName, InstanceId, VolumeId};

use crate::Result;

/// State of an attachment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub enum AttachmentState {
    Attaching,
    Attached,
    Detaching,
    Detached,
    Busy,
    /// A state this version does not know; never taken for detached.
    Other(String),
}

/// An attachment as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The volume.
    pub volume: VolumeId,
    /// The instance; `None` when attached to something that is no instance of this account.
    pub instance: Option<InstanceId>,
    /// What it is attached to instead of an instance of this account, by ARN: a HyperPod node, a container task.
    pub associated_resource: Option<String>,
    /// The device name.
    pub device: Option<DeviceName>,
    /// Its state.
    pub state: AttachmentState,
    /// The EBS card, on instances with several.
    pub card: Option<u32>,
    /// When it was requested.
    pub attach_time: Option<SystemTime>,
    /// AWS's own time of day when it said all this, in whole seconds: the `Date` of the reply to AttachVolume,
    /// DetachVolume and DescribeVolumes; `None` elsewhere and where a reply had none.
    pub said_at: Option<SystemTime>,
}

impl Attachment {
    /// The instance behind the HyperPod node that this is attached to: the last two dash fields of
    /// [`Attachment::associated_resource`]. `None` for everything else, a resource of another
    /// service included.
    pub fn cluster_node(&self) -> Option<InstanceId> {
        let resource = self.associated_resource.as_deref()?;
        let (before, digits) = resource.rsplit_once('-')?;
        let prefix = before.rsplit('-').next()?;
        InstanceId::parse(&format!("{prefix}-{digits}")).ok()
    }
}

/// AttachVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachRequest {
    /// The volume.
    pub volume: VolumeId,
    /// The instance.
    pub instance: InstanceId,
    /// The device name.
    pub device: DeviceName,
    /// The EBS card; only on instances with several.
    pub card: Option<u32>,
}

/// DetachVolume; never forced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachRequest {
    /// The volume.
    pub volume: VolumeId,
    /// The instance.
    pub instance: InstanceId,
}

/// What EC2 does with attachments.
pub trait Attachments {
    /// AttachVolume; the attachment is `attaching` at first.
    fn attach_volume(&self, request: &AttachRequest) -> impl Future<Output = Result<Attachment>> + Send;

    /// DetachVolume; the attachment is `detaching` at first.
    fn detach_volume(&self, request: &DetachRequest) -> impl Future<Output = Result<Attachment>> + Send;
}

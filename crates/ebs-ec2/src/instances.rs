//! Instances: their attachments and the properties of their types.

use std::time::SystemTime;

use crate::{AttachmentState, DeviceName, InstanceId, Page, PageRequest, Result, VolumeId, ZoneName};

/// An entry of an instance's block-device mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    pub device: DeviceName,
    /// The volume, or `None` for a mapping without EBS data.
    pub volume: Option<VolumeId>,
    /// The state of the attachment, or `None` for a mapping without EBS data.
    pub state: Option<AttachmentState>,
    pub card: Option<u32>,
    pub attach_time: Option<SystemTime>,
}

/// An instance as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    pub id: InstanceId,
    /// The state: `pending`, `running`, `shutting-down`, `terminated`, `stopping` or `stopped`.
    pub state: String,
    pub instance_type: String,
    pub zone: Option<ZoneName>,
    pub root_device: Option<DeviceName>,
    /// The block-device mapping, with attachments in any state.
    pub devices: Vec<BlockDevice>,
    /// The number of network interfaces, at least 1.
    pub network_interfaces: u32,
}

/// An instance type as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceTypeInfo {
    pub instance_type: String,
    /// The number of EBS cards (`EbsInfo.MaximumEbsCards`), at least 1.
    pub ebs_cards: u32,
}

/// Calls EC2's actions on instances.
pub trait Instances {
    /// Calls DescribeInstances with the filter `instance-id` (at most [`crate::MAX_FILTER_VALUES`] ids) and returns one
    /// page. The page omits missing ids. EC2 lists terminated instances for about an hour.
    fn describe_instances(
        &self,
        ids: &[InstanceId],
        page: &PageRequest,
    ) -> impl Future<Output = Result<Page<Instance>>> + Send;

    /// Calls DescribeInstanceTypes for one type. Returns `None` if EC2 does not know the type.
    fn describe_instance_type(
        &self,
        instance_type: &str,
    ) -> impl Future<Output = Result<Option<InstanceTypeInfo>>> + Send;
}

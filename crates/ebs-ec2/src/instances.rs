//! Instances: what is attached to them and what their type can carry.

use std::time::SystemTime;

use ebs_types::{DeviceName, InstanceId, VolumeId, ZoneName};

use crate::{AttachmentState, Page, PageRequest, Result};

/// An entry of an instance's block-device mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    /// The name.
    pub device: DeviceName,
    /// The volume; `None` for mappings without EBS data.
    pub volume: Option<VolumeId>,
    /// State of the attachment; `None` for mappings without EBS data.
    pub state: Option<AttachmentState>,
    /// The EBS card, on instances with several.
    pub card: Option<u32>,
    /// When it was attached.
    pub attach_time: Option<SystemTime>,
}

/// An instance as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Its id.
    pub id: InstanceId,
    /// `pending`, `running`, `shutting-down`, `terminated`, `stopping`, `stopped`.
    pub state: String,
    /// Its type.
    pub instance_type: String,
    /// Its zone.
    pub zone: Option<ZoneName>,
    /// Device name of its root volume.
    pub root_device: Option<DeviceName>,
    /// Its block-device mapping, attachments in any state.
    pub devices: Vec<BlockDevice>,
    /// Network interfaces, at least 1.
    pub network_interfaces: u32,
}

/// What EC2 says of an instance type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceTypeInfo {
    /// Its name.
    pub instance_type: String,
    /// `EbsInfo.MaximumEbsCards`, at least 1.
    pub ebs_cards: u32,
}

/// What EC2 says of instances.
pub trait Instances {
    /// DescribeInstances by filter `instance-id` (at most [`crate::MAX_FILTER_VALUES`]), one page: missing ids are
    /// simply absent, terminated instances are listed for about an hour.
    fn describe_instances(
        &self,
        ids: &[InstanceId],
        page: &PageRequest,
    ) -> impl Future<Output = Result<Page<Instance>>> + Send;

    /// DescribeInstanceTypes of one type; `None` when EC2 does not know it.
    fn describe_instance_type(
        &self,
        instance_type: &str,
    ) -> impl Future<Output = Result<Option<InstanceTypeInfo>>> + Send;
}

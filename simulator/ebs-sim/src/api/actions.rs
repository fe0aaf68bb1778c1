//! The table of EC2's actions: their parameters, with the names in a Query request, and their replies.
//!
//! Sizes are in GiB, throughput is in MiB/s. Lists keep the client's order and duplicates. A call without a `required`
//! parameter is rejected before it starts. A `name` parameter identifies the object of the call for fault rules and
//! permissions.

use ebs_ec2::Page;
use serde::{Deserialize, Serialize};

use super::elements::{BlockDeviceMapping, Filter, Tag, TagSpecification, TagToDelete};
use super::objects::*;
use super::query::{Named, Params};
use super::table::{actions, describe, field, parameters};
use super::{Fault, invalid_value, not_simulated, pattern};

actions! {
    ec2 {
        parameters CreateVolume first unused_of_volume -> SimVolume {
            client_token: Option<String> = "ClientToken" name;
            availability_zone: Option<String> = "AvailabilityZone";
            availability_zone_id: Option<String> = "AvailabilityZoneId";
            size: Option<i64> = "Size";
            volume_type: Option<String> = "VolumeType";
            iops: Option<i64> = "Iops";
            throughput: Option<i64> = "Throughput";
            encrypted: Option<bool> = "Encrypted";
            kms_key_id: Option<String> = "KmsKeyId";
            snapshot_id: Option<String> = "SnapshotId" name;
            volume_initialization_rate: Option<i64> = "VolumeInitializationRate";
            multi_attach_enabled: Option<bool> = "MultiAttachEnabled";
            outpost_arn: Option<String> = "OutpostArn";
            tag_specifications: Vec<TagSpecification> = "TagSpecification" name;
        }
        parameters CopyVolumes first unused_of_copy -> Vec<SimVolume> {
            client_token: Option<String> = "ClientToken" name;
            source_volume_id: String = "SourceVolumeId" required name;
            size: Option<i64> = "Size";
            volume_type: Option<String> = "VolumeType";
            iops: Option<i64> = "Iops";
            throughput: Option<i64> = "Throughput";
            encrypted: Option<bool> = "Encrypted";
            kms_key_id: Option<String> = "KmsKeyId";
            multi_attach_enabled: Option<bool> = "MultiAttachEnabled";
            tag_specifications: Vec<TagSpecification> = "TagSpecification" name;
        }
        parameters DeleteVolume {
            volume_id: String = "VolumeId" required name;
        }
        describe DescribeVolumes first managed_too -> Page<SimVolume> {
            volume_ids: Vec<String> = "VolumeId" name;
        }
        describe DescribeVolumeStatus first managed_too -> Page<SimVolumeStatus> {
            volume_ids: Vec<String> = "VolumeId" name;
        }
        parameters AttachVolume -> SimAttachment {
            volume_id: String = "VolumeId" required name;
            instance_id: String = "InstanceId" required name;
            device: Option<String> = "Device" required;
            ebs_card_index: Option<i64> = "EbsCardIndex";
        }
        parameters DetachVolume -> SimAttachment {
            volume_id: String = "VolumeId" required name;
            instance_id: Option<String> = "InstanceId" name;
            device: Option<String> = "Device";
            force: bool = "Force";
        }
        /// An absent value leaves the property unchanged.
        parameters ModifyVolume -> SimModification {
            volume_id: String = "VolumeId" required name;
            size: Option<i64> = "Size";
            volume_type: Option<String> = "VolumeType";
            iops: Option<i64> = "Iops";
            throughput: Option<i64> = "Throughput";
            multi_attach_enabled: Option<bool> = "MultiAttachEnabled";
        }
        describe DescribeVolumesModifications first managed_too -> Page<SimModification> {
            volume_ids: Vec<String> = "VolumeId" name;
        }
        parameters CreateSnapshot first location -> SimSnapshot {
            volume_id: String = "VolumeId" required name;
            description: Option<String> = "Description";
            outpost_arn: Option<String> = "OutpostArn";
            tag_specifications: Vec<TagSpecification> = "TagSpecification" name;
        }
        parameters DeleteSnapshot {
            snapshot_id: String = "SnapshotId" required name;
        }
        describe DescribeSnapshots -> Page<SimSnapshot> {
            snapshot_ids: Vec<String> = "SnapshotId" name;
            /// Accepts `self`, `amazon` and account ids.
            owner_ids: Vec<String> = "Owner";
            restorable_by: Vec<String> = "RestorableBy";
        }
        parameters CreateTags {
            resources: Vec<String> = "ResourceId" required name;
            tags: Vec<Tag> = "Tag" required name;
        }
        /// Without tags, the call removes all tags of the resources.
        parameters DeleteTags {
            resources: Vec<String> = "ResourceId" required name;
            tags: Vec<TagToDelete> = "Tag";
        }
        describe DescribeTags -> Page<SimTag> {}
        describe DescribeInstances first managed_too -> Page<SimInstance> {
            instance_ids: Vec<String> = "InstanceId" name;
        }
        describe DescribeInstanceTypes first unsupported_too -> Page<SimInstanceType> {
            instance_types: Vec<String> = "InstanceType" name;
        }
        parameters DescribeAvailabilityZones -> Vec<SimZone> {
            zone_names: Vec<String> = "ZoneName" name;
            zone_ids: Vec<String> = "ZoneId";
            all_availability_zones: bool = "AllAvailabilityZones";
            filters: Vec<Filter> = "Filter" name;
        }
        /// The simulator ignores parameters that it cannot model (key pair, subnet, user data).
        parameters RunInstances first unused_of_launch -> Vec<SimInstance> {
            client_token: Option<String> = "ClientToken" name;
            image_id: Option<String> = "ImageId";
            instance_type: Option<String> = "InstanceType";
            min_count: Option<i64> = "MinCount";
            max_count: Option<i64> = "MaxCount";
            availability_zone: Option<String> = "Placement.AvailabilityZone";
            availability_zone_id: Option<String> = "Placement.AvailabilityZoneId";
            /// Number of network interfaces. An empty list means one.
            network_interfaces: u32 = "NetworkInterface";
            block_device_mappings: Vec<BlockDeviceMapping> = "BlockDeviceMapping";
            disable_api_termination: bool = "DisableApiTermination";
            disable_api_stop: bool = "DisableApiStop";
            tag_specifications: Vec<TagSpecification> = "TagSpecification" name;
        }
        parameters StartInstances first unused_of_start -> Vec<SimStateChange> {
            instance_ids: Vec<String> = "InstanceId" required name;
        }
        parameters StopInstances first unused_of_stop -> Vec<SimStateChange> {
            instance_ids: Vec<String> = "InstanceId" required name;
        }
        parameters TerminateInstances first force -> Vec<SimStateChange> {
            instance_ids: Vec<String> = "InstanceId" required name;
        }
        parameters EnableFastSnapshotRestores -> SimFastRestores {
            availability_zones: Vec<String> = "AvailabilityZone";
            availability_zone_ids: Vec<String> = "AvailabilityZoneId";
            source_snapshot_ids: Vec<String> = "SourceSnapshotId" required name;
        }
        parameters DisableFastSnapshotRestores -> SimFastRestores {
            availability_zones: Vec<String> = "AvailabilityZone";
            availability_zone_ids: Vec<String> = "AvailabilityZoneId";
            source_snapshot_ids: Vec<String> = "SourceSnapshotId" required name;
        }
        describe DescribeFastSnapshotRestores -> Page<SimFastRestore> {}
        parameters LockSnapshot -> SimSnapshotLock {
            snapshot_id: String = "SnapshotId" required name;
            /// Either `governance` or `compliance`.
            lock_mode: Option<String> = "LockMode" required;
            /// Hours.
            cool_off_period: Option<i64> = "CoolOffPeriod";
            /// Days.
            lock_duration: Option<i64> = "LockDuration";
            /// Absolute time in RFC 3339 format, such as `2030-01-31T10:00:00Z`.
            expiration_date: Option<String> = "ExpirationDate";
        }
        parameters UnlockSnapshot -> String {
            snapshot_id: String = "SnapshotId" required name;
        }
        describe DescribeLockedSnapshots -> Page<SimSnapshotLock> {
            snapshot_ids: Vec<String> = "SnapshotId" name;
        }
    }
    sagemaker {
        AttachClusterNodeVolume(ClusterNodeVolume) -> SimAttachment,
        DetachClusterNodeVolume(ClusterNodeVolume) -> SimAttachment,
    }
}

impl Call {
    /// Returns whether the pattern matches a name in the call.
    pub(crate) fn names(&self, pattern: &str) -> bool {
        let mut found = false;
        self.each_name(&mut |name| found |= pattern::matches(pattern, name));
        found
    }
}

impl Reply {
    /// Returns the ids of the volumes that the call created. For a repeated call, these are the ids from the first
    /// reply.
    pub(crate) fn new_volumes(&self) -> Vec<String> {
        match self {
            Self::CreateVolume(volume) => vec![volume.id.clone()],
            Self::CopyVolumes(volumes) => volumes.iter().map(|volume| volume.id.clone()).collect(),
            _ => Vec::new(),
        }
    }
}

/// A call to SageMaker's AttachClusterNodeVolume or DetachClusterNodeVolume. EC2 shows its result on the volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterNodeVolume {
    pub cluster_arn: String,
    /// The instance id of the node.
    pub node_id: String,
    pub volume_id: String,
}

impl Named for ClusterNodeVolume {
    fn each_name(&self, each: &mut dyn FnMut(&str)) {
        each(&self.volume_id);
        each(&self.node_id);
    }
}

/// Ignores `IncludeManagedResources`: the simulator lists resources whether AWS manages them or not.
fn managed_too(p: &mut Params) -> Result<(), Fault> {
    p.take::<bool>("IncludeManagedResources").map(drop)
}

fn unused_of_volume(p: &mut Params) -> Result<(), Fault> {
    p.refuse("Operator")
}

fn unused_of_copy(p: &mut Params) -> Result<(), Fault> {
    p.refuse("Encrypted")?;
    p.refuse("KmsKeyId")
}

/// Accepts only snapshots that are stored in the region. EC2 can also store a Local Zone's snapshots in that zone.
fn location(p: &mut Params) -> Result<(), Fault> {
    match p.text("Location").as_deref() {
        None | Some("regional") => Ok(()),
        Some("local") => Err(not_simulated("Location=local")),
        Some(other) => Err(invalid_value("Location", other, "regional or local")),
    }
}

/// RunInstances parameters that do not affect disks. The simulator ignores them.
const NO_MATTER: [&str; 27] = [
    "AdditionalInfo",
    "CapacityReservationSpecification",
    "CpuOptions",
    "CreditSpecification",
    "EbsOptimized",
    "EnablePrimaryIpv6",
    "EnclaveOptions",
    "HibernationOptions",
    "IamInstanceProfile",
    "InstanceInitiatedShutdownBehavior",
    "InstanceMarketOptions",
    "Ipv6Address",
    "Ipv6AddressCount",
    "KernelId",
    "KeyName",
    "LicenseSpecification",
    "MaintenanceOptions",
    "MetadataOptions",
    "Monitoring",
    "NetworkPerformanceOptions",
    "PrivateDnsNameOptions",
    "PrivateIpAddress",
    "RamdiskId",
    "SecurityGroup",
    "SecurityGroupId",
    "SubnetId",
    "UserData",
];

/// RunInstances parameters that would affect the result. The simulator does not implement them and rejects them.
const REFUSED: [&str; 5] =
    ["ElasticGpuSpecification", "ElasticInferenceAccelerator", "LaunchTemplate", "Operator", "SecondaryInterface"];

fn unused_of_launch(p: &mut Params) -> Result<(), Fault> {
    REFUSED.iter().try_for_each(|name| p.refuse(name))?;
    NO_MATTER.iter().for_each(|name| p.ignore(name));
    let used = ["Placement.AvailabilityZone", "Placement.AvailabilityZoneId"];
    p.drop_where(|name| (name == "Placement" || name.starts_with("Placement.")) && !used.contains(&name));
    Ok(())
}

/// Ignores `AdditionalInfo`, which EC2 reserves.
fn unused_of_start(p: &mut Params) -> Result<(), Fault> {
    p.ignore("AdditionalInfo");
    Ok(())
}

/// Rejects hibernation: a stopped instance keeps its disks, but the simulator has no memory to keep.
fn unused_of_stop(p: &mut Params) -> Result<(), Fault> {
    force(p)?;
    if p.take("Hibernate")? { Err(not_simulated("Hibernate=true")) } else { Ok(()) }
}

/// Ignores `Force` and `SkipOsShutdown`: the simulated instance has no operating system to shut down.
fn force(p: &mut Params) -> Result<(), Fault> {
    p.take::<bool>("Force")?;
    p.take::<bool>("SkipOsShutdown").map(drop)
}

fn unsupported_too(p: &mut Params) -> Result<(), Fault> {
    p.take::<bool>("IncludeUnsupportedInRegion").map(drop)
}

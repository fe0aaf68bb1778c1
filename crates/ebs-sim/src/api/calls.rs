//! The parameters of every action, as EC2 has them.
//!
//! Sizes are GiB, throughput is MiB/s. Lists keep the client's order and duplicates.

use serde::{Deserialize, Serialize};

/// `Filter.N.Name` and `Filter.N.Value.M`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// Its name, `volume-id`, `tag:KEY`.
    pub name: String,
    /// Any of these; `*` and `?` are wildcards, `\` escapes.
    pub values: Vec<String>,
}

/// A tag as the client sent it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Tag {
    pub key: String,
    pub value: String,
}

/// `TagSpecification.N`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TagSpecification {
    /// `volume`, `snapshot` …
    pub resource_type: String,
    /// The tags, duplicates included.
    pub tags: Vec<Tag>,
}

/// A tag to delete.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagToDelete {
    /// Its key.
    pub key: String,
    /// When given, the tag goes only if it has this value.
    pub value: Option<String>,
}

/// CreateVolume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub struct CreateVolume {
    pub client_token: Option<String>,
    pub availability_zone: Option<String>,
    pub availability_zone_id: Option<String>,
    pub size: Option<i64>,
    pub volume_type: Option<String>,
    pub iops: Option<i64>,
    pub throughput: Option<i64>,
    pub encrypted: Option<bool>,
    pub kms_key_id: Option<String>,
    pub snapshot_id: Option<String>,
    pub volume_initialization_rate: Option<i64>,
    pub multi_attach_enabled: Option<bool>,
    pub outpost_arn: Option<String>,
    pub tag_specifications: Vec<TagSpecification>,
    #[serde(skip)]
    pub dry_run: bool,
}

/// CopyVolumes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub struct CopyVolumes {
    pub client_token: Option<String>,
    pub source_volume_id: String,
    pub size: Option<i64>,
    pub volume_type: Option<String>,
    pub iops: Option<i64>,
    pub throughput: Option<i64>,
    pub multi_attach_enabled: Option<bool>,
    pub tag_specifications: Vec<TagSpecification>,
    #[serde(skip)]
    pub dry_run: bool,
}

/// DeleteVolume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub struct DeleteVolume {
    pub volume_id: String,
    pub dry_run: bool,
}

macro_rules! describe {
    ($(#[$doc:meta])* $name:ident, $ids:ident $(, $extra:ident : $type:ty)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[expect(missing_docs, reason = "the names are EC2's own")]
        pub struct $name {
            pub $ids: Vec<String>,
            $(pub $extra: $type,)*
            pub filters: Vec<Filter>,
            pub max_results: Option<i64>,
            pub next_token: Option<String>,
            pub dry_run: bool,
        }
    };
}

describe!(/// DescribeVolumes.
    DescribeVolumes, volume_ids);
describe!(/// DescribeVolumeStatus.
    DescribeVolumeStatus, volume_ids);
describe!(/// DescribeVolumesModifications.
    DescribeVolumesModifications, volume_ids);
describe!(/// DescribeSnapshots. `owner_ids` takes `self`, `amazon` and account ids.
    DescribeSnapshots, snapshot_ids, owner_ids: Vec<String>, restorable_by: Vec<String>);
describe!(/// DescribeInstances.
    DescribeInstances, instance_ids);
describe!(/// DescribeInstanceTypes.
    DescribeInstanceTypes, instance_types);

/// DescribeTags.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub struct DescribeTags {
    pub filters: Vec<Filter>,
    pub max_results: Option<i64>,
    pub next_token: Option<String>,
    pub dry_run: bool,
}

/// DescribeAvailabilityZones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub struct DescribeAvailabilityZones {
    pub zone_names: Vec<String>,
    pub zone_ids: Vec<String>,
    pub all_availability_zones: bool,
    pub filters: Vec<Filter>,
    pub dry_run: bool,
}

/// AttachVolume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub struct AttachVolume {
    pub volume_id: String,
    pub instance_id: String,
    pub device: Option<String>,
    pub ebs_card_index: Option<i64>,
    pub dry_run: bool,
}

/// DetachVolume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub struct DetachVolume {
    pub volume_id: String,
    pub instance_id: Option<String>,
    pub device: Option<String>,
    pub force: bool,
    pub dry_run: bool,
}

/// ModifyVolume: what is absent stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub struct ModifyVolume {
    pub volume_id: String,
    pub size: Option<i64>,
    pub volume_type: Option<String>,
    pub iops: Option<i64>,
    pub throughput: Option<i64>,
    pub multi_attach_enabled: Option<bool>,
    pub dry_run: bool,
}

/// CreateSnapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub struct CreateSnapshot {
    pub volume_id: String,
    pub description: Option<String>,
    pub outpost_arn: Option<String>,
    pub tag_specifications: Vec<TagSpecification>,
    pub dry_run: bool,
}

/// DeleteSnapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub struct DeleteSnapshot {
    pub snapshot_id: String,
    pub dry_run: bool,
}

/// CreateTags.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub struct CreateTags {
    pub resources: Vec<String>,
    pub tags: Vec<Tag>,
    pub dry_run: bool,
}

/// DeleteTags: without tags, every tag of the resources goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub struct DeleteTags {
    pub resources: Vec<String>,
    pub tags: Vec<TagToDelete>,
    pub dry_run: bool,
}

/// A disk of an instance to be launched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub struct BlockDeviceMapping {
    pub device_name: String,
    /// The image's disk of that name is left out.
    pub no_device: bool,
    pub delete_on_termination: Option<bool>,
    pub snapshot_id: Option<String>,
    pub volume_size: Option<i64>,
    pub volume_type: Option<String>,
    pub iops: Option<i64>,
    pub throughput: Option<i64>,
    pub encrypted: Option<bool>,
    pub kms_key_id: Option<String>,
    pub ebs_card_index: Option<i64>,
}

/// RunInstances. What the simulator has no use for (image, key pair, subnet, user data) is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub struct RunInstances {
    pub client_token: Option<String>,
    pub image_id: Option<String>,
    pub instance_type: Option<String>,
    pub min_count: Option<i64>,
    pub max_count: Option<i64>,
    pub availability_zone: Option<String>,
    pub availability_zone_id: Option<String>,
    /// How many `NetworkInterface.N` there are; none stands for one.
    pub network_interfaces: u32,
    pub block_device_mappings: Vec<BlockDeviceMapping>,
    pub disable_api_termination: bool,
    pub tag_specifications: Vec<TagSpecification>,
    #[serde(skip)]
    pub dry_run: bool,
}

/// TerminateInstances.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub struct TerminateInstances {
    pub instance_ids: Vec<String>,
    pub dry_run: bool,
}

/// EnableFastSnapshotRestores.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub struct EnableFastSnapshotRestores {
    pub availability_zones: Vec<String>,
    pub availability_zone_ids: Vec<String>,
    pub source_snapshot_ids: Vec<String>,
    pub dry_run: bool,
}

/// DescribeFastSnapshotRestores.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub struct DescribeFastSnapshotRestores {
    pub filters: Vec<Filter>,
    pub max_results: Option<i64>,
    pub next_token: Option<String>,
    pub dry_run: bool,
}

/// LockSnapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub struct LockSnapshot {
    pub snapshot_id: String,
    /// `governance` or `compliance`.
    pub lock_mode: Option<String>,
    /// Hours.
    pub cool_off_period: Option<i64>,
    /// Days.
    pub lock_duration: Option<i64>,
    /// A time as RFC 3339 has it, `2030-01-31T10:00:00Z`.
    pub expiration_date: Option<String>,
    pub dry_run: bool,
}

describe!(/// DescribeLockedSnapshots.
    DescribeLockedSnapshots, snapshot_ids);

/// SageMaker's AttachClusterNodeVolume and DetachClusterNodeVolume: no calls of EC2, but EC2's volumes show them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are SageMaker's own")]
pub struct ClusterNodeVolume {
    pub cluster_arn: String,
    /// An instance id.
    pub node_id: String,
    pub volume_id: String,
}

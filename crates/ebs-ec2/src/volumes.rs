//! Volumes and their modifications.

use std::time::SystemTime;

use crate::{
    Attachment, DriverName, Gib, Iops, Page, PageRequest, Result, SnapshotId, Tags, VolumeId, VolumeStatus, VolumeType,
    ZoneId, ZoneName,
};

/// The zone in which to create a volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    Zone(ZoneName),
    ZoneId(ZoneId),
}

/// The parameters of CreateVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateVolume {
    /// The idempotency token, at most 64 characters.
    pub client_token: String,
    pub place: Place,
    /// The size, which is at least the snapshot's size.
    pub size: Gib,
    pub volume_type: VolumeType,
    /// The IOPS. If `None`, EC2 uses its default.
    pub iops: Option<Iops>,
    /// The throughput in MiB/s. If `None`, EC2 uses its default.
    pub throughput: Option<u32>,
    /// Whether to encrypt the volume. EC2 also encrypts it if that is the account's default.
    pub encrypted: bool,
    /// The ARN, id or alias of a KMS key.
    pub kms_key_id: Option<String>,
    pub snapshot: Option<SnapshotId>,
    /// The rate in MiB/s at which EC2 initializes the volume from its snapshot (EC2: 100 to 300).
    pub initialization_rate: Option<u32>,
    /// Whether the volume can be attached to several instances (io1, io2).
    pub multi_attach: bool,
    pub outpost_arn: Option<String>,
    pub tags: Tags,
    pub dry_run: bool,
}

impl CreateVolume {
    /// Returns the parameters of a blank, unencrypted volume without tags, with EC2's defaults.
    pub fn plain(client_token: impl Into<String>, place: Place, size: Gib, volume_type: VolumeType) -> Self {
        Self {
            client_token: client_token.into(),
            place,
            size,
            volume_type,
            iops: None,
            throughput: None,
            encrypted: false,
            kms_key_id: None,
            snapshot: None,
            initialization_rate: None,
            multi_attach: false,
            outpost_arn: None,
            tags: Tags::new(),
            dry_run: false,
        }
    }
}

/// The parameters of CopyVolumes, which copies a volume within its zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyVolume {
    /// The idempotency token, at most 64 characters.
    pub client_token: String,
    pub source: VolumeId,
    /// The size, which is at least the source's size.
    pub size: Gib,
    pub volume_type: VolumeType,
    /// The IOPS. If `None`, EC2 uses its default.
    pub iops: Option<Iops>,
    /// The throughput in MiB/s. If `None`, EC2 uses its default.
    pub throughput: Option<u32>,
    /// Whether to encrypt the copy of an unencrypted volume. EC2 always encrypts other copies with their source's key.
    pub encrypted: bool,
    /// The KMS key for the copy of an unencrypted volume. If `None`, EC2 uses the account's default key.
    pub kms_key_id: Option<String>,
    pub multi_attach: bool,
    pub tags: Tags,
}

/// The state of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum VolumeState {
    Creating,
    Available,
    InUse,
    Deleting,
    Deleted,
    Error,
    /// A state that this version does not know. The driver never treats it as one of the others.
    Other(String),
}

/// A volume as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    pub id: VolumeId,
    pub state: VolumeState,
    pub size: Gib,
    pub volume_type: VolumeType,
    /// The IOPS, if the type has them.
    pub iops: Option<Iops>,
    /// The throughput in MiB/s, if the type has one.
    pub throughput: Option<u32>,
    pub zone: Option<ZoneName>,
    pub zone_id: Option<ZoneId>,
    pub encrypted: bool,
    /// The ARN of the KMS key that encrypts the volume.
    pub kms_key_id: Option<String>,
    pub snapshot: Option<SnapshotId>,
    pub source_volume: Option<VolumeId>,
    /// Whether the volume can be attached to several instances. `None` if EC2 does not report it.
    pub multi_attach: Option<bool>,
    pub outpost_arn: Option<String>,
    pub created: Option<SystemTime>,
    /// The time of this reply by AWS's clock, in whole seconds: the `Date` of the reply to CreateVolume or CopyVolumes.
    /// `None` for other calls, and for a reply without a date.
    pub said_at: Option<SystemTime>,
    pub tags: Tags,
    /// The attachments, in any state.
    pub attachments: Vec<Attachment>,
}

impl Volume {
    /// Returns false if the volume is deleted or being deleted.
    pub fn exists(&self) -> bool {
        !matches!(self.state, VolumeState::Deleting | VolumeState::Deleted)
    }

    /// Returns the volume's CSI name, if it has one.
    pub fn csi_name(&self) -> Option<&str> {
        self.tags.get(DriverName::VOLUME_NAME_TAG).map(String::as_str)
    }
}

/// Selects the volumes to describe. Bare ids would use a smaller token bucket, and one missing id would fail the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeQuery {
    /// The existing volumes with these ids (filter `volume-id`, at most [`crate::MAX_FILTER_VALUES`] ids).
    FilterIds(Vec<VolumeId>),
    /// Volumes with one of at most [`crate::MAX_FILTER_VALUES`] tag values, by the filter `tag:<key>`.
    Tag { key: String, values: Vec<String> },
}

/// The parameters of ModifyVolume. A property that is `None` remains unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModifyVolume {
    pub volume: VolumeId,
    /// The new size, which is at least the current one.
    pub size: Option<Gib>,
    pub volume_type: Option<VolumeType>,
    pub iops: Option<Iops>,
    /// The new throughput in MiB/s.
    pub throughput: Option<u32>,
}

/// The state of a modification.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ModificationState {
    Modifying,
    Optimizing,
    Completed,
    Failed,
    /// A state that this version does not know.
    Other(String),
}

/// The latest modification of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Modification {
    pub volume: VolumeId,
    pub state: ModificationState,
    pub status_message: Option<String>,
    pub target_size: Option<Gib>,
    pub target_type: Option<VolumeType>,
    pub target_iops: Option<Iops>,
    /// The target throughput in MiB/s.
    pub target_throughput: Option<u32>,
    pub started: Option<SystemTime>,
}

/// Calls EC2's actions on volumes.
pub trait Volumes {
    /// Calls CreateVolume. A successful dry run ends with the error [`crate::ErrorClass::DryRunSucceeded`].
    fn create_volume(&self, request: &CreateVolume) -> impl Future<Output = Result<Volume>> + Send;

    /// Calls CopyVolumes.
    fn copy_volume(&self, request: &CopyVolume) -> impl Future<Output = Result<Volume>> + Send;

    /// Calls DeleteVolume. EC2 may list the volume as `deleting` for a while.
    fn delete_volume(&self, id: &VolumeId) -> impl Future<Output = Result<()>> + Send;

    /// Calls DescribeVolumes and returns one page.
    fn describe_volumes(
        &self,
        query: &VolumeQuery,
        page: &PageRequest,
    ) -> impl Future<Output = Result<Page<Volume>>> + Send;

    /// Calls ModifyVolume.
    fn modify_volume(&self, request: &ModifyVolume) -> impl Future<Output = Result<Modification>> + Send;

    /// Calls DescribeVolumesModifications with the filter `volume-id` (at most [`crate::MAX_FILTER_VALUES`] ids) and
    /// returns one page. The page omits volumes without modifications.
    fn describe_modifications(
        &self,
        volumes: &[VolumeId],
        page: &PageRequest,
    ) -> impl Future<Output = Result<Page<Modification>>> + Send;

    /// Calls DescribeVolumeStatus with bare ids, because EC2 supports no id filter in this call. One missing id fails
    /// the whole call, and EC2 rejects [`PageRequest::max_results`] together with ids. Without ids, makes no call.
    fn describe_volume_status(
        &self,
        volumes: &[VolumeId],
        page: &PageRequest,
    ) -> impl Future<Output = Result<Page<VolumeStatus>>> + Send;

    /// Calls CreateTags for one resource, which is a volume id or a snapshot id.
    fn create_tags(&self, resource: &str, tags: &Tags) -> impl Future<Output = Result<()>> + Send;

    /// Calls DeleteTags for these keys of one resource.
    fn delete_tags(&self, resource: &str, keys: &[String]) -> impl Future<Output = Result<()>> + Send;
}

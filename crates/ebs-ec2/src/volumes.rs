//! Volumes and their modifications.

use std::time::SystemTime;

use ebs_types::{DriverName, Gib, Iops, SnapshotId, Tags, VolumeId, VolumeType, ZoneId, ZoneName};

use crate::{Attachment, Page, PageRequest, Result, VolumeStatus};

/// Where a volume is to be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// A zone by name.
    Zone(ZoneName),
    /// A zone by id.
    ZoneId(ZoneId),
}

/// CreateVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateVolume {
    /// Idempotency token, at most 64 characters.
    pub client_token: String,
    /// Zone.
    pub place: Place,
    /// Size; with a snapshot at least the snapshot's.
    pub size: Gib,
    /// Type.
    pub volume_type: VolumeType,
    /// IOPS; `None`: EC2's default.
    pub iops: Option<Iops>,
    /// MiB/s; `None`: EC2's default.
    pub throughput: Option<u32>,
    /// Encrypt; EC2 may encrypt by account default even so.
    pub encrypted: bool,
    /// KMS key by ARN, id or alias.
    pub kms_key_id: Option<String>,
    /// Source.
    pub snapshot: Option<SnapshotId>,
    /// MiB/s at which a volume from a snapshot is initialised (EC2: 100 to 300).
    pub initialization_rate: Option<u32>,
    /// Several instances may attach it (io1, io2).
    pub multi_attach: bool,
    /// ARN of the Outpost.
    pub outpost_arn: Option<String>,
    /// Tags of the new volume.
    pub tags: Tags,
    /// Only ask whether it would work.
    pub dry_run: bool,
}

impl CreateVolume {
    /// An unencrypted blank volume without tags, with everything else as EC2 has it by default.
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

/// CopyVolumes: a copy of a volume in its own zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyVolume {
    /// Idempotency token, at most 64 characters.
    pub client_token: String,
    /// What to copy.
    pub source: VolumeId,
    /// Size, at least the source's.
    pub size: Gib,
    /// Type.
    pub volume_type: VolumeType,
    /// IOPS; `None`: EC2's default.
    pub iops: Option<Iops>,
    /// MiB/s; `None`: EC2's default.
    pub throughput: Option<u32>,
    /// Encrypt the copy of an unencrypted volume. EC2 always encrypts the copy of an encrypted one, with its key.
    pub encrypted: bool,
    /// KMS key by ARN, id or alias, for a copy that is encrypted so; `None`: the account's default key.
    pub kms_key_id: Option<String>,
    /// Several instances may attach it.
    pub multi_attach: bool,
    /// Tags of the new volume.
    pub tags: Tags,
}

/// State of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub enum VolumeState {
    Creating,
    Available,
    InUse,
    Deleting,
    Deleted,
    Error,
    /// A state this version does not know; never taken for any of the others.
    Other(String),
}

/// A volume as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Its id.
    pub id: VolumeId,
    /// Its state.
    pub state: VolumeState,
    /// Its size.
    pub size: Gib,
    /// Its type.
    pub volume_type: VolumeType,
    /// Its IOPS, where the type has them.
    pub iops: Option<Iops>,
    /// MiB/s, where the type has it.
    pub throughput: Option<u32>,
    /// Its zone.
    pub zone: Option<ZoneName>,
    /// Its zone's id.
    pub zone_id: Option<ZoneId>,
    /// Encrypted.
    pub encrypted: bool,
    /// ARN of the key.
    pub kms_key_id: Option<String>,
    /// The snapshot it was made from.
    pub snapshot: Option<SnapshotId>,
    /// The volume it was copied from.
    pub source_volume: Option<VolumeId>,
    /// Several instances may attach it; `None` when EC2 does not say.
    pub multi_attach: Option<bool>,
    /// ARN of its Outpost.
    pub outpost_arn: Option<String>,
    /// When it was created.
    pub created: Option<SystemTime>,
    /// AWS's own time of day when it said all this, in whole seconds: the `Date` of the reply to CreateVolume and CopyVolumes;
    /// `None` elsewhere and where a reply had none.
    pub said_at: Option<SystemTime>,
    /// Its tags.
    pub tags: Tags,
    /// Its attachments, in any state.
    pub attachments: Vec<Attachment>,
}

impl Volume {
    /// False for one that is deleted or being deleted.
    pub fn exists(&self) -> bool {
        !matches!(self.state, VolumeState::Deleting | VolumeState::Deleted)
    }

    /// The volume's CSI name, if it has one.
    pub fn csi_name(&self) -> Option<&str> {
        self.tags.get(DriverName::VOLUME_NAME_TAG).map(String::as_str)
    }
}

/// DescribeVolumes: which ones. Always by a filter: bare ids draw on a smaller bucket, and one missing id fails the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeQuery {
    /// By filter `volume-id`, at most [`crate::MAX_FILTER_VALUES`] values: missing ids are simply absent.
    FilterIds(Vec<VolumeId>),
    /// By filter `tag:<key>` with any of the values.
    Tag {
        /// Tag key.
        key: String,
        /// Values, at most [`crate::MAX_FILTER_VALUES`].
        values: Vec<String>,
    },
}

/// ModifyVolume: `None` leaves a property as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModifyVolume {
    /// Which volume.
    pub volume: VolumeId,
    /// New size, not below the present one.
    pub size: Option<Gib>,
    /// New type.
    pub volume_type: Option<VolumeType>,
    /// New IOPS.
    pub iops: Option<Iops>,
    /// New throughput in MiB/s.
    pub throughput: Option<u32>,
}

/// State of a modification.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub enum ModificationState {
    Modifying,
    Optimizing,
    Completed,
    Failed,
    /// A state this version does not know.
    Other(String),
}

/// The latest modification of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Modification {
    /// Which volume.
    pub volume: VolumeId,
    /// How far it is.
    pub state: ModificationState,
    /// EC2's word on a failure.
    pub status_message: Option<String>,
    /// Size it leads to.
    pub target_size: Option<Gib>,
    /// Type it leads to.
    pub target_type: Option<VolumeType>,
    /// IOPS it leads to.
    pub target_iops: Option<Iops>,
    /// Throughput it leads to.
    pub target_throughput: Option<u32>,
    /// When it started.
    pub started: Option<SystemTime>,
}

/// What EC2 does with volumes.
pub trait Volumes {
    /// CreateVolume. A dry run ends with an error, [`crate::ErrorClass::DryRunSucceeded`] when all is well.
    fn create_volume(&self, request: &CreateVolume) -> impl Future<Output = Result<Volume>> + Send;

    /// CopyVolumes.
    fn copy_volume(&self, request: &CopyVolume) -> impl Future<Output = Result<Volume>> + Send;

    /// DeleteVolume. Returns when EC2 has accepted it; the volume may be seen `deleting` for a while.
    fn delete_volume(&self, id: &VolumeId) -> impl Future<Output = Result<()>> + Send;

    /// DescribeVolumes, one page.
    fn describe_volumes(
        &self,
        query: &VolumeQuery,
        page: &PageRequest,
    ) -> impl Future<Output = Result<Page<Volume>>> + Send;

    /// ModifyVolume.
    fn modify_volume(&self, request: &ModifyVolume) -> impl Future<Output = Result<Modification>> + Send;

    /// DescribeVolumesModifications by filter `volume-id` (at most [`crate::MAX_FILTER_VALUES`]), one page;
    /// volumes never modified are absent.
    fn describe_modifications(
        &self,
        volumes: &[VolumeId],
        page: &PageRequest,
    ) -> impl Future<Output = Result<Page<Modification>>> + Send;

    /// DescribeVolumeStatus by bare ids, because EC2 has no filter for them there: one missing id fails the whole
    /// call, and EC2 takes no [`PageRequest::max_results`] beside ids. Of no volume: no call.
    fn describe_volume_status(
        &self,
        volumes: &[VolumeId],
        page: &PageRequest,
    ) -> impl Future<Output = Result<Page<VolumeStatus>>> + Send;

    /// CreateTags on one resource (a volume or snapshot id).
    fn create_tags(&self, resource: &str, tags: &Tags) -> impl Future<Output = Result<()>> + Send;

    /// DeleteTags on one resource, by key.
    fn delete_tags(&self, resource: &str, keys: &[String]) -> impl Future<Output = Result<()>> + Send;
}

//! Every name that is derived from the driver's own, in one place.
//!
//! Decision: `docs/decisions/0001-replace-the-reference-driver-in-place.md`.

use std::fmt;

/// The name under which the driver registers unless it is built under another one: change it here and everything follows that
/// derives from it.
const NAME: &str = "ebs.csi.aws.com";

/// The driver's name as registered with the orchestrator; tags, topology keys and contexts derive from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverName(String);

impl Default for DriverName {
    fn default() -> Self {
        Self(NAME.to_owned())
    }
}

impl DriverName {
    /// Tag on every volume and snapshot: the CSI volume name.
    pub const VOLUME_NAME_TAG: &'static str = "CSIVolumeName";
    /// Tag on every snapshot: the CSI snapshot name.
    pub const SNAPSHOT_NAME_TAG: &'static str = "CSIVolumeSnapshotName";
    /// Tag for IAM policies scoped to one cluster; fixed, whatever the driver's name.
    pub const CLUSTER_NAME_TAG: &'static str = "ebs.csi.aws.com/cluster-name";
    /// Topology key of a zone name.
    pub const ZONE_KEY: &'static str = "topology.kubernetes.io/zone";
    /// Topology key of a zone id; read, never published by nodes.
    pub const ZONE_ID_KEY: &'static str = "topology.k8s.aws/zone-id";
    /// Node label and topology segment with the operating system.
    pub const OS_KEY: &'static str = "kubernetes.io/os";
    /// Publish context key: the device name in EC2's block-device mapping.
    pub const DEVICE_PATH_KEY: &'static str = "devicePath";
    /// Publish context key: the volume behind the handle of a node-local volume.
    pub const LOCAL_VOLUME_KEY: &'static str = "volumeID";

    /// The name itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Tag that marks what this driver manages; value `true`.
    pub fn managed_tag(&self) -> String {
        format!("{self}/cluster")
    }

    /// Key of the taint that keeps pods from a new node until the driver is there.
    pub fn startup_taint(&self) -> String {
        format!("{self}/agent-not-ready")
    }

    /// Tag that records the IOPS-per-GiB ratio of a volume.
    pub fn iops_per_gib_tag(&self) -> String {
        format!("{self}/IOPSPerGb")
    }

    /// Tag that records whether a modification may raise IOPS with the size.
    pub fn auto_iops_tag(&self) -> String {
        format!("{self}/AllowAutoIOPSIncreaseOnModify")
    }

    /// The deprecated topology key of a zone name: read on create, written by nodes.
    pub fn legacy_zone_key(&self) -> String {
        format!("topology.{self}/zone")
    }

    /// Topology key of an Outpost: the partition in its ARN.
    pub fn partition_key(&self) -> String {
        format!("topology.{self}/partition")
    }

    /// Topology key of an Outpost: the region in its ARN.
    pub fn region_key(&self) -> String {
        format!("topology.{self}/region")
    }

    /// Topology key of an Outpost: the account in its ARN.
    pub fn account_key(&self) -> String {
        format!("topology.{self}/account-id")
    }

    /// Topology key of an Outpost: its id. A request may give the whole ARN here.
    pub fn outpost_key(&self) -> String {
        format!("topology.{self}/outpost-id")
    }

    /// Publish context key: what the volume was made from (`snapshot`, `clone` or `none`).
    pub fn source_key(&self) -> String {
        format!("{self}/source")
    }

    /// Publish context key: the volume's size in GiB at attach time.
    pub fn size_key(&self) -> String {
        format!("{self}/size-gib")
    }

    /// Publish context key: `true` when ControllerPublishVolume was asked for a read-only volume, which the node enforces.
    pub fn read_only_key(&self) -> String {
        format!("{self}/readonly")
    }

    /// Publish context key: when EC2 attached the volume, RFC 3339.
    pub fn attach_time_key(&self) -> String {
        format!("{self}/attach-time")
    }
}

impl fmt::Display for DriverName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

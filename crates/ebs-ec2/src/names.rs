//! All names that are derived from the driver's name.
//!
//! Decision: `docs/dev/decisions/0001-replace-the-reference-driver-in-place.md`.

use std::fmt;

/// The default name of the driver. To build the driver under another name, change only this constant.
const NAME: &str = "ebs.csi.aws.com";

/// The name under which the driver is registered with the orchestrator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverName(String);

impl Default for DriverName {
    fn default() -> Self {
        Self(NAME.to_owned())
    }
}

impl DriverName {
    /// The tag with the CSI volume name, on every volume and snapshot.
    pub const VOLUME_NAME_TAG: &'static str = "CSIVolumeName";
    /// The tag with the CSI snapshot name, on every snapshot.
    pub const SNAPSHOT_NAME_TAG: &'static str = "CSIVolumeSnapshotName";
    /// The tag for IAM policies that are limited to one cluster. It does not depend on the driver's name.
    pub const CLUSTER_NAME_TAG: &'static str = "ebs.csi.aws.com/cluster-name";
    /// The topology key of a zone name.
    pub const ZONE_KEY: &'static str = "topology.kubernetes.io/zone";
    /// The topology key of a zone id. CreateVolume reads it, but nodes never report it.
    pub const ZONE_ID_KEY: &'static str = "topology.k8s.aws/zone-id";
    /// The node label and topology key of the operating system.
    pub const OS_KEY: &'static str = "kubernetes.io/os";
    /// The publish context key of the device name in EC2's block-device mapping.
    pub const DEVICE_PATH_KEY: &'static str = "devicePath";
    /// The publish context key of the EBS volume to which a node-local volume handle refers.
    pub const LOCAL_VOLUME_KEY: &'static str = "volumeID";

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the tag that marks the resources of this driver. Its value is `true`.
    pub fn managed_tag(&self) -> String {
        format!("{self}/cluster")
    }

    /// Returns the key of the taint that keeps pods from a new node until the driver is ready.
    pub fn startup_taint(&self) -> String {
        format!("{self}/agent-not-ready")
    }

    /// Returns the tag that records the IOPS-per-GiB ratio of a volume.
    pub fn iops_per_gib_tag(&self) -> String {
        format!("{self}/IOPSPerGb")
    }

    /// Returns the tag that records whether a modification of the size can also raise the IOPS.
    pub fn auto_iops_tag(&self) -> String {
        format!("{self}/AllowAutoIOPSIncreaseOnModify")
    }

    /// Returns the deprecated topology key of a zone name. CreateVolume reads it, and nodes report it.
    pub fn legacy_zone_key(&self) -> String {
        format!("topology.{self}/zone")
    }

    /// Returns the topology key for the partition in an Outpost's ARN.
    pub fn partition_key(&self) -> String {
        format!("topology.{self}/partition")
    }

    /// Returns the topology key for the region in an Outpost's ARN.
    pub fn region_key(&self) -> String {
        format!("topology.{self}/region")
    }

    /// Returns the topology key for the account in an Outpost's ARN.
    pub fn account_key(&self) -> String {
        format!("topology.{self}/account-id")
    }

    /// Returns the topology key for an Outpost's id. In a request, its value may be the whole ARN.
    pub fn outpost_key(&self) -> String {
        format!("topology.{self}/outpost-id")
    }

    /// Returns the publish context key for the source of the volume (`snapshot`, `clone` or `none`).
    pub fn source_key(&self) -> String {
        format!("{self}/source")
    }

    /// Returns the publish context key for the volume's size in GiB at attach time.
    pub fn size_key(&self) -> String {
        format!("{self}/size-gib")
    }

    /// Returns the publish context key that is `true` for a read-only volume, which the node service enforces.
    pub fn read_only_key(&self) -> String {
        format!("{self}/readonly")
    }

    /// Returns the publish context key of the time when EC2 attached the volume, in RFC 3339 format.
    pub fn attach_time_key(&self) -> String {
        format!("{self}/attach-time")
    }
}

impl fmt::Display for DriverName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

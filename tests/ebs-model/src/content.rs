//! The requests that the orchestrator sends.

use std::collections::HashMap;

use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi_proto::csi::volume_content_source::{SnapshotSource, Type, VolumeSource};
use csi_proto::csi::{
    CapacityRange, ControllerExpandVolumeRequest, ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest,
    CreateSnapshotRequest, CreateVolumeRequest, DeleteSnapshotRequest, DeleteVolumeRequest, Topology,
    TopologyRequirement, VolumeCapability, VolumeContentSource,
};
use ebs_ec2::{DeviceName, DriverName, Tags};

use crate::rng::Rng;

const GIB: i64 = 1 << 30;
/// The volume type of volumes for a single node.
pub(crate) const GP3: &str = "gp3";
/// The volume type of volumes for several nodes.
pub(crate) const IO2: &str = "io2";
pub(crate) const CLUSTER: &str = "blue";

pub(crate) fn ownership() -> Tags {
    tags(&[
        (&DriverName::default().managed_tag(), "true"),
        (&format!("kubernetes.io/cluster/{CLUSTER}"), "owned"),
        (DriverName::CLUSTER_NAME_TAG, CLUSTER),
        ("KubernetesCluster", CLUSTER),
    ])
}

pub(crate) fn tags(pairs: &[(&str, &str)]) -> Tags {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn some_device() -> DeviceName {
    DeviceName::new("/dev/xvddx")
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Blank,
    Snapshot(String),
    Volume(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VolumeOrder {
    pub(crate) name: String,
    pub(crate) gib: i64,
    pub(crate) shared: bool,
    pub(crate) zones: Vec<String>,
    pub(crate) origin: Origin,
    pub(crate) team: String,
    pub(crate) key: Option<Key>,
    /// An IOPS number that not all zones support for the type, so that the driver finds the maximum with a dry run.
    pub(crate) iops: Option<u32>,
}

/// The size of a volume with many IOPS, in GiB.
pub(crate) const LARGE: i64 = 150;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Sound,
    /// EC2 accepts the creation of the volume, which then vanishes.
    Disabled,
}

impl Key {
    pub(crate) fn alias(self) -> &'static str {
        match self {
            Self::Sound => "alias/sound",
            Self::Disabled => "alias/disabled",
        }
    }

    fn draw(rng: &mut Rng) -> Option<Self> {
        match rng.below(20) {
            0..=2 => Some(Self::Sound),
            3 => Some(Self::Disabled),
            _ => None,
        }
    }
}

impl VolumeOrder {
    pub(crate) fn draw(rng: &mut Rng, name: &str, zones: &[String]) -> Self {
        let first = rng.pick(zones).cloned().unwrap_or_default();
        let mut allowed = vec![first];
        if rng.per_mille(200) {
            allowed.extend(zones.iter().filter(|zone| !allowed.contains(zone)).cloned().collect::<Vec<_>>());
        }
        let shared = rng.per_mille(150);
        let iops = (!shared && rng.per_mille(150)).then(|| rng.pick(&[20_000, 60_000]).copied()).flatten();
        let gib = i64::try_from(rng.between(4, 9)).unwrap_or(4);
        Self {
            name: name.to_owned(),
            gib: if iops.is_some() { gib + LARGE } else { gib },
            shared,
            zones: allowed,
            origin: Origin::Blank,
            team: format!("t{}", rng.below(3)),
            key: Key::draw(rng),
            iops,
        }
    }

    pub(crate) fn other_content(&self, rng: &mut Rng) -> Self {
        match rng.below(4) {
            // Never remove a key: EC2 may encrypt a volume even if the request has no key.
            0 if self.key.is_none() => Self { key: Some(Key::Sound), ..self.clone() },
            0 | 3 => Self { gib: self.gib + 20, ..self.clone() },
            1 => Self { shared: !self.shared, gib: self.gib, iops: None, ..self.clone() },
            _ => Self { zones: vec!["us-west-2c".to_owned()], ..self.clone() },
        }
    }

    pub(crate) fn request(&self) -> CreateVolumeRequest {
        let mut parameters = map(&[("type", self.kind()), ("tagSpecification_1", &format!("team={}", self.team))]);
        if let Some(iops) = self.iops.or(self.shared.then_some(200)) {
            parameters.insert("iops".to_owned(), iops.to_string());
        }
        if let Some(key) = self.key {
            parameters.extend(map(&[("encrypted", "true"), ("kmsKeyId", key.alias())]));
        }
        let terms: Vec<Topology> =
            self.zones.iter().map(|zone| Topology { segments: map(&[(DriverName::ZONE_KEY, zone)]) }).collect();
        let source = match &self.origin {
            Origin::Blank => None,
            Origin::Snapshot(id) => Some(Type::Snapshot(SnapshotSource { snapshot_id: id.clone() })),
            Origin::Volume(id) => Some(Type::Volume(VolumeSource { volume_id: id.clone() })),
        };
        CreateVolumeRequest {
            name: self.name.clone(),
            capacity_range: Some(CapacityRange { required_bytes: self.gib * GIB, limit_bytes: 0 }),
            volume_capabilities: vec![capability(self.shared)],
            parameters,
            volume_content_source: source.map(|source| VolumeContentSource { r#type: Some(source) }),
            accessibility_requirements: Some(TopologyRequirement { requisite: terms.clone(), preferred: terms }),
            ..Default::default()
        }
    }

    pub(crate) fn kind(&self) -> &'static str {
        if self.shared { IO2 } else { GP3 }
    }

    /// Returns the tags that the volume must always have.
    pub(crate) fn tags(&self) -> Tags {
        let mut all = ownership();
        all.extend(tags(&[(DriverName::VOLUME_NAME_TAG, &self.name), ("team", &self.team)]));
        all
    }
}

pub(crate) fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn capability(shared: bool) -> VolumeCapability {
    let (access, mode) = if shared {
        (AccessType::Block(BlockVolume {}), Mode::MultiNodeMultiWriter)
    } else {
        (AccessType::Mount(MountVolume { fs_type: "ext4".to_owned(), ..Default::default() }), Mode::SingleNodeWriter)
    };
    VolumeCapability { access_type: Some(access), access_mode: Some(AccessMode { mode: mode.into() }) }
}

pub(crate) fn delete_volume(id: &str) -> DeleteVolumeRequest {
    DeleteVolumeRequest { volume_id: id.to_owned(), ..Default::default() }
}

pub(crate) fn publish(volume: &str, node: &str, shared: bool) -> ControllerPublishVolumeRequest {
    ControllerPublishVolumeRequest {
        volume_id: volume.to_owned(),
        node_id: node.to_owned(),
        volume_capability: Some(capability(shared)),
        ..Default::default()
    }
}

pub(crate) fn unpublish(volume: &str, node: &str) -> ControllerUnpublishVolumeRequest {
    ControllerUnpublishVolumeRequest { volume_id: volume.to_owned(), node_id: node.to_owned(), ..Default::default() }
}

pub(crate) fn expand(volume: &str, gib: i64, shared: bool) -> ControllerExpandVolumeRequest {
    ControllerExpandVolumeRequest {
        volume_id: volume.to_owned(),
        capacity_range: Some(CapacityRange { required_bytes: gib * GIB, limit_bytes: 0 }),
        volume_capability: Some(capability(shared)),
        ..Default::default()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SnapOrder {
    pub(crate) source: String,
    pub(crate) locked: bool,
    pub(crate) fast_in: Vec<String>,
}

impl SnapOrder {
    pub(crate) fn draw(rng: &mut Rng, source: &str) -> Self {
        let fast_in: &[&str] = match rng.below(10) {
            0 => &["us-west-2a"],
            1 => &["us-west-2a", "us-west-2b"],
            _ => &[],
        };
        let fast_in = fast_in.iter().map(|zone| (*zone).to_owned()).collect();
        Self { source: source.to_owned(), locked: rng.per_mille(200), fast_in }
    }

    pub(crate) fn request(&self, name: &str) -> CreateSnapshotRequest {
        let mut parameters = HashMap::new();
        if self.locked {
            parameters.extend(map(&[("lockMode", "governance"), ("lockDuration", "1")]));
        }
        if !self.fast_in.is_empty() {
            parameters.extend(map(&[("fastSnapshotRestoreAvailabilityZones", &self.fast_in.join(","))]));
        }
        let (name, source_volume_id) = (name.to_owned(), self.source.clone());
        CreateSnapshotRequest { name, source_volume_id, parameters, ..Default::default() }
    }
}

pub(crate) fn delete_snapshot(id: &str) -> DeleteSnapshotRequest {
    DeleteSnapshotRequest { snapshot_id: id.to_owned(), ..Default::default() }
}

/// Returns a size in whole GiB.
pub(crate) fn gib(bytes: i64) -> i64 {
    bytes / GIB
}

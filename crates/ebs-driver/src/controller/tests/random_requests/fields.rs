//! Valid requests for every RPC of the controller, with one or several random fields.

use csi_proto::csi::volume_content_source::{SnapshotSource, Type, VolumeSource};
use csi_proto::csi::{TopologyRequirement, VolumeContentSource};

use super::super::*;
use super::Things;
use super::values::Random;

/// A field whose value is random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Name,
    Capacity,
    Capabilities,
    Parameters,
    Source,
    Topology,
    Volume,
    Snapshot,
    Node,
    Readonly,
    Context,
    Entries,
    Token,
}

impl Field {
    const ALL: [Self; 13] = [
        Self::Name,
        Self::Capacity,
        Self::Capabilities,
        Self::Parameters,
        Self::Source,
        Self::Topology,
        Self::Volume,
        Self::Snapshot,
        Self::Node,
        Self::Readonly,
        Self::Context,
        Self::Entries,
        Self::Token,
    ];

    /// Returns words in lower case. One of them must be in the message when the field is invalid.
    pub(super) fn words(self) -> &'static [&'static str] {
        match self {
            // A name is also the value of a tag.
            Self::Name => &["name", "tag"],
            Self::Capacity => &["required_bytes", "limit_bytes", "capacity_range", "volume size"],
            Self::Capabilities => {
                &["capabilit", "access mode", "can be used with", "cannot be used with", "several nodes"]
            }
            Self::Parameters => &["parameter", "tag", "fastsnapshotrestoreavailabilityzones", "volume type"],
            Self::Source => &["source", "snapshot", "volume", "clone"],
            Self::Topology => &["accessibility_requirements", "topology", "zone", "outpost"],
            Self::Volume => &["volume_id", "node-local volume"],
            Self::Snapshot => &["snapshot"],
            Self::Node => &["node"],
            Self::Readonly => &["readonly"],
            Self::Context => &["volume_context"],
            Self::Entries => &["max_entries"],
            Self::Token => &["token"],
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    CreateVolume,
    DeleteVolume,
    Publish,
    Unpublish,
    Validate,
    ListVolumes,
    GetCapacity,
    GetCapabilities,
    CreateSnapshot,
    DeleteSnapshot,
    ListSnapshots,
    GetSnapshot,
    Expand,
    GetVolume,
    Modify,
    ListHealth,
    GetHealth,
}

impl RequestKind {
    pub(super) const ALL: [Self; 17] = [
        Self::CreateVolume,
        Self::DeleteVolume,
        Self::Publish,
        Self::Unpublish,
        Self::Validate,
        Self::ListVolumes,
        Self::GetCapacity,
        Self::GetCapabilities,
        Self::CreateSnapshot,
        Self::DeleteSnapshot,
        Self::ListSnapshots,
        Self::GetSnapshot,
        Self::Expand,
        Self::GetVolume,
        Self::Modify,
        Self::ListHealth,
        Self::GetHealth,
    ];

    pub(super) fn refuses_nothing(self) -> bool {
        self == Self::GetCapabilities
    }
}

/// The fields of all RPCs. Each RPC uses its own fields.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) kind: RequestKind,
    pub(super) changed: Vec<Field>,
    name: String,
    capacity: Option<CapacityRange>,
    capabilities: Vec<VolumeCapability>,
    parameters: HashMap<String, String>,
    mutable_parameters: HashMap<String, String>,
    source: Option<VolumeContentSource>,
    topology: Option<TopologyRequirement>,
    volume: String,
    snapshot: String,
    node: String,
    readonly: bool,
    context: HashMap<String, String>,
    entries: i32,
    token: String,
}

/// Returns a valid request of a random kind with one or several random fields.
pub(super) fn random_request(random: &mut Random, things: &Things) -> Request {
    let kind = if random.one_in(4) { RequestKind::CreateVolume } else { random.pick(&RequestKind::ALL) };
    let sound = in_zone(named(&format!("pvc-{:x}", random.bits())), "us-west-2a");
    let mut request = Request {
        kind,
        changed: Vec::new(),
        name: sound.name,
        capacity: sound.capacity_range,
        capabilities: sound.volume_capabilities,
        parameters: HashMap::new(),
        mutable_parameters: HashMap::new(),
        source: None,
        topology: sound.accessibility_requirements,
        volume: things.volume.clone(),
        snapshot: if kind == RequestKind::ListSnapshots { String::new() } else { things.snapshot.clone() },
        node: things.node.clone(),
        readonly: false,
        context: HashMap::new(),
        entries: 0,
        token: String::new(),
    };
    let own = request.kind.fields();
    let most = if random.one_in(4) { own.len() } else { usize::from(!own.is_empty()) };
    for _ in 0..most {
        let field = random.pick(own);
        request.change(field, random);
    }
    request
}

impl RequestKind {
    /// Returns the fields of the RPC.
    fn fields(self) -> &'static [Field] {
        use Field as F;
        match self {
            Self::CreateVolume => {
                &[F::Name, F::Capacity, F::Capabilities, F::Parameters, F::Parameters, F::Source, F::Topology]
            }
            Self::DeleteVolume => &[F::Volume],
            Self::Publish => &[F::Volume, F::Node, F::Capabilities, F::Readonly, F::Context],
            Self::Unpublish => &[F::Volume, F::Node],
            Self::Validate => &[F::Volume, F::Capabilities, F::Parameters, F::Context],
            Self::ListVolumes => &[F::Entries, F::Token],
            Self::GetCapacity => &[F::Capabilities, F::Parameters],
            Self::GetCapabilities | Self::ListHealth => &[],
            Self::CreateSnapshot => &[F::Name, F::Volume, F::Parameters],
            Self::DeleteSnapshot | Self::GetSnapshot => &[F::Snapshot],
            Self::ListSnapshots => &[F::Snapshot, F::Volume, F::Entries, F::Token],
            Self::Expand => &[F::Volume, F::Capacity, F::Capabilities],
            Self::GetVolume | Self::GetHealth => &[F::Volume],
            Self::Modify => &[F::Volume, F::Parameters],
        }
    }
}

impl Request {
    fn change(&mut self, field: Field, random: &mut Random) {
        assert!(Field::ALL.contains(&field));
        self.changed.push(field);
        match field {
            Field::Name => self.name = random.text(),
            Field::Capacity => {
                let range = CapacityRange { required_bytes: random.long(), limit_bytes: random.long() };
                let half = CapacityRange { limit_bytes: 0, ..range };
                self.capacity = random.pick(&[Some(range), Some(half), None]);
            }
            Field::Capabilities => self.capabilities = capabilities(random),
            Field::Parameters => (self.parameters, self.mutable_parameters) = (random.map(), random.map()),
            Field::Source => self.source = Some(source(random)),
            Field::Topology => self.topology = Some(topology(random)),
            Field::Volume => self.volume = random.text(),
            Field::Snapshot => self.snapshot = random.text(),
            Field::Node => self.node = random.text(),
            Field::Readonly => self.readonly = true,
            Field::Context => self.context = random.map(),
            Field::Entries => self.entries = random.int(),
            Field::Token => self.token = random.text(),
        }
    }

    /// Sends the request like a sidecar.
    pub(super) async fn send(&self, world: &World) -> Result<(), Refused> {
        let s = &world.service;
        let answer = match self.kind {
            RequestKind::CreateVolume => s.create_volume(world.over(self.create_volume())).await.map(drop),
            RequestKind::DeleteVolume => {
                let request = DeleteVolumeRequest { volume_id: self.volume.clone(), ..Default::default() };
                s.delete_volume(world.over(request)).await.map(drop)
            }
            RequestKind::Publish => s.controller_publish_volume(world.over(self.publish())).await.map(drop),
            RequestKind::Unpublish => {
                let (volume_id, node_id) = (self.volume.clone(), self.node.clone());
                let request = ControllerUnpublishVolumeRequest { volume_id, node_id, ..Default::default() };
                s.controller_unpublish_volume(world.over(request)).await.map(drop)
            }
            RequestKind::Validate => s.validate_volume_capabilities(world.over(self.validate())).await.map(drop),
            RequestKind::ListVolumes => {
                let request = ListVolumesRequest { max_entries: self.entries, starting_token: self.token.clone() };
                s.list_volumes(world.over(request)).await.map(drop)
            }
            RequestKind::GetCapacity => s.get_capacity(empty()).await.map(drop),
            RequestKind::GetCapabilities => s.controller_get_capabilities(empty()).await.map(drop),
            RequestKind::CreateSnapshot => s.create_snapshot(world.over(self.create_snapshot())).await.map(drop),
            RequestKind::DeleteSnapshot => {
                let request = DeleteSnapshotRequest { snapshot_id: self.snapshot.clone(), ..Default::default() };
                s.delete_snapshot(world.over(request)).await.map(drop)
            }
            RequestKind::ListSnapshots => s.list_snapshots(world.over(self.list_snapshots())).await.map(drop),
            RequestKind::GetSnapshot => {
                let request = GetSnapshotRequest { snapshot_id: self.snapshot.clone(), ..Default::default() };
                s.get_snapshot(world.over(request)).await.map(drop)
            }
            RequestKind::Expand => s.controller_expand_volume(world.over(self.expand())).await.map(drop),
            RequestKind::GetVolume => s.controller_get_volume(empty()).await.map(drop),
            RequestKind::Modify => s.controller_modify_volume(world.over(self.modify())).await.map(drop),
            RequestKind::ListHealth => s.controller_list_volume_health(empty()).await.map(drop),
            RequestKind::GetHealth => s.controller_get_volume_health(empty()).await.map(drop),
        };
        answer.map_err(Refused::from)
    }

    fn create_volume(&self) -> CreateVolumeRequest {
        CreateVolumeRequest {
            name: self.name.clone(),
            capacity_range: self.capacity,
            volume_capabilities: self.capabilities.clone(),
            parameters: self.parameters.clone(),
            mutable_parameters: self.mutable_parameters.clone(),
            volume_content_source: self.source.clone(),
            accessibility_requirements: self.topology.clone(),
            ..Default::default()
        }
    }

    fn publish(&self) -> ControllerPublishVolumeRequest {
        ControllerPublishVolumeRequest {
            volume_id: self.volume.clone(),
            node_id: self.node.clone(),
            volume_capability: self.capabilities.first().cloned(),
            readonly: self.readonly,
            volume_context: self.context.clone(),
            ..Default::default()
        }
    }

    fn validate(&self) -> ValidateVolumeCapabilitiesRequest {
        ValidateVolumeCapabilitiesRequest {
            volume_id: self.volume.clone(),
            volume_context: self.context.clone(),
            volume_capabilities: self.capabilities.clone(),
            parameters: self.parameters.clone(),
            ..Default::default()
        }
    }

    fn create_snapshot(&self) -> CreateSnapshotRequest {
        CreateSnapshotRequest {
            name: self.name.clone(),
            source_volume_id: self.volume.clone(),
            parameters: self.parameters.clone(),
            ..Default::default()
        }
    }

    fn list_snapshots(&self) -> ListSnapshotsRequest {
        ListSnapshotsRequest {
            max_entries: self.entries,
            starting_token: self.token.clone(),
            source_volume_id: self.volume.clone(),
            snapshot_id: self.snapshot.clone(),
            ..Default::default()
        }
    }

    fn expand(&self) -> ControllerExpandVolumeRequest {
        ControllerExpandVolumeRequest {
            volume_id: self.volume.clone(),
            capacity_range: self.capacity,
            volume_capability: self.capabilities.first().cloned(),
            ..Default::default()
        }
    }

    fn modify(&self) -> ControllerModifyVolumeRequest {
        ControllerModifyVolumeRequest {
            volume_id: self.volume.clone(),
            mutable_parameters: self.mutable_parameters.clone(),
            ..Default::default()
        }
    }
}

fn capabilities(random: &mut Random) -> Vec<VolumeCapability> {
    let one = |random: &mut Random| {
        let mount =
            MountVolume { fs_type: random.text(), mount_flags: vec![random.text()], volume_mount_group: random.text() };
        let access = random.pick(&[None, Some(AccessType::Mount(mount)), Some(AccessType::Block(BlockVolume {}))]);
        let any = random.int();
        let mode = random.pick(&[None, Some(1), Some(5), Some(any)]);
        VolumeCapability { access_type: access, access_mode: mode.map(|mode| AccessMode { mode }) }
    };
    (0..random.below(4)).map(|_| one(random)).collect()
}

fn source(random: &mut Random) -> VolumeContentSource {
    let snapshot = SnapshotSource { snapshot_id: random.text() };
    let volume = VolumeSource { volume_id: random.text() };
    VolumeContentSource { r#type: random.pick(&[None, Some(Type::Snapshot(snapshot)), Some(Type::Volume(volume))]) }
}

fn topology(random: &mut Random) -> TopologyRequirement {
    let keys = [
        "topology.kubernetes.io/zone",
        "topology.ebs.csi.aws.com/zone",
        "topology.k8s.aws/zone-id",
        "topology.ebs.csi.aws.com/outpost-id",
        "topology.ebs.csi.aws.com/partition",
    ];
    let terms = |random: &mut Random| -> Vec<csi::Topology> {
        let term = |random: &mut Random| {
            let segments = (0..random.below(4)).map(|_| {
                let key = if random.one_in(4) { random.text() } else { random.pick(&keys).to_owned() };
                (key, random.text())
            });
            csi::Topology { segments: segments.collect() }
        };
        (0..random.below(3)).map(|_| term(random)).collect()
    };
    TopologyRequirement { requisite: terms(random), preferred: terms(random) }
}

//! Converts the JSON of a recording into requests, and responses into JSON, as protojson writes them with the
//! protocol's field names.

use std::collections::HashMap;

use csi_proto::csi;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi_proto::csi::volume_content_source::{SnapshotSource, Type, VolumeSource};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The fields of all requests. An unknown field fails the test.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Fields {
    name: String,
    volume_id: String,
    source_volume_id: String,
    snapshot_id: String,
    node_id: String,
    readonly: bool,
    capacity_range: Option<Range>,
    volume_capabilities: Vec<Capability>,
    volume_capability: Option<Capability>,
    parameters: HashMap<String, String>,
    mutable_parameters: HashMap<String, String>,
    secrets: HashMap<String, String>,
    volume_context: HashMap<String, String>,
    volume_content_source: Option<Source>,
    accessibility_requirements: Option<Requirement>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Range {
    required_bytes: Option<String>,
    limit_bytes: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Capability {
    mount: Option<Mount>,
    block: Option<Block>,
    access_mode: ModeName,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Mount {
    fs_type: String,
    mount_flags: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Block {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModeName {
    mode: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    snapshot: Option<SnapshotId>,
    volume: Option<VolumeId>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SnapshotId {
    snapshot_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VolumeId {
    volume_id: String,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Requirement {
    requisite: Vec<Term>,
    preferred: Vec<Term>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Term {
    segments: HashMap<String, String>,
}

impl From<Range> for csi::CapacityRange {
    fn from(range: Range) -> Self {
        let bytes = |text: Option<String>| text.map_or(0, |text| text.parse().expect("a number of bytes"));
        Self { required_bytes: bytes(range.required_bytes), limit_bytes: bytes(range.limit_bytes) }
    }
}

impl From<Capability> for csi::VolumeCapability {
    fn from(capability: Capability) -> Self {
        let mode = Mode::from_str_name(&capability.access_mode.mode).expect("a mode of CSI");
        let access_type = match (capability.mount, capability.block) {
            (Some(Mount { fs_type, mount_flags }), None) => {
                AccessType::Mount(MountVolume { fs_type, mount_flags, ..Default::default() })
            }
            (None, Some(Block {})) => AccessType::Block(BlockVolume {}),
            _ => panic!("neither mount nor block"),
        };
        Self { access_type: Some(access_type), access_mode: Some(AccessMode { mode: mode.into() }) }
    }
}

impl From<Source> for csi::VolumeContentSource {
    fn from(source: Source) -> Self {
        let r#type = match (source.snapshot, source.volume) {
            (Some(SnapshotId { snapshot_id }), None) => Type::Snapshot(SnapshotSource { snapshot_id }),
            (None, Some(VolumeId { volume_id })) => Type::Volume(VolumeSource { volume_id }),
            _ => panic!("neither snapshot nor volume"),
        };
        Self { r#type: Some(r#type) }
    }
}

impl From<Requirement> for csi::TopologyRequirement {
    fn from(requirement: Requirement) -> Self {
        let terms = |terms: Vec<Term>| terms.into_iter().map(|t| csi::Topology { segments: t.segments }).collect();
        Self { requisite: terms(requirement.requisite), preferred: terms(requirement.preferred) }
    }
}

impl Fields {
    pub(crate) fn create_volume(self) -> csi::CreateVolumeRequest {
        csi::CreateVolumeRequest {
            name: self.name,
            capacity_range: self.capacity_range.map(Into::into),
            volume_capabilities: self.volume_capabilities.into_iter().map(Into::into).collect(),
            parameters: self.parameters,
            secrets: self.secrets,
            volume_content_source: self.volume_content_source.map(Into::into),
            accessibility_requirements: self.accessibility_requirements.map(Into::into),
            mutable_parameters: self.mutable_parameters,
        }
    }

    pub(crate) fn delete_volume(self) -> csi::DeleteVolumeRequest {
        csi::DeleteVolumeRequest { volume_id: self.volume_id, secrets: self.secrets }
    }

    pub(crate) fn publish(self) -> csi::ControllerPublishVolumeRequest {
        csi::ControllerPublishVolumeRequest {
            volume_id: self.volume_id,
            node_id: self.node_id,
            volume_capability: self.volume_capability.map(Into::into),
            readonly: self.readonly,
            secrets: self.secrets,
            volume_context: self.volume_context,
        }
    }

    pub(crate) fn unpublish(self) -> csi::ControllerUnpublishVolumeRequest {
        csi::ControllerUnpublishVolumeRequest {
            volume_id: self.volume_id,
            node_id: self.node_id,
            secrets: self.secrets,
        }
    }

    pub(crate) fn expand(self) -> csi::ControllerExpandVolumeRequest {
        csi::ControllerExpandVolumeRequest {
            volume_id: self.volume_id,
            capacity_range: self.capacity_range.map(Into::into),
            secrets: self.secrets,
            volume_capability: self.volume_capability.map(Into::into),
        }
    }

    pub(crate) fn modify(self) -> csi::ControllerModifyVolumeRequest {
        csi::ControllerModifyVolumeRequest {
            volume_id: self.volume_id,
            secrets: self.secrets,
            mutable_parameters: self.mutable_parameters,
        }
    }

    pub(crate) fn create_snapshot(self) -> csi::CreateSnapshotRequest {
        csi::CreateSnapshotRequest {
            source_volume_id: self.source_volume_id,
            name: self.name,
            secrets: self.secrets,
            parameters: self.parameters,
            ..Default::default()
        }
    }

    pub(crate) fn delete_snapshot(self) -> csi::DeleteSnapshotRequest {
        csi::DeleteSnapshotRequest { snapshot_id: self.snapshot_id, secrets: self.secrets }
    }
}

pub(crate) fn volume(volume: csi::Volume) -> Value {
    let mut fields = Map::new();
    put_number(&mut fields, "capacity_bytes", volume.capacity_bytes);
    put(&mut fields, "volume_id", json!(volume.volume_id));
    put(&mut fields, "volume_context", json!(volume.volume_context));
    put(
        &mut fields,
        "content_source",
        volume.content_source.and_then(|source| source.r#type).map_or(Value::Null, content),
    );
    let terms: Vec<Value> = volume.accessible_topology.iter().map(|term| json!({"segments": term.segments})).collect();
    put(&mut fields, "accessible_topology", json!(terms));
    json!({ "volume": fields })
}

fn content(source: Type) -> Value {
    match source {
        Type::Snapshot(SnapshotSource { snapshot_id }) => json!({"snapshot": {"snapshot_id": snapshot_id}}),
        Type::Volume(VolumeSource { volume_id }) => json!({"volume": {"volume_id": volume_id}}),
    }
}

pub(crate) fn snapshot(snapshot: csi::Snapshot) -> Value {
    let mut fields = Map::new();
    put_number(&mut fields, "size_bytes", snapshot.size_bytes);
    put(&mut fields, "snapshot_id", json!(snapshot.snapshot_id));
    put(&mut fields, "source_volume_id", json!(snapshot.source_volume_id));
    put(&mut fields, "creation_time", snapshot.creation_time.map_or(Value::Null, |time| json!(time.to_string())));
    if snapshot.ready_to_use {
        put(&mut fields, "ready_to_use", json!(true));
    }
    json!({ "snapshot": fields })
}

pub(crate) fn published(context: &HashMap<String, String>) -> Value {
    let mut fields = Map::new();
    put(&mut fields, "publish_context", json!(context));
    Value::Object(fields)
}

pub(crate) fn expanded(reply: &csi::ControllerExpandVolumeResponse) -> Value {
    let mut fields = Map::new();
    put_number(&mut fields, "capacity_bytes", reply.capacity_bytes);
    if reply.node_expansion_required {
        put(&mut fields, "node_expansion_required", json!(true));
    }
    Value::Object(fields)
}

/// protojson omits empty values and writes 64-bit numbers as strings.
fn put(fields: &mut Map<String, Value>, name: &str, value: Value) {
    let empty = match &value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(items) => items.is_empty(),
        _ => false,
    };
    if !empty {
        fields.insert(name.to_owned(), value);
    }
}

fn put_number(fields: &mut Map<String, Value>, name: &str, number: i64) {
    if number != 0 {
        fields.insert(name.to_owned(), json!(number.to_string()));
    }
}

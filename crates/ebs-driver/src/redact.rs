//! Summaries of requests for the log, without secrets.
//!
//! Generated messages show all fields except `secrets`, and a user may put a secret into another field. So each request
//! has a summary that lists the safe fields one by one. Other fields are not logged.
//!
//! Decision: `docs/decisions/0026-log-only-fields-that-are-known-to-be-safe.md`.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use csi_proto::{csi, modify};

use crate::rpc::Rpc;

/// Substrings of keys whose values are not logged although the field is not secret, because a user may put a secret
/// there.
const SUSPECT: [&str; 6] = ["secret", "password", "passphrase", "token", "credential", "private"];

/// The part of a request that may be logged.
#[derive(Clone, PartialEq, Eq)]
pub struct Summary {
    rpc: Rpc,
    subject: String,
    fields: Vec<(&'static str, String)>,
}

impl Summary {
    /// Creates the summary of an RPC for `subject` (a volume, snapshot or name, or empty).
    pub fn new(rpc: Rpc, subject: &str) -> Self {
        Self { rpc, subject: subject.to_owned(), fields: Vec::new() }
    }

    /// Adds a field that is not secret.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.fields.push((name, value.to_string()));
        self
    }

    /// Adds a map, without the values of suspicious keys.
    #[must_use]
    pub fn with_map(self, name: &'static str, map: &HashMap<String, String>) -> Self {
        let sorted: BTreeMap<&str, &str> = map
            .iter()
            .map(|(key, value)| {
                let lower = key.to_lowercase();
                let hidden = SUSPECT.iter().any(|part| lower.contains(part));
                (key.as_str(), if hidden { "(not logged)" } else { value.as_str() })
            })
            .collect();
        self.with(name, format_args!("{sorted:?}"))
    }

    pub fn rpc(&self) -> Rpc {
        self.rpc
    }

    /// Returns the volume, snapshot or name of the request.
    pub fn subject(&self) -> &str {
        &self.subject
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, value)) in self.fields.iter().enumerate() {
            let blank = if i > 0 { " " } else { "" };
            write!(f, "{blank}{name}={value}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {self}", self.rpc, self.subject)
    }
}

/// A request that knows which of its fields may be logged.
pub trait Summarize {
    /// Returns the fields that may be logged.
    fn summary(&self) -> Summary;
}

fn range(range: Option<&csi::CapacityRange>) -> String {
    range.map_or_else(|| "none".to_owned(), |r| format!("{}..{}", r.required_bytes, r.limit_bytes))
}

impl Summarize for csi::CreateVolumeRequest {
    fn summary(&self) -> Summary {
        Summary::new(Rpc::CreateVolume, &self.name)
            .with("capacity", range(self.capacity_range.as_ref()))
            .with("capabilities", format_args!("{:?}", self.volume_capabilities))
            .with("source", format_args!("{:?}", self.volume_content_source))
            .with("topology", format_args!("{:?}", self.accessibility_requirements))
            .with_map("parameters", &self.parameters)
            .with_map("mutable_parameters", &self.mutable_parameters)
    }
}

impl Summarize for csi::ControllerPublishVolumeRequest {
    fn summary(&self) -> Summary {
        Summary::new(Rpc::ControllerPublishVolume, &self.volume_id)
            .with("node", &self.node_id)
            .with("readonly", self.readonly)
            .with("capability", format_args!("{:?}", self.volume_capability))
            .with_map("context", &self.volume_context)
    }
}

impl Summarize for csi::ValidateVolumeCapabilitiesRequest {
    fn summary(&self) -> Summary {
        Summary::new(Rpc::ValidateVolumeCapabilities, &self.volume_id)
            .with("capabilities", format_args!("{:?}", self.volume_capabilities))
    }
}

impl Summarize for csi::ListVolumesRequest {
    fn summary(&self) -> Summary {
        Summary::new(Rpc::ListVolumes, "").with("max", self.max_entries).with("from", &self.starting_token)
    }
}

impl Summarize for csi::ControllerExpandVolumeRequest {
    fn summary(&self) -> Summary {
        Summary::new(Rpc::ControllerExpandVolume, &self.volume_id).with("capacity", range(self.capacity_range.as_ref()))
    }
}

impl Summarize for csi::ControllerModifyVolumeRequest {
    fn summary(&self) -> Summary {
        Summary::new(Rpc::ControllerModifyVolume, &self.volume_id)
            .with_map("mutable_parameters", &self.mutable_parameters)
    }
}

impl Summarize for modify::ModifyVolumePropertiesRequest {
    fn summary(&self) -> Summary {
        Summary::new(Rpc::ModifyVolumeProperties, &self.name).with_map("parameters", &self.parameters)
    }
}

impl Summarize for csi::CreateSnapshotRequest {
    fn summary(&self) -> Summary {
        Summary::new(Rpc::CreateSnapshot, &self.name)
            .with("volume", &self.source_volume_id)
            .with_map("parameters", &self.parameters)
    }
}

impl Summarize for csi::NodeStageVolumeRequest {
    fn summary(&self) -> Summary {
        Summary::new(Rpc::NodeStageVolume, &self.volume_id)
            .with("staging", &self.staging_target_path)
            .with("capability", format_args!("{:?}", self.volume_capability))
            .with_map("publish_context", &self.publish_context)
            .with_map("context", &self.volume_context)
    }
}

impl Summarize for csi::NodePublishVolumeRequest {
    fn summary(&self) -> Summary {
        Summary::new(Rpc::NodePublishVolume, &self.volume_id)
            .with("staging", &self.staging_target_path)
            .with("target", &self.target_path)
            .with("readonly", self.readonly)
            .with("capability", format_args!("{:?}", self.volume_capability))
            .with_map("publish_context", &self.publish_context)
            .with_map("context", &self.volume_context)
    }
}

impl Summarize for csi::NodeExpandVolumeRequest {
    fn summary(&self) -> Summary {
        Summary::new(Rpc::NodeExpandVolume, &self.volume_id)
            .with("path", &self.volume_path)
            .with("staging", &self.staging_target_path)
            .with("capacity", range(self.capacity_range.as_ref()))
    }
}

/// Requests whose summary is their subject and plain fields.
macro_rules! summarize {
    ($($request:ty => $rpc:ident($subject:ident $(, $name:ident = $field:ident)*);)+) => {
        $(impl Summarize for $request {
            fn summary(&self) -> Summary {
                Summary::new(Rpc::$rpc, &self.$subject)$(.with(stringify!($name), &self.$field))*
            }
        })+
    };
}

summarize! {
    csi::DeleteVolumeRequest => DeleteVolume(volume_id);
    csi::ControllerUnpublishVolumeRequest => ControllerUnpublishVolume(volume_id, node = node_id);
    csi::DeleteSnapshotRequest => DeleteSnapshot(snapshot_id);
    csi::GetSnapshotRequest => GetSnapshot(snapshot_id);
    csi::NodeUnstageVolumeRequest => NodeUnstageVolume(volume_id, staging = staging_target_path);
    csi::NodeUnpublishVolumeRequest => NodeUnpublishVolume(volume_id, target = target_path);
    csi::NodeGetVolumeStatsRequest => NodeGetVolumeStats(volume_id, path = volume_path, staging = staging_target_path);
    csi::NodeGetVolumeHealthRequest => NodeGetVolumeHealth(volume_id, path = volume_publish_path, staging = staging_target_path);
    csi::ListSnapshotsRequest => ListSnapshots(snapshot_id, volume = source_volume_id, max = max_entries, from = starting_token);
}

impl Summarize for csi::NodeGetInfoRequest {
    fn summary(&self) -> Summary {
        Summary::new(Rpc::NodeGetInfo, "")
    }
}

#[cfg(test)]
mod tests;

//! Summaries of requests for the log, without secrets.
//!
//! A user may put a secret into any field, so a summary contains only the fields that this module lists as safe.
//!
//! Decision: `docs/dev/decisions/0026-log-only-fields-that-are-known-to-be-safe.md`.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use csi_proto::{csi, modify};

use crate::rpc::Rpc;

/// The driver does not log the value of a key with one of these substrings, because a user may put a secret there.
const SUSPECT: [&str; 6] = ["secret", "password", "passphrase", "token", "credential", "private"];

/// The part of a request that may be logged.
#[derive(Clone, PartialEq, Eq)]
pub struct Summary {
    pub(crate) rpc: Rpc,
    /// The volume, snapshot or name that the request is about, or an empty text.
    pub(crate) subject: String,
    fields: Vec<(&'static str, String)>,
}

impl Summary {
    /// Creates the summary of an RPC's request. `subject` is a volume, a snapshot, a name, or empty.
    pub fn new(rpc: Rpc, subject: &str) -> Self {
        Self { rpc, subject: subject.to_owned(), fields: Vec::new() }
    }

    /// Adds a field that is not secret.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.fields.push((name, value.to_string()));
        self
    }
}

/// Formats a map, without the values of suspicious keys.
fn without_suspects(map: &HashMap<String, String>) -> String {
    let shown = |(key, value): (&'_ String, &'_ String)| {
        let lower = key.to_lowercase();
        let is_hidden = SUSPECT.iter().any(|part| lower.contains(part));
        (key.clone(), if is_hidden { "(not logged)".to_owned() } else { value.clone() })
    };
    format!("{:?}", map.iter().map(shown).collect::<BTreeMap<_, _>>())
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

/// A request with a summary of the fields that may be logged.
pub trait Summarize {
    /// Returns the fields that may be logged.
    fn summary(&self) -> Summary;
}

fn range(range: &Option<csi::CapacityRange>) -> String {
    range.map_or_else(|| "none".to_owned(), |r| format!("{}..{}", r.required_bytes, r.limit_bytes))
}

/// Lists the safe fields of each request: the subject, then plain fields, sizes, messages and maps.
macro_rules! summarize {
    ($($request:ty => $rpc:ident($subject:ident $(, $name:ident = $kind:tt $field:ident)*);)+) => {
        $(impl Summarize for $request {
            fn summary(&self) -> Summary {
                Summary::new(Rpc::$rpc, &self.$subject)$(.with(stringify!($name), summarize!(@$kind self.$field)))*
            }
        })+
    };
    (@plain $field:expr) => { &$field };
    (@size $field:expr) => { range(&$field) };
    (@debug $field:expr) => { format_args!("{:?}", $field) };
    (@map $field:expr) => { without_suspects(&$field) };
}

summarize! {
    csi::CreateVolumeRequest => CreateVolume(name, capacity = size capacity_range, capabilities = debug volume_capabilities,
        source = debug volume_content_source, topology = debug accessibility_requirements, parameters = map parameters,
        mutable_parameters = map mutable_parameters);
    csi::DeleteVolumeRequest => DeleteVolume(volume_id);
    csi::ControllerPublishVolumeRequest => ControllerPublishVolume(volume_id, node = plain node_id, readonly = plain readonly,
        capability = debug volume_capability, context = map volume_context);
    csi::ControllerUnpublishVolumeRequest => ControllerUnpublishVolume(volume_id, node = plain node_id);
    csi::ValidateVolumeCapabilitiesRequest => ValidateVolumeCapabilities(volume_id, capabilities = debug volume_capabilities);
    csi::ControllerExpandVolumeRequest => ControllerExpandVolume(volume_id, capacity = size capacity_range);
    csi::ControllerModifyVolumeRequest => ControllerModifyVolume(volume_id, mutable_parameters = map mutable_parameters);
    modify::ModifyVolumePropertiesRequest => ModifyVolumeProperties(name, parameters = map parameters);
    csi::CreateSnapshotRequest => CreateSnapshot(name, volume = plain source_volume_id, parameters = map parameters);
    csi::DeleteSnapshotRequest => DeleteSnapshot(snapshot_id);
    csi::GetSnapshotRequest => GetSnapshot(snapshot_id);
    csi::ListSnapshotsRequest => ListSnapshots(snapshot_id, volume = plain source_volume_id, max = plain max_entries,
        from = plain starting_token);
    csi::NodeStageVolumeRequest => NodeStageVolume(volume_id, staging = plain staging_target_path,
        capability = debug volume_capability, publish_context = map publish_context, context = map volume_context);
    csi::NodeUnstageVolumeRequest => NodeUnstageVolume(volume_id, staging = plain staging_target_path);
    csi::NodePublishVolumeRequest => NodePublishVolume(volume_id, staging = plain staging_target_path,
        target = plain target_path, readonly = plain readonly, capability = debug volume_capability,
        publish_context = map publish_context, context = map volume_context);
    csi::NodeUnpublishVolumeRequest => NodeUnpublishVolume(volume_id, target = plain target_path);
    csi::NodeExpandVolumeRequest => NodeExpandVolume(volume_id, path = plain volume_path,
        staging = plain staging_target_path, capacity = size capacity_range);
    csi::NodeGetVolumeStatsRequest => NodeGetVolumeStats(volume_id, path = plain volume_path,
        staging = plain staging_target_path);
    csi::NodeGetVolumeHealthRequest => NodeGetVolumeHealth(volume_id, path = plain volume_publish_path,
        staging = plain staging_target_path);
}

impl Summarize for csi::ListVolumesRequest {
    fn summary(&self) -> Summary {
        Summary::new(Rpc::ListVolumes, "").with("max", self.max_entries).with("from", &self.starting_token)
    }
}

impl Summarize for csi::NodeGetInfoRequest {
    fn summary(&self) -> Summary {
        Summary::new(Rpc::NodeGetInfo, "")
    }
}

#[cfg(test)]
mod tests;

//! Falsifies the responses of a driver with a planted bug.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use csi_proto::csi::{Snapshot, Volume};
use tonic::Code;

use crate::planted::Planted;
use crate::rpc::{Rpc, RpcError, RpcReply, RpcResult};

const GIB: i64 = 1 << 30;
const NO_VOLUME: &str = "vol-00000000000000000";
const NO_SNAPSHOT: &str = "snap-00000000000000000";

/// The memory of a driver with a planted bug: its responses by name.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<HashMap<String, RpcReply>>);

impl Memory {
    /// Returns a remembered response without executing the request.
    pub(crate) fn recall(&self, bug: Option<Planted>, rpc: &Rpc) -> Option<RpcReply> {
        if bug != Some(Planted::AnswersRemembered) {
            return None;
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name(rpc)?).cloned()
    }

    pub(crate) fn falsify(&self, bug: Option<Planted>, rpc: &Rpc, answer: RpcResult) -> RpcResult {
        let Some(bug) = bug else { return answer };
        let mut is_repeated = false;
        if let (Some(name), Ok(reply)) = (name(rpc), &answer) {
            let before = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), reply.clone());
            is_repeated = before.is_some();
        }
        match (bug, answer) {
            (Planted::IdChanges, Ok(reply)) if is_repeated => Ok(made(rpc, NO_VOLUME, NO_SNAPSHOT).unwrap_or(reply)),
            (Planted::UnknownIsFinal, Err(e)) if matches!(e.code, Code::Aborted | Code::Unavailable) => {
                Err(RpcError { code: Code::Internal, ..e })
            }
            (Planted::UnknownIsSuccess, Err(e)) if e.code == Code::Aborted => {
                made(rpc, NO_VOLUME, NO_SNAPSHOT).ok_or(e)
            }
            (Planted::ClassGuessed, Err(e)) if is_modify(rpc) && e.code == Code::Aborted => Ok(RpcReply::Done),
            (Planted::ContentIgnored, Err(e)) if e.code == Code::AlreadyExists => {
                let named = |prefix: &str| {
                    let from = e.message.find(prefix)?;
                    let end = e.message[from..].find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                    Some(e.message[from..end.map_or(e.message.len(), |end| from + end)].to_owned())
                };
                let (volume, snapshot) = (named("vol-").unwrap_or_default(), named("snap-").unwrap_or_default());
                made(rpc, &volume, &snapshot).ok_or(e)
            }
            (bug, Ok(reply)) => Ok(falsified(bug, reply)),
            (_, Err(e)) => Err(e),
        }
    }
}

fn falsified(bug: Planted, reply: RpcReply) -> RpcReply {
    match (bug, reply) {
        (Planted::WrongZone, RpcReply::Volume(mut volume)) => {
            let segments = volume.accessible_topology.iter_mut().flat_map(|topology| topology.segments.values_mut());
            segments.for_each(|zone| "us-west-2c".clone_into(zone));
            RpcReply::Volume(volume)
        }
        (Planted::WrongSize, RpcReply::Expanded(bytes)) => RpcReply::Expanded(bytes - GIB),
        (Planted::WrongSize, RpcReply::Snapshot(snapshot)) => {
            RpcReply::Snapshot(Snapshot { size_bytes: snapshot.size_bytes - GIB, ..snapshot })
        }
        (Planted::WrongSource, RpcReply::Snapshot(snapshot)) => {
            RpcReply::Snapshot(Snapshot { source_volume_id: NO_VOLUME.to_owned(), ..snapshot })
        }
        (_, reply) => reply,
    }
}

/// Returns a response that reports a successful creation.
fn made(rpc: &Rpc, volume: &str, snapshot: &str) -> Option<RpcReply> {
    match rpc {
        Rpc::CreateVolume(request) => Some(RpcReply::Volume(Volume {
            volume_id: volume.to_owned(),
            capacity_bytes: request.capacity_range.as_ref().map_or(0, |range| range.required_bytes),
            accessible_topology: request.accessibility_requirements.clone().unwrap_or_default().requisite,
            ..Volume::default()
        })),
        Rpc::CreateSnapshot(request) => Some(RpcReply::Snapshot(Snapshot {
            snapshot_id: snapshot.to_owned(),
            source_volume_id: request.source_volume_id.clone(),
            ..Snapshot::default()
        })),
        _ => None,
    }
}

fn is_modify(rpc: &Rpc) -> bool {
    matches!(rpc, Rpc::Modify(_) | Rpc::ModifyProperties(_))
}

fn name(rpc: &Rpc) -> Option<&str> {
    match rpc {
        Rpc::CreateVolume(request) => Some(&request.name),
        Rpc::CreateSnapshot(request) => Some(&request.name),
        _ => None,
    }
}

//! The objects that a call would change.

use crate::api::Call;

pub(super) fn ids_of(call: &Call) -> Vec<&str> {
    match call {
        Call::AttachVolume(c) => vec![&c.volume_id, &c.instance_id],
        Call::DetachVolume(c) => vec![&c.volume_id],
        Call::DeleteVolume(c) => vec![&c.volume_id],
        Call::ModifyVolume(c) => vec![&c.volume_id],
        Call::CreateVolume(c) => c.snapshot_id.iter().map(String::as_str).collect(),
        Call::CopyVolumes(c) => vec![&c.source_volume_id],
        Call::CreateSnapshot(c) => vec![&c.volume_id],
        Call::DeleteSnapshot(c) => vec![&c.snapshot_id],
        Call::LockSnapshot(c) => vec![&c.snapshot_id],
        Call::UnlockSnapshot(c) => vec![&c.snapshot_id],
        Call::CreateTags(c) => c.resources.iter().map(String::as_str).collect(),
        Call::DeleteTags(c) => c.resources.iter().map(String::as_str).collect(),
        Call::StartInstances(c) => c.instance_ids.iter().map(String::as_str).collect(),
        Call::StopInstances(c) => c.instance_ids.iter().map(String::as_str).collect(),
        Call::TerminateInstances(c) => c.instance_ids.iter().map(String::as_str).collect(),
        // The replies to fast restore calls have a separate error for each snapshot. The other calls name no existing
        // object.
        _ => Vec::new(),
    }
}

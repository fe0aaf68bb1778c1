//! Snapshots.

use aws_sdk_ec2::operation::create_snapshot::CreateSnapshotOutput;
use aws_sdk_ec2::types as sdk;
use ebs_ec2::{Snapshot, SnapshotState};
use ebs_types::{Gib, SnapshotId, VolumeId};

use super::{Incomplete, Read, optional_id, optional_number, required, required_id, tags, text, time};

/// A snapshot in a reply of DescribeSnapshots.
pub(crate) fn snapshot(s: sdk::Snapshot) -> Read<Snapshot> {
    let id = required_id(s.snapshot_id.as_deref(), "snapshot id", SnapshotId::parse)?;
    let of = |Incomplete(what)| Incomplete(format!("{what} ({id})"));
    let size = optional_number(s.volume_size, "size of the snapshot").and_then(|n| required(n, "size of the snapshot"));
    Ok(Snapshot {
        source_volume: optional_id(s.volume_id.as_deref(), "source volume", VolumeId::parse).map_err(of)?,
        size: Gib(size.map_err(of)?),
        state: state(required(s.state, "state of the snapshot").map_err(of)?),
        status_message: text(s.state_message),
        started: time(s.start_time),
        encrypted: required(s.encrypted, "word on encryption").map_err(of)?,
        owner: text(s.owner_id),
        tags: tags(s.tags).map_err(of)?,
        id,
    })
}

/// The snapshot in CreateSnapshot's reply, whose type is the SDK's snapshot field by field.
pub(crate) fn created(o: CreateSnapshotOutput) -> Read<Snapshot> {
    snapshot(
        sdk::Snapshot::builder()
            .set_snapshot_id(o.snapshot_id)
            .set_volume_id(o.volume_id)
            .set_volume_size(o.volume_size)
            .set_state(o.state)
            .set_state_message(o.state_message)
            .set_start_time(o.start_time)
            .set_encrypted(o.encrypted)
            .set_owner_id(o.owner_id)
            .set_tags(o.tags)
            .build(),
    )
}

fn state(state: sdk::SnapshotState) -> SnapshotState {
    match state {
        sdk::SnapshotState::Pending => SnapshotState::Pending,
        sdk::SnapshotState::Completed => SnapshotState::Completed,
        sdk::SnapshotState::Error => SnapshotState::Error,
        other => SnapshotState::Other(other.as_str().to_owned()),
    }
}

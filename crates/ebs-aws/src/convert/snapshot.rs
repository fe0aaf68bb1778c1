//! Snapshots.

use aws_sdk_ec2::operation::create_snapshot::CreateSnapshotOutput;
use aws_sdk_ec2::operation::enable_fast_snapshot_restores::EnableFastSnapshotRestoresOutput;
use aws_sdk_ec2::types as sdk;
use ebs_ec2::{FastRestoreFailure, FastRestores, Snapshot, SnapshotState};
use ebs_types::{Gib, SnapshotId, VolumeId, ZoneName};

use super::{Incomplete, Read, about, optional_id, optional_number, required, required_id, tags, text, time};

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
        outpost_arn: text(s.outpost_arn),
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
            .set_outpost_arn(o.outpost_arn)
            .set_tags(o.tags)
            .build(),
    )
}

/// What EnableFastSnapshotRestores says of one snapshot; a word on another snapshot is none on this one.
pub(crate) fn fast_restores(o: EnableFastSnapshotRestoresOutput, id: &SnapshotId) -> Read<FastRestores> {
    let mut restores = FastRestores::default();
    for item in o.successful.unwrap_or_default() {
        check_same(item.snapshot_id.as_deref(), id)?;
        restores.enabled.push(required_id(item.availability_zone.as_deref(), "zone", ZoneName::parse)?);
    }
    for item in o.unsuccessful.unwrap_or_default() {
        check_same(item.snapshot_id.as_deref(), id)?;
        let errors = item.fast_snapshot_restore_state_errors.unwrap_or_default();
        if errors.is_empty() {
            restores.failures.push(fast_restore_failure(None, None));
        }
        restores.failures.extend(errors.into_iter().map(|e| fast_restore_failure(e.availability_zone, e.error)));
    }
    Ok(restores)
}

fn fast_restore_failure(
    zone: Option<String>,
    error: Option<sdk::EnableFastSnapshotRestoreStateError>,
) -> FastRestoreFailure {
    let (code, message) = error.map_or((None, None), |e| (e.code, e.message));
    let message = text(message).unwrap_or_else(|| "EC2 gives no reason".to_owned());
    FastRestoreFailure { zone: text(zone), code: text(code), message }
}

/// The reply must be about the snapshot that was asked for.
pub(crate) fn check_same(answered: Option<&str>, asked: &SnapshotId) -> Read<()> {
    about(&required_id(answered, "snapshot id", SnapshotId::parse)?, asked)
}

fn state(state: sdk::SnapshotState) -> SnapshotState {
    match state {
        sdk::SnapshotState::Pending => SnapshotState::Pending,
        sdk::SnapshotState::Completed => SnapshotState::Completed,
        sdk::SnapshotState::Error => SnapshotState::Error,
        other => SnapshotState::Other(other.as_str().to_owned()),
    }
}

//! Snapshots.

use ebs_ec2::{
    FastRestoreFailure, FastRestores, Gib, LockState, Page, Snapshot, SnapshotId, SnapshotLock, SnapshotState,
    VolumeId, ZoneName,
};

use super::{about, optional_id, optional_number, page, read_of, required, required_id, required_word, tags};
use crate::reply::{Element, Read};

pub(crate) fn snapshots(reply: Element<'_>) -> Read<Page<Snapshot>> {
    page(reply, "snapshotSet", "list of snapshots", snapshot)
}

pub(crate) fn snapshot(s: Element<'_>) -> Read<Snapshot> {
    let id = snapshot_id(s)?;
    read_of(&id, || {
        Ok(Snapshot {
            source_volume: optional_id(s, "volumeId", "source volume", VolumeId::parse)?,
            size: Gib(required(optional_number(s, "volumeSize", "size of the snapshot")?, "size of the snapshot")?),
            state: state(required_word(s, "status", "state of the snapshot")?),
            status_message: s.word("statusMessage")?,
            started: s.time("startTime")?,
            encrypted: required(s.value("encrypted")?, "encryption flag")?,
            owner: s.word("ownerId")?,
            outpost_arn: s.word("outpostArn")?,
            tags: tags(s)?,
            id: id.clone(),
        })
    })
}

pub(crate) fn snapshot_id(reply: Element<'_>) -> Read<SnapshotId> {
    required_id(reply, "snapshotId", "snapshot id", SnapshotId::parse)
}

/// Reads the reply of DescribeLockedSnapshots. A missing list means no lock: at worst, the driver repeats the lock.
pub(crate) fn locks(reply: Element<'_>) -> Read<Vec<SnapshotLock>> {
    reply.list("snapshotSet")?.into_iter().flatten().map(lock).collect()
}

fn lock(l: Element<'_>) -> Read<SnapshotLock> {
    let state = required_word(l, "lockState", "state of the lock")?;
    Ok(SnapshotLock {
        snapshot: snapshot_id(l)?,
        state: match state.as_str() {
            "governance" => LockState::Governance,
            "compliance-cooloff" => LockState::ComplianceCoolOff,
            "compliance" => LockState::Compliance,
            "expired" => LockState::Expired,
            _ => LockState::Other(state),
        },
        cool_off_hours: optional_number(l, "coolOffPeriod", "cooling-off period")?,
        duration_days: optional_number(l, "lockDuration", "duration of the lock")?,
        counts_from: l.time("lockDurationStartTime")?,
        expires: l.time("lockExpiresOn")?,
    })
}

/// Reads the reply of EnableFastSnapshotRestores for one snapshot. An entry for another snapshot is an error.
pub(crate) fn fast_restores(reply: Element<'_>, id: &SnapshotId) -> Read<FastRestores> {
    let mut restores = FastRestores::default();
    for item in reply.list("successful")?.into_iter().flatten() {
        about(&snapshot_id(item)?, id)?;
        restores.enabled.push(required_id(item, "availabilityZone", "zone", ZoneName::parse)?);
    }
    for item in reply.list("unsuccessful")?.into_iter().flatten() {
        about(&snapshot_id(item)?, id)?;
        let errors = item.list("fastSnapshotRestoreStateErrorSet")?.into_iter().flatten();
        let failures = errors.map(fast_restore_failure).collect::<Read<Vec<_>>>()?;
        match failures.is_empty() {
            true => restores.failures.push(FastRestoreFailure { zone: None, code: None, message: no_reason() }),
            false => restores.failures.extend(failures),
        }
    }
    Ok(restores)
}

fn fast_restore_failure(failure: Element<'_>) -> Read<FastRestoreFailure> {
    let error = failure.field("error")?;
    let of_error = |name: &str| error.map_or(Ok(None), |error| error.word(name));
    Ok(FastRestoreFailure {
        zone: failure.word("availabilityZone")?,
        code: of_error("code")?,
        message: of_error("message")?.unwrap_or_else(no_reason),
    })
}

fn no_reason() -> String {
    "EC2 reports no reason".to_owned()
}

fn state(word: String) -> SnapshotState {
    match word.as_str() {
        "pending" => SnapshotState::Pending,
        "completed" => SnapshotState::Completed,
        "error" => SnapshotState::Error,
        _ => SnapshotState::Other(word),
    }
}

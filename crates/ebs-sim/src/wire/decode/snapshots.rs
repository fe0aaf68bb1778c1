//! Snapshots, their locks and their fast restores.

use super::dry_run;
use super::tags::tag_specifications;
use crate::api::{
    CreateSnapshot, DeleteSnapshot, DescribeFastSnapshotRestores, DescribeLockedSnapshots, DescribeSnapshots,
    EnableFastSnapshotRestores, Fault, LockSnapshot,
};
use crate::wire::params::Params;
use crate::wire::refusal::{invalid_value, missing, unsupported};

pub(super) fn create_snapshot(p: &mut Params) -> Result<CreateSnapshot, Fault> {
    location(p)?;
    Ok(CreateSnapshot {
        volume_id: p.required("VolumeId")?,
        description: p.text("Description"),
        outpost_arn: p.text("OutpostArn"),
        tag_specifications: tag_specifications(p)?,
        dry_run: dry_run(p)?,
    })
}

pub(super) fn describe_snapshots(p: &mut Params) -> Result<DescribeSnapshots, Fault> {
    Ok(DescribeSnapshots {
        snapshot_ids: p.list("SnapshotId"),
        owner_ids: p.list("Owner"),
        restorable_by: p.list("RestorableBy"),
        filters: p.filters()?,
        max_results: p.int("MaxResults")?,
        next_token: p.text("NextToken"),
        dry_run: dry_run(p)?,
    })
}

/// Where a snapshot of a volume in a Local Zone goes; elsewhere there is but the region.
fn location(p: &mut Params) -> Result<(), Fault> {
    match p.text("Location").as_deref() {
        None | Some("regional") => Ok(()),
        Some("local") => Err(unsupported("Location=local")),
        Some(other) => Err(invalid_value("Location", other, "regional or local")),
    }
}

pub(super) fn delete_snapshot(p: &mut Params) -> Result<DeleteSnapshot, Fault> {
    Ok(DeleteSnapshot { snapshot_id: p.required("SnapshotId")?, dry_run: dry_run(p)? })
}

pub(super) fn enable_fast_restores(p: &mut Params) -> Result<EnableFastSnapshotRestores, Fault> {
    let source_snapshot_ids = p.list("SourceSnapshotId");
    if source_snapshot_ids.is_empty() {
        return Err(missing("SourceSnapshotId"));
    }
    Ok(EnableFastSnapshotRestores {
        availability_zones: p.list("AvailabilityZone"),
        availability_zone_ids: p.list("AvailabilityZoneId"),
        source_snapshot_ids,
        dry_run: dry_run(p)?,
    })
}

pub(super) fn describe_fast_restores(p: &mut Params) -> Result<DescribeFastSnapshotRestores, Fault> {
    Ok(DescribeFastSnapshotRestores {
        filters: p.filters()?,
        max_results: p.int("MaxResults")?,
        next_token: p.text("NextToken"),
        dry_run: dry_run(p)?,
    })
}

pub(super) fn lock_snapshot(p: &mut Params) -> Result<LockSnapshot, Fault> {
    Ok(LockSnapshot {
        snapshot_id: p.required("SnapshotId")?,
        lock_mode: Some(p.required("LockMode")?),
        cool_off_period: p.int("CoolOffPeriod")?,
        lock_duration: p.int("LockDuration")?,
        expiration_date: p.text("ExpirationDate"),
        dry_run: dry_run(p)?,
    })
}

pub(super) fn describe_locked(p: &mut Params) -> Result<DescribeLockedSnapshots, Fault> {
    Ok(DescribeLockedSnapshots {
        snapshot_ids: p.list("SnapshotId"),
        filters: p.filters()?,
        max_results: p.int("MaxResults")?,
        next_token: p.text("NextToken"),
        dry_run: dry_run(p)?,
    })
}

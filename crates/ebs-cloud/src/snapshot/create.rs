//! Creates snapshots. CreateSnapshot has no client token, so a describe by name makes it idempotent.
//!
//! Decision: `docs/dev/decisions/0012-report-a-snapshot-ready-only-when-complete.md`.

use ebs_ec2::{CreateSnapshot, DriverName, Ec2, Ec2Error, ErrorClass, Snapshot, SnapshotState, Snapshots, Waiters};
use tokio::time::Instant;

use super::{Creation, SnapshotService, delete};
use crate::describe::Verdict;
use crate::error_map::map_error;
use crate::lease_terms::Sidecar;
use crate::op_context::OpContext;
use crate::recent_writes::Write;
use crate::retry::mutate;
use crate::{CloudError, CloudErrorKind, Object, Result, SnapshotSpec, timeouts};

pub(super) struct Taken {
    pub(super) snapshot: Snapshot,
    pub(super) is_new: bool,
}

pub(super) async fn create<E: Ec2>(
    service: &SnapshotService<E>,
    spec: &SnapshotSpec,
    waiters: &Waiters,
) -> Result<Taken> {
    service.context.recent.leases.record_request(Sidecar::Snapshotter, None);
    let op = &snapshot_op(spec, waiters);
    let creation = &Creation { service, op, spec };
    let request = CreateSnapshot {
        volume: spec.volume.clone(),
        description: format!("Created by AWS EBS CSI driver for volume {}", spec.volume),
        outpost_arn: spec.outpost_arn.clone(),
        tags: spec.tags.clone(),
    };
    let name = Write::SnapshotName(spec.name.clone());
    let mut is_new = false;
    loop {
        let settled_at = service.context.recent.absence_proven_from(&name, Sidecar::Snapshotter);
        if let Some(existing) = find_snapshot(creation, settled_at).await? {
            return Ok(Taken { snapshot: unless_failed(service, op, existing).await?, is_new });
        }
        let ec2 = service.context.for_mutation(op);
        let error = match mutate(op, || ec2.create_snapshot(&request)).await? {
            Ok(snapshot) => {
                service.context.recent.record_made(name, Object::Snapshot(snapshot.id.clone()));
                service.memory.record_taken(&snapshot.id);
                return Ok(Taken { snapshot, is_new: true });
            }
            Err(e) => e,
        };
        match error.class {
            ErrorClass::Ambiguous => {
                tracing::info!(name: "v3", name = %spec.name, %error, "searching for the snapshot by its name");
                is_new = true;
                if service.context.recent.is_absent(&name, Sidecar::Snapshotter) {
                    service.memory.record_unclear(&spec.name);
                }
                service.context.recent.record_write(name.clone());
            }
            // EC2 accepts one snapshot per volume in 15 s. Another process may have taken the previous snapshot under
            // this name, so describe until EC2 would list that snapshot.
            ErrorClass::SnapshotCooldown if Instant::now() + timeouts::SETTLE < op.deadline => {
                service.context.recent.record_write(name.clone());
            }
            _ => {
                let found = refused_unless_taken(creation, creation_refused(op, spec, error)).await?;
                return unless_failed(service, op, found).await.map(|snapshot| Taken { snapshot, is_new: false });
            }
        }
    }
}

/// Returns the error if no snapshot has the name. Otherwise returns the snapshot, or an error that is not final.
pub(super) async fn refused_unless_taken<E: Ec2>(creation: &Creation<'_, E>, error: CloudError) -> Result<Snapshot> {
    let &Creation { service, spec, .. } = creation;
    let name = Write::SnapshotName(spec.name.clone());
    if !error.kind.is_final() || service.context.recent.is_absent(&name, Sidecar::Snapshotter) {
        return Err(error);
    }
    let proven_from = service.context.recent.absence_proven_from(&name, Sidecar::Snapshotter);
    find_snapshot(creation, proven_from).await?.ok_or(error)
}

/// Returns the snapshot with the name, or `None` if a describe sent at `settled_at` or later lists none.
async fn find_snapshot<E: Ec2>(creation: &Creation<'_, E>, settled_at: Instant) -> Result<Option<Snapshot>> {
    let &Creation { service, op, spec } = creation;
    let name = Write::SnapshotName(spec.name.clone());
    // DescribeSnapshots calls may still list a snapshot that another process deleted and reported as failed.
    let sole_from = service.context.recent.leases.sole_from(Sidecar::Snapshotter);
    let term_began = service.context.recent.leases.began(Sidecar::Snapshotter);
    let decide = |found: Vec<Snapshot>, sent: Instant| {
        // Ignore a snapshot that this process deleted and that describes still list.
        let deleted = |s: &Snapshot| service.context.recent.is_recent(&Write::SnapshotDeletion(s.id.clone()));
        match matching_snapshot(op, spec, found.into_iter().filter(|s| !deleted(s)).collect()) {
            Ok(None) if sent < settled_at => Verdict::Waiting,
            Err(_) if sent < sole_from => Verdict::Waiting,
            Ok(Some(s)) if sent < sole_from && !service.memory.is_taken(&s.id, term_began) => Verdict::Waiting,
            Ok(None) => {
                service.context.recent.record_absence(&name, Sidecar::Snapshotter, sent);
                Verdict::Done(Ok(None))
            }
            found => Verdict::Done(found),
        }
    };
    let found =
        service.context.describer.await_snapshots(op, &spec.name, decide).await.map_err(CloudError::unproven)??;
    if let Some(snapshot) = &found {
        service.context.recent.record_seen(&Object::Snapshot(snapshot.id.clone()));
        service.memory.record_found(&spec.name, &snapshot.id);
    }
    Ok(found)
}

/// Returns an error for a failed snapshot, and deletes the snapshot if no client can know it.
async fn unless_failed<E: Ec2>(service: &SnapshotService<E>, op: &OpContext<'_>, found: Snapshot) -> Result<Snapshot> {
    if found.state != SnapshotState::Error {
        return Ok(found);
    }
    let why = found.status_message.as_deref().unwrap_or("EC2 reports no reason");
    let error = CloudErrorKind::FailedPrecondition.error(format!("{op}: {} has failed ({why})", found.id));
    Err(delete::roll_back(service, op, &found.id, error).await)
}
pub(crate) fn snapshot_op<'a>(spec: &SnapshotSpec, waiters: &'a Waiters) -> OpContext<'a> {
    OpContext::start(format!("create snapshot {:?} of {}", spec.name, spec.volume), timeouts::SNAPSHOT, waiters)
}

fn creation_refused(op: &OpContext<'_>, spec: &SnapshotSpec, error: Ec2Error) -> CloudError {
    match error.class {
        ErrorClass::VolumeNotFound | ErrorClass::MalformedId => {
            CloudError::source_not_found(Object::Volume(spec.volume.clone())).caused_by(error)
        }
        _ => map_error(op, error),
    }
}

fn matching_snapshot(op: &OpContext<'_>, spec: &SnapshotSpec, found: Vec<Snapshot>) -> Result<Option<Snapshot>> {
    let named = |s: &Snapshot| s.tags.get(DriverName::SNAPSHOT_NAME_TAG) == Some(&spec.name);
    let mut found: Vec<Snapshot> = found.into_iter().filter(named).collect();
    let Some(snapshot) = found.pop() else { return Ok(None) };
    let id = &snapshot.id;
    let other = |message| Err(CloudErrorKind::AlreadyExists.error(message));
    if !found.is_empty() {
        let ids: Vec<_> = found.iter().map(|s| s.id.as_str()).chain([id.as_str()]).collect();
        return other(format!("{op}: several snapshots have this name: {}; delete all but one", ids.join(", ")));
    }
    if snapshot.source_volume.as_ref() != Some(&spec.volume) {
        let source = snapshot.source_volume.as_ref().map_or("another volume", |v| v.as_str());
        return other(format!("{op}: {id} has this name, but {source} is its source; use another name"));
    }
    if spec.outpost_arn.is_some() && snapshot.outpost_arn != spec.outpost_arn {
        let place = snapshot.outpost_arn.as_deref().unwrap_or("the region");
        return other(format!("{op}: {id} has this name, but is in {place}; use another name"));
    }
    Ok(Some(snapshot))
}

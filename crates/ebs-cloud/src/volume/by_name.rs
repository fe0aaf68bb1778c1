//! Finds a volume by its name. This also proves that a failed creation left no volume behind.

use ebs_ec2::{Ec2, Volume, VolumeState};
use tokio::time::Instant;

use super::{Creation, VolumeService, adopt, delete};
use crate::describe::{FirstPoll, Verdict};
use crate::lease_terms::Sidecar;
use crate::op_context::OpContext;
use crate::recent_writes::Write;
use crate::{CloudError, CloudErrorKind, Result, VolumeSpec};

pub(super) enum NameMatch {
    Compatible(Box<Volume>),
    /// One or several volumes have the name and differ from the request. The text lists the differences.
    Different(String),
    Absent,
    Broken(Box<Volume>),
}

/// Returns the error if no volume has the name. Otherwise returns the volume, or an error that is not final.
pub(super) async fn refused_unless_made<E: Ec2>(creation: &Creation<'_, E>, error: CloudError) -> Result<Volume> {
    let &Creation { service, spec, .. } = creation;
    let name = Write::VolumeName(spec.name.clone());
    if !error.kind.is_final() || service.context.recent.is_absent(&name, Sidecar::Provisioner) {
        return Err(error);
    }
    tracing::info!(
        name: "v3", name = %spec.name, %error,
        "searching for the volume by its name before reporting a final error"
    );
    match find_by_name(creation).await? {
        NameMatch::Compatible(volume) => Ok(*volume),
        NameMatch::Different(message) => {
            Err(CloudError { kind: CloudErrorKind::AlreadyExists, message, cause: error.cause })
        }
        NameMatch::Absent | NameMatch::Broken(_) => Err(error),
    }
}

/// Describes until EC2 lists a volume with the name or proves that none exists. Deletes volumes in state error. Ignores
/// a volume that differs from the request until describes would also show a matching volume.
pub(super) async fn find_by_name<E: Ec2>(creation: &Creation<'_, E>) -> Result<NameMatch> {
    let &Creation { service, op, spec } = creation;
    let name = Write::VolumeName(spec.name.clone());
    loop {
        let proven_from = service.context.recent.absence_proven_from(&name, Sidecar::Provisioner);
        let decide = |found, sent: Instant| {
            let settled = sent >= proven_from;
            match compare(service, spec, found) {
                NameMatch::Absent if settled => {
                    service.context.recent.record_absence(&name, Sidecar::Provisioner, sent);
                    Verdict::Done(NameMatch::Absent)
                }
                NameMatch::Absent => Verdict::Waiting,
                NameMatch::Different(_) if !settled => Verdict::Waiting,
                found => Verdict::Done(found),
            }
        };
        match service.context.describer.await_volumes(op, &spec.name, decide).await.map_err(CloudError::unproven)? {
            NameMatch::Broken(volume) => remove_broken(service, op, &volume).await?,
            found => return Ok(found),
        }
    }
}

fn compare<E: Ec2>(service: &VolumeService<E>, spec: &VolumeSpec, found: Vec<Volume>) -> NameMatch {
    // Describes may still list a volume that this process deleted: ignore it.
    let deleted = |v: &Volume| service.context.recent.is_recent(&Write::Deletion(v.id.clone()));
    let named = |v: &Volume| v.csi_name() == Some(&spec.name) && !deleted(v);
    let (live, others): (Vec<Volume>, Vec<Volume>) = found.into_iter().filter(named).partition(adopt::is_live);
    let difference = |v: &Volume| adopt::differences(&service.context.config.driver, spec, v).join("; ");
    let mut same: Vec<&Volume> = live.iter().filter(|v| difference(v).is_empty()).collect();
    let broken = |v: &Volume| v.state == VolumeState::Error && adopt::is_ours(&service.context.config.driver, spec, v);
    match (same.pop(), same.is_empty()) {
        (Some(volume), true) => NameMatch::Compatible(Box::new(volume.clone())),
        (Some(_), false) => {
            let ids = live.iter().map(|v| v.id.as_str()).collect::<Vec<_>>().join(", ");
            NameMatch::Different(format!("several volumes have the name {:?}: {ids}; delete all but one", spec.name))
        }
        (None, _) => match others.into_iter().find(broken) {
            Some(broken) => NameMatch::Broken(Box::new(broken)),
            None if live.is_empty() => NameMatch::Absent,
            None => {
                let all: Vec<_> = live.iter().map(|v| format!("{}: {}", v.id, difference(v))).collect();
                NameMatch::Different(format!(
                    "a volume named {:?} exists, but differs from the request: {}",
                    spec.name,
                    all.join(", ")
                ))
            }
        },
    }
}

/// Deletes a volume of this driver that is in state error, and waits until EC2 shows the deletion.
pub(super) async fn remove_broken<E: Ec2>(
    service: &VolumeService<E>,
    op: &OpContext<'_>,
    volume: &Volume,
) -> Result<()> {
    let id = &volume.id;
    tracing::warn!(volume = %id, step = %op.what, "EC2 failed to create the volume (state error), deleting it");
    let failed = |error: CloudError| CloudError {
        kind: CloudErrorKind::OutcomeUnknown,
        message: format!("{op}: {id} is in state error and could not be deleted: {error}"),
        cause: error.cause,
    };
    delete::delete(service, op, id).await.map_err(failed)?;
    let decide = |seen: Option<Volume>, _: Instant| match seen.map(|v| v.state) {
        None | Some(VolumeState::Deleting | VolumeState::Deleted) => Verdict::Done(()),
        Some(_) => Verdict::Waiting,
    };
    service.context.describer.await_volume(op, FirstPoll::Now, id, decide).await.map_err(failed)
}

//! Creates volumes. A client token makes CreateVolume idempotent.
//!
//! Decision: `docs/dev/decisions/0005-create-a-volume-once-by-client-token.md`.

use ebs_ec2::{Ec2, Ec2Error, ErrorClass, Volume, VolumeState};
use tokio::time::Instant;

use super::by_name::{NameMatch, find_by_name, refused_unless_made, remove_broken};
use super::new_request::create_request;
use super::refusal::{has_vanished, is_of_the_request_alone, out_of_time, request_refused, was_broken};
use super::request::CreateRequest;
use super::{Creation, VolumeService, adopt};
use crate::describe::{FirstPoll, Verdict};
use crate::error_map::map_error;
use crate::lease_terms::Sidecar;
use crate::op_context::OpContext;
use crate::recent_writes::Write;
use crate::retry::mutate;
use crate::traffic::Transition;
use crate::wall_clock::age;
use crate::{CloudError, CloudErrorKind, Object, Result, timeouts};

/// How many times one attempt may switch to the next client token because the current token's volume is lost.
const MAX_TOKEN_ROTATIONS: u32 = 2;

enum Submitted {
    Accepted(Volume),
    Found(Volume),
    /// EC2 created the volume in an earlier attempt, and it is gone.
    Gone(Volume),
    /// The request created no volume. Submit another one, which takes EC2's answer into account.
    Retry,
}

enum Settled {
    Usable(Volume),
    /// EC2 created the volume for this request, and it disappeared.
    Vanished,
    /// EC2 created the volume long before this request, for the same client token. The volume has been deleted since.
    Deleted,
    Broken(Volume),
}

pub(super) async fn create<E: Ec2>(creation: &Creation<'_, E>) -> Result<Volume> {
    let &Creation { service, op, spec } = creation;
    let (mut losses, mut found) = (0, None);
    loop {
        let submitted = match found.take() {
            Some(volume) => Submitted::Found(volume),
            // This future is boxed because most of it is for describes that few creations need.
            None => Box::pin(create_once(creation)).await?,
        };
        let (volume, made) = match submitted {
            Submitted::Accepted(volume) => (volume, true),
            Submitted::Found(volume) => (volume, false),
            Submitted::Gone(volume) => {
                losses += 1;
                found = after_loss(creation, &volume, losses).await?;
                continue;
            }
            Submitted::Retry if Instant::now() < op.deadline => continue,
            Submitted::Retry => return Err(out_of_time(op)),
        };
        found = match await_usable(service, op, &volume).await? {
            Settled::Usable(volume) => {
                if op.waiters.any() {
                    // The client gets the volume and does not retry, so the request is no longer needed.
                    service.memory.forget_request(&spec.name);
                }
                return Ok(volume);
            }
            Settled::Deleted if Instant::now() >= op.deadline => return Err(out_of_time(op)),
            // The volume was found by its name, so it may have another token.
            Settled::Deleted if !made => None,
            Settled::Deleted => after_deletion(creation).await?,
            Settled::Vanished => {
                losses += 1;
                after_loss(creation, &volume, losses).await?
            }
            Settled::Broken(broken) if adopt::is_ours(&service.context.config.driver, spec, &broken) => {
                losses += 1;
                remove_broken(service, op, &broken).await?;
                after_loss(creation, &broken, losses).await?
            }
            Settled::Broken(Volume { id, .. }) => {
                let message = format!("{op}: {id} is in state error and lacks the driver's tags; delete it");
                return Err(CloudErrorKind::OutcomeUnknown.error(message));
            }
        };
    }
}

/// Handles the loss of the volume of the current client token. Switches to the next token and returns `None`. If that
/// token's volume would be lost too, returns the error, or the volume of this name that another process created.
async fn after_loss<E: Ec2>(creation: &Creation<'_, E>, volume: &Volume, losses: u32) -> Result<Option<Volume>> {
    let &Creation { service, op, spec } = creation;
    service.memory.record_gone(&spec.name, volume);
    // If no client waits, keep the token, so that the next attempt gets the same error instead of a doomed volume.
    op.ensure_wanted()?;
    let error = if volume.state == VolumeState::Error {
        was_broken(op, spec, volume)
    } else if spec.kms_key_id.is_some() || spec.encrypted || losses > MAX_TOKEN_ROTATIONS {
        has_vanished(op, spec, volume)
    } else {
        tracing::info!(
            volume = %volume.id, name = %spec.name,
            "volume of this client token was deleted, using the next token"
        );
        service.memory.rotate_token(&spec.name);
        return Ok(None);
    };
    match refused_unless_made(creation, error).await {
        Ok(found) => Ok(Some(found)),
        Err(error) => {
            if error.kind.is_final() {
                op.ensure_wanted()?;
                service.memory.rotate_token(&spec.name);
            }
            Err(error)
        }
    }
}

/// Switches to the next token after a deletion, unless another process created a volume with the name.
async fn after_deletion<E: Ec2>(creation: &Creation<'_, E>) -> Result<Option<Volume>> {
    let &Creation { service, spec, .. } = creation;
    let name = Write::VolumeName(spec.name.clone());
    if !service.context.recent.is_absent(&name, Sidecar::Provisioner) {
        match find_by_name(creation).await? {
            NameMatch::Compatible(volume) => return Ok(Some(*volume)),
            NameMatch::Different(message) => return Err(CloudErrorKind::AlreadyExists.error(message)),
            NameMatch::Absent | NameMatch::Broken(_) => {}
        }
    }
    service.memory.rotate_token(&spec.name);
    Ok(None)
}

async fn create_once<E: Ec2>(creation: &Creation<'_, E>) -> Result<Submitted> {
    let &Creation { service, spec, .. } = creation;
    let token = service.memory.token(&spec.name);
    if let Some(volume) = service.memory.gone(&token) {
        return Ok(Submitted::Gone(volume));
    }
    match create_request(creation, token).await {
        Ok(request) => submit(creation, &request).await,
        Err(error) if is_of_the_request_alone(spec, &error) => Err(error),
        // An earlier attempt may have created the volume before the zones or the source changed, so look for it.
        Err(error) => refused_unless_made(creation, error).await.map(Submitted::Found),
    }
}

async fn submit<E: Ec2>(creation: &Creation<'_, E>, request: &CreateRequest) -> Result<Submitted> {
    let &Creation { service, op, spec } = creation;
    let name = Write::VolumeName(spec.name.clone());
    let ec2 = service.context.for_mutation(op);
    let error = match mutate(op, || request.send(&ec2)).await? {
        Ok(volume) => {
            // If the volume is old, EC2 repeated its answer to an earlier request and created nothing now.
            if !is_old(service, &volume) {
                service.context.recent.record_made(name, Object::Volume(volume.id.clone()));
            }
            return Ok(Submitted::Accepted(volume));
        }
        Err(e) => e,
    };
    match error.class {
        ErrorClass::Throttled | ErrorClass::NotSent => Err(map_error(op, error)),
        ErrorClass::Ambiguous => {
            service.context.recent.record_write(name);
            after_unclear_answer(creation, error).await
        }
        // The call created nothing, so the earlier proof that no volume has the name is still valid.
        ErrorClass::IdempotentMismatch if service.context.recent.is_absent(&name, Sidecar::Provisioner) => {
            service.memory.rotate_token(&spec.name);
            Ok(Submitted::Retry)
        }
        ErrorClass::IdempotentMismatch => after_unclear_answer(creation, error).await,
        _ if has_fewer_iops(creation, request, &error).await => Ok(Submitted::Retry),
        _ => {
            let error = request_refused(creation, request, error).await;
            refused_unless_made(creation, error).await.map(Submitted::Found)
        }
    }
}

async fn after_unclear_answer<E: Ec2>(creation: &Creation<'_, E>, error: Ec2Error) -> Result<Submitted> {
    let &Creation { service, spec, .. } = creation;
    tracing::info!(name: "v3", name = %spec.name, %error, "searching for the volume by its name");
    let is_mismatch = error.class == ErrorClass::IdempotentMismatch;
    match find_by_name(creation).await? {
        NameMatch::Compatible(volume) => Ok(Submitted::Found(*volume)),
        NameMatch::Different(message) => Err(CloudErrorKind::AlreadyExists.error(message).caused_by(error)),
        NameMatch::Absent | NameMatch::Broken(_) => {
            if is_mismatch {
                service.memory.rotate_token(&spec.name);
            }
            Ok(Submitted::Retry)
        }
    }
}

/// Returns true if EC2 created the volume so long before this answer that every describe lists it if it still exists.
fn is_old<E: Ec2>(service: &VolumeService<E>, volume: &Volume) -> bool {
    let age = age(volume.created, volume.said_at, service.context.clock.now());
    age.is_some_and(|age| age >= timeouts::SETTLE)
}

/// Returns true if EC2 refused the IOPS and named a lower maximum, which the next request uses.
async fn has_fewer_iops<E: Ec2>(creation: &Creation<'_, E>, refused: &CreateRequest, error: &Ec2Error) -> bool {
    let &Creation { service, spec, .. } = creation;
    let Some((asked, volume_type, site)) = refused.iops() else { return false };
    if !service.iops_limits.learn(volume_type, &site, asked, error) {
        return false;
    }
    service.memory.forget_request(&spec.name);
    let next = Box::pin(create_request(creation, service.memory.token(&spec.name))).await;
    next.is_ok_and(|next| next.iops().is_none_or(|(iops, ..)| iops < asked))
}

/// Waits until the volume is usable or can never become usable. The volume may be gone, because EC2 may have repeated
/// its answer to an earlier request.
async fn await_usable<E: Ec2>(service: &VolumeService<E>, op: &OpContext<'_>, volume: &Volume) -> Result<Settled> {
    if service.context.recent.is_recent(&Write::Deletion(volume.id.clone())) {
        // DescribeVolumes may still list a volume that this process deleted.
        return Ok(Settled::Deleted);
    }
    let is_old = is_old(service, volume);
    let gone = || if is_old { Settled::Deleted } else { Settled::Vanished };
    let object = Object::Volume(volume.id.clone());
    service.context.recent.record_named(&object);
    let first =
        if volume.state == VolumeState::Creating { FirstPoll::After(Transition::Creating) } else { FirstPoll::Now };
    let decide = |seen: Option<Volume>, sent: Instant| {
        let Some(v) = seen else {
            let is_gone = is_old || sent >= service.context.recent.record_named(&object);
            return if is_gone { Verdict::Done(gone()) } else { Verdict::Waiting };
        };
        if v.exists() {
            service.context.recent.record_seen(&object);
        }
        match v.state {
            VolumeState::Available | VolumeState::InUse => Verdict::Done(Settled::Usable(v)),
            VolumeState::Deleting | VolumeState::Deleted => Verdict::Done(gone()),
            VolumeState::Error => Verdict::Done(Settled::Broken(v)),
            VolumeState::Creating | VolumeState::Other(_) => Verdict::Waiting,
        }
    };
    service.context.describer.await_volume(op, first, &volume.id, decide).await.map_err(CloudError::unproven)
}

//! CreateVolume, idempotent by client token.
//!
//! Decision: `docs/decisions/0005-create-a-volume-once-by-client-token.md`.

use ebs_calls::Transition;
use ebs_ec2::{Ec2, Ec2Error, ErrorClass, Volume, VolumeState};
use ebs_types::Waiters;
use tokio::time::Instant;

use super::adopt;
use super::by_name::NameMatch;
use super::refusal::{has_vanished, is_of_the_request_alone, out_of_time, was_broken};
use super::request::CreateRequest;
use super::service::VolumeService;
use crate::call::mutate;
use crate::describe::{FirstPoll, Verdict};
use crate::lease_terms::Sidecar;
use crate::op::Op;
use crate::recent_writes::Write;
use crate::refused::refused;
use crate::wall_clock::age;
use crate::{CloudError, CloudErrorKind, Ensured, Object, VolumeSpec, bounds};

/// The most rotations of the client tokens of lost volumes in one attempt.
const MAX_TOKEN_ROTATIONS: u32 = 2;

enum Submitted {
    Accepted(Volume),
    Found(Volume),
    /// EC2 accepted it in an earlier attempt, and the volume is gone.
    Gone(Volume),
    /// The request made no volume. Submit again with the new knowledge.
    Retry,
}

/// The outcome of an accepted request.
enum Settled {
    Usable(Volume),
    /// EC2 made it for this request, and it is gone.
    Vanished,
    /// EC2 made it long before this request, and it was deleted since: the client token is an old one.
    Deleted,
    Broken(Volume),
}

impl<E: Ec2> VolumeService<E> {
    /// Creates the volume unless it exists, and waits until it is usable (`available` or `in-use`).
    ///
    /// # Errors
    /// [`CloudError`]. An error is final only with the proof that no volume was left behind.
    pub async fn create(&self, spec: &VolumeSpec, waiters: &Waiters) -> Result<Ensured<Volume>, CloudError> {
        let op = Op::start(format!("create volume {:?}", spec.name), bounds::CREATE, waiters);
        self.context.recent.serve(Sidecar::Provisioner, waiters, self.ensure_volume(&op, spec)).await
    }

    async fn ensure_volume(&self, op: &Op<'_>, spec: &VolumeSpec) -> Result<Ensured<Volume>, CloudError> {
        let (mut losses, mut found) = (0, None);
        loop {
            let submitted = match found.take() {
                Some(volume) => Submitted::Found(volume),
                // Boxed: most of this large future belongs to describes that few creations need.
                None => Box::pin(self.create_once(op, spec)).await?,
            };
            let (volume, made) = match submitted {
                Submitted::Accepted(volume) => (volume, true),
                Submitted::Found(volume) => (volume, false),
                Submitted::Gone(volume) => {
                    losses += 1;
                    found = self.after_loss(op, spec, &volume, losses).await?;
                    continue;
                }
                Submitted::Retry if Instant::now() < op.deadline => continue,
                Submitted::Retry => return Err(out_of_time(op)),
            };
            found = match self.await_usable(op, &volume).await? {
                Settled::Usable(volume) => {
                    if op.waiters.any() {
                        // The client gets the volume and does not retry.
                        self.memory.forget_request(&spec.name);
                    }
                    return Ok(if made { Ensured::Created(volume) } else { Ensured::Existing(volume) });
                }
                Settled::Deleted if Instant::now() >= op.deadline => return Err(out_of_time(op)),
                // Found by its name, so nothing is known about the current token.
                Settled::Deleted if !made => None,
                Settled::Deleted => self.after_deletion(op, spec).await?,
                Settled::Vanished => {
                    losses += 1;
                    self.after_loss(op, spec, &volume, losses).await?
                }
                Settled::Broken(broken) if adopt::is_ours(&self.context.config.driver, spec, &broken) => {
                    losses += 1;
                    self.remove_broken(op, &broken).await?;
                    self.after_loss(op, spec, &broken, losses).await?
                }
                Settled::Broken(broken) => {
                    let id = &broken.id;
                    let message = format!("{op}: {id} is in state error and lacks the driver's tags; delete it");
                    return Err(CloudErrorKind::OutcomeUnknown.error(message));
                }
            };
        }
    }

    /// Handles the loss of the volume of the current token. Switches to the next token, unless the next volume would be
    /// lost too. Then returns the error, or a volume of the name that another process made.
    async fn after_loss(
        &self,
        op: &Op<'_>,
        spec: &VolumeSpec,
        volume: &Volume,
        losses: u32,
    ) -> Result<Option<Volume>, CloudError> {
        self.memory.note_gone(&spec.name, volume);
        // The next attempt gets the error of this one instead of making another volume that would be lost too.
        op.still_wanted()?;
        let error = if volume.state == VolumeState::Error {
            was_broken(op, spec, volume)
        } else if spec.kms_key_id.is_some() || spec.encrypted || losses > MAX_TOKEN_ROTATIONS {
            has_vanished(op, spec, volume)
        } else {
            tracing::info!(
                volume = %volume.id, name = %spec.name,
                "volume of this client token was deleted, using the next token"
            );
            self.memory.rotate_token(&spec.name);
            return Ok(None);
        };
        match self.refused_unless_made(op, spec, error).await {
            Ok(found) => Ok(Some(found)),
            Err(error) => {
                if error.kind.is_final() {
                    op.still_wanted()?;
                    self.memory.rotate_token(&spec.name);
                }
                Err(error)
            }
        }
    }

    /// The current token belongs to a deleted volume. Switches to the next token, unless another process made a volume
    /// of the name with a later token.
    async fn after_deletion(&self, op: &Op<'_>, spec: &VolumeSpec) -> Result<Option<Volume>, CloudError> {
        let name = Write::VolumeName(spec.name.clone());
        if !self.context.recent.is_absent(&name, Sidecar::Provisioner) {
            match self.find_by_name(op, spec).await? {
                NameMatch::Compatible(volume) => return Ok(Some(*volume)),
                NameMatch::Different(message) => return Err(CloudErrorKind::AlreadyExists.error(message)),
                NameMatch::Absent | NameMatch::Broken(_) => {}
            }
        }
        self.memory.rotate_token(&spec.name);
        Ok(None)
    }

    async fn create_once(&self, op: &Op<'_>, spec: &VolumeSpec) -> Result<Submitted, CloudError> {
        let token = self.memory.token(&spec.name);
        if let Some(volume) = self.memory.gone(&token) {
            return Ok(Submitted::Gone(volume));
        }
        match self.create_request(op, spec, token).await {
            Ok(request) => self.submit(op, spec, &request).await,
            Err(error) if is_of_the_request_alone(spec, &error) => Err(error),
            // The current state of zones and source does not show whether the volume was made before.
            Err(error) => self.refused_unless_made(op, spec, error).await.map(Submitted::Found),
        }
    }

    async fn submit(&self, op: &Op<'_>, spec: &VolumeSpec, request: &CreateRequest) -> Result<Submitted, CloudError> {
        let name = Write::VolumeName(spec.name.clone());
        let ec2 = self.context.for_mutation(op);
        let error = match mutate(op, || request.send(&ec2)).await? {
            Ok(volume) => {
                // A repeated answer to an earlier request made nothing.
                if !self.is_old(&volume) {
                    self.context.recent.note_made(name, Object::Volume(volume.id.clone()));
                }
                return Ok(Submitted::Accepted(volume));
            }
            Err(e) => e,
        };
        match error.class {
            ErrorClass::Throttled | ErrorClass::NotSent => Err(refused(op, error)),
            ErrorClass::Ambiguous => {
                self.context.recent.note(name);
                self.after_unclear_answer(op, spec, error).await
            }
            // This call made nothing, so an earlier proof of absence still holds.
            ErrorClass::IdempotentMismatch if self.context.recent.is_absent(&name, Sidecar::Provisioner) => {
                self.memory.rotate_token(&spec.name);
                Ok(Submitted::Retry)
            }
            ErrorClass::IdempotentMismatch => self.after_unclear_answer(op, spec, error).await,
            _ if self.has_fewer_iops(op, spec, request, &error).await => Ok(Submitted::Retry),
            _ => {
                let error = self.request_refused(op, spec, request, error).await;
                self.refused_unless_made(op, spec, error).await.map(Submitted::Found)
            }
        }
    }

    /// Finds the volume by its name and decides how to continue.
    async fn after_unclear_answer(
        &self,
        op: &Op<'_>,
        spec: &VolumeSpec,
        error: Ec2Error,
    ) -> Result<Submitted, CloudError> {
        tracing::info!(name: "v3", name = %spec.name, %error, "searching for the volume by its name");
        let is_mismatch = error.class == ErrorClass::IdempotentMismatch;
        match self.find_by_name(op, spec).await? {
            NameMatch::Compatible(volume) => Ok(Submitted::Found(*volume)),
            NameMatch::Different(message) => Err(CloudErrorKind::AlreadyExists.error(message).caused_by(error)),
            NameMatch::Absent | NameMatch::Broken(_) => {
                if is_mismatch {
                    self.memory.rotate_token(&spec.name);
                }
                Ok(Submitted::Retry)
            }
        }
    }

    /// Returns true if the volume was made long before EC2's answer, by AWS's own clock. Each describe lists such a
    /// volume if it still exists.
    fn is_old(&self, volume: &Volume) -> bool {
        let age = age(volume.created, volume.said_at, self.context.clock.now());
        age.is_some_and(|age| age >= bounds::SETTLE)
    }

    /// Returns true if EC2 refused the IOPS, named a lower maximum, and the next request is for fewer.
    async fn has_fewer_iops(&self, op: &Op<'_>, spec: &VolumeSpec, refused: &CreateRequest, error: &Ec2Error) -> bool {
        let Some((asked, volume_type, site)) = refused.iops() else { return false };
        if !self.iops_limits.learn(volume_type, &site, asked, error) {
            return false;
        }
        self.memory.forget_request(&spec.name);
        let next = Box::pin(self.create_request(op, spec, self.memory.token(&spec.name))).await;
        next.is_ok_and(|next| next.iops().is_none_or(|(iops, ..)| iops < asked))
    }

    /// Waits until the volume is usable or can never be. EC2's first answer does not prove that the volume still
    /// exists: the token may be an old one.
    async fn await_usable(&self, op: &Op<'_>, volume: &Volume) -> Result<Settled, CloudError> {
        if self.context.recent.is_recent(&Write::Deletion(volume.id.clone())) {
            // Describes may still list a volume that this process deleted.
            return Ok(Settled::Deleted);
        }
        let is_old = self.is_old(volume);
        let gone = || if is_old { Settled::Deleted } else { Settled::Vanished };
        let object = Object::Volume(volume.id.clone());
        self.context.recent.heard_of(&object);
        let first =
            if volume.state == VolumeState::Creating { FirstPoll::After(Transition::Creating) } else { FirstPoll::Now };
        let decide = |seen: Option<Volume>, sent: Instant| {
            let Some(v) = seen else {
                let is_gone = is_old || sent >= self.context.recent.heard_of(&object);
                return if is_gone { Verdict::Done(gone()) } else { Verdict::Waiting };
            };
            if v.exists() {
                self.context.recent.note_seen(&object);
            }
            match v.state {
                VolumeState::Available | VolumeState::InUse => Verdict::Done(Settled::Usable(v)),
                VolumeState::Deleting | VolumeState::Deleted => Verdict::Done(gone()),
                VolumeState::Error => Verdict::Done(Settled::Broken(v)),
                VolumeState::Creating | VolumeState::Other(_) => Verdict::Waiting,
            }
        };
        self.context.waiter.volume(op, first, &volume.id, decide).await.map_err(CloudError::unproven)
    }
}

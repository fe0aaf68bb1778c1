//! Growing a volume.

use std::time::Duration;

use ebs_ec2::{Ec2, Ec2Error, ErrorClass, Modification, ModificationState, ModifyVolume, Place, Volume, Volumes};
use ebs_types::{Gib, Iops, IopsRequest, VolumeId, Waiters};
use tokio::time::Instant;

use crate::call::mutate;
use crate::error::refused;
use crate::op::Op;
use crate::wait::{Change, FirstLook, Verdict};
use crate::{Cloud, CloudError, Object, bounds};

/// EC2 counts modifications over this time.
const MODIFICATION_WINDOW: Duration = Duration::from_secs(24 * 3600);

impl<E: Ec2> Cloud<E> {
    /// Sees to it that the volume has at least this size; returns the size it has.
    ///
    /// # Errors
    /// [`CloudError::FailedPrecondition`] says when the next modification is possible.
    pub async fn expand(&self, id: &VolumeId, size: Gib, waiters: &Waiters) -> Result<Gib, CloudError> {
        let op = Op::start(format!("expand volume {id} to {size}"), bounds::EXPAND, waiters);
        let mut volume = self.volume(id).await?;
        // EC2 shows the new size while a modification still runs, so the size alone proves nothing.
        let mut latest = self.lookups.modification(&op, id).await?;
        if latest.as_ref().is_some_and(|m| m.state == ModificationState::Modifying) {
            latest = Some(self.modification_end(&op, FirstLook::After(Change::Modifying), id, |_| true).await?);
            volume = self.volume(id).await?;
        }
        if volume.size >= size {
            return Ok(volume.size);
        }
        let request = ModifyVolume {
            volume: id.clone(),
            size: Some(size),
            volume_type: None,
            iops: self.iops_for(&volume, size).await,
            throughput: None,
        };
        match mutate(&op, || self.ec2.modify_volume(&request)).await? {
            Ok(modification) => self.follow(&op, &request, Some(modification)).await?,
            Err(e) if e.class == ErrorClass::Ambiguous => self.follow(&op, &request, None).await?,
            Err(e) => return Err(modification_refused(&op, id, latest.as_ref(), e)),
        }
        self.size_reached(&op, id, size).await
    }

    /// Waits for the modification that was just ordered; without an answer (`None`) it may never come.
    async fn follow(
        &self,
        op: &Op<'_>,
        request: &ModifyVolume,
        answer: Option<Modification>,
    ) -> Result<(), CloudError> {
        if answer.as_ref().is_some_and(|m| is_over(&m.state) && m.state != ModificationState::Failed) {
            return Ok(());
        }
        let is_ours = |m: &Modification| m.target_size >= request.size;
        self.modification_end(op, FirstLook::After(Change::Modifying), &request.volume, is_ours).await.map(|_| ())
    }

    /// Waits until the latest modification, if it is the one meant, is past `modifying`.
    async fn modification_end(
        &self,
        op: &Op<'_>,
        first: FirstLook,
        id: &VolumeId,
        is_meant: impl Fn(&Modification) -> bool + Send + Sync,
    ) -> Result<Modification, CloudError> {
        let visible_by = Instant::now() + bounds::SETTLE;
        self.watch
            .modification(op, first, id, |seen| match seen {
                Some(m) if is_meant(&m) => match m.state {
                    ModificationState::Failed => Verdict::Failed(has_failed(op, &m)),
                    ModificationState::Completed | ModificationState::Optimizing => Verdict::Done(m),
                    ModificationState::Modifying | ModificationState::Other(_) => Verdict::Waiting,
                },
                _ if Instant::now() < visible_by => Verdict::Waiting,
                _ => Verdict::Failed(CloudError::OutcomeUnknown {
                    message: format!("{}: EC2 shows no such modification; the next attempt looks again", op.what),
                    cause: None,
                }),
            })
            .await
    }

    /// The size that EC2 describes once it is reached.
    async fn size_reached(&self, op: &Op<'_>, id: &VolumeId, size: Gib) -> Result<Gib, CloudError> {
        self.watch
            .volume(op, FirstLook::Now, id, |seen| match seen {
                None => Verdict::Failed(CloudError::NotFound { object: Object::Volume(id.clone()), cause: None }),
                Some(v) if v.size >= size => Verdict::Done(v.size),
                Some(_) => Verdict::Waiting,
            })
            .await
    }

    /// The IOPS that the volume's own tags ask for at that size, when they ask and it has fewer. Tags that cannot be
    /// read are passed over: they must not keep a volume from growing.
    async fn iops_for(&self, volume: &Volume, size: Gib) -> Option<Iops> {
        let ratio_tag = volume.tags.get(&self.config.driver.iops_per_gib_tag())?;
        let Ok(ratio) = ratio_tag.parse::<u32>() else {
            tracing::warn!(volume = %volume.id, tag = %ratio_tag, "the tag with the IOPS per GiB is no number, IOPS stay");
            return None;
        };
        let allowed = match volume.tags.get(&self.config.driver.auto_iops_tag()).map(String::as_str) {
            None | Some("0" | "f" | "F" | "false" | "FALSE" | "False") => false,
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => true,
            Some(other) => {
                tracing::warn!(volume = %volume.id, tag = %other, "the tag that allows more IOPS is no boolean, IOPS stay");
                false
            }
        };
        if !allowed || ratio == 0 {
            return None;
        }
        let limits = match &volume.zone {
            Some(zone) => {
                let place = Place::Zone(zone.clone());
                self.iops_limits.limits(&volume.volume_type, &place, self.probe_tags(&volume.tags)).await
            }
            None => volume.volume_type.iops_limits(),
        };
        // Without limits the type has no IOPS to choose.
        limits?;
        IopsRequest::PerGib(ratio).resolve(size, limits, true).filter(|iops| volume.iops.is_none_or(|now| now < *iops))
    }
}

fn is_over(state: &ModificationState) -> bool {
    match state {
        ModificationState::Optimizing | ModificationState::Completed | ModificationState::Failed => true,
        ModificationState::Modifying | ModificationState::Other(_) => false,
    }
}

fn has_failed(op: &Op<'_>, modification: &Modification) -> CloudError {
    let why = modification.status_message.as_deref().unwrap_or("EC2 does not say why");
    CloudError::Internal { message: format!("{}: the modification has failed: {why}", op.what), cause: None }
}

fn modification_refused(op: &Op<'_>, id: &VolumeId, latest: Option<&Modification>, error: Ec2Error) -> CloudError {
    match error.class {
        ErrorClass::VolumeNotFound | ErrorClass::MalformedId => {
            CloudError::NotFound { object: Object::Volume(id.clone()), cause: Some(Box::new(error)) }
        }
        ErrorClass::ModificationCooldown | ErrorClass::IncorrectState => {
            let message = format!("{}: {}", op.what, when_possible(latest));
            CloudError::FailedPrecondition { message, cause: Some(Box::new(error)) }
        }
        _ => refused(&op.what, error),
    }
}

/// EC2's rule, and when it lets the volume be modified again as far as the latest modification tells.
fn when_possible(latest: Option<&Modification>) -> String {
    let rule =
        "a volume can be modified at most 4 times in 24 h, and not while an earlier modification is being optimized";
    let Some(latest) = latest else { return rule.to_owned() };
    let since = latest.started.map(|t| format!("the latest began at {}", humantime::format_rfc3339_seconds(t)));
    let again = latest.started.map(|t| humantime::format_rfc3339_seconds(t + MODIFICATION_WINDOW));
    match (&latest.state, since, again) {
        (ModificationState::Optimizing, Some(since), _) => {
            format!("{rule}; {since} and is still being optimized: try again when EC2 shows it completed")
        }
        (_, Some(since), Some(again)) => format!("{rule}; {since}: it is possible again at {again} at the latest"),
        _ => rule.to_owned(),
    }
}

//! Modifying a volume: from what is asked for to EC2's word that it is so.

use std::time::Duration;

use ebs_ec2::{
    Ec2, Ec2Error, ErrorClass, Limit, Modification, ModificationState, ModifyVolume, Place, Volume, Volumes,
};
use ebs_types::{Gib, Iops, VolumeId, VolumeType, Waiters};
use tokio::time::Instant;

use super::plan;
use crate::call::mutate;
use crate::lease_terms::Sidecar;
use crate::op::Op;
use crate::recent_writes::Write;
use crate::refused::refused_about;
use crate::volume::iops_limit::{IopsQuery, Site};
use crate::volume::service::VolumeService;
use crate::{CloudError, CloudErrorKind, ModifySpec, Object, bounds};

/// EC2 counts the modifications of a volume over this time.
const MODIFICATION_WINDOW: Duration = Duration::from_secs(24 * 3600);

impl<E: Ec2> VolumeService<E> {
    /// Sees to it that the volume has at least this size; returns the size it has.
    ///
    /// # Errors
    /// As [`VolumeService::modify`].
    pub async fn expand(&self, id: &VolumeId, size: Gib, waiters: &Waiters) -> Result<Gib, CloudError> {
        Ok(self.modify(id, &ModifySpec::size(size), waiters).await?.size)
    }

    /// Sees to it that the volume has the properties and then the tags asked for, and returns it, tags as they were.
    ///
    /// Properties come first: EC2 judges them, and what it refuses has then changed nothing. In the first 15 s in which the
    /// resizer or the volume modifier asks this process, calls of the one that it asked before may still be carried out: they are waited for, but not
    /// with growth.
    ///
    /// # Errors
    /// `CloudErrorKind::FailedPrecondition` says when the next modification is possible. A tag that EC2 refuses for good
    /// is `CloudErrorKind::Internal` where properties were asked for too: "invalid" would say that nothing was done.
    pub async fn modify(&self, id: &VolumeId, spec: &ModifySpec, waiters: &Waiters) -> Result<Volume, CloudError> {
        self.modify_for(&[Sidecar::Resizer], id, spec, waiters).await
    }

    /// As [`VolumeService::modify`], for requests of these sidecars.
    ///
    /// # Errors
    /// As [`VolumeService::modify`].
    pub async fn modify_for(
        &self,
        sidecars: &[Sidecar],
        id: &VolumeId,
        spec: &ModifySpec,
        waiters: &Waiters,
    ) -> Result<Volume, CloudError> {
        let op = Op::start(what(id, spec), bounds::EXPAND, waiters);
        self.context.recent.serve_all(sidecars, waiters, self.modify_within(&op, id, spec)).await
    }

    async fn modify_within(&self, op: &Op<'_>, id: &VolumeId, spec: &ModifySpec) -> Result<Volume, CloudError> {
        let has_properties = spec.asks_for_properties();
        let volume = match has_properties {
            true => self.change_properties(op, id, spec).await?,
            false => self.context.volume_for_sure(op, id).await?,
        };
        match self.change_tags(op, id, spec).await {
            Ok(()) => Ok(volume),
            Err(CloudError { kind: CloudErrorKind::InvalidArgument, message, cause }) if has_properties => {
                let message = format!("{message}; its properties are as asked for");
                Err(CloudError { kind: CloudErrorKind::Internal, message, cause })
            }
            Err(error) => Err(error),
        }
    }

    /// Deletes first and then sets, so that a key in both ends with its new value. Both always: a describe that shows
    /// the tags as wanted may show the past, and both calls may be repeated.
    async fn change_tags(&self, op: &Op<'_>, id: &VolumeId, spec: &ModifySpec) -> Result<(), CloudError> {
        let gone: Vec<String> = spec.deleted_tags.iter().filter(|key| !spec.tags.contains_key(*key)).cloned().collect();
        if !(gone.is_empty() && spec.tags.is_empty()) {
            op.sleep_until(self.context.recent.modifiers_sole_from()).await?;
        }
        if !gone.is_empty() {
            let ec2 = self.context.for_mutation(op);
            let answer = mutate(op, || ec2.delete_tags(id.as_str(), &gone)).await?;
            answer.map_err(|e| refused_about(op, Object::Volume(id.clone()), e))?;
        }
        if !spec.tags.is_empty() {
            let ec2 = self.context.for_mutation(op);
            let answer = mutate(op, || ec2.create_tags(id.as_str(), &spec.tags)).await?;
            answer.map_err(|e| refused_about(op, Object::Volume(id.clone()), e))?;
            self.memory.note_tags(id, &spec.tags);
        }
        Ok(())
    }

    /// From when on a describe shows what stands in the way of a change, or has brought it about. An old process may be a new
    /// leader, and another one may have changed the volume just before, or have a call under way. Not so
    /// with growth: EC2 never shrinks a volume.
    fn settled_at(&self, id: &VolumeId, spec: &ModifySpec) -> Instant {
        let (recent, write) = (&self.context.recent, Write::Modification(id.clone()));
        match spec.size {
            Some(size) if *spec == ModifySpec::size(size) => recent.settled_at(&write).max(recent.startup_grace_ends()),
            _ => recent.settled_at(&write).max(recent.modifiers_sole_from()),
        }
    }

    async fn change_properties(&self, op: &Op<'_>, id: &VolumeId, spec: &ModifySpec) -> Result<Volume, CloudError> {
        let latest = self.latest_at_rest(op, id, self.settled_at(id, spec)).await?;
        let mut volume = self.context.volume_for_sure(op, id).await?;
        volume.tags.extend(self.memory.recent_tags(id));
        let before = latest.as_ref().and_then(|m| m.started);
        let mut request = self.request(spec, &volume).await;
        let answer = loop {
            if plan::is_nothing(&request) {
                return Ok(volume);
            }
            let ec2 = self.context.for_mutation(op);
            let answer = mutate(op, || ec2.modify_volume(&request)).await?;
            let Err(refusal) = &answer else { break answer };
            match self.with_fewer_iops(spec, &volume, &request, refusal).await {
                Some(fewer) => request = fewer,
                None => break answer,
            }
        };
        match answer {
            Ok(modification) => {
                self.context.recent.forget_refusal(id);
                self.context.recent.note(Write::Modification(id.clone()));
                if !is_past_modifying(&modification) {
                    self.modification_end(op, &request, before).await?;
                }
            }
            Err(e) if e.class == ErrorClass::Ambiguous => {
                self.context.recent.note(Write::Modification(id.clone()));
                self.modification_end(op, &request, before).await?;
            }
            Err(e) => {
                let may_be_ours = matches!(e.class, ErrorClass::ModificationCooldown | ErrorClass::IncorrectState);
                if !(may_be_ours && self.is_made_already(op, &request, before).await?) {
                    let impossible = plan::impossible_size(&request, &volume);
                    return Err(modification_refused(op, id, latest.as_ref(), impossible, e));
                }
                self.modification_end(op, &request, before).await?;
            }
        }
        self.reached(op, &request).await
    }

    async fn request(&self, spec: &ModifySpec, volume: &Volume) -> ModifyVolume {
        let requested = plan::requested_iops(spec, volume, &self.context.config.driver);
        let volume_type = spec.volume_type.as_ref().unwrap_or(&volume.volume_type);
        let iops = self.iops_within_limits(volume, volume_type, plan::size(spec, volume), requested).await;
        plan::request(spec, volume, requested, iops)
    }

    /// After a refusal of the request: the same with as many IOPS as EC2 has named, or, where nobody but the volume's tags asks
    /// for more, without. `None`: it is refused for another reason.
    async fn with_fewer_iops(
        &self,
        spec: &ModifySpec,
        volume: &Volume,
        refused: &ModifyVolume,
        refusal: &Ec2Error,
    ) -> Option<ModifyVolume> {
        let asked = refused.iops?;
        let volume_type = refused.volume_type.as_ref().unwrap_or(&volume.volume_type);
        if let Some(site) = site_of(volume)
            && self.iops_limits.learn(volume_type, &site, asked, refusal)
        {
            let fewer = self.request(spec, volume).await;
            return (fewer.iops < Some(asked)).then_some(fewer);
        }
        let is_about_values = matches!(
            refusal.class,
            ErrorClass::InvalidParameter | ErrorClass::Unsupported | ErrorClass::LimitExceeded(Limit::Iops)
        );
        let is_extra = plan::requested_iops(spec, volume, &self.context.config.driver).only_raises;
        if !(is_about_values && is_extra && refused.volume_type.is_none()) {
            return None;
        }
        tracing::warn!(volume = %volume.id, asked, error = %refusal, "EC2 refuses the IOPS by the tags of the volume: they stay as they are");
        Some(ModifyVolume { iops: None, ..refused.clone() })
    }

    /// The IOPS that the request comes to for the type and size to be; a number that was lowered is logged.
    async fn iops_within_limits(
        &self,
        volume: &Volume,
        volume_type: &VolumeType,
        size: Gib,
        requested: plan::RequestedIops,
    ) -> Option<Iops> {
        let asked = requested.request.resolve(size, None, false)?;
        let limits = match site_of(volume) {
            Some(site) => {
                let query = IopsQuery { volume_type, site: &site, iops: requested.request, size };
                self.iops_limits.limits(&query, self.probe_tags(&volume.tags)).await
            }
            None => volume_type.iops_limits().map(|limits| limits.with_max(None)),
        };
        if requested.only_raises && limits.is_none() {
            // The type has no IOPS to choose.
            return None;
        }
        let iops = plan::iops_within(requested.request, size, limits, volume.iops);
        if iops < Some(asked) {
            tracing::warn!(volume = %volume.id, asked, ?iops, ?limits, "more IOPS were asked for than the type can have: lowered");
        }
        iops
    }
}

fn site_of(volume: &Volume) -> Option<Site> {
    let place = volume.zone.clone().map(Place::Zone).or_else(|| volume.zone_id.clone().map(Place::ZoneId))?;
    Some(Site { place, outpost_arn: volume.outpost_arn.clone() })
}

fn what(id: &VolumeId, spec: &ModifySpec) -> String {
    match spec.size {
        Some(size) if *spec == ModifySpec::size(size) => format!("expand volume {id} to {size}"),
        _ => format!("modify volume {id}"),
    }
}

fn is_past_modifying(modification: &Modification) -> bool {
    matches!(modification.state, ModificationState::Optimizing | ModificationState::Completed)
}

fn modification_refused(
    op: &Op<'_>,
    id: &VolumeId,
    latest: Option<&Modification>,
    impossible: Option<String>,
    error: Ec2Error,
) -> CloudError {
    match (error.class, impossible) {
        (ErrorClass::InvalidParameter | ErrorClass::Unsupported, Some(rule)) => {
            CloudErrorKind::OutOfRange.error(format!("{op}: {rule}")).caused_by(error)
        }
        (ErrorClass::ModificationCooldown | ErrorClass::IncorrectState, _) => {
            let message = format!("{op}: {}", when_possible(latest));
            CloudErrorKind::FailedPrecondition.error(message).caused_by(error)
        }
        _ => refused_about(op, Object::Volume(id.clone()), error),
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

//! Modifies a volume and waits until EC2 shows the result.

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

/// EC2 counts the modifications of a volume in this period.
const MODIFICATION_WINDOW: Duration = Duration::from_secs(24 * 3600);

impl<E: Ec2> VolumeService<E> {
    /// Grows the volume to at least this size and returns its size in GiB.
    ///
    /// # Errors
    /// As [`VolumeService::modify`].
    pub async fn expand(&self, id: &VolumeId, size: Gib, waiters: &Waiters) -> Result<Gib, CloudError> {
        Ok(self.modify(id, &ModifySpec::size(size), waiters).await?.size)
    }

    /// Changes the properties and then the tags of the volume as requested. Returns the volume with its previous tags.
    ///
    /// The properties are first, so that a refusal of EC2 leaves the volume unchanged. In the first 15 s of the
    /// resizer's or the volume modifier's requests to this process, EC2 may still carry out calls of the process that
    /// had the lease before. This process waits for them, except for growth.
    ///
    /// # Errors
    /// `CloudErrorKind::FailedPrecondition` has the time of the next possible modification. A tag that EC2 refuses for
    /// good is `CloudErrorKind::Internal` if the request has properties too: "invalid" would mean that nothing changed.
    pub async fn modify(&self, id: &VolumeId, spec: &ModifySpec, waiters: &Waiters) -> Result<Volume, CloudError> {
        self.modify_for(&[Sidecar::Resizer], id, spec, waiters).await
    }

    /// Modifies like [`VolumeService::modify`], for requests of these sidecars.
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
                let message = format!("{message}; its properties were modified as requested");
                Err(CloudError { kind: CloudErrorKind::Internal, message, cause })
            }
            Err(error) => Err(error),
        }
    }

    /// Deletes first and then sets, so that a key in both ends with its new value. Always sends both calls: they are
    /// idempotent, and a describe with the requested tags may be stale.
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

    /// Returns the instant from which a describe shows all earlier changes, and any modification that blocks this one.
    /// Another process may have changed the volume just before, or have a call in flight, even if this process is old
    /// and a new leader. Growth does not wait for it: EC2 never shrinks a volume.
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

    /// Returns the request with fewer IOPS after a refusal: with the maximum that EC2 named, or without IOPS if only
    /// the volume's tags request them. `None` if EC2 refused for another reason.
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
        tracing::warn!(
            volume = %volume.id, asked, error = %refusal,
            "EC2 rejects the IOPS computed from the volume's tags, leaving IOPS unchanged"
        );
        Some(ModifyVolume { iops: None, ..refused.clone() })
    }

    /// Returns the requested IOPS within the limits of the new type and size. Logs when it lowers them.
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
            // The type has no choice of IOPS.
            return None;
        }
        let iops = plan::iops_within(requested.request, size, limits, volume.iops);
        if iops < Some(asked) {
            tracing::warn!(
                volume = %volume.id, asked, ?iops, ?limits,
                "requested IOPS exceed the limit of the volume type, lowering them"
            );
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

/// Returns EC2's rule, and the time of the next possible modification if the latest one shows it.
fn when_possible(latest: Option<&Modification>) -> String {
    let rule =
        "a volume can be modified at most 4 times in 24 h, and not while an earlier modification is being optimized";
    let Some(latest) = latest else { return rule.to_owned() };
    let since = latest.started.map(|t| format!("the latest started at {}", humantime::format_rfc3339_seconds(t)));
    let again = latest.started.map(|t| humantime::format_rfc3339_seconds(t + MODIFICATION_WINDOW));
    match (&latest.state, since, again) {
        (ModificationState::Optimizing, Some(since), _) => {
            format!("{rule}; {since} and is still being optimized; try again when it is completed")
        }
        (_, Some(since), Some(again)) => format!("{rule}; {since}; try again at {again} at the latest"),
        _ => rule.to_owned(),
    }
}

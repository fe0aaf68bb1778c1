//! CreateVolume, DeleteVolume and the descriptions of volumes.

use std::time::SystemTime;

use crate::api::{
    CreateVolume, DeleteVolume, DescribeVolumeStatus, DescribeVolumes, Fault, Reply, SimStatusDetail, SimVolumeStatus,
};
use crate::engine::ZoneConfig;

use super::Sim;
use super::effects::{Effect, Source};
use super::faults::{self, invalid_combination, invalid_value};
use super::ids::Kind;
use super::listings::{Query, VOLUME_FILTERS, VOLUME_STATUS_FILTERS};
use super::model::{Properties, SnapshotPhase, Volume, VolumePhase};
use super::shape::{Wish, known_type};
use super::tags::{in_order, tags_for};
use super::tokens::Use;

/// MiB/s between which a volume can be asked to initialise from its snapshot.
const INITIALIZATION_RATES: std::ops::RangeInclusive<i64> = 100..=300;

impl Sim {
    pub(super) fn create_volume(&mut self, now: SystemTime, mut call: CreateVolume) -> Result<Reply, Fault> {
        let token = call.client_token.take();
        in_order(&mut call.tag_specifications);
        let usage = self.use_token(token.as_deref(), "CreateVolume", &call)?;
        if let Use::Repeat(volume) = usage {
            return if call.dry_run { Err(faults::dry_run()) } else { Ok(Reply::CreateVolume(*volume)) };
        }
        let volume = self.planned_volume(now, &call)?;
        self.check_volume_quota()?;
        if call.dry_run {
            return Err(faults::dry_run());
        }
        let volume = self.add_volume(volume);
        self.remember_token(token, usage, &volume.id);
        Ok(Reply::CreateVolume(volume))
    }

    /// Takes in a volume that has been accepted: it gets its id, and the data plane is told.
    pub(super) fn add_volume(&mut self, mut volume: Volume) -> crate::api::SimVolume {
        volume.id = self.ids.new_id(Kind::Volume);
        let (id, gib) = (volume.id.clone(), volume.size_gib);
        self.emit(match volume.source_volume_id.clone() {
            Some(source) => Effect::CopyVolume { source, volume: id, gib },
            None => {
                let source = volume.snapshot_id.clone().map_or(Source::Blank, Source::Snapshot);
                Effect::CreateBacking { volume: id, gib, source }
            }
        });
        let described = volume.describe();
        self.volumes.insert(volume.id.clone(), volume);
        self.touch();
        described
    }

    pub(super) fn check_volume_quota(&self) -> Result<(), Fault> {
        if self.volumes.len() < self.policy.max_volumes {
            return Ok(());
        }
        Err(Fault::new("VolumeLimitExceeded", "You have exceeded your maximum number of volumes in this region."))
    }

    /// Everything that EC2 checks before it accepts.
    pub(super) fn planned_volume(&self, now: SystemTime, call: &CreateVolume) -> Result<Volume, Fault> {
        let zone = self.zone_of(call)?.clone();
        if call.outpost_arn.as_deref().is_some_and(|arn| !arn.is_empty()) {
            return Err(faults::unsupported("There is no Outpost in this account."));
        }
        let tags = tags_for(&call.tag_specifications, Kind::Volume)?;
        let properties = self.wanted_properties(call)?;
        let (encrypted, kms_key_id, vanishes) = self.encryption(call)?;
        Ok(Volume {
            tags,
            encrypted,
            kms_key_id,
            vanishes,
            snapshot_id: call.snapshot_id.clone().filter(|s| !s.is_empty()),
            initialization_rate: initialization_rate(call)?,
            ..new_volume(properties, &zone, now, self.times.due(now, self.times.create, call.client_token.as_deref()))
        })
    }

    fn zone_of(&self, call: &CreateVolume) -> Result<&ZoneConfig, Fault> {
        let name = call.availability_zone.as_deref().filter(|z| !z.is_empty());
        let id = call.availability_zone_id.as_deref().filter(|z| !z.is_empty());
        let (found, given) = match (name, id) {
            (Some(name), None) => (self.account.zone_named(name), name),
            (None, Some(id)) => (self.account.zone_with_id(id), id),
            (None, None) => return Err(faults::missing("AvailabilityZone")),
            (Some(_), Some(_)) => {
                return Err(invalid_combination("Give AvailabilityZone or AvailabilityZoneId, not both."));
            }
        };
        found.ok_or_else(|| Fault::new("InvalidZone.NotFound", format!("The zone '{given}' does not exist.")))
    }

    fn wanted_properties(&self, call: &CreateVolume) -> Result<Properties, Fault> {
        let volume_type = known_type(call.volume_type.as_deref().filter(|t| !t.is_empty()).unwrap_or("gp2"))?;
        let least = match call.snapshot_id.as_deref().filter(|s| !s.is_empty()) {
            Some(id) => Some(self.usable_snapshot_size(id)?),
            None => None,
        };
        let size_gib = call.size.or(least.map(i64::from)).ok_or_else(|| faults::missing("size/snapshot"))?;
        if let Some(least) = least.filter(|least| size_gib < i64::from(*least)) {
            return Err(invalid_value(format!(
                "Volume of {size_gib} GiB is smaller than its snapshot: expect size >= {least} GiB."
            )));
        }
        let multi_attach = call.multi_attach_enabled.unwrap_or(false);
        Wish { size_gib, volume_type, iops: call.iops, throughput: call.throughput, multi_attach }.fulfil()
    }

    fn usable_snapshot_size(&self, id: &str) -> Result<u32, Fault> {
        Kind::Snapshot.check(id)?;
        let snapshot = self.snapshots.get(id).ok_or_else(|| faults::no_such_snapshot(id))?;
        match snapshot.phase {
            SnapshotPhase::Completed { .. } => Ok(snapshot.size_gib),
            SnapshotPhase::Pending { .. } | SnapshotPhase::Error { .. } => {
                Err(faults::incorrect_state(format!("Snapshot '{id}' is '{}', not 'completed'.", snapshot.state())))
            }
        }
    }

    fn encryption(&self, call: &CreateVolume) -> Result<(bool, Option<String>, bool), Fault> {
        let key = call.kms_key_id.as_deref().filter(|k| !k.is_empty());
        if key.is_some() && call.encrypted != Some(true) {
            return Err(Fault::new(
                "InvalidParameterDependency",
                "The parameter KmsKeyId requires the parameter Encrypted to be set.",
            ));
        }
        let of_snapshot = call.snapshot_id.as_ref().and_then(|id| self.snapshots.get(id)).filter(|s| s.encrypted);
        if call.encrypted != Some(true) && of_snapshot.is_none() {
            return Ok((false, None, false));
        }
        match (key, of_snapshot.and_then(|s| s.kms_key_id.clone())) {
            (None, Some(inherited)) => Ok((true, Some(inherited), false)),
            (key, _) => {
                let (arn, exists) = self.account.kms_key(key);
                Ok((true, Some(arn), !exists))
            }
        }
    }

    pub(super) fn delete_volume(&mut self, now: SystemTime, call: &DeleteVolume) -> Result<Reply, Fault> {
        let gone_at = self.times.due(now, self.times.delete, Some(&call.volume_id));
        let volume = self.volume_mut(&call.volume_id)?;
        match volume.phase {
            VolumePhase::Deleting { .. } => return Err(faults::no_such_volume(&call.volume_id)),
            VolumePhase::Creating { .. } => {
                return Err(faults::incorrect_state(format!("The volume '{}' is 'creating'.", volume.id)));
            }
            VolumePhase::Ready | VolumePhase::Error => {}
        }
        if let Some(attachment) = volume.attachments.first() {
            return Err(Fault::new(
                "VolumeInUse",
                format!("Volume {} is currently attached to {}", volume.id, attachment.instance_id),
            ));
        }
        if call.dry_run {
            return Err(faults::dry_run());
        }
        volume.phase = VolumePhase::Deleting { due: gone_at };
        self.touch();
        Ok(Reply::DeleteVolume)
    }

    /// A volume by an id that a client sent.
    pub(super) fn volume_mut(&mut self, id: &str) -> Result<&mut Volume, Fault> {
        if id.is_empty() {
            return Err(faults::missing("VolumeId"));
        }
        Kind::Volume.check(id)?;
        self.volumes.get_mut(id).ok_or_else(|| faults::no_such_volume(id))
    }

    pub(super) fn describe_volumes(&self, call: &DescribeVolumes) -> Result<Reply, Fault> {
        let query = Query::of("DescribeVolumes", &call.volume_ids, &call.filters)
            .page(call.max_results, call.next_token.as_deref());
        let chosen = self.chosen_volumes(&query, VOLUME_FILTERS)?;
        if call.dry_run {
            return Err(faults::dry_run());
        }
        Ok(Reply::DescribeVolumes(query.paged(chosen.into_iter().map(Volume::describe), |v| v.id.clone())?))
    }

    /// The volumes that a query asks for; a missing id fails it, a missing filter value does not.
    pub(super) fn chosen_volumes(&self, query: &Query<'_>, known: &[&str]) -> Result<Vec<&Volume>, Fault> {
        query.check(Kind::Volume, known)?;
        let missing: Vec<&str> =
            query.ids.iter().filter(|id| !self.volumes.contains_key(*id)).map(String::as_str).collect();
        match missing.as_slice() {
            [] => {}
            [one] => return Err(faults::no_such_volume(one)),
            many => {
                return Err(Fault::new(
                    "InvalidVolume.NotFound",
                    format!("The volumes '{}' do not exist.", many.join(", ")),
                ));
            }
        }
        Ok(self.volumes.values().filter(|v| query.wants(&v.id, *v)).collect())
    }

    pub(super) fn describe_volume_status(&self, call: &DescribeVolumeStatus) -> Result<Reply, Fault> {
        let query = Query::of("DescribeVolumeStatus", &call.volume_ids, &call.filters)
            .page(call.max_results, call.next_token.as_deref());
        let chosen = self.chosen_volumes(&query, VOLUME_STATUS_FILTERS)?;
        if call.dry_run {
            return Err(faults::dry_run());
        }
        Ok(Reply::DescribeVolumeStatus(query.paged(chosen.into_iter().map(status), |s| s.volume_id.clone())?))
    }
}

/// Volumes here have all their data from the start, so none is ever initialising.
fn status(volume: &Volume) -> SimVolumeStatus {
    let detail = |name: &str, status: &str| SimStatusDetail { name: name.to_owned(), status: status.to_owned() };
    let ready = volume.phase == VolumePhase::Ready;
    SimVolumeStatus {
        volume_id: volume.id.clone(),
        zone: volume.zone.clone(),
        zone_id: volume.zone_id.clone(),
        outpost_arn: None,
        initialization: None,
        status: if ready { "ok" } else { "insufficient-data" }.to_owned(),
        details: vec![
            detail("io-enabled", "passed"),
            detail("io-performance", "not-applicable"),
            detail("initialization-state", "completed"),
        ],
    }
}

fn initialization_rate(call: &CreateVolume) -> Result<Option<u32>, Fault> {
    let Some(rate) = call.volume_initialization_rate else { return Ok(None) };
    if call.snapshot_id.is_none() {
        return Err(invalid_combination("VolumeInitializationRate needs a SnapshotId."));
    }
    if !INITIALIZATION_RATES.contains(&rate) {
        return Err(invalid_value(format!("Volume initialization rate of {rate} MiB/s is not within 100 to 300.")));
    }
    Ok(u32::try_from(rate).ok())
}

/// A volume that is being made.
pub(super) fn new_volume(properties: Properties, zone: &ZoneConfig, now: SystemTime, due: SystemTime) -> Volume {
    Volume {
        // It gets one when it is accepted: a refused call must not draw a random number.
        id: String::new(),
        phase: VolumePhase::Creating { due, data_ready: false },
        size_gib: properties.size_gib,
        volume_type: properties.volume_type,
        iops: properties.iops,
        throughput: properties.throughput,
        multi_attach: properties.multi_attach,
        zone: zone.name.clone(),
        zone_id: zone.id.clone(),
        encrypted: false,
        kms_key_id: None,
        vanishes: false,
        snapshot_id: None,
        source_volume_id: None,
        initialization_rate: None,
        fast_restored: false,
        created: now,
        tags: ebs_types::Tags::new(),
        attachments: Vec::new(),
        modification: None,
        modified_at: Vec::new(),
        last_snapshot: None,
    }
}

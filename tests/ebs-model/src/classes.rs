//! VolumeAttributesClasses of volumes, and the orchestrator's beliefs about them.

use std::collections::HashMap;

use csi_proto::csi::ControllerModifyVolumeRequest;
use csi_proto::modify::ModifyVolumePropertiesRequest;
use ebs_sim::api::SimVolume;
use tokio::time::Instant;

use crate::content::{GP3, IO2, LARGE, map};
use crate::fault_plan::SETTLE;
use crate::rng::Rng;

/// More throughput than any volume supports. A request exceeds it by the serial number of its class.
pub(crate) const NO_THROUGHPUT: u64 = 90_000;
/// The tag that each class sets to a different value.
const TIER: &str = "tier";
/// The tag that some classes set and others delete.
const EXTRA: &str = "extra";

/// A class. It does not change properties that it does not contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) serial: u64,
    pub(crate) kind: Option<&'static str>,
    iops: Option<u64>,
    pub(crate) per_gib: Option<u64>,
    pub(crate) auto: Option<bool>,
    throughput: Option<u64>,
    /// True if it requests more than any volume supports.
    is_bad: bool,
    has_extra: bool,
    /// True if the class is applied through the volume modifier's service.
    by_modifier: bool,
}

impl Class {
    /// Draws a class for a volume of that type. The class changes the type only if `may_change_type` is true.
    pub(crate) fn draw(rng: &mut Rng, serial: u64, (kind, gib): (&'static str, i64), may_change_type: bool) -> Self {
        let new_kind = (may_change_type && rng.per_mille(200)).then_some(if kind == GP3 { IO2 } else { GP3 });
        let is_gp3 = new_kind.unwrap_or(kind) == GP3;
        let must_say_iops = new_kind == Some(IO2);
        let numbers: &[u64] = match is_gp3 {
            true if gib >= LARGE => &[3000, 20_000, 60_000],
            true => &[3000, 3500, 4000],
            false => &[300, 1000, 3000],
        };
        let ratios: &[u64] = if is_gp3 { &[400, 500] } else { &[50, 100] };
        let iops = (must_say_iops || rng.per_mille(400)).then(|| rng.pick(numbers).copied()).flatten();
        let per_gib = (iops.is_none() && rng.per_mille(400)).then(|| rng.pick(ratios).copied()).flatten();
        let auto = rng.per_mille(400).then(|| rng.per_mille(800));
        let is_bad = rng.per_mille(150);
        let throughput = match is_bad {
            true => Some(NO_THROUGHPUT + serial),
            false => (is_gp3 && rng.per_mille(500)).then(|| rng.pick(&[125, 200, 300]).copied()).flatten(),
        };
        let (has_extra, by_modifier) = (rng.per_mille(500), rng.per_mille(200));
        Self { serial, kind: new_kind, iops, per_gib, auto, throughput, is_bad, has_extra, by_modifier }
    }

    pub(crate) fn of_numbers(serial: u64, (iops, throughput): (u64, u64)) -> Self {
        let (iops, throughput) = (Some(iops), Some(throughput));
        let (kind, per_gib, auto) = (None, None, None);
        Self { serial, kind, iops, per_gib, auto, throughput, is_bad: false, has_extra: false, by_modifier: false }
    }

    fn parameters(&self) -> HashMap<String, String> {
        let mut parameters = map(&[("tagSpecification_1", &format!("{TIER}={}", self.tier()))]);
        let numbers = [("iops", self.iops), ("iopsPerGB", self.per_gib), ("throughput", self.throughput)];
        parameters.extend(numbers.into_iter().filter_map(|(key, n)| Some((key.to_owned(), n?.to_string()))));
        parameters.extend(self.kind.map(|kind| ("type".to_owned(), kind.to_owned())));
        parameters.extend(self.auto.map(|auto| ("allowAutoIOPSIncreaseOnModify".to_owned(), auto.to_string())));
        parameters.extend(match self.has_extra {
            true => map(&[("tagSpecification_2", &format!("{EXTRA}=on"))]),
            false => map(&[("tagDeletion_1", EXTRA)]),
        });
        parameters
    }

    pub(crate) fn request(&self, volume: &str) -> Result<ControllerModifyVolumeRequest, ModifyVolumePropertiesRequest> {
        let (volume, parameters) = (volume.to_owned(), self.parameters());
        match self.by_modifier {
            true => Err(ModifyVolumePropertiesRequest { name: volume, parameters, context: HashMap::new() }),
            false => Ok(ControllerModifyVolumeRequest {
                volume_id: volume,
                mutable_parameters: parameters,
                ..Default::default()
            }),
        }
    }

    fn tier(&self) -> String {
        tier(self.serial)
    }

    pub(crate) fn has_left_its_mark(&self, real: &SimVolume) -> bool {
        real.tags.get(TIER) == Some(&self.tier())
    }

    /// Returns whether EC2 rejects the class for a volume of that type and minimum size.
    pub(crate) fn may_be_refused(&self, kind: &str, gib: i64) -> bool {
        if self.kind.unwrap_or(kind) == GP3 {
            return self.is_bad || self.iops.is_some_and(|iops| iops > 3000 && gib < 6);
        }
        self.is_bad || self.throughput.is_some()
    }

    /// Returns whether the volume has other IOPS than the class sets. `gib` is the minimum size when the class
    /// was applied. (An expansion may raise the IOPS by the ratio of another class.)
    pub(crate) fn has_other_iops(&self, real: &SimVolume, gib: i64) -> bool {
        let of_size = |iops, gib| within_limits(iops, &real.volume_type, gib);
        let allowed = self.iops.map(|iops| of_size(iops, gib)..=of_size(iops, i64::from(real.size_gib)));
        allowed.is_some_and(|allowed| !real.iops.is_some_and(|iops| allowed.contains(&u64::from(iops))))
    }

    /// Returns the property of the class that the volume lacks. `gib`: the minimum size when the class was applied.
    pub(crate) fn missing_in(&self, real: &SimVolume, gib: i64) -> Option<String> {
        let iops = self.iops.or_else(|| Some(self.per_gib? * u64::try_from(gib).ok()?));
        let least = iops.map(|iops| within_limits(iops, &real.volume_type, gib));
        let rules = [
            (self.kind.is_none_or(|kind| real.volume_type == kind), "type"),
            (least.is_none_or(|least| real.iops.is_some_and(|iops| u64::from(iops) >= least)), "IOPS"),
            (self.throughput.is_none_or(|wanted| real.throughput.map(u64::from) == Some(wanted)), "throughput"),
            (self.has_left_its_mark(real), "tag tier"),
            (real.tags.contains_key(EXTRA) == self.has_extra, "tag extra"),
        ];
        rules.iter().find(|(holds, _)| !holds).map(|(_, what)| (*what).to_owned())
    }
}

pub(crate) fn tier(serial: u64) -> String {
    format!("c{serial}")
}

pub(crate) fn tier_tag(serial: u64) -> ebs_ec2::Tags {
    ebs_ec2::Tags::from([(TIER.to_owned(), tier(serial))])
}

/// Clamps the requested IOPS to the limits of a volume of that type and minimum size.
pub(crate) fn within_limits(iops: u64, kind: &str, gib: i64) -> u64 {
    let (min, per_gib, max) = if kind == GP3 { (3000, 500, 80_000) } else { (100, 1000, 256_000) };
    iops.clamp(min, min.max(per_gib * u64::try_from(gib).unwrap_or(0)).min(max))
}

/// The beliefs about the classes of a volume.
#[derive(Debug, Clone)]
pub(crate) struct Changes {
    /// The volume type, unless the pending class has changed it.
    pub(crate) kind: &'static str,
    /// The class that was requested and has no final response yet.
    pub(crate) pending: Option<Class>,
    /// The last applied class, and the size of the volume in GiB when it was applied.
    pub(crate) applied: Option<(Class, i64)>,
    /// IOPS per GiB of the latest class that sets them. `auto`: whether an expansion raises the IOPS by this ratio.
    pub(crate) ratio: Option<u64>,
    pub(crate) auto: bool,
    pub(crate) modifying: usize,
    pub(crate) calls: u64,
    answered: Option<Instant>,
    /// True if the last response leaves open whether the pending class is applied.
    is_open: bool,
    /// How many times EC2 has rejected a modification as too early, counted since a sidecar began to retry.
    pub(crate) refusals: u32,
    /// True if a class with another volume type was requested, so the first request no longer describes the volume.
    pub(crate) is_retyped: bool,
}

impl Changes {
    pub(crate) fn none(kind: &'static str) -> Self {
        Self {
            kind,
            pending: None,
            applied: None,
            ratio: None,
            auto: false,
            modifying: 0,
            calls: 0,
            answered: None,
            is_open: false,
            refusals: 0,
            is_retyped: false,
        }
    }

    pub(crate) fn latest(&self) -> Option<&Class> {
        self.pending.as_ref().or(self.applied.as_ref().map(|(class, _)| class))
    }

    /// Returns whether the last class is applied, or failed for good more than 15 s ago.
    pub(crate) fn may_begin_another(&self) -> bool {
        let is_there = self.pending.is_none();
        let is_refused = !self.is_open && self.answered.is_none_or(|at| at.elapsed() > SETTLE);
        self.modifying == 0 && (is_there || is_refused)
    }

    pub(crate) fn ask_for(&mut self, class: &Class) {
        self.is_retyped |= class.kind.is_some();
        if self.pending.as_ref() != Some(class) {
            self.refusals = 0;
        }
        (self.pending, self.is_open) = (Some(class.clone()), true);
        self.modifying += 1;
        self.calls += 1;
    }

    /// Records the response to a modify call, final or not.
    pub(crate) fn hear(&mut self, is_for_good: bool) {
        self.modifying -= 1;
        self.answered = Some(Instant::now());
        self.is_open = !is_for_good;
    }

    /// Records that the class is applied. `gib` is the size of the volume when the class was requested.
    pub(crate) fn apply(&mut self, class: &Class, gib: i64) {
        self.kind = class.kind.unwrap_or(self.kind);
        self.ratio = class.per_gib.or(self.ratio);
        self.auto = class.auto.unwrap_or(self.auto);
        (self.pending, self.refusals) = (None, 0);
        self.applied = Some((class.clone(), gib));
    }

    /// Returns the ratio of IOPS to GiB that an expansion requested now must keep.
    pub(crate) fn ratio_for_growth(&self) -> Option<u64> {
        let is_settled =
            self.pending.is_none() && self.modifying == 0 && self.answered.is_some_and(|at| at.elapsed() > SETTLE);
        self.ratio.filter(|_| is_settled && self.auto)
    }
}

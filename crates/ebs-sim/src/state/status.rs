//! DescribeVolumeStatus: whether a volume works, and its initialization progress.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::api::{DescribeVolumeStatus, Fault, Reply, SimInitialization, SimStatusDetail, SimVolumeStatus};

use super::Sim;
use super::faults;
use super::filters::Filterable;
use super::ids::Kind;
use super::listings::Query;
use super::model::{Snapshot, Volume, VolumePhase};

/// Default initialization rate in MiB/s.
const DEFAULT_RATE: u64 = 250;
const MIB_PER_GIB: u64 = 1024;

/// The kind of an initialization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Way {
    Default,
    ProvisionedRate,
    VolumeCopy,
}

/// The initialization of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Filling {
    way: Way,
    from: SystemTime,
    until: SystemTime,
}

impl Filling {
    fn is_done(&self, now: SystemTime) -> bool {
        self.until <= now
    }

    fn percent(&self, now: SystemTime) -> u32 {
        if self.is_done(now) {
            return 100;
        }
        super::model::percent(self.from, now, self.until)
    }

    fn describe(&self, now: SystemTime) -> SimInitialization {
        let (name, estimated) = match self.way {
            Way::Default => ("default", false),
            Way::ProvisionedRate => ("provisioned-rate", true),
            Way::VolumeCopy => ("volume-copy", true),
        };
        let left = self.until.duration_since(now).unwrap_or_default().as_secs();
        SimInitialization {
            initialization_type: name.to_owned(),
            progress: self.percent(now),
            // EC2 estimates the end only for a provisioned rate.
            estimated_seconds: Some(left).filter(|_| estimated && !self.is_done(now)),
        }
    }
}

impl Sim {
    /// Returns the initialization of a volume from a snapshot.
    pub(super) fn filled_from_snapshot(
        &self,
        now: SystemTime,
        snapshot: &Snapshot,
        zone: &str,
        rate: Option<u32>,
    ) -> Filling {
        let (way, mib_per_second) = match rate {
            Some(rate) => (Way::ProvisionedRate, u64::from(rate)),
            None => (Way::Default, DEFAULT_RATE),
        };
        let time = if snapshot.is_fast_in(zone, now) {
            Duration::ZERO
        } else {
            self.times.fill.unwrap_or_else(|| filling_time(snapshot.size_gib, mib_per_second))
        };
        let from = now + self.times.create;
        Filling { way, from, until: from + time }
    }

    /// Returns the initialization of a copy of a volume.
    pub(super) fn filled_from_volume(&self, now: SystemTime, gib: u32) -> Filling {
        let from = now + self.times.create;
        let time = self.times.fill.unwrap_or_else(|| filling_time(gib, DEFAULT_RATE));
        Filling { way: Way::VolumeCopy, from, until: from + time }
    }

    pub(super) fn describe_volume_status(&self, now: SystemTime, call: &DescribeVolumeStatus) -> Result<Reply, Fault> {
        let query = Query::of("DescribeVolumeStatus", &call.volume_ids, &call.filters)
            .page(call.max_results, call.next_token.as_deref());
        query.check(Kind::Volume)?;
        let described = self.named_volumes(&query)?.into_iter().map(|v| v.status(now));
        faults::unless_dry_run(call.dry_run)?;
        let chosen = described.filter(|status| query.wants(&status.volume_id, status));
        Ok(Reply::DescribeVolumeStatus(query.paged(chosen, |s| s.volume_id.clone())?))
    }
}

fn filling_time(gib: u32, mib_per_second: u64) -> Duration {
    Duration::from_secs((u64::from(gib) * MIB_PER_GIB).div_ceil(mib_per_second))
}

impl Volume {
    fn status(&self, now: SystemTime) -> SimVolumeStatus {
        let detail = |name: &str, status: &str| SimStatusDetail { name: name.to_owned(), status: status.to_owned() };
        let ready = self.phase == VolumePhase::Ready;
        let status = match (ready, self.impaired) {
            (false, _) => "insufficient-data",
            (true, true) => "impaired",
            (true, false) => "ok",
        };
        let provisioned = matches!(self.volume_type.as_str(), "io1" | "io2" | "gp3");
        let performance = if provisioned && !self.attachments.is_empty() { "normal" } else { "not-applicable" };
        let filled = self.filling.as_ref().is_none_or(|filling| filling.is_done(now));
        SimVolumeStatus {
            volume_id: self.id.clone(),
            zone: self.zone.clone(),
            zone_id: self.zone_id.clone(),
            outpost_arn: self.outpost_arn.clone(),
            status: status.to_owned(),
            details: vec![
                detail("io-enabled", if self.impaired { "failed" } else { "passed" }),
                detail("io-performance", performance),
                detail("initialization-state", if filled { "completed" } else { "initializing" }),
            ],
            initialization: self.filling.as_ref().map(|filling| filling.describe(now)),
        }
    }
}

impl Filterable for SimVolumeStatus {
    fn field(&self, name: &str) -> Vec<String> {
        let details = |wanted: &str| {
            let of = self.details.iter().filter(move |d| d.name == wanted);
            of.map(|d| d.status.clone()).collect()
        };
        match name {
            "volume-id" => vec![self.volume_id.clone()],
            "availability-zone" => vec![self.zone.clone()],
            "availability-zone-id" => vec![self.zone_id.clone()],
            "volume-status.status" => vec![self.status.clone()],
            "volume-status.details-name" => self.details.iter().map(|d| d.name.clone()).collect(),
            "volume-status.details-status" => self.details.iter().map(|d| d.status.clone()).collect(),
            "io-enabled" => details("io-enabled"),
            _ => Vec::new(),
        }
    }
}

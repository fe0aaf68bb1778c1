//! DescribeVolumeStatus: whether a volume works, and its initialization progress.

use std::time::SystemTime;

use crate::api::{DescribeVolumeStatus, Fault, Reply, SimStatusDetail, SimVolumeStatus};

use super::faults;
use super::filters::Filterable;
use super::ids::Kind;
use super::listings::Query;
use super::model::{Sim, Volume, VolumePhase};
use super::volumes::named_volumes;

pub(super) fn describe_volume_status(sim: &Sim, now: SystemTime, call: &DescribeVolumeStatus) -> Result<Reply, Fault> {
    let query = Query::of("DescribeVolumeStatus", &call.volume_ids, &call.filters)
        .page(call.max_results, call.next_token.as_deref());
    query.check(Kind::Volume)?;
    let described = named_volumes(sim, &query)?.into_iter().map(|v| status_of(v, now));
    faults::unless_dry_run(call.dry_run)?;
    let chosen = described.filter(|status| query.wants(&status.volume_id, status));
    Ok(Reply::DescribeVolumeStatus(query.paged(chosen, |s| s.volume_id.clone())?))
}

fn status_of(volume: &Volume, now: SystemTime) -> SimVolumeStatus {
    let detail = |name: &str, status: &str| SimStatusDetail { name: name.to_owned(), status: status.to_owned() };
    let ready = volume.phase == VolumePhase::Ready;
    let status = match (ready, volume.impaired) {
        (false, _) => "insufficient-data",
        (true, true) => "impaired",
        (true, false) => "ok",
    };
    let provisioned = matches!(volume.volume_type.as_str(), "io1" | "io2" | "gp3");
    let performance = if provisioned && !volume.attachments.is_empty() { "normal" } else { "not-applicable" };
    let filled = volume.filling.as_ref().is_none_or(|filling| filling.is_done(now));
    SimVolumeStatus {
        volume_id: volume.id.clone(),
        zone: volume.zone.clone(),
        zone_id: volume.zone_id.clone(),
        outpost_arn: volume.outpost_arn.clone(),
        status: status.to_owned(),
        details: vec![
            detail("io-enabled", if volume.impaired { "failed" } else { "passed" }),
            detail("io-performance", performance),
            detail("initialization-state", if filled { "completed" } else { "initializing" }),
        ],
        initialization: volume.filling.as_ref().map(|filling| filling.describe(now)),
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

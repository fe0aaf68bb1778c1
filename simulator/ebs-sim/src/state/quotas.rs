//! The quotas of the account: volumes, TiB and IOPS by type, and concurrent modifications and copies.

use ebs_ec2::VolumeType;

use crate::api::{Fault, SimProperties};

use super::model::Sim;
use super::model::{ModificationPhase, Volume, VolumePhase};

const GIB_PER_TIB: u64 = 1024;

/// Rejects a volume that would exceed a quota. `instead_of` is the volume that a modification replaces in the sums.
pub(super) fn check_volume_quotas(
    sim: &Sim,
    wanted: &SimProperties,
    count: usize,
    instead_of: Option<&str>,
) -> Result<(), Fault> {
    if instead_of.is_none() && sim.volumes.len() + count > sim.policy.max_volumes {
        return Err(Fault::new(
            "VolumeLimitExceeded",
            "You have exceeded your maximum number of volumes in this region.",
        ));
    }
    let quotas = &sim.policy.account.quotas;
    let name = wanted.volume_type.as_str();
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    if let Some(tib) = quotas.storage_tib.get(name) {
        let used = sum_of(sim, &wanted.volume_type, instead_of, |v| u64::from(v.size_gib));
        if used + count.saturating_mul(u64::from(wanted.size_gib)) > tib * GIB_PER_TIB {
            return Err(Fault::new(
                "VolumeLimitExceeded",
                format!(
                    "You have exceeded your maximum {name} storage limit of {tib} TiB in this region. Please contact \
                     AWS Support to request an Elastic Block Store service limit increase."
                ),
            ));
        }
    }
    if let Some(most) = quotas.iops.get(name) {
        let used = sum_of(sim, &wanted.volume_type, instead_of, |v| v.iops.map_or(0, u64::from));
        if used + count.saturating_mul(wanted.iops.map_or(0, u64::from)) > *most {
            return Err(Fault::new(
                "MaxIOPSLimitExceeded",
                format!("You have exceeded your maximum {name} IOPS limit of {most} in this region."),
            ));
        }
    }
    Ok(())
}

/// Rejects a modification when too many TiB of its type are being modified.
pub(super) fn check_modification_quota(sim: &Sim, wanted: &SimProperties) -> Result<(), Fault> {
    let name = wanted.volume_type.as_str();
    let Some(tib) = sim.policy.account.quotas.modification_tib.get(name) else { return Ok(()) };
    let under_way = sum_of(sim, &wanted.volume_type, None, |v| match v.modification.as_ref().map(|m| &m.phase) {
        Some(ModificationPhase::Modifying { .. } | ModificationPhase::Optimizing { .. }) => u64::from(v.size_gib),
        _ => 0,
    });
    if under_way + u64::from(wanted.size_gib) <= tib * GIB_PER_TIB {
        return Ok(());
    }
    Err(Fault::new(
        "VolumeModificationSizeLimitExceeded",
        format!("You have exceeded your limit of {tib} TiB of {name} volumes in modification."),
    ))
}

pub(super) fn check_copy_quota(sim: &Sim) -> Result<(), Fault> {
    let Some(most) = sim.policy.account.quotas.concurrent_copies else { return Ok(()) };
    let under_way = sim
        .volumes
        .values()
        .filter(|v| v.source_volume_id.is_some() && matches!(v.phase, VolumePhase::Creating { .. }));
    if under_way.count() < most {
        return Ok(());
    }
    Err(Fault::new("VolumeLimitExceeded", format!("{most} volume copies are already in progress.")))
}

fn sum_of(sim: &Sim, of: &VolumeType, without: Option<&str>, number: impl Fn(&Volume) -> u64) -> u64 {
    sim.volumes.values().filter(|v| v.volume_type == *of && Some(v.id.as_str()) != without).map(number).sum()
}

//! Outposts: which ARNs are valid, and which Outpost a resource belongs to. The simulator stores only ARNs.

use crate::api::{CreateSnapshot, CreateVolume, Fault};

use super::faults::{invalid_combination, invalid_value};
use super::model::Sim;
use super::model::Volume;

pub(super) fn outpost_of_volume(sim: &Sim, call: &CreateVolume) -> Result<Option<String>, Fault> {
    let given = checked_outpost(sim, call.outpost_arn.as_deref())?;
    let local = call.snapshot_id.as_ref().and_then(|id| sim.snapshots.get(id)).and_then(|s| s.outpost_arn.clone());
    match (&given, &local) {
        (_, None) => {}
        (Some(given), Some(local)) if given == local => {}
        (_, Some(local)) => {
            return Err(invalid_combination(format!("The snapshot is on {local}, and can only be restored there.")));
        }
    }
    if given.is_some() && call.multi_attach_enabled == Some(true) {
        return Err(invalid_combination("Multi-Attach is not supported on Outposts."));
    }
    Ok(given)
}

pub(super) fn outpost_of_snapshot(sim: &Sim, call: &CreateSnapshot, volume: &Volume) -> Result<Option<String>, Fault> {
    let given = checked_outpost(sim, call.outpost_arn.as_deref())?;
    if given.is_some() && given != volume.outpost_arn {
        return Err(invalid_combination(format!("Volume '{}' is not on that Outpost.", volume.id)));
    }
    Ok(given)
}

/// Checks that the ARN has the form `arn:aws:outposts:REGION:ACCOUNT:outpost/op-…`.
fn checked_outpost(sim: &Sim, arn: Option<&str>) -> Result<Option<String>, Fault> {
    let Some(arn) = arn.filter(|arn| !arn.is_empty()) else { return Ok(None) };
    let parts: Vec<&str> = arn.split(':').collect();
    let valid = match parts[..] {
        ["arn", partition, "outposts", region, account, resource] => {
            let id = resource.strip_prefix("outpost/op-").unwrap_or_default();
            partition.starts_with("aws")
                && region == sim.account.region
                && account.len() == 12
                && id.len() == 17
                && id.bytes().all(|b| b.is_ascii_hexdigit())
        }
        _ => false,
    };
    if valid {
        return Ok(Some(arn.to_owned()));
    }
    Err(invalid_value(format!("Value ({arn}) for parameter outpostArn is invalid.")))
}

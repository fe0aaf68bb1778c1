//! From parameters to a typed call.

mod instances;
mod snapshots;
mod tags;
#[cfg(test)]
mod tests;
mod volumes;

use crate::api::{Call, Fault};
use crate::wire::params::Params;

/// The version of the API that is spoken.
const VERSION: &str = "2016-11-15";

/// Parameters that sign a request in its query string; they say nothing about the call.
const SIGNING: [&str; 7] =
    ["AWSAccessKeyId", "Signature", "SignatureVersion", "SignatureMethod", "Timestamp", "Expires", "SecurityToken"];

/// True for what signs a request, and so has no place in a ledger.
pub(crate) fn signs(name: &str) -> bool {
    SIGNING.contains(&name) || name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("X-Amz-"))
}

/// Decodes the call.
///
/// # Errors
/// `MissingAction`, `InvalidAction`, `NoSuchVersion`, `MissingParameter`, `UnknownParameter`, `InvalidParameterValue`, and
/// `UnsupportedOperation` for parameters that EC2 has and the simulator has not.
pub(crate) fn decode(mut p: Params) -> Result<Call, Fault> {
    p.drop_where(signs);
    let action = p.text("Action").filter(|name| !name.is_empty());
    let action = action
        .ok_or_else(|| Fault::new("MissingAction", "The request is missing an action or a required parameter"))?;
    // EC2 still answers older versions, each in its own shape; here there is but one.
    if let Some(version) = p.text("Version").filter(|version| version != VERSION) {
        let message = format!("The requested version ({version}) of service AmazonEC2 does not exist");
        return Err(Fault::new("NoSuchVersion", message));
    }
    let call = if action.starts_with("Describe") { describe(&action, &mut p) } else { mutate(&action, &mut p) }?;
    p.finish()?;
    Ok(call)
}

fn mutate(action: &str, p: &mut Params) -> Result<Call, Fault> {
    Ok(match action {
        "CreateVolume" => Call::CreateVolume(volumes::create_volume(p)?),
        "CopyVolumes" => Call::CopyVolumes(volumes::copy_volumes(p)?),
        "DeleteVolume" => Call::DeleteVolume(volumes::delete_volume(p)?),
        "AttachVolume" => Call::AttachVolume(volumes::attach_volume(p)?),
        "DetachVolume" => Call::DetachVolume(volumes::detach_volume(p)?),
        "ModifyVolume" => Call::ModifyVolume(volumes::modify_volume(p)?),
        "CreateSnapshot" => Call::CreateSnapshot(snapshots::create_snapshot(p)?),
        "DeleteSnapshot" => Call::DeleteSnapshot(snapshots::delete_snapshot(p)?),
        "EnableFastSnapshotRestores" => Call::EnableFastSnapshotRestores(snapshots::enable_fast_restores(p)?),
        "LockSnapshot" => Call::LockSnapshot(snapshots::lock_snapshot(p)?),
        "CreateTags" => Call::CreateTags(tags::create_tags(p)?),
        "DeleteTags" => Call::DeleteTags(tags::delete_tags(p)?),
        "RunInstances" => Call::RunInstances(instances::run_instances(p)?),
        "TerminateInstances" => Call::TerminateInstances(instances::terminate_instances(p)?),
        _ => return Err(no_such_action(action)),
    })
}

fn describe(action: &str, p: &mut Params) -> Result<Call, Fault> {
    Ok(match action {
        "DescribeVolumes" => Call::DescribeVolumes(volumes::describe_volumes(p)?),
        "DescribeVolumeStatus" => Call::DescribeVolumeStatus(volumes::describe_volume_status(p)?),
        "DescribeVolumesModifications" => Call::DescribeVolumesModifications(volumes::describe_modifications(p)?),
        "DescribeSnapshots" => Call::DescribeSnapshots(snapshots::describe_snapshots(p)?),
        "DescribeFastSnapshotRestores" => Call::DescribeFastSnapshotRestores(snapshots::describe_fast_restores(p)?),
        "DescribeLockedSnapshots" => Call::DescribeLockedSnapshots(snapshots::describe_locked(p)?),
        "DescribeInstances" => Call::DescribeInstances(instances::describe_instances(p)?),
        "DescribeInstanceTypes" => Call::DescribeInstanceTypes(instances::describe_instance_types(p)?),
        "DescribeTags" => Call::DescribeTags(tags::describe_tags(p)?),
        "DescribeAvailabilityZones" => Call::DescribeAvailabilityZones(instances::describe_zones(p)?),
        _ => return Err(no_such_action(action)),
    })
}

fn no_such_action(action: &str) -> Fault {
    Fault::new("InvalidAction", format!("The action {action} is not valid for this web service."))
}

fn dry_run(p: &mut Params) -> Result<bool, Fault> {
    Ok(p.flag("DryRun")?.unwrap_or(false))
}

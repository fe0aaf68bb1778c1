//! Passes each call to the module that implements its action.

use std::time::SystemTime;

use crate::api::{Call, Fault, Reply};

use super::attachments::{attach_volume, detach_volume};
use super::cluster_nodes::{attach_node_volume, detach_node_volume};
use super::copies::copy_volumes;
use super::fast_restore::{describe_fast_restores, disable_fast_restores, enable_fast_restores};
use super::instances::{run_instances, start_instances, stop_instances, terminate_instances};
use super::locks::{describe_locked_snapshots, lock_snapshot, unlock_snapshot};
use super::model::Sim;
use super::modifications::{describe_volumes_modifications, modify_volume};
use super::places::{describe_availability_zones, describe_instance_types, describe_instances};
use super::snapshots::{create_snapshot, delete_snapshot, describe_snapshots};
use super::status::describe_volume_status;
use super::tags::{create_tags, delete_tags, describe_tags};
use super::volumes::{create_volume, delete_volume, describe_volumes};

pub(super) fn carry_out(sim: &mut Sim, now: SystemTime, call: Call) -> Result<Reply, Fault> {
    match call {
        Call::CreateVolume(c) => create_volume(sim, now, c),
        Call::CopyVolumes(c) => copy_volumes(sim, now, c),
        Call::DeleteVolume(c) => delete_volume(sim, now, &c),
        Call::DescribeVolumes(c) => describe_volumes(sim, &c),
        Call::DescribeVolumeStatus(c) => describe_volume_status(sim, now, &c),
        Call::AttachVolume(c) => attach_volume(sim, now, &c),
        Call::DetachVolume(c) => detach_volume(sim, now, &c),
        Call::ModifyVolume(c) => modify_volume(sim, now, &c),
        Call::DescribeVolumesModifications(c) => describe_volumes_modifications(sim, &c),
        Call::CreateSnapshot(c) => create_snapshot(sim, now, &c),
        Call::DeleteSnapshot(c) => delete_snapshot(sim, now, &c),
        Call::DescribeSnapshots(c) => describe_snapshots(sim, now, &c),
        Call::CreateTags(c) => create_tags(sim, &c),
        Call::DeleteTags(c) => delete_tags(sim, &c),
        Call::DescribeTags(c) => describe_tags(sim, &c),
        Call::DescribeInstances(c) => describe_instances(sim, &c),
        Call::DescribeInstanceTypes(c) => describe_instance_types(sim, &c),
        Call::DescribeAvailabilityZones(c) => describe_availability_zones(sim, &c),
        Call::RunInstances(c) => run_instances(sim, now, c),
        Call::StartInstances(c) => start_instances(sim, now, &c),
        Call::StopInstances(c) => stop_instances(sim, now, &c),
        Call::TerminateInstances(c) => terminate_instances(sim, now, &c),
        Call::EnableFastSnapshotRestores(c) => enable_fast_restores(sim, now, &c),
        Call::DisableFastSnapshotRestores(c) => disable_fast_restores(sim, now, &c),
        Call::DescribeFastSnapshotRestores(c) => describe_fast_restores(sim, now, &c),
        Call::LockSnapshot(c) => lock_snapshot(sim, now, &c),
        Call::UnlockSnapshot(c) => unlock_snapshot(sim, now, &c),
        Call::DescribeLockedSnapshots(c) => describe_locked_snapshots(sim, now, &c),
        Call::AttachClusterNodeVolume(c) => attach_node_volume(sim, now, &c),
        Call::DetachClusterNodeVolume(c) => detach_node_volume(sim, now, &c),
    }
}

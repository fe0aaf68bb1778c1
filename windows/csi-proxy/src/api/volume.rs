//! Group volume.

use winstorage::service::VolumeStats;
use winstorage::types::{DiskNumber, PartitionNumber};

use super::number::{bytes, disk_number};
use super::{Around, Table, at_least, rows};
use crate::status::Failure;

pub(super) fn table() -> Table {
    let mut table = Table::new();
    in_all_versions(&mut table);
    with_old_names(&mut table);
    with_new_names(&mut table);
    table
}

fn in_all_versions(table: &mut Table) {
    rows!(table, volume: v1alpha1 v1beta1 v1beta2 v1beta3 v1 v2alpha1 => {
        IsVolumeFormatted reads: IsVolumeFormattedRequest, |request| Ok(request.volume_id),
            |around, volume| Ok(around.storage.is_volume_formatted(&volume)?),
            |formatted| m::IsVolumeFormattedResponse { formatted };
        FormatVolume writes: FormatVolumeRequest, |request| Ok(request.volume_id),
            |around, volume| Ok(around.storage.format_volume(&volume)?), |()| m::FormatVolumeResponse {};
    });
    rows!(table, volume: v1beta2 v1beta3 v1 v2alpha1 => {
        WriteVolumeCache writes: WriteVolumeCacheRequest, |request| Ok(request.volume_id),
            |around, volume| Ok(around.storage.write_volume_cache(&volume)?), |()| m::WriteVolumeCacheResponse {};
    });
}

fn with_old_names(table: &mut Table) {
    rows!(table, volume: v1alpha1 v1beta1 v1beta2 => {
        ListVolumesOnDisk reads: ListVolumesOnDiskRequest, |request| Ok((parsed(&request.disk_id)?, None)), list,
            |volume_ids| m::ListVolumesOnDiskResponse { volume_ids };
        MountVolume writes: MountVolumeRequest, |request| Ok((request.volume_id, request.path)), mount,
            |()| m::MountVolumeResponse {};
        DismountVolume writes: DismountVolumeRequest, |request| Ok((request.volume_id, request.path)),
            |around, both| unmount(around, both).map_err(|error| error.forwarded_to("UnmountVolume")),
            |()| m::DismountVolumeResponse {};
        ResizeVolume writes: ResizeVolumeRequest, |request| Ok((request.volume_id, request.size)), resize,
            |()| m::ResizeVolumeResponse {};
    });
    rows!(table, volume: v1beta1 v1beta2 => {
        VolumeStats reads: VolumeStatsRequest, |request| Ok(request.volume_id),
            |around, volume| {
                at_least(around, "v1beta1", "VolumeStats")?;
                stats(around, volume).map_err(|error| error.forwarded_to("GetVolumeStats"))
            },
            |stats| m::VolumeStatsResponse { volume_size: bytes(stats.total), volume_used_size: bytes(stats.used) };
        GetVolumeDiskNumber reads: VolumeDiskNumberRequest, |request| Ok(request.volume_id),
            |around, volume| {
                at_least(around, "v1beta1", "GetVolumeDiskNumber")?;
                disk(around, volume).map_err(|error| error.forwarded_to("GetDiskNumberFromVolumeID"))
            },
            |disk| m::VolumeDiskNumberResponse { disk_number: i64::from(disk.0) };
        GetVolumeIDFromMount reads: VolumeIdFromMountRequest, |request| Ok(request.mount),
            |around, path| {
                at_least(around, "v1beta1", "GetVolumeIDFromMount")?;
                of_path(around, path).map_err(|error| error.forwarded_to("GetVolumeIDFromTargetPath"))
            },
            |volume_id| m::VolumeIdFromMountResponse { volume_id };
    });
}

fn with_new_names(table: &mut Table) {
    rows!(table, volume: v1beta3 v1 v2alpha1 => {
        ListVolumesOnDisk reads: ListVolumesOnDiskRequest,
            |request| Ok((DiskNumber(request.disk_number), PartitionNumber::new(request.partition_number))), list,
            |volume_ids| m::ListVolumesOnDiskResponse { volume_ids };
        MountVolume writes: MountVolumeRequest, |request| Ok((request.volume_id, request.target_path)), mount,
            |()| m::MountVolumeResponse {};
        UnmountVolume writes: UnmountVolumeRequest, |request| Ok((request.volume_id, request.target_path)), unmount,
            |()| m::UnmountVolumeResponse {};
        ResizeVolume writes: ResizeVolumeRequest, |request| Ok((request.volume_id, request.size_bytes)), resize,
            |()| m::ResizeVolumeResponse {};
        GetVolumeStats reads: GetVolumeStatsRequest, |request| Ok(request.volume_id), stats,
            |stats| m::GetVolumeStatsResponse { total_bytes: bytes(stats.total), used_bytes: bytes(stats.used) };
        GetDiskNumberFromVolumeID reads: GetDiskNumberFromVolumeIdRequest, |request| Ok(request.volume_id), disk,
            |disk| m::GetDiskNumberFromVolumeIdResponse { disk_number: disk.0 };
        GetVolumeIDFromTargetPath reads: GetVolumeIdFromTargetPathRequest, |request| Ok(request.target_path), of_path,
            |volume_id| m::GetVolumeIdFromTargetPathResponse { volume_id };
    });
    rows!(table, volume: v2alpha1 => {
        GetClosestVolumeIDFromTargetPath reads: GetClosestVolumeIdFromTargetPathRequest,
            |request| Ok(request.target_path),
            |around, path| Ok(around.storage.closest_volume_of_path(&path)?.to_string()),
            |volume_id| m::GetClosestVolumeIdFromTargetPathResponse { volume_id };
    });
}

fn list(around: &Around<'_>, (disk, partition): (DiskNumber, Option<PartitionNumber>)) -> Result<Vec<String>, Failure> {
    let volumes = around.storage.list_volumes_on_disk(disk, partition)?;
    Ok(volumes.iter().map(ToString::to_string).collect())
}

fn mount(around: &Around<'_>, (volume, path): (String, String)) -> Result<(), Failure> {
    Ok(around.storage.mount_volume(&volume, &path)?)
}

fn unmount(around: &Around<'_>, (volume, path): (String, String)) -> Result<(), Failure> {
    Ok(around.storage.unmount_volume(&volume, &path)?)
}

fn resize(around: &Around<'_>, (volume, size): (String, i64)) -> Result<(), Failure> {
    around.storage.resize_volume(&volume, size, around.patience)?;
    Ok(())
}

fn stats(around: &Around<'_>, volume: String) -> Result<VolumeStats, Failure> {
    Ok(around.storage.volume_stats(&volume)?)
}

fn disk(around: &Around<'_>, volume: String) -> Result<DiskNumber, Failure> {
    Ok(around.storage.disk_number_of_volume(&volume)?)
}

fn of_path(around: &Around<'_>, path: String) -> Result<String, Failure> {
    Ok(around.storage.volume_of_path(&path)?.to_string())
}

fn parsed(text: &str) -> Result<DiskNumber, Failure> {
    disk_number(text).map_err(|error| Failure::Refused(format!("Failed to parse diskId: err={error}")))
}

//! The calls of the API group `volume`.

use winstorage::StorageError;
use winstorage::types::{DiskNumber, PartitionNumber, VolumeGuid};

use super::number::{bytes, disk_number};
use super::{Around, Table, rows};
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
            |around, volume: String| around.storage.is_volume_formatted(&volume),
            |formatted| m::IsVolumeFormattedResponse { formatted };
        FormatVolume writes: FormatVolumeRequest, |request| Ok(request.volume_id),
            |around, volume: String| around.storage.format_volume(&volume) => FormatVolumeResponse;
    });
    rows!(table, volume: v1beta2 v1beta3 v1 v2alpha1 => {
        WriteVolumeCache writes: WriteVolumeCacheRequest, |request| Ok(request.volume_id),
            |around, volume: String| around.storage.write_volume_cache(&volume) => WriteVolumeCacheResponse;
    });
}

fn with_old_names(table: &mut Table) {
    rows!(table, volume: v1alpha1 v1beta1 v1beta2 => {
        ListVolumesOnDisk reads: ListVolumesOnDiskRequest, |request| parsed(&request.disk_id),
            |around, disk| around.storage.list_volumes_on_disk(disk, None),
            |found| m::ListVolumesOnDiskResponse { volume_ids: texts(&found) };
        MountVolume writes: MountVolumeRequest, |request| Ok((request.volume_id, request.path)),
            |around, (volume, path): (String, String)| around.storage.mount_volume(&volume, &path)
                => MountVolumeResponse;
        DismountVolume writes: DismountVolumeRequest, |request| Ok((request.volume_id, request.path)),
            |around, (volume, path): (String, String)| {
                forwarded("UnmountVolume", around.storage.unmount_volume(&volume, &path))
            } => DismountVolumeResponse;
        ResizeVolume writes: ResizeVolumeRequest, |request| Ok((request.volume_id, request.size)),
            resize => ResizeVolumeResponse;
    });
    rows!(table, volume: v1beta1 v1beta2 => {
        VolumeStats reads: VolumeStatsRequest, |request| Ok(request.volume_id),
            |around, volume: String| forwarded("GetVolumeStats", around.storage.volume_stats(&volume)),
            |stats| m::VolumeStatsResponse { volume_size: bytes(stats.total), volume_used_size: bytes(stats.used) };
        GetVolumeDiskNumber reads: VolumeDiskNumberRequest, |request| Ok(request.volume_id),
            |around, volume: String| {
                forwarded("GetDiskNumberFromVolumeID", around.storage.disk_number_of_volume(&volume))
            },
            |disk| m::VolumeDiskNumberResponse { disk_number: i64::from(disk.0) };
        GetVolumeIDFromMount reads: VolumeIdFromMountRequest, |request| Ok(request.mount),
            |around, path: String| forwarded("GetVolumeIDFromTargetPath", around.storage.volume_of_path(&path)),
            |volume| m::VolumeIdFromMountResponse { volume_id: volume.to_string() };
    });
}

fn with_new_names(table: &mut Table) {
    rows!(table, volume: v1beta3 v1 v2alpha1 => {
        ListVolumesOnDisk reads: ListVolumesOnDiskRequest,
            |request| Ok((DiskNumber(request.disk_number), PartitionNumber::new(request.partition_number))),
            |around, (disk, partition): (DiskNumber, Option<PartitionNumber>)| {
                around.storage.list_volumes_on_disk(disk, partition)
            },
            |found| m::ListVolumesOnDiskResponse { volume_ids: texts(&found) };
        MountVolume writes: MountVolumeRequest, |request| Ok((request.volume_id, request.target_path)),
            |around, (volume, path): (String, String)| around.storage.mount_volume(&volume, &path)
                => MountVolumeResponse;
        UnmountVolume writes: UnmountVolumeRequest, |request| Ok((request.volume_id, request.target_path)),
            |around, (volume, path): (String, String)| around.storage.unmount_volume(&volume, &path)
                => UnmountVolumeResponse;
        ResizeVolume writes: ResizeVolumeRequest, |request| Ok((request.volume_id, request.size_bytes)),
            resize => ResizeVolumeResponse;
        GetVolumeStats reads: GetVolumeStatsRequest, |request| Ok(request.volume_id),
            |around, volume: String| around.storage.volume_stats(&volume),
            |stats| m::GetVolumeStatsResponse { total_bytes: bytes(stats.total), used_bytes: bytes(stats.used) };
        GetDiskNumberFromVolumeID reads: GetDiskNumberFromVolumeIdRequest, |request| Ok(request.volume_id),
            |around, volume: String| around.storage.disk_number_of_volume(&volume),
            |disk| m::GetDiskNumberFromVolumeIdResponse { disk_number: disk.0 };
        GetVolumeIDFromTargetPath reads: GetVolumeIdFromTargetPathRequest, |request| Ok(request.target_path),
            |around, path: String| around.storage.volume_of_path(&path),
            |volume| m::GetVolumeIdFromTargetPathResponse { volume_id: volume.to_string() };
    });
    rows!(table, volume: v2alpha1 => {
        GetClosestVolumeIDFromTargetPath reads: GetClosestVolumeIdFromTargetPathRequest,
            |request| Ok(request.target_path),
            |around, path: String| around.storage.closest_volume_of_path(&path),
            |volume| m::GetClosestVolumeIdFromTargetPathResponse { volume_id: volume.to_string() };
    });
}

fn resize(around: &Around<'_>, (volume, size): (String, i64)) -> Result<(), StorageError> {
    around.storage.resize_volume(&volume, size, around.patience).map(drop)
}

fn parsed(text: &str) -> Result<DiskNumber, Failure> {
    disk_number(text).map_err(|error| Failure::Refused(format!("Failed to parse diskId: err={error}")))
}

fn texts(volumes: &[VolumeGuid]) -> Vec<String> {
    volumes.iter().map(ToString::to_string).collect()
}

/// Prefixes the error text with the name of the newer call to which the request was forwarded.
fn forwarded<T>(to: &str, result: Result<T, StorageError>) -> Result<T, Failure> {
    result.map_err(|error| Failure::from(error).forwarded_to(to))
}

//! The calls of the API group `disk`.

use std::collections::{BTreeMap, HashMap};

use winstorage::types::DiskNumber;

use super::number::{bytes, disk_number};
use super::{Table, rows};
use crate::status::Failure;

/// The identifier's key in the versions that return a map.
const PAGE83: &str = "page83";
const SERIAL_NUMBER: &str = "serialNumber";

pub(super) fn table() -> Table {
    let mut table = Table::new();
    with_texts(&mut table);
    with_numbers(&mut table);
    table
}

/// Adds the rows of versions in which a disk number is a string.
fn with_texts(table: &mut Table) {
    rows!(table, disk: v1alpha1 v1beta1 v1beta2 => {
        ListDiskLocations reads: ListDiskLocationsRequest, |_| Ok(()),
            |around, ()| around.storage.list_disk_locations(),
            |found| m::ListDiskLocationsResponse { disk_locations: by_text(found, |at| m::DiskLocation {
                adapter: at.adapter, bus: at.bus, target: at.target, lunid: at.lun,
            }) };
        Rescan writes: RescanRequest, |_| Ok(()), |around, ()| around.storage.rescan() => RescanResponse;
    });
    rows!(table, disk: v1alpha1 => {
        PartitionDisk writes: PartitionDiskRequest, |request| partitioned("v1alpha1", &request.disk_id),
            |around, disk| around.storage.partition_disk(disk) => PartitionDiskResponse;
        GetDiskNumberByName reads: GetDiskNumberByNameRequest, |request| Ok(request.disk_name),
            |around, name: String| around.storage.disk_number_by_name(&name),
            |number| m::GetDiskNumberByNameResponse { disk_number: number.to_string() };
    });
    rows!(table, disk: v1beta1 => {
        PartitionDisk writes: PartitionDiskRequest, |request| partitioned("v1beta1", &request.disk_id),
            |around, disk| around.storage.partition_disk(disk) => PartitionDiskResponse;
    });
    rows!(table, disk: v1beta1 v1beta2 => {
        ListDiskIDs reads: ListDiskIDsRequest, |_| Ok(()), |around, ()| around.storage.list_disk_ids(),
            |found| m::ListDiskIDsResponse { disk_i_ds: by_text(found, |ids| m::DiskIDs {
                identifiers: HashMap::from([
                    (PAGE83.to_owned(), ids.page83),
                    (SERIAL_NUMBER.to_owned(), ids.serial_number),
                ]),
            }) };
        DiskStats reads: DiskStatsRequest, |request| formatted("DiskStatsRequest", &request.disk_id),
            |around, disk| around.storage.disk_size(disk),
            |size| m::DiskStatsResponse { disk_size: bytes(size) };
    });
    rows!(table, disk: v1beta2 => {
        PartitionDisk writes: PartitionDiskRequest, |request| partitioned("v1beta2", &request.disk_id),
            |around, disk| around.storage.partition_disk(disk) => PartitionDiskResponse;
        SetAttachState writes: SetAttachStateRequest,
            |request| Ok((formatted("SetAttachStateRequest", &request.disk_id)?, request.is_online)),
            |around, (disk, is_online): (DiskNumber, bool)| around.storage.set_disk_state(disk, is_online)
                => SetAttachStateResponse;
        GetAttachState reads: GetAttachStateRequest, |request| formatted("GetAttachStateRequest", &request.disk_id),
            |around, disk| around.storage.disk_state(disk),
            |is_online| m::GetAttachStateResponse { is_online };
    });
}

/// Adds the rows of the API versions that send disk numbers as numbers, not as text.
fn with_numbers(table: &mut Table) {
    rows!(table, disk: v1beta3 v1 => {
        ListDiskLocations reads: ListDiskLocationsRequest, |_| Ok(()),
            |around, ()| around.storage.list_disk_locations(),
            |found| m::ListDiskLocationsResponse { disk_locations: by_number(found, |at| m::DiskLocation {
                adapter: at.adapter, bus: at.bus, target: at.target, lunid: at.lun,
            }) };
        PartitionDisk writes: PartitionDiskRequest, |request| Ok(DiskNumber(request.disk_number)),
            |around, disk| around.storage.partition_disk(disk) => PartitionDiskResponse;
        Rescan writes: RescanRequest, |_| Ok(()), |around, ()| around.storage.rescan() => RescanResponse;
        ListDiskIDs reads: ListDiskIDsRequest, |_| Ok(()), |around, ()| around.storage.list_disk_ids(),
            |found| m::ListDiskIDsResponse { disk_i_ds: by_number(found, |ids| m::DiskIDs {
                page83: ids.page83, serial_number: ids.serial_number,
            }) };
        GetDiskStats reads: GetDiskStatsRequest, |request| Ok(DiskNumber(request.disk_number)),
            |around, disk| around.storage.disk_size(disk),
            |size| m::GetDiskStatsResponse { total_bytes: bytes(size) };
        SetDiskState writes: SetDiskStateRequest, |request| Ok((DiskNumber(request.disk_number), request.is_online)),
            |around, (disk, is_online): (DiskNumber, bool)| around.storage.set_disk_state(disk, is_online)
                => SetDiskStateResponse;
        GetDiskState reads: GetDiskStateRequest, |request| Ok(DiskNumber(request.disk_number)),
            |around, disk| around.storage.disk_state(disk),
            |is_online| m::GetDiskStateResponse { is_online };
    });
}

fn partitioned(version: &str, text: &str) -> Result<DiskNumber, Failure> {
    let failed = |error| format!("Failed to convert {version}.PartitionDiskRequest.DiskID to uint32: {error}");
    disk_number(text).map_err(|error| Failure::Refused(failed(error)))
}

fn formatted(message: &str, text: &str) -> Result<DiskNumber, Failure> {
    disk_number(text).map_err(|error| Failure::Refused(format!("Failed to format {message}.DiskID with err: {error}")))
}

fn by_text<A, B>(all: BTreeMap<DiskNumber, A>, give: impl Fn(A) -> B) -> HashMap<String, B> {
    all.into_iter().map(|(number, one)| (number.to_string(), give(one))).collect()
}

fn by_number<A, B>(all: BTreeMap<DiskNumber, A>, give: impl Fn(A) -> B) -> HashMap<u32, B> {
    all.into_iter().map(|(number, one)| (number.0, give(one))).collect()
}

//! Group disk.

use std::collections::{BTreeMap, HashMap};

use winstorage::service::{DiskIds, DiskLocation};
use winstorage::types::DiskNumber;

use super::number::{bytes, disk_number};
use super::{Around, Table, at_least, rows};
use crate::status::Failure;

/// The keys of the identifiers in versions that return a map.
const PAGE83: &str = "page83";
const SERIAL_NUMBER: &str = "serialNumber";

pub(super) fn table() -> Table {
    let mut table = Table::new();
    with_texts(&mut table);
    with_numbers(&mut table);
    table
}

/// Versions in which disk numbers are texts.
fn with_texts(table: &mut Table) {
    rows!(table, disk: v1alpha1 v1beta1 v1beta2 => {
        ListDiskLocations reads: ListDiskLocationsRequest, |_| Ok(()), list_locations,
            |found| m::ListDiskLocationsResponse { disk_locations: by_text(found, |at| m::DiskLocation {
                adapter: at.adapter, bus: at.bus, target: at.target, lunid: at.lun,
            }) };
        Rescan writes: RescanRequest, |_| Ok(()), rescan, |()| m::RescanResponse {};
    });
    rows!(table, disk: v1alpha1 => {
        PartitionDisk writes: PartitionDiskRequest, |request| partitioned("v1alpha1", &request.disk_id), partition,
            |()| m::PartitionDiskResponse {};
        GetDiskNumberByName reads: GetDiskNumberByNameRequest, |request| Ok(request.disk_name),
            |around, name| Ok(around.storage.disk_number_by_name(&name)?),
            |number| m::GetDiskNumberByNameResponse { disk_number: number.to_string() };
    });
    rows!(table, disk: v1beta1 => {
        PartitionDisk writes: PartitionDiskRequest, |request| partitioned("v1beta1", &request.disk_id), partition,
            |()| m::PartitionDiskResponse {};
    });
    rows!(table, disk: v1beta1 v1beta2 => {
        ListDiskIDs reads: ListDiskIDsRequest, |_| Ok(()), list_ids,
            |found| m::ListDiskIDsResponse { disk_i_ds: by_text(found, |ids| m::DiskIDs {
                identifiers: HashMap::from([
                    (PAGE83.to_owned(), ids.page83),
                    (SERIAL_NUMBER.to_owned(), ids.serial_number),
                ]),
            }) };
        DiskStats reads: DiskStatsRequest, |request| formatted("DiskStatsRequest", &request.disk_id),
            |around, disk| { at_least(around, "v1beta1", "DiskStats")?; size(around, disk) },
            |size| m::DiskStatsResponse { disk_size: size };
    });
    rows!(table, disk: v1beta2 => {
        PartitionDisk writes: PartitionDiskRequest, |request| partitioned("v1beta2", &request.disk_id), partition,
            |()| m::PartitionDiskResponse {};
        SetAttachState writes: SetAttachStateRequest,
            |request| Ok((formatted("SetAttachStateRequest", &request.disk_id)?, request.is_online)),
            |around, wanted| { at_least(around, "v1beta2", "SetAttachState")?; set_state(around, wanted) },
            |()| m::SetAttachStateResponse {};
        GetAttachState reads: GetAttachStateRequest, |request| formatted("GetAttachStateRequest", &request.disk_id),
            |around, disk| { at_least(around, "v1beta2", "GetAttachState")?; state(around, disk) },
            |is_online| m::GetAttachStateResponse { is_online };
    });
}

/// Versions in which disk numbers are numbers.
fn with_numbers(table: &mut Table) {
    rows!(table, disk: v1beta3 v1 => {
        ListDiskLocations reads: ListDiskLocationsRequest, |_| Ok(()), list_locations,
            |found| m::ListDiskLocationsResponse { disk_locations: by_number(found, |at| m::DiskLocation {
                adapter: at.adapter, bus: at.bus, target: at.target, lunid: at.lun,
            }) };
        PartitionDisk writes: PartitionDiskRequest, |request| Ok(DiskNumber(request.disk_number)), partition,
            |()| m::PartitionDiskResponse {};
        Rescan writes: RescanRequest, |_| Ok(()), rescan, |()| m::RescanResponse {};
        ListDiskIDs reads: ListDiskIDsRequest, |_| Ok(()), list_ids,
            |found| m::ListDiskIDsResponse { disk_i_ds: by_number(found, |ids| m::DiskIDs {
                page83: ids.page83, serial_number: ids.serial_number,
            }) };
        GetDiskStats reads: GetDiskStatsRequest, |request| Ok(DiskNumber(request.disk_number)), size,
            |total_bytes| m::GetDiskStatsResponse { total_bytes };
        SetDiskState writes: SetDiskStateRequest, |request| Ok((DiskNumber(request.disk_number), request.is_online)),
            set_state, |()| m::SetDiskStateResponse {};
        GetDiskState reads: GetDiskStateRequest, |request| Ok(DiskNumber(request.disk_number)), state,
            |is_online| m::GetDiskStateResponse { is_online };
    });
}

fn list_locations(around: &Around<'_>, (): ()) -> Result<BTreeMap<DiskNumber, DiskLocation>, Failure> {
    Ok(around.storage.list_disk_locations()?)
}

fn list_ids(around: &Around<'_>, (): ()) -> Result<BTreeMap<DiskNumber, DiskIds>, Failure> {
    at_least(around, "v1beta1", "ListDiskIDs")?;
    Ok(around.storage.list_disk_ids()?)
}

fn rescan(around: &Around<'_>, (): ()) -> Result<(), Failure> {
    Ok(around.storage.rescan()?)
}

fn partition(around: &Around<'_>, disk: DiskNumber) -> Result<(), Failure> {
    Ok(around.storage.partition_disk(disk)?)
}

fn size(around: &Around<'_>, disk: DiskNumber) -> Result<i64, Failure> {
    Ok(bytes(around.storage.disk_size(disk)?))
}

fn set_state(around: &Around<'_>, (disk, is_online): (DiskNumber, bool)) -> Result<(), Failure> {
    Ok(around.storage.set_disk_state(disk, is_online)?)
}

fn state(around: &Around<'_>, disk: DiskNumber) -> Result<bool, Failure> {
    Ok(around.storage.disk_state(disk)?)
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

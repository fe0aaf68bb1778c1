//! The calls of the API group `system`.

use super::{Table, rows};

pub(super) fn table() -> Table {
    let mut table = Table::new();
    rows!(table, system: v1alpha1 => {
        GetBIOSSerialNumber reads: GetBiosSerialNumberRequest, |_| Ok(()),
            |around, ()| around.storage.bios_serial_number(),
            |serial_number| m::GetBiosSerialNumberResponse { serial_number };
        StartService writes: StartServiceRequest, |request| Ok(request.name),
            |around, name: String| around.storage.start_service(&name) => StartServiceResponse;
        StopService writes: StopServiceRequest, |request| Ok((request.name, request.force)),
            |around, (name, force): (String, bool)| around.storage.stop_service(&name, force) => StopServiceResponse;
        GetService reads: GetServiceRequest, |request| Ok(request.name),
            |around, name: String| around.storage.service(&name),
            |service| m::GetServiceResponse {
                display_name: service.display_name,
                start_type: service.start_type as i32,
                status: service.status as i32,
            };
    });
    table
}

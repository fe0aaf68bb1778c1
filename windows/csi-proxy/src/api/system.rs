//! Group system.

use winstorage::service::{ServiceStatus, StartType};

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
                start_type: i32::from(match service.start_type {
                    StartType::Boot => m::StartType::Boot,
                    StartType::System => m::StartType::System,
                    StartType::Automatic => m::StartType::Automatic,
                    StartType::Manual => m::StartType::Manual,
                    StartType::Disabled => m::StartType::Disabled,
                }),
                status: i32::from(match service.status {
                    ServiceStatus::Unknown => m::ServiceStatus::Unknown,
                    ServiceStatus::Stopped => m::ServiceStatus::Stopped,
                    ServiceStatus::StartPending => m::ServiceStatus::StartPending,
                    ServiceStatus::StopPending => m::ServiceStatus::StopPending,
                    ServiceStatus::Running => m::ServiceStatus::Running,
                    ServiceStatus::ContinuePending => m::ServiceStatus::ContinuePending,
                    ServiceStatus::PausePending => m::ServiceStatus::PausePending,
                    ServiceStatus::Paused => m::ServiceStatus::Paused,
                }),
            };
    });
    table
}

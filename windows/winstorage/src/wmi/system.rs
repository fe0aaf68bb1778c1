//! WMI queries and calls for firmware and services.

use super::vocabulary::{self, Call, Class};
use super::{On, Row, Wmi, WmiHost};
use crate::host::{HostError, NativeHost, ServiceRow, SystemHost};
use crate::types::ServiceName;

impl<W: Wmi, N: NativeHost> SystemHost for WmiHost<W, N> {
    fn bios_serials(&self) -> Result<Vec<String>, HostError> {
        let read = |row: &Row| row.text("SerialNumber").map(str::to_owned);
        self.all(Class::Bios, vocabulary::BIOS_SERIALS, &"this machine", &read)
    }

    fn service(&self, name: &ServiceName) -> Result<Option<ServiceRow>, HostError> {
        self.first(Class::Service, &vocabulary::service(name.as_str()), name, &read_service)
    }

    fn dependents(&self, name: &ServiceName) -> Result<Vec<(ServiceName, ServiceRow)>, HostError> {
        let wql = vocabulary::dependents(&vocabulary::service_path(name.as_str()));
        let read = |row: &Row| {
            let dependent = ServiceName::parse(row.text("Name")?).map_err(|error| error.to_string())?;
            Ok((dependent, read_service(row)?))
        };
        self.all(Class::Service, &wql, name, &read)
    }

    fn start_service(&self, name: &ServiceName) -> Result<u32, HostError> {
        let path = vocabulary::service_path(name.as_str());
        self.exec(On::Object(&path), Call::START_SERVICE, &[], name).map(|(result, _)| result)
    }

    fn stop_service(&self, name: &ServiceName) -> Result<u32, HostError> {
        let path = vocabulary::service_path(name.as_str());
        self.exec(On::Object(&path), Call::STOP_SERVICE, &[], name).map(|(result, _)| result)
    }

    fn native(&self) -> &dyn NativeHost {
        &self.native
    }
}

fn read_service(row: &Row) -> Result<ServiceRow, String> {
    Ok(ServiceRow {
        display_name: row.text("DisplayName")?.to_owned(),
        state: row.text("State")?.to_owned(),
        start_mode: row.text("StartMode")?.to_owned(),
    })
}

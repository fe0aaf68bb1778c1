//! Firmware and services.

use super::vocabulary::{self, Call, Class};
use super::{On, Row, Wmi, WmiHost};
use crate::host::{HostError, NativeHost, ServiceRow, SystemHost};
use crate::types::ServiceName;

impl<W: Wmi, N: NativeHost> SystemHost for WmiHost<W, N> {
    fn bios_serials(&self) -> Result<Vec<String>, HostError> {
        let rows = self.query(Class::Bios, vocabulary::BIOS_SERIALS, &"this machine")?;
        let read = |row: &Row| row.text("SerialNumber").map(str::to_owned);
        let odd = |what| HostError::malformed(Class::Bios.name(), "this machine", what);
        rows.iter().map(read).collect::<Result<_, String>>().map_err(odd)
    }

    fn service(&self, name: &ServiceName) -> Result<Option<ServiceRow>, HostError> {
        let rows = self.query(Class::Service, &vocabulary::service(name.as_str()), name)?;
        rows.first().map(read_service).transpose().map_err(|what| odd_service(name, what))
    }

    fn dependents(&self, name: &ServiceName) -> Result<Vec<(ServiceName, ServiceRow)>, HostError> {
        let wql = vocabulary::dependents(&vocabulary::service_path(name.as_str()));
        let rows = self.associated(Class::Service, &wql, name)?;
        let read = |row: &Row| {
            let dependent = ServiceName::parse(row.text("Name")?).map_err(|error| error.to_string())?;
            Ok((dependent, read_service(row)?))
        };
        rows.iter().map(read).collect::<Result<_, String>>().map_err(|what| odd_service(name, what))
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

fn odd_service(name: &ServiceName, what: String) -> HostError {
    HostError::malformed(Class::Service.name(), name, what)
}

//! The machine itself: firmware and services.

use super::{HostError, NativeHost};
use crate::types::ServiceName;

/// A row of `Win32_Service`, with Windows' values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRow {
    pub display_name: String,
    /// `State`, such as `Running` or `Stop Pending`.
    pub state: String,
    /// `StartMode`, such as `Auto` or `Manual`.
    pub start_mode: String,
}

pub trait SystemHost: Send + Sync {
    /// Returns `CIM_BIOSElement.SerialNumber` of every row.
    fn bios_serials(&self) -> Result<Vec<String>, HostError>;
    fn service(&self, name: &ServiceName) -> Result<Option<ServiceRow>, HostError>;
    fn dependents(&self, name: &ServiceName) -> Result<Vec<(ServiceName, ServiceRow)>, HostError>;
    /// Starts the service, and returns Windows' return code (0 accepted, 10 already running, …).
    fn start_service(&self, name: &ServiceName) -> Result<u32, HostError>;
    /// Stops the service, and returns Windows' return code (0 accepted, 3 dependents are running, 5 not running, …).
    fn stop_service(&self, name: &ServiceName) -> Result<u32, HostError>;
    fn native(&self) -> &dyn NativeHost;
}

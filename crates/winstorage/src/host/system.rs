//! The machine itself: firmware, services, time.

use std::time::Duration;

use super::HostError;
use crate::types::ServiceName;

/// A row of `Win32_Service`, in Windows' words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRow {
    /// `DisplayName`
    pub display_name: String,
    /// `State`: `Running`, `Stop Pending`, …
    pub state: String,
    /// `StartMode`: `Auto`, `Manual`, …
    pub start_mode: String,
}

/// Firmware and services.
pub trait SystemHost: Send + Sync {
    /// `CIM_BIOSElement.SerialNumber`, of every row.
    ///
    /// # Errors
    /// The query failed.
    fn bios_serials(&self) -> Result<Vec<String>, HostError>;
    /// One service.
    ///
    /// # Errors
    /// The query failed.
    fn service(&self, name: &ServiceName) -> Result<Option<ServiceRow>, HostError>;
    /// The services that need this one.
    ///
    /// # Errors
    /// The query failed.
    fn dependents(&self, name: &ServiceName) -> Result<Vec<(ServiceName, ServiceRow)>, HostError>;
    /// Asks the service to start, and returns Windows' answer (0 accepted, 10 running already, …).
    ///
    /// # Errors
    /// The method could not be called.
    fn start_service(&self, name: &ServiceName) -> Result<u32, HostError>;
    /// Asks the service to stop, and returns Windows' answer (0 accepted, 3 dependents run, 5 not running, …).
    ///
    /// # Errors
    /// The method could not be called.
    fn stop_service(&self, name: &ServiceName) -> Result<u32, HostError>;
    /// Time since some instant; never goes back.
    fn elapsed(&self) -> Duration;
    /// Holds the calling thread for `time`.
    fn pause(&self, time: Duration);
}

//! Operations on the firmware and Windows services.

use std::collections::BTreeSet;
use std::time::Duration;

use tracing::warn;

use super::DEPENDENTS_RUNNING;
use crate::host::ServiceRow;
use crate::types::ServiceName;
use crate::{Storage, StorageError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceInfo {
    pub display_name: String,
    pub start_type: StartType,
    pub status: ServiceStatus,
}

/// Services, in an order in which they can be stopped.
struct Dependents {
    seen: BTreeSet<ServiceName>,
    order: Vec<ServiceName>,
}

/// When Windows starts a service. The API defines the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartType {
    Boot = 0,
    System = 1,
    Automatic = 2,
    Manual = 3,
    Disabled = 4,
}

/// The state of a service. The API defines the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceStatus {
    Unknown = 0,
    Stopped = 1,
    StartPending = 2,
    StopPending = 3,
    Running = 4,
    ContinuePending = 5,
    PausePending = 6,
    Paused = 7,
}

const POLL: Duration = Duration::from_millis(200);
/// How long to wait for each service.
const PATIENCE: Duration = Duration::from_secs(30);
const ACCEPTED: u32 = 0;
const RUNNING_ALREADY: u32 = 10;
const NOT_ACTIVE: u32 = 5;

impl Storage {
    pub fn bios_serial_number(&self) -> Result<String, StorageError> {
        Ok(self.host.bios_serials()?.into_iter().next().unwrap_or_default())
    }

    pub fn service(&self, name: &str) -> Result<ServiceInfo, StorageError> {
        let name = ServiceName::parse(name)?;
        let row = self.row(&name)?;
        let start_type = start_type(&row.start_mode).ok_or_else(|| StorageError::ServiceWord {
            name: name.clone(),
            what: "start mode",
            value: row.start_mode.clone(),
        })?;
        Ok(ServiceInfo { status: status(&name, &row), display_name: row.display_name, start_type })
    }

    /// Starts a service and waits until it runs.
    pub fn start_service(&self, name: &str) -> Result<(), StorageError> {
        let name = ServiceName::parse(name)?;
        if status(&name, &self.row(&name)?) == ServiceStatus::Running {
            return Ok(());
        }
        let result = self.host.start_service(&name)?;
        if !matches!(result, ACCEPTED | RUNNING_ALREADY) {
            return Err(StorageError::ServiceRefused { operation: "StartService", name, result });
        }
        self.until(&name, ServiceStatus::Running, "to become running")
    }

    /// Stops a service and waits until it has stopped. With `force`, also stops the services that depend on it.
    pub fn stop_service(&self, name: &str, force: bool) -> Result<(), StorageError> {
        let name = ServiceName::parse(name)?;
        if status(&name, &self.row(&name)?) == ServiceStatus::Stopped {
            return Ok(());
        }
        match self.stop(&name) {
            Err(StorageError::ServiceRefused { result: DEPENDENTS_RUNNING, .. }) if force => {
                let mut dependents = Dependents { seen: BTreeSet::from([name.clone()]), order: Vec::new() };
                self.running_dependents(&name, &mut dependents)?;
                for dependent in &dependents.order {
                    self.stop(dependent)?;
                }
                self.stop(&name)
            }
            stopped => stopped,
        }
    }

    fn stop(&self, name: &ServiceName) -> Result<(), StorageError> {
        let result = self.host.stop_service(name)?;
        if !matches!(result, ACCEPTED | NOT_ACTIVE) {
            return Err(StorageError::ServiceRefused { operation: "StopService", name: name.clone(), result });
        }
        self.until(name, ServiceStatus::Stopped, "to stop")
    }

    /// Collects the running services that depend on `name`, in the order in which they can be stopped.
    fn running_dependents(&self, name: &ServiceName, found: &mut Dependents) -> Result<(), StorageError> {
        for (dependent, row) in self.host.dependents(name)? {
            if status(&dependent, &row) != ServiceStatus::Stopped && found.seen.insert(dependent.clone()) {
                self.running_dependents(&dependent, found)?;
                found.order.push(dependent);
            }
        }
        Ok(())
    }

    fn until(&self, name: &ServiceName, wanted: ServiceStatus, to: &'static str) -> Result<(), StorageError> {
        let end = self.host.native().elapsed().saturating_add(PATIENCE);
        loop {
            if status(name, &self.row(name)?) == wanted {
                return Ok(());
            }
            if self.host.native().elapsed() >= end {
                return Err(StorageError::ServiceTimeout { name: name.clone(), to });
            }
            self.host.native().pause(POLL);
        }
    }

    fn row(&self, name: &ServiceName) -> Result<ServiceRow, StorageError> {
        let failed = |cause| StorageError::Service { name: name.clone(), cause };
        self.host.service(name).map_err(|error| failed(Some(error)))?.ok_or_else(|| failed(None))
    }
}

fn status(name: &ServiceName, row: &ServiceRow) -> ServiceStatus {
    match row.state.as_str() {
        "Stopped" => ServiceStatus::Stopped,
        "Start Pending" => ServiceStatus::StartPending,
        "Stop Pending" => ServiceStatus::StopPending,
        "Running" => ServiceStatus::Running,
        "Continue Pending" => ServiceStatus::ContinuePending,
        "Pause Pending" => ServiceStatus::PausePending,
        "Paused" => ServiceStatus::Paused,
        "Unknown" => ServiceStatus::Unknown,
        other => {
            warn!(service = %name, state = other, "service is in an unknown state");
            ServiceStatus::Unknown
        }
    }
}

fn start_type(mode: &str) -> Option<StartType> {
    Some(match mode {
        "Boot" => StartType::Boot,
        "System" => StartType::System,
        "Auto" => StartType::Automatic,
        "Manual" => StartType::Manual,
        "Disabled" => StartType::Disabled,
        _ => return None,
    })
}

//! Firmware, services and time of the fake machine.

use std::time::Duration;

use super::FakeHost;
use crate::host::{Answer, HostError, NativeHost, ServiceRow, SystemHost};
use crate::types::ServiceName;

const ACCEPTED: u32 = 0;
const DEPENDENTS_RUNNING: u32 = 3;
const NOT_ACTIVE: u32 = 5;
const RUNNING_ALREADY: u32 = 10;
const DISABLED: u32 = 14;

#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FakeService {
    pub name: String,
    pub display_name: String,
    /// The state, such as `Running` or `Stopped`.
    pub state: String,
    /// The start mode, such as `Auto`, `Manual` or `Disabled`.
    pub start_mode: String,
    pub needs: Vec<String>,
    /// How long a start or stop takes, in milliseconds.
    pub takes_ms: u64,
}

#[derive(Debug, Default)]
pub(super) struct System {
    pub(super) bios_serials: Vec<String>,
    pub(super) services: Vec<Running>,
}

#[derive(Debug)]
pub(super) struct Running {
    pub(super) service: FakeService,
    pub(super) ahead: Option<(&'static str, Duration)>,
}

impl FakeHost {
    pub fn add_service(&self, service: FakeService) {
        self.state().system.services.push(Running { service, ahead: None });
    }

    pub fn service_state(&self, name: &str) -> Option<String> {
        let now = self.time();
        self.state().system.find(name, now).map(|running| running.service.state.clone())
    }
}

impl System {
    fn find(&mut self, name: &str, now: Duration) -> Option<&mut Running> {
        let found = self.services.iter_mut().find(|running| running.service.name.eq_ignore_ascii_case(name))?;
        if let Some((state, _)) = found.ahead.filter(|(_, at)| now >= *at) {
            state.clone_into(&mut found.service.state);
            found.ahead = None;
        }
        Some(found)
    }

    fn dependents(&mut self, name: &str, now: Duration) -> Vec<FakeService> {
        let needs = |service: &FakeService| service.needs.iter().any(|needed| needed.eq_ignore_ascii_case(name));
        let names: Vec<String> = self
            .services
            .iter()
            .filter(|running| needs(&running.service))
            .map(|running| running.service.name.clone())
            .collect();
        names.iter().filter_map(|name| self.find(name, now).map(|running| running.service.clone())).collect()
    }
}

impl Running {
    fn go(&mut self, through: &str, to: &'static str, now: Duration) {
        through.clone_into(&mut self.service.state);
        self.ahead = Some((to, now + Duration::from_millis(self.service.takes_ms)));
    }
}

fn shown(service: &FakeService) -> ServiceRow {
    ServiceRow {
        display_name: service.display_name.clone(),
        state: service.state.clone(),
        start_mode: service.start_mode.clone(),
    }
}

impl SystemHost for FakeHost {
    fn bios_serials(&self) -> Result<Vec<String>, HostError> {
        self.step("bios_serials", "this machine", |state| Ok(state.system.bios_serials.clone()))
    }

    fn service(&self, name: &ServiceName) -> Result<Option<ServiceRow>, HostError> {
        let now = self.time();
        self.step("service", name.as_str(), |state| {
            Ok(state.system.find(name.as_str(), now).map(|running| shown(&running.service)))
        })
    }

    fn dependents(&self, name: &ServiceName) -> Result<Vec<(ServiceName, ServiceRow)>, HostError> {
        let now = self.time();
        self.step("dependents", name.as_str(), |state| {
            let all = state.system.dependents(name.as_str(), now).into_iter();
            let parsed = all.filter_map(|service| Some((ServiceName::parse(&service.name).ok()?, shown(&service))));
            Ok(parsed.collect())
        })
    }

    fn start_service(&self, name: &ServiceName) -> Result<u32, HostError> {
        let now = self.time();
        self.step("start_service", name.as_str(), |state| {
            let gone = || Answer::Malformed("no such service".to_owned());
            let running = state.system.find(name.as_str(), now).ok_or_else(gone)?;
            Ok(match (running.service.start_mode.as_str(), running.service.state.as_str()) {
                ("Disabled", _) => DISABLED,
                (_, "Running") => RUNNING_ALREADY,
                _ => {
                    running.go("Start Pending", "Running", now);
                    ACCEPTED
                }
            })
        })
    }

    fn stop_service(&self, name: &ServiceName) -> Result<u32, HostError> {
        let now = self.time();
        self.step("stop_service", name.as_str(), |state| {
            let gone = || Answer::Malformed("no such service".to_owned());
            let dependents = state.system.dependents(name.as_str(), now);
            let running = state.system.find(name.as_str(), now).ok_or_else(gone)?;
            Ok(match running.service.state.as_str() {
                "Stopped" => NOT_ACTIVE,
                _ if dependents.iter().any(|dependent| dependent.state != "Stopped") => DEPENDENTS_RUNNING,
                _ => {
                    running.go("Stop Pending", "Stopped", now);
                    ACCEPTED
                }
            })
        })
    }

    fn native(&self) -> &dyn NativeHost {
        self
    }
}

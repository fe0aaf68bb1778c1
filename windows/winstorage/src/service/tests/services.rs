use super::*;
use crate::StorageError;
use crate::fake::FakeService;
use crate::service::{ServiceStatus, StartType};

fn service(name: &str, state: &str, needs: &[&str]) -> FakeService {
    FakeService {
        name: name.to_owned(),
        display_name: format!("The {name}"),
        state: state.to_owned(),
        start_mode: "Manual".to_owned(),
        needs: needs.iter().map(|name| (*name).to_owned()).collect(),
        takes_ms: 1_000,
    }
}

#[test]
fn service_states_and_start_modes_are_mapped_by_name() {
    let (host, storage) = machine();
    let modes = [
        ("Boot", StartType::Boot),
        ("System", StartType::System),
        ("Auto", StartType::Automatic),
        ("Manual", StartType::Manual),
        ("Disabled", StartType::Disabled),
    ];
    for (mode, told) in modes {
        host.add_service(FakeService { start_mode: mode.to_owned(), ..service(mode, "Running", &[]) });
        assert_eq!(storage.service(mode).unwrap().start_type, told);
    }
    let states = "Unknown|Stopped|Start Pending|Stop Pending|Running|Continue Pending|Pause Pending|Paused";
    for (number, state) in states.split('|').enumerate() {
        host.add_service(service(state, state, &[]));
        assert_eq!(storage.service(state).unwrap().status as usize, number);
    }
    host.add_service(service("weird", "Confused", &[]));
    assert_eq!(storage.service("weird").unwrap().status, ServiceStatus::Unknown);
    host.add_service(FakeService { start_mode: "Whenever".to_owned(), ..service("odd", "Running", &[]) });
    assert!(matches!(storage.service("odd"), Err(StorageError::ServiceWord { .. })));
    assert_eq!(storage.service("none").unwrap_err().text(), "failed to get service none. error: not found");
}

#[test]
fn service_starts_and_stops_within_thirty_seconds() {
    let (host, storage) = machine();
    host.add_service(service("s", "Stopped", &[]));
    for _ in 0..2 {
        storage.start_service("s").unwrap();
        assert_eq!(host.service_state("s").as_deref(), Some("Running"));
    }
    assert_eq!(host.calls("start_service"), 1);
    for _ in 0..2 {
        storage.stop_service("s", false).unwrap();
        assert_eq!(host.service_state("s").as_deref(), Some("Stopped"));
    }
    assert_eq!(host.calls("stop_service"), 1);

    host.add_service(FakeService { takes_ms: 31_000, ..service("slow", "Stopped", &[]) });
    let late = storage.start_service("slow").unwrap_err().text();
    assert_eq!(late, "timed out waiting for service slow to become running");
    host.add_service(FakeService { takes_ms: 31_000, ..service("lazy", "Running", &[]) });
    assert_eq!(storage.stop_service("lazy", false).unwrap_err().text(), "timed out waiting for service lazy to stop");
    host.add_service(FakeService { start_mode: "Disabled".to_owned(), ..service("off", "Stopped", &[]) });
    assert_eq!(storage.start_service("off").unwrap_err().text(), "StartService of service off failed: result 14");
}

#[test]
fn dependent_services_are_stopped_first_and_only_with_force() {
    let (host, storage) = machine();
    host.add_service(service("base", "Running", &[]));
    host.add_service(service("top", "Running", &["middle", "base"]));
    host.add_service(service("middle", "Running", &["base"]));
    host.add_service(service("idle", "Stopped", &["base"]));
    let refused = storage.stop_service("base", false).unwrap_err();
    assert!(matches!(refused, StorageError::ServiceRefused { result: 3, .. }), "{refused}");
    storage.stop_service("base", true).unwrap();
    let stops: Vec<String> = host.log().into_iter().filter(|line| line.starts_with("stop_service")).collect();
    let order =
        ["stop_service base", "stop_service base", "stop_service top", "stop_service middle", "stop_service base"];
    assert_eq!(stops, order);
}

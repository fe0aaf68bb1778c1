//! Tests of the whole program with Windows pipes, the service control manager, and a fake machine. The tests run under
//! Wine.
//!
//! No test covers what Wine does differently: it accepts any security descriptor and enforces none, it lets two
//! processes create the first instance of a pipe, and it has no containers.
#![cfg(windows)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "windows/go_clients.rs"]
mod go_clients;
#[path = "windows/handles.rs"]
mod handles;
#[path = "windows/program.rs"]
mod program;

use csi_proto::csi_proxy::{ConnectError, Group, Version, connect, disk, pipes, served, volume};
use program::{Program, alone, connected, eventually};
use std::ffi::OsString;
use tokio::net::windows::named_pipe::ClientOptions;
use tokio::task::JoinSet;
use tonic::Code;
use windows_service::service::{
    ServiceAccess, ServiceErrorControl, ServiceExitCode, ServiceInfo, ServiceStartType, ServiceState, ServiceType,
};
use windows_service::service_manager::{ServiceManager, ServiceManagerAccess};

const BLANK: &str = r"\\?\Volume{33333333-3333-3333-3333-333333333333}\";

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

async fn disks() -> disk::v1::disk_client::DiskClient<tonic::transport::Channel> {
    disk::v1::disk_client::DiskClient::new(connected(Group::Disk, "v1").await)
}

#[tokio::test]
async fn real_pipes_serve_all_services_and_records_name_clients() {
    let _alone = alone().await;
    let program = Program::start(&[]);
    for (group, version) in served() {
        connected(group, &version.to_string()).await;
    }
    let mut client = disks().await;
    let found = client.list_disk_i_ds(disk::v1::ListDiskIDsRequest {}).await.unwrap().into_inner();
    assert_eq!(found.disk_i_ds[&1].serial_number, "vol0123456789abcdef0_00000001.");
    let refused = client.partition_disk(disk::v1::PartitionDiskRequest { disk_number: 77 }).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unknown, "{refused}");
    assert!(refused.message().contains("77") && refused.message().contains("not found"), "{refused}");
    let mut old = disk::v1beta2::disk_client::DiskClient::new(connected(Group::Disk, "v1").await);
    let unknown = old.rescan(disk::v1beta2::RescanRequest {}).await.unwrap_err();
    assert_eq!(unknown.code(), Code::Unimplemented, "{unknown}");
    let record = eventually(|| {
        program.records().into_iter().find(|record| record["method"] == "PartitionDisk" && record["event"] == "call")
    })
    .await;
    let client = &record["client"];
    assert_eq!(client["pid"], std::process::id(), "{record}");
    assert!(client["image"].as_str().unwrap().contains("windows-"), "{record}");
    assert!(client["sid"].as_str().unwrap().starts_with("S-1-"), "{record}");
}

#[tokio::test]
async fn program_starts_fifty_times_with_all_of_its_pipes() {
    let _alone = alone().await;
    for nth in 0..50 {
        let program = Program::start(&[]);
        eventually(|| program.log().contains("Serving 23 pipes").then_some(())).await;
        let (group, version) = served().nth(nth % 23).expect("there are 23");
        connect(&pipes(), group, &[version]).await.expect("the pipe exists once the log says so");
        disks().await.rescan(disk::v1::RescanRequest {}).await.expect("it answers");
    }
}

#[tokio::test]
async fn two_proxies_serve_different_groups_on_one_node() {
    let _alone = alone().await;
    let _old = Program::start(&["--api-groups=disk/v1beta3"]);
    let _new = Program::start(&["--api-groups=disk/v1,system"]);
    connected(Group::Disk, "v1beta3").await;
    connected(Group::System, "v1alpha1").await;
    disks().await.rescan(disk::v1::RescanRequest {}).await.unwrap();
    assert_eq!(ClientOptions::new().open(r"\\.\pipe\csi-proxy-volume-v1").unwrap_err().raw_os_error(), Some(2));
    let missing = connect(&pipes(), Group::Volume, Group::Volume.versions()).await.unwrap_err();
    assert!(matches!(missing, ConnectError::NotServed { .. }), "{missing}");
}

#[tokio::test]
async fn service_stop_lets_a_running_format_finish() {
    let _alone = alone().await;
    let files = program::Files::new(r#"{"step": "format_ntfs", "delay_ms": 5000}"#);
    let arguments = files.arguments(&["-windows-service", "-logtostderr=false", "--api-groups=volume/v1"]);
    let service = Installed::new(arguments);
    service.0.start::<OsString>(&[]).unwrap();
    eventually(|| (service.state() == ServiceState::Running).then_some(())).await;
    // Do not wait: all pipes exist as soon as the service is running.
    let found = connect(&pipes(), Group::Volume, &[version("v1")]).await.expect("the pipe exists");
    let mut client = volume::v1::volume_client::VolumeClient::new(found.channel);
    let mut format = JoinSet::new();
    format.spawn(
        async move { client.format_volume(volume::v1::FormatVolumeRequest { volume_id: BLANK.to_owned() }).await },
    );
    eventually(|| files.records().iter().any(|record| record["event"] == "begin").then_some(())).await;
    service.0.stop().unwrap();
    let first = eventually(|| {
        let status = service.0.query_status().unwrap();
        (status.current_state == ServiceState::StopPending && status.checkpoint > 0).then_some(status.checkpoint)
    })
    .await;
    eventually(|| {
        let status = service.0.query_status().unwrap();
        assert_ne!(status.current_state, ServiceState::Stopped, "it did not wait for the format");
        (status.checkpoint > first).then_some(())
    })
    .await;
    format.join_next().await.unwrap().unwrap().expect("the format is answered");
    eventually(|| (service.state() == ServiceState::Stopped).then_some(())).await;
    assert_eq!(service.0.query_status().unwrap().exit_code, ServiceExitCode::Win32(0));
    let log = files.log();
    assert!(log.contains("Starting CSI-Proxy Server ...") && log.contains("csi-proxy has stopped"), "{log}");
}

#[tokio::test]
async fn service_that_cannot_start_ends_without_reporting_stopped() {
    let _alone = alone().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let files = program::Files::new("");
    let metrics = format!("--metrics-bind-address={address}");
    let arguments = files.arguments(&["-windows-service", "-logtostderr=false", "--api-groups=volume/v1", &metrics]);
    let service = Installed::new(arguments);
    // Whether the start itself fails depends on the service manager.
    let started = service.0.start::<OsString>(&[]);
    let end = tokio::time::Instant::now() + program::LIMIT;
    while !files.log().contains("service failed") {
        let status = service.0.query_status();
        assert!(tokio::time::Instant::now() < end, "{started:?} {status:?}\n{}", files.log());
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(files.log().contains(&address), "{}", files.log());
    // Wine's service manager reports this status for a process that has ended. A status that the program itself
    // reported would differ.
    let status = service.0.query_status().unwrap();
    assert_ne!(status.exit_code, ServiceExitCode::ServiceSpecific(1), "{status:?}");
    assert_ne!(status.current_state, ServiceState::Running, "{status:?}");
}

struct Installed(windows_service::service::Service);

impl Installed {
    fn new(launch_arguments: Vec<OsString>) -> Self {
        let access = ServiceManagerAccess::CONNECT | ServiceManagerAccess::CREATE_SERVICE;
        let manager = ServiceManager::local_computer(None::<&str>, access).unwrap();
        let service = ServiceInfo {
            name: "csiproxy".into(),
            display_name: "CSI proxy of a test".into(),
            service_type: ServiceType::OWN_PROCESS,
            start_type: ServiceStartType::OnDemand,
            error_control: ServiceErrorControl::Normal,
            executable_path: program::path(),
            launch_arguments,
            dependencies: Vec::new(),
            account_name: None,
            account_password: None,
        };
        Self(manager.create_service(&service, ServiceAccess::ALL_ACCESS).unwrap())
    }

    fn state(&self) -> ServiceState {
        self.0.query_status().unwrap().current_state
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = self.0.stop();
        let _ = self.0.delete();
    }
}

#[tokio::test]
async fn each_command_line_exits_with_its_status_and_reason() {
    let ends = [
        (vec!["--bogus"], 2, "-bogus"),
        (vec!["--api-groups=disks"], 2, "disks"),
        (vec!["--pipe-security-descriptor=D:(A;;GA;;;WD)"], 1, "Everyone"),
        (vec!["--kubelet-path=kubelet"], 1, "kubelet"),
        (vec!["--version"], 0, "csi-proxy "),
        (vec!["selftest", "--disk=1", r"--directory=C:\work\selftest"], 0, "steps passed"),
        (vec!["selftest", "--disk=0", r"--directory=C:\work\selftest"], 1, "refused"),
        (vec!["selftest"], 2, "--disk"),
    ];
    for (arguments, status, why) in ends {
        let (ended, text) = Program::run_to_end(&arguments);
        assert_eq!(ended, Some(status), "{arguments:?}: {text}");
        assert!(text.contains(why), "{arguments:?}: {text}");
    }
}

#[tokio::test]
async fn metrics_include_resource_usage_from_windows() {
    let _alone = alone().await;
    let program = Program::start(&["--api-groups=disk/v1", "--metrics-bind-address=127.0.0.1:0"]);
    disks().await.rescan(disk::v1::RescanRequest {}).await.unwrap();
    let page = program.metrics().await;
    for name in ["process_resident_memory_bytes ", "process_cpu_seconds_total ", "process_start_time_seconds "] {
        let value = page.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{page}"));
        assert!(value.parse::<f64>().unwrap() > 0.0, "{name}{value}");
    }
    assert!(page.contains("grpc_method=\"Rescan\""), "{page}");
}

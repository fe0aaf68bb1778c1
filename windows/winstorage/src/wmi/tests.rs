//! Tests that compare what is sent to WMI with recordings. A recording contains every query and call of an operation in
//! order, with names and types. The recordings were written from the documentation of the WMI classes. They should be
//! recorded again on a Windows machine.

mod recorded;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use self::recorded::{Recorded, Recording};
use super::*;
use crate::fake::FakeHost;
use crate::service::{Login, SmbMapping};
use crate::types::{DiskNumber, PartitionNumber, VolumeGuid, WinPath};
use crate::{Policy, Storage};

const VOLUME: &str = r"\\?\Volume{0123abcd-0000-4000-8000-00000000beef}\";
const IQN: &str = "iqn.1991-05.com.example:t";
const HERE: &str = "10.0.0.1";

fn recordings() -> BTreeMap<String, Vec<Recording>> {
    serde_json::from_str(include_str!("tests/recordings.json")).unwrap()
}

/// Runs one operation with its recording, and returns the result. The operation must use the complete recording.
fn replay(name: &str, operation: impl FnOnce(&Storage) -> String) -> String {
    let calls = recordings().remove(name).unwrap_or_else(|| panic!("no recording of {name}"));
    let native = FakeHost::new();
    native.add_disk(1, "", 10_737_418_240, true);
    native.add_directory(r"C:\work\stage");
    let recorded = Recorded::new(name, calls);
    let host = WmiHost::new(recorded.clone(), native.clone());
    let storage = Storage::new(Arc::new(host), Policy::new(vec![WinPath::normalise("/work").unwrap()]));
    if name.starts_with("Unmount") {
        native.add_mount_point(r"C:\work\stage", &VolumeGuid::parse(VOLUME).unwrap());
    }
    let answer = operation(&storage);
    recorded.finish();
    answer
}

fn told<T: fmt::Debug>(result: Result<T, crate::StorageError>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => error.text(),
    }
}

type Operation = fn(&Storage) -> String;

fn mapping(username: &str) -> SmbMapping {
    SmbMapping {
        remote_path: r"\\HOST\share\sub".to_owned(),
        local_path: String::new(),
        username: username.to_owned(),
        password: Secret::new("pw"),
    }
}

fn login(auth_type: i32, user: &str, secret: &str) -> Login {
    Login { auth_type, user: user.to_owned(), secret: Secret::new(secret) }
}

const DISK: DiskNumber = DiskNumber(1);

const DISKS: &[(&str, Operation, &str)] = &[
    ("ListDiskLocations", |all| told(all.list_disk_locations().map(|disks| disks.len())), "1"),
    ("ListDiskIDs", |all| told(all.list_disk_ids().map(|disks| disks[&DISK].serial_number.len())), "30"),
    ("PartitionDisk, raw", |all| told(all.partition_disk(DISK)), "()"),
    ("PartitionDisk, partitioned", |all| told(all.partition_disk(DISK)), "()"),
    ("PartitionDisk, MBR", |all| told(all.partition_disk(DISK)), "()"),
    ("Rescan", |all| told(all.rescan()), "()"),
    ("GetDiskStats", |all| told(all.disk_size(DISK)), "10737418240"),
    ("GetDiskState", |all| told(all.disk_state(DISK)), "false"),
    ("SetDiskState, offline", |all| told(all.set_disk_state(DISK, false)), "()"),
    ("SetDiskState, online", |all| told(all.set_disk_state(DISK, true)), "()"),
    ("SetDiskState, online and read-only", |all| told(all.set_disk_state(DISK, true)), "()"),
];

const VOLUMES: &[(&str, Operation, &str)] = &[
    ("ListVolumesOnDisk", |all| told(all.list_volumes_on_disk(DISK, None).map(|found| found.len())), "1"),
    (
        "ListVolumesOnDisk, one partition",
        |all| told(all.list_volumes_on_disk(DISK, PartitionNumber::new(2)).map(|found| found.len())),
        "1",
    ),
    // The fake machine does not have the volume of the recording. So the operation sends all queries, and then fails.
    (
        "MountVolume",
        |all| told(all.mount_volume(VOLUME, r"C:\work\stage")),
        r"mount of C:\work\stage failed: The system cannot find the file specified. (error 2)",
    ),
    ("UnmountVolume", |all| told(all.unmount_volume(VOLUME, r"C:\work\stage")), "()"),
    ("IsVolumeFormatted", |all| told(all.is_volume_formatted(VOLUME)), "false"),
    ("FormatVolume", |all| told(all.format_volume(VOLUME)), "()"),
    ("ResizeVolume", |all| told(all.resize_volume(VOLUME, 0, Duration::ZERO)), "21456486400"),
    ("GetVolumeStats", |all| told(all.volume_stats(VOLUME).map(|stats| stats.used)), "32673792"),
    ("GetDiskNumberFromVolumeID", |all| told(all.disk_number_of_volume(VOLUME)), "DiskNumber(1)"),
    ("WriteVolumeCache", |all| told(all.write_volume_cache(VOLUME)), "()"),
];

const NETWORK: &[(&str, Operation, &str)] = &[
    ("NewSmbGlobalMapping", |all| told(all.new_smb_global_mapping(&mapping(r"corp\eve"))), "()"),
    ("NewSmbGlobalMapping, without a user", |all| told(all.new_smb_global_mapping(&mapping(""))), "()"),
    ("RemoveSmbGlobalMapping", |all| told(all.remove_smb_global_mapping("//host/share")), "()"),
    ("AddTargetPortal", |all| told(all.add_target_portal(HERE, 0)), "()"),
    ("RemoveTargetPortal", |all| told(all.remove_target_portal(HERE, 0)), "()"),
    ("ListTargetPortals", |all| told(all.list_target_portals().map(|portals| portals.len())), "1"),
    ("DiscoverTargetPortal", |all| told(all.discover_target_portal(HERE, 0).map(|iqns| iqns.len())), "1"),
    ("ConnectTarget", |all| told(all.connect_target(HERE, 0, IQN, &login(1, "eve", "123456789012"))), "()"),
    ("ConnectTarget, without CHAP", |all| told(all.connect_target(HERE, 0, IQN, &login(0, "", ""))), "()"),
    ("DisconnectTarget", |all| told(all.disconnect_target(HERE, 0, IQN)), "()"),
    ("GetTargetDisks", |all| told(all.target_disks(HERE, 0, IQN)), "[\"4\"]"),
    ("SetMutualChapSecret", |all| told(all.set_mutual_chap_secret(&Secret::new("123456789012"))), "()"),
];

const SYSTEM: &[(&str, Operation, &str)] = &[
    ("GetBIOSSerialNumber", |all| told(all.bios_serial_number()), "\"ec2-1\""),
    ("GetService", |all| told(all.service("MSiSCSI").map(|service| service.status)), "Running"),
    ("StartService", |all| told(all.start_service("MSiSCSI")), "()"),
    ("StopService, with a dependent", |all| told(all.stop_service("MSiSCSI", true)), "()"),
];

#[test]
fn each_operation_sends_exactly_its_recorded_wmi_calls() {
    let all: Vec<_> = [DISKS, VOLUMES, NETWORK, SYSTEM].concat();
    for (name, operation, expected) in &all {
        assert_eq!(replay(name, operation), *expected, "{name}");
    }
    let tried: Vec<&str> = all.iter().map(|(name, ..)| *name).collect();
    assert!(recordings().keys().all(|name| tried.contains(&name.as_str())), "a recording that no operation replays");
}

#[test]
fn texts_in_queries_are_escaped_by_backslashes() {
    assert!(vocabulary::service("it's").ends_with(r"WHERE Name = 'it\'s'"));
    assert!(vocabulary::mapping(r"\\h\s' OR '1'='1").ends_with(r"'\\\\h\\s\' OR \'1\'=\'1'"));
    let path = vocabulary::service_path("a\"b");
    assert_eq!(path.0, r#"Win32_Service.Name="a\"b""#);
}

fn host(recordings: serde_json::Value) -> WmiHost<Recorded, FakeHost> {
    let calls = serde_json::from_value(recordings).unwrap();
    WmiHost::new(Recorded::new("a reply", calls), FakeHost::new())
}

#[test]
fn method_error_has_class_method_and_code() {
    use crate::host::DiskHost;
    let rescan = |reply: serde_json::Value| {
        let mut call = serde_json::json!({"exec": "MSFT_StorageSetting.UpdateHostStorageCache", "namespace": "Storage", "on": "class"});
        for (key, value) in reply.as_object().unwrap() {
            call[key] = value.clone();
        }
        host(serde_json::json!([call])).rescan().map_err(|error| error.to_string())
    };
    let text = "MSFT_StorageSetting.UpdateHostStorageCache of all disks failed: ";
    assert_eq!(rescan(serde_json::json!({"returns": {"ReturnValue": 4}})), Err(format!("{text}result 4")));
    assert_eq!(rescan(serde_json::json!({"refused": 0x8004_100E_u32})), Err(format!("{text}HRESULT 0x8004100e")));
    let odd = rescan(serde_json::json!({"returns": {}}));
    assert_eq!(odd, Err(format!("{text}unexpected reply: ReturnValue is Null, not a number")));
}

#[test]
fn unknown_values_in_a_reply_are_an_error() {
    use crate::host::{DiskHost, VolumeHost};
    let disk = |row: serde_json::Value| {
        let query = vocabulary::disk(1);
        host(serde_json::json!([{"query": query, "namespace": "Storage", "rows": [row]}])).disk(DISK)
    };
    assert!(disk(serde_json::json!({"__PATH": "p", "PartitionStyle": 0, "Size": 1})).unwrap().is_some());
    for odd in [
        serde_json::json!({"__PATH": "p", "PartitionStyle": 3, "Size": 1}),
        serde_json::json!({"__PATH": "p", "Size": 1}),
        serde_json::json!({"__PATH": "p", "PartitionStyle": 0, "Size": "many"}),
        serde_json::json!({"PartitionStyle": 0, "Size": 1}),
        serde_json::json!({"__PATH": "p", "PartitionStyle": 0, "Size": 1, "IsBoot": "yes"}),
    ] {
        assert!(disk(odd.clone()).is_err(), "{odd}");
    }
    let wql = vocabulary::volume(&VOLUME);
    let row =
        serde_json::json!({"__PATH": "p", "FileSystemType": 14, "Size": "5", "SizeRemaining": 2, "DriveLetter": "E"});
    let recording = serde_json::json!([{"query": wql, "namespace": "Storage", "rows": [row]}]);
    let volume = host(recording).volume(&VolumeGuid::parse(VOLUME).unwrap()).unwrap().unwrap();
    assert_eq!((volume.drive_letter, volume.size, volume.remaining), (Some('E'), 5, 2));
}

//! Tests of all 23 services over in-memory pipes, with a fake machine.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "services/calls.rs"]
mod calls;
#[path = "services/life.rs"]
mod life;
#[path = "services/machine.rs"]
mod machine;
#[path = "services/robust.rs"]
mod robust;
#[path = "services/wire.rs"]
mod wire;

use std::collections::BTreeSet;
use std::sync::Arc;

use calls::{Scenario, calls};
use csi_proto::csi_proxy::{Group, Version, served};
use machine::{machine, serve};
use protox::prost_reflect::MethodDescriptor;
use serde_json::Value;
use tonic::Code;
use winstorage::fake::Effect;
use winstorage::host::Answer;

/// `ERROR_IO_DEVICE`, an error that no code treats specially.
const IO_DEVICE: u32 = 1117;

struct Case {
    group: Group,
    version: Version,
    method: MethodDescriptor,
    call: Arc<Scenario>,
}

struct Left {
    result: Result<String, tonic::Status>,
    records: Vec<Value>,
    text: String,
}

impl Case {
    fn name(&self) -> String {
        format!("{}/{}.{}", self.group, self.version, self.method.name())
    }

    async fn run(&self, fields: &[(&str, &str)], fails: Option<&str>) -> Left {
        let host = machine();
        if let Some(step) = fails {
            host.inject(step, 0, Effect::Fail(Answer::Win32(IO_DEVICE)));
        }
        let running = serve(host, &format!("{}/{}", self.group, self.version)).await;
        let channel = running.channel(self.group, self.version).await;
        let message = wire::request(&self.method.input(), fields);
        let path = format!("/{}.{}/{}", self.version, self.group.service(), self.method.name());
        let answered = wire::call(&channel, &path, message).await;
        let result = answered.map(|bytes| wire::text(self.method.output(), &bytes));
        Left { result, records: running.records.all(), text: running.records.text() }
    }
}

fn cases() -> Vec<Case> {
    let calls: Vec<Arc<Scenario>> = calls().into_iter().map(Arc::new).collect();
    let mut cases = Vec::new();
    for (group, version) in served() {
        for method in wire::methods(group, version) {
            let call = calls.iter().find(|call| call.names.contains(&method.name()));
            let call = Arc::clone(call.unwrap_or_else(|| panic!("no test for {}", method.name())));
            cases.push(Case { group, version, method, call });
        }
    }
    cases
}

fn check_records(case: &Case, left: &Left, code: &str) {
    let name = case.name();
    let of = |event: &str| left.records.iter().filter(|record| record["event"] == event).collect::<Vec<_>>();
    let [record] = of("call")[..] else { panic!("{name}: {} records\n{}", of("call").len(), left.text) };
    assert_eq!(record["code"], code, "{name}: {record}");
    assert_eq!(record["method"], case.method.name(), "{name}: {record}");
    assert_eq!(record["group"], case.group.token(), "{name}: {record}");
    assert_eq!(record["version"], case.version.to_string(), "{name}: {record}");
    assert_eq!(record["client"]["pid"], 4711, "{name}: {record}");
    assert!(record["request"].is_object() && record["milliseconds"].is_u64() && record["time"].is_string(), "{record}");
    assert_eq!(record["error"].is_string(), code != "OK", "{name}: {record}");
    for begun in of("begin") {
        assert_eq!(begun["id"], record["id"], "{name}");
    }
    assert!(of("begin").len() <= 1, "{name}");
    assert!(!left.text.contains("planted-secret"), "{name}: {}", left.text);
}

#[tokio::test]
async fn each_call_of_each_version_is_answered_and_recorded_once() {
    let mut seen = BTreeSet::new();
    let mut announced = BTreeSet::new();
    for case in cases() {
        let left = case.run(&case.call.fields, None).await;
        let answer = left.result.as_ref().unwrap_or_else(|error| panic!("{}: {error}", case.name()));
        assert!(answer.replace(' ', "").contains(&case.call.answer.replace(' ', "")), "{}: {answer}", case.name());
        check_records(&case, &left, "OK");
        if left.records.iter().any(|record| record["event"] == "begin") {
            announced.insert(case.method.name().to_owned());
        }
        seen.insert((case.group, case.version));
    }
    assert_eq!(seen.len(), 23);
    let reads = |name: &str| {
        name.starts_with("Get") || name.starts_with("List") || name.starts_with("Is") || name.ends_with("Stats")
    };
    for case in cases() {
        let name = case.method.name();
        let is_read = reads(name) || ["PathExists", "DiscoverTargetPortal"].contains(&name);
        assert_eq!(announced.contains(name), !is_read, "{name}");
    }
}

/// The old calls of the group `volume`, and the calls to which the proxy forwards them. Errors of the old calls contain
/// these names.
const FORWARDS: [(&str, &str); 4] = [
    ("DismountVolume", "UnmountVolume"),
    ("VolumeStats", "GetVolumeStats"),
    ("GetVolumeDiskNumber", "GetDiskNumberFromVolumeID"),
    ("GetVolumeIDFromMount", "GetVolumeIDFromTargetPath"),
];

#[tokio::test]
async fn windows_error_is_status_unknown_with_its_text() {
    for case in cases() {
        let left = case.run(&case.call.fields, Some(case.call.fails)).await;
        let Err(status) = &left.result else { panic!("{} went well: {:?}", case.name(), left.result) };
        assert_eq!(status.code(), Code::Unknown, "{}: {status}", case.name());
        assert!(status.message().contains("error 1117"), "{}: {status}", case.name());
        assert_eq!(status.metadata().get("csi-proxy-win32-error").unwrap(), "1117", "{}", case.name());
        check_records(&case, &left, "Unknown");
        match FORWARDS.iter().find(|(old, _)| *old == case.method.name()) {
            Some((_, new)) => {
                assert!(status.message().starts_with(&format!("Forward to {new} failed, err=")), "{status}")
            }
            None => assert!(!status.message().contains("Forward to"), "{}: {status}", case.name()),
        }
    }
}

#[tokio::test]
async fn invalid_arguments_are_rejected_with_the_known_text() {
    for case in cases() {
        let Some((fields, why)) = &case.call.refused else { continue };
        let why = *why;
        let left = case.run(fields, None).await;
        let Err(status) = &left.result else { panic!("{} was taken", case.name()) };
        let code = if why == "target_portal is missing" { Code::InvalidArgument } else { Code::Unknown };
        assert_eq!(status.code(), code, "{}: {status}", case.name());
        assert!(why.split('|').any(|why| status.message().contains(why)), "{}: {}", case.name(), status.message());
        check_records(&case, &left, if code == Code::Unknown { "Unknown" } else { "InvalidArgument" });
    }
}

#[tokio::test]
async fn disk_contents_are_served_on_the_pipe_of_disk_v1() {
    use csi_proto::csi_proxy::contents::v1::{
        Contents, GetDiskContentsRequest, disk_contents_client::DiskContentsClient,
    };
    let host = machine();
    let running = serve(host.clone(), "disk,volume/v1").await;
    let channel = running.channel(Group::Disk, "v1".parse().unwrap()).await;
    let mut client = DiskContentsClient::new(channel.clone());
    let mut look = async |disk_number| {
        let request = GetDiskContentsRequest { disk_number, seed: "vol-1".to_owned() };
        client.get_disk_contents(request).await.map(tonic::Response::into_inner)
    };
    let (formatted, raw, blank) = (look(1).await.unwrap(), look(2).await.unwrap(), look(3).await.unwrap());
    assert_eq!((formatted.contents(), raw.contents()), (Contents::FileSystem, Contents::Blank));
    assert!(formatted.volume_id.contains("11111111"), "{formatted:?}");
    assert_eq!((blank.contents(), blank.volume_id.as_str()), (Contents::BlankVolume, machine::BLANK));
    host.write_disk(2, 0x438, b"\x53\xef");
    let foreign = look(2).await.unwrap();
    assert_eq!(foreign.contents(), Contents::Foreign);
    assert!(foreign.description.contains("offset 1080"), "{foreign:?}");
    assert_eq!(look(77).await.unwrap_err().code(), Code::Unknown);

    let older = running.channel(Group::Disk, "v1beta3".parse().unwrap()).await;
    let other = running.channel(Group::Volume, "v1".parse().unwrap()).await;
    let path = "/ebs.csiproxy.v1.DiskContents/GetDiskContents";
    for (channel, path) in [(&older, path), (&other, path), (&channel, "/v1.Disk/GetDiskContents")] {
        assert_eq!(wire::call(channel, path, Vec::new()).await.unwrap_err().code(), Code::Unimplemented, "{path}");
    }
    let page = running.page().await;
    assert!(page.contains("grpc_service=\"ebs.csiproxy.v1.DiskContents\""), "{page}");
    assert!(running.records.text().contains("GetDiskContents"));
}

#[tokio::test]
async fn each_version_keeps_the_not_mounted_error_texts() {
    let nothing = "(Get-Item -Path $Env:mountpath).Target, output: , error: <nil>";
    for case in cases().iter().filter(|case| case.call.names.contains(&"GetVolumeIDFromMount")) {
        for (path, text) in
            [(r"C:\var\lib\kubelet\empty", nothing), (r"C:\var\lib\kubelet\gone", "because it does not exist")]
        {
            let left = case.run(&[("mount", path), ("target_path", path)], None).await;
            let status = left.result.unwrap_err();
            assert_eq!(status.code(), Code::Unknown);
            assert!(status.message().contains(text), "{}: {}", case.name(), status.message());
            let is_old = case.method.name() == "GetVolumeIDFromMount";
            let prefix = "Forward to GetVolumeIDFromTargetPath failed, err=";
            assert_eq!(status.message().starts_with(prefix), is_old, "{}: {}", case.name(), status.message());
        }
    }
}

#[tokio::test]
async fn invalid_disk_number_error_names_message_and_field() {
    let mut texts = BTreeSet::new();
    for case in cases() {
        let left = case.run(&[("diskID", "4294967296"), ("disk_id", "4294967296")], None).await;
        if let Err(status) = left.result
            && status.message().contains("4294967296")
        {
            texts.insert(status.message().split("\"4294967296\"").next().unwrap().to_owned());
        }
    }
    let expected = [
        "Failed to convert v1alpha1.PartitionDiskRequest.DiskID to uint32: ",
        "Failed to convert v1beta1.PartitionDiskRequest.DiskID to uint32: ",
        "Failed to convert v1beta2.PartitionDiskRequest.DiskID to uint32: ",
        "Failed to format DiskStatsRequest.DiskID with err: ",
        "Failed to format GetAttachStateRequest.DiskID with err: ",
        "Failed to format SetAttachStateRequest.DiskID with err: ",
        "Failed to parse diskId: err=",
    ];
    assert_eq!(texts, expected.map(str::to_owned).into());
}

#[tokio::test]
async fn old_path_requests_are_accepted_with_any_context() {
    for case in
        cases().iter().filter(|case| case.method.name() == "PathExists" && case.version < "v1beta2".parse().unwrap())
    {
        for context in ["PLUGIN", "POD", "7"] {
            let left = case.run(&[("path", r"C:\var\lib\kubelet\empty"), ("context", context)], None).await;
            assert_eq!(left.result.unwrap(), "exists:true", "{context}");
        }
    }
}

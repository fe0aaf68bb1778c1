//! Tests that every input gets a well-formed EC2 reply, without a panic or a server error.
//!
//! `tests/corpus/requests` contains selected requests, each with its reply: first line `STATUS CODE` (`-`: any), second
//! line `METHOD TARGET`, header lines, an empty line, the body. Every run replays all of them.

use std::time::Duration;

use bytes::Bytes;
use ebs_sim::engine::{Engine, EngineConfig};
use ebs_sim::{AccessKey, Ec2Service};
use http::{Request, Response};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use roxmltree::{Document, Node};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/requests");

/// A service with a few objects, and a runtime that executes its calls.
struct TestServer {
    runtime: tokio::runtime::Runtime,
    service: Ec2Service,
    instance: String,
}

impl TestServer {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let engine = runtime.block_on(Engine::start(EngineConfig::default())).unwrap();
        let instance = runtime.block_on(engine.snapshot_of_state()).instances[0].id.clone();
        Self { runtime, service: Ec2Service::new(engine), instance }
    }

    fn ask(&self, request: Request<Bytes>) -> Response<Bytes> {
        let answer = async { tokio::time::timeout(Duration::from_secs(120), self.service.answer(request)).await };
        self.runtime.block_on(answer).expect("an answer within two minutes")
    }

    fn form(&self, body: impl Into<Bytes>) -> Response<Bytes> {
        self.ask(Request::post("/").body(body.into()).unwrap())
    }
}

/// Returns the texts of a reply's elements by path, such as `Response/Errors/Error/Code`.
fn elements(body: &[u8]) -> Result<Vec<(String, String)>, String> {
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    let document = Document::parse(text).map_err(|error| format!("{error} in {text}"))?;
    let path = |node: Node<'_, '_>| {
        let names = node.ancestors().filter(Node::is_element).map(|node| node.tag_name().name());
        names.collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("/")
    };
    let elements = document.descendants().filter(Node::is_element);
    Ok(elements.map(|node| (path(node), node.text().unwrap_or_default().to_owned())).collect())
}

/// Returns the error code of a valid EC2 reply, or `-` for success.
fn code(answer: &Response<Bytes>) -> Result<String, String> {
    let status = answer.status().as_u16();
    let header = answer.headers().get("x-amzn-requestid").and_then(|id| id.to_str().ok());
    if answer.headers()["content-type"] == "application/x-amz-json-1.1" {
        return json_code(status, answer.body()).filter(|_| header.is_some()).ok_or_else(|| format!("{answer:?}"));
    }
    let elements = elements(answer.body())?;
    if elements[0].0 == "ErrorResponse" {
        let code = elements.iter().find(|(path, _)| path == "ErrorResponse/Error/Code").map(|(_, code)| code.clone());
        return code.filter(|_| (400..500).contains(&status)).ok_or_else(|| format!("no error of STS: {elements:?}"));
    }
    let of = |path: &str| elements.iter().find(|(p, _)| p == path).map(|(_, text)| text.clone()).unwrap_or_default();
    if status == 200 {
        let root = &elements[0].0;
        return if root.ends_with("Response") && !of(&format!("{root}/requestId")).is_empty() {
            Ok("-".to_owned())
        } else {
            Err(format!("no answer to an action: {elements:?}"))
        };
    }
    let code = of("Response/Errors/Error/Code");
    let complete =
        !code.is_empty() && !of("Response/Errors/Error/Message").is_empty() && !of("Response/RequestID").is_empty();
    if (400..500).contains(&status) && complete && header == Some(&of("Response/RequestID")) {
        Ok(code)
    } else {
        Err(format!("{status} with {header:?}: {elements:?}"))
    }
}

/// Returns the error code of a SageMaker reply, or `-` for success.
fn json_code(status: u16, body: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    match status {
        200 => body["DeviceName"].is_string().then(|| "-".to_owned()),
        400..500 => body["message"].as_str().and_then(|_| body["__type"].as_str()).map(str::to_owned),
        _ => None,
    }
}

fn request_of(file: &[u8]) -> (String, Request<Bytes>) {
    let end = file.windows(2).position(|two| two == b"\n\n").expect("an empty line before the body");
    let head = std::str::from_utf8(&file[..end]).unwrap();
    let mut lines = head.lines();
    let expected = lines.next().unwrap().to_owned();
    let (method, target) = lines.next().unwrap().split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(target);
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        request = request.header(name, value);
    }
    (expected, request.body(Bytes::copy_from_slice(&file[end + 2..])).unwrap())
}

#[test]
fn every_request_of_corpus_gets_its_expected_reply() {
    let server = TestServer::start();
    let mut replayed = 0;
    let mut wrong = Vec::new();
    for entry in walk(CORPUS) {
        let (expected, request) = request_of(&std::fs::read(&entry).unwrap());
        let answer = server.ask(request);
        let found = code(&answer);
        let (status, wanted) = expected.split_once(' ').unwrap();
        let right =
            answer.status().as_str() == status && found.as_deref().is_ok_and(|code| wanted == "-" || wanted == code);
        if !right {
            wrong.push(format!("{}: {} {found:?}, not {expected}", entry.display(), answer.status()));
        }
        replayed += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(replayed >= 50, "{replayed} requests in {CORPUS}");
}

fn walk(dir: &str) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Values of all kinds, including the empty value.
const VALUES: &str = " 0 1 4 5 100 -1 2147483647 -2147483648 4294967296 1.5 true false x us-west-2a usw2-az1 gp3 io2 \
                      standard vol-0123456789abcdef0 vol- snap-0123456789abcdef0 i-0123456789abcdef0 /dev/xvdaa \
                      /dev/xvd volume instance status tag:a tag-key * *a?\\ governance 2030-01-01T00:00:00Z \
                      arn:aws:kms:us-west-2:123456789012:key/x self";

fn value() -> impl Strategy<Value = String> {
    prop_oneof![8 => prop::sample::select(VALUES.split(' ').collect::<Vec<_>>()).prop_map(str::to_owned), 2 => "\\PC{0,20}", 1 => any::<String>()]
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// Valid calls with every parameter that the simulator supports. The test replaces `VOLUME`, `SNAPSHOT` and `INSTANCE`
/// with existing ids.
const CALLS: [&str; 29] = [
    "CreateVolume AvailabilityZone=us-west-2a Size=8 VolumeType=gp3 Iops=3000 Throughput=125 Encrypted=true \
     KmsKeyId=alias/k SnapshotId=SNAPSHOT VolumeInitializationRate=100 MultiAttachEnabled=false ClientToken=t \
     TagSpecification.1.ResourceType=volume TagSpecification.1.Tag.1.Key=a TagSpecification.1.Tag.1.Value=b",
    "CreateVolume AvailabilityZoneId=usw2-az1 Size=4 VolumeType=io2 Iops=100 MultiAttachEnabled=true",
    "CopyVolumes SourceVolumeId=VOLUME Size=9 VolumeType=gp3 Iops=3000 Throughput=125 ClientToken=c",
    "AttachVolume VolumeId=VOLUME InstanceId=INSTANCE Device=/dev/xvdba EbsCardIndex=0",
    "DetachVolume VolumeId=VOLUME InstanceId=INSTANCE Device=/dev/xvdba Force=true",
    "ModifyVolume VolumeId=VOLUME Size=10 VolumeType=gp3 Iops=4000 Throughput=200 MultiAttachEnabled=false",
    "CreateSnapshot VolumeId=VOLUME Description=d Location=regional TagSpecification.1.ResourceType=snapshot \
     TagSpecification.1.Tag.1.Key=a TagSpecification.1.Tag.1.Value=b",
    "DeleteSnapshot SnapshotId=snap-0123456789abcdef0",
    "DeleteVolume VolumeId=vol-0123456789abcdef0",
    "EnableFastSnapshotRestores AvailabilityZone.1=us-west-2a AvailabilityZone.2=us-west-2b SourceSnapshotId.1=SNAPSHOT",
    "DisableFastSnapshotRestores AvailabilityZone.1=us-west-2a SourceSnapshotId.1=SNAPSHOT",
    "LockSnapshot SnapshotId=SNAPSHOT LockMode=compliance CoolOffPeriod=1 LockDuration=1",
    "LockSnapshot SnapshotId=SNAPSHOT LockMode=governance ExpirationDate=2040-01-01T00:00:00Z",
    "UnlockSnapshot SnapshotId=SNAPSHOT",
    "CreateTags ResourceId.1=VOLUME ResourceId.2=SNAPSHOT Tag.1.Key=a Tag.1.Value=b Tag.2.Key=c Tag.2.Value=d",
    "DeleteTags ResourceId.1=VOLUME Tag.1.Key=a Tag.1.Value=b",
    "RunInstances ImageId=ami-1 InstanceType=m5.large MinCount=1 MaxCount=2 Placement.AvailabilityZone=us-west-2a \
     ClientToken=r BlockDeviceMapping.1.DeviceName=/dev/sdf BlockDeviceMapping.1.Ebs.VolumeSize=4 \
     BlockDeviceMapping.1.Ebs.VolumeType=gp3 BlockDeviceMapping.1.Ebs.Iops=3000 NetworkInterface.1.DeviceIndex=0 \
     TagSpecification.1.ResourceType=instance TagSpecification.1.Tag.1.Key=a TagSpecification.1.Tag.1.Value=b",
    "StartInstances InstanceId.1=INSTANCE AdditionalInfo=x",
    "StopInstances InstanceId.1=INSTANCE Force=true SkipOsShutdown=false Hibernate=false",
    "TerminateInstances InstanceId.1=i-0123456789abcdef0",
    "DescribeVolumes Filter.1.Name=tag:a Filter.1.Value.1=b MaxResults=5 NextToken=n",
    "DescribeVolumes VolumeId.1=VOLUME Filter.1.Name=create-time Filter.1.Value.1=20*",
    "DescribeVolumeStatus VolumeId.1=VOLUME Filter.1.Name=volume-status.status Filter.1.Value.1=ok",
    "DescribeVolumesModifications VolumeId.1=VOLUME Filter.1.Name=target-size Filter.1.Value.1=10 MaxResults=5",
    "DescribeSnapshots Owner.1=self RestorableBy.1=self Filter.1.Name=volume-id Filter.1.Value.1=VOLUME MaxResults=5",
    "DescribeFastSnapshotRestores Filter.1.Name=snapshot-id Filter.1.Value.1=SNAPSHOT MaxResults=5",
    "DescribeInstances InstanceId.1=INSTANCE Filter.1.Name=instance-state-name Filter.1.Value.1=running",
    "DescribeInstanceTypes InstanceType.1=m5.large Filter.1.Name=hypervisor Filter.1.Value.1=nitro",
    "DescribeAvailabilityZones ZoneName.1=us-west-2a ZoneId.1=usw2-az1 Filter.1.Name=zone-type Filter.1.Value.1=*",
];

/// Generates a valid call, and then replaces or removes one or two parameters.
fn nearly_right() -> impl Strategy<Value = (&'static str, Vec<(prop::sample::Index, Option<String>)>)> {
    let change = (any::<prop::sample::Index>(), prop::option::weighted(0.8, value()));
    (prop::sample::select(CALLS.to_vec()), prop::collection::vec(change, 0..3))
}

fn form_of(call: &str, changes: &[(prop::sample::Index, Option<String>)], known: &[(&str, &str)]) -> String {
    let mut words = call.split_whitespace();
    let action = words.next().unwrap();
    let mut parameters: Vec<(String, String)> = words
        .map(|word| word.split_once('=').unwrap())
        .map(|(name, value)| {
            (name.to_owned(), known.iter().find(|(n, _)| *n == value).map_or(value, |(_, id)| id).to_owned())
        })
        .collect();
    for (at, change) in changes {
        let at = at.index(parameters.len());
        match change {
            Some(value) => parameters[at].1.clone_from(value),
            None if parameters.len() > 1 => drop(parameters.remove(at)),
            None => {}
        }
    }
    let pairs = parameters.iter().map(|(name, value)| format!("&{name}={}", encoded(value)));
    format!("Action={action}&Version=2016-11-15{}", pairs.collect::<String>())
}

fn fuzz<S: Strategy>(cases: u32, strategy: &S, check: impl Fn(S::Value) -> Result<(), String>) {
    // proptest minimises and prints a failing request. Add it to the corpus by hand, with the required reply.
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(strategy, |value| check(value).map_err(TestCaseError::fail));
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// No input causes a panic or a server error.
#[test]
fn any_request_body_gets_a_well_formed_ec2_reply() {
    let server = TestServer::start();
    fuzz(2000, &prop::collection::vec(any::<u8>(), 0..400), |body| code(&server.form(body)).map(drop));
    let json = prop_oneof![
        "\\PC{0,80}",
        "\\{(\"(ClusterArn|NodeId|VolumeId)\": ?(\"(arn:aws:sagemaker:us-west-2:1:cluster/[a-zé-]{0,9}|i-[0-9]{8}|vol-[0-9]{8})\"|[0-9\\[{null]{1,9}),?){0,3}\\}",
    ];
    fuzz(1000, &("[!-~]{0,20}|SageMaker\\.(Attach|Detach)ClusterNodeVolume", json), |(target, body)| {
        let request = Request::post("/").header("x-amz-target", target).body(Bytes::from(body)).unwrap();
        code(&server.ask(request)).map(drop)
    });
}

/// Some parameters of the call can also be missing.
#[test]
fn call_with_invalid_values_gets_a_well_formed_ec2_reply() {
    let server = TestServer::start();
    let made = |form: &str, name: &str| {
        let answer = server.form(form.to_owned());
        let found = elements(answer.body()).unwrap();
        let id = found.iter().find(|(path, _)| path.ends_with(name)).unwrap_or_else(|| panic!("{found:?}"));
        id.1.clone()
    };
    let volume = made("Action=CreateVolume&AvailabilityZone=us-west-2a&Size=4&VolumeType=gp3", "/volumeId");
    let snapshot = made(&format!("Action=CreateSnapshot&VolumeId={volume}"), "/snapshotId");
    let known = [("VOLUME", &*volume), ("SNAPSHOT", &*snapshot), ("INSTANCE", &*server.instance)];
    for call in CALLS {
        let found = code(&server.form(form_of(call, &[], &known))).unwrap();
        assert!(!matches!(&*found, "UnknownParameter" | "MissingParameter" | "InvalidAction"), "{call}: {found}");
    }
    fuzz(4000, &nearly_right(), |(call, changes)| {
        let form = form_of(call, &changes, &known);
        code(&server.form(form.clone())).map(drop).map_err(|why| format!("{why} to {form}"))
    });
}

/// Random headers never authenticate a request.
#[test]
fn any_target_and_headers_get_a_well_formed_ec2_reply() {
    let server = TestServer::start();
    let locked = server.service.clone().with_access_key(AccessKey::parse("AKIA:secret").unwrap());
    let locked = TestServer { service: locked, ..server };
    let target = prop_oneof![
        "/\\?[!-~&&[^#<>\"`{}|\\\\^]]{0,120}",
        "/[a-z/]{0,9}",
        "/\\?(X-Amz-[A-Za-z]{4,13}=[!-~&&[^#<>\"`{}|\\\\^&]]{0,30}&?){0,6}"
    ];
    let headers = ("[ -~]{0,120}", "[ -~]{0,30}", "[ -~]{0,30}");
    fuzz(2000, &(target, headers), |(target, (authorization, date, token))| {
        let request = Request::get(target)
            .header("host", "h")
            .header("authorization", authorization)
            .header("x-amz-date", date)
            .header("x-amz-security-token", token);
        // Skip invalid HTTP: the listener rejects it before it reaches the service.
        let Ok(request) = request.body(Bytes::new()) else { return Ok(()) };
        match code(&locked.ask(request))?.as_str() {
            "-" => Err("somebody got in".to_owned()),
            _ => Ok(()),
        }
    });
}

/// Returns whether XML 1.0 can represent the text. Other characters are replaced, so they do not round-trip.
fn carried(text: &str) -> bool {
    text.chars()
        .all(|c| matches!(c, '\t' | '\n') || (c >= ' ' && !matches!(c, '\u{fffe}' | '\u{ffff}' | '\u{7f}'..='\u{9f}')))
}

/// The tag may have any characters that EC2 accepts.
#[test]
fn any_tag_round_trips() {
    let server = TestServer::start();
    let key = "\\PC{1,60}".prop_filter("aws: is EC2's own", |key| !key.to_lowercase().starts_with("aws:"));
    fuzz(1000, &(key, any::<String>()), |(key, value)| {
        let form = format!(
            "Action=CreateVolume&AvailabilityZone=us-west-2a&Size=1&TagSpecification.1.ResourceType=volume\
             &TagSpecification.1.Tag.1.Key={}&TagSpecification.1.Tag.1.Value={}",
            encoded(&key),
            encoded(&value)
        );
        let answer = server.form(form);
        if code(&answer)? != "-" || !carried(&value) {
            return Ok(());
        }
        let found = elements(answer.body())?;
        let of =
            |name: &str| found.iter().find(|(path, _)| path.ends_with(&format!("tagSet/item/{name}"))).map(|(_, t)| t);
        let (same_key, same_value) = (of("key") == Some(&key), of("value") == Some(&value));
        if same_key && same_value {
            Ok(())
        } else {
            Err(format!("{key:?}={value:?} became {:?}={:?}", of("key"), of("value")))
        }
    });
}

/// Clock ticks per second in `/proc`. The number is the same on every Linux system.
const TICKS_PER_SECOND: u64 = 100;

/// Returns the CPU time of this thread, without the time that it waited for a CPU.
fn ticks_of_this_thread() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, after_name) = stat.rsplit_once(')').unwrap();
    after_name.split_ascii_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// The simulator rejects a larger body.
#[test]
fn body_of_one_mebibyte_is_answered_in_time() {
    let server = TestServer::start();
    let whole = |pattern: &dyn Fn(usize) -> String| {
        let mut body = "Action=DescribeVolumes&Version=2016-11-15".to_owned();
        let mut n = 1;
        while body.len() < (1 << 20) - 64 {
            body.push_str(&pattern(n));
            n += 1;
        }
        body
    };
    let patterns: [(&str, &dyn Fn(usize) -> String); 6] = [
        ("FilterLimitExceeded", &|n| {
            format!("&Filter.1.Value.{n}=x{}", if n == 1 { "&Filter.1.Name=status" } else { "" })
        }),
        ("InvalidParameterValue", &|n| format!("&VolumeId.{n}=vol-0123456789abcdef0")),
        ("InvalidParameterValue", &|n| format!("&Filter.{n}.Name=x&Filter.{n}.Value.1=x")),
        ("UnknownParameter", &|n| format!("&Tag.{n}.Key=x")),
        ("UnknownParameter", &|n| format!("&{n}.{n}.{n}.{n}=x")),
        ("InvalidParameterValue", &|n| if n == 1 { "&NextToken=".to_owned() } else { "%41".to_owned() }),
    ];
    for (expected, pattern) in patterns {
        let began = ticks_of_this_thread();
        assert_eq!(code(&server.form(whole(pattern))).as_deref(), Ok(expected), "{}", pattern(2));
        // The limit is far above the normal time, and far below the time of any quadratic algorithm.
        let took = ticks_of_this_thread() - began;
        assert!(took < 10 * TICKS_PER_SECOND, "{}: {took} ticks", pattern(2));
    }
    assert_eq!(code(&server.form(vec![b'x'; (1 << 20) + 1])).as_deref(), Ok("RequestEntityTooLarge"));
}

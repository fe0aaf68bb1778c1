//! Replies with a few changed bytes, read with the SDK's runtime: never a panic, never a wrong success.
//!
//! The seeds are the files of `tests/corpus`. Earlier failures are stored next to this file and run again first.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use ebs_aws::{AwsEc2, Transport};
use ebs_ec2::{
    AttachRequest, Attachment, AttachmentState, Attachments, CopyVolume, CreateSnapshot, CreateVolume, DetachRequest,
    DeviceName, Ec2Error, ErrorClass, Gib, InstanceId, Instances, LockSnapshot, LockState, ModificationState,
    ModifyVolume, PageRequest, Place, SnapshotId, SnapshotQuery, SnapshotState, Snapshots, Tags, VolumeId, VolumeQuery,
    VolumeState, VolumeType, Volumes, ZoneName, Zones,
};
use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestCaseResult, TestRunner};

use crate::{corpus, in_process};

/// One change of a reply. Positions are fractions of the whole, so that shrinking keeps them.
#[derive(Debug, Clone)]
enum Change {
    Replace(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
    CutAt(prop::sample::Index),
}

impl Change {
    fn apply(&self, text: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        match self {
            Self::Replace(at, byte) => {
                let at = at.index(text.len());
                text[at] = *byte;
            }
            Self::Insert(at, bytes) => {
                let at = at.index(text.len());
                text.splice(at..at, bytes.iter().copied());
            }
            Self::Remove(at, count) => {
                let at = at.index(text.len());
                text.drain(at..(at + count).min(text.len()));
            }
            Self::CutAt(at) => text.truncate(at.index(text.len())),
        }
    }
}

/// Bytes with a meaning in XML and EC2 are more frequent than others.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![
        3 => prop::sample::select(b"<>/&;!-[]?\"'= \n0123456789aevxAZ\x00\xff".to_vec()),
        1 => any::<u8>(),
    ]
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let at = any::<prop::sample::Index>;
    let change = prop_oneof![
        4 => (at(), byte()).prop_map(|(at, byte)| Change::Replace(at, byte)),
        2 => (at(), prop::collection::vec(byte(), 1..8)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        // Too short to remove a whole list.
        2 => (at(), 1..12_usize).prop_map(|(at, count)| Change::Remove(at, count)),
        1 => at().prop_map(Change::CutAt),
    ];
    prop::collection::vec(change, 1..4)
}

fn vol(id: &str) -> VolumeId {
    VolumeId::parse(id).unwrap()
}

const VOLUME: &str = "vol-0aaa1111bbb22222c";
const OTHER: &str = "vol-0ddd3333eee44444f";
const SNAPSHOT: &str = "snap-0123456789abcdef0";
const INSTANCE: &str = "i-0123456789abcdef0";

/// Panics on a wrong success, and returns errors.
type Judged = Result<(), (Ec2Error, bool)>;

fn reads(error: Ec2Error) -> (Ec2Error, bool) {
    (error, false)
}

fn mutates(error: Ec2Error) -> (Ec2Error, bool) {
    (error, true)
}

/// Checks an attachment: it must have its volume, and its state or an unknown one.
fn judge_attachment(a: &Attachment, volume: &str, state: &AttachmentState) {
    assert_eq!(a.volume.as_str(), volume);
    assert!(a.state == *state || matches!(a.state, AttachmentState::Other(_)), "{a:?}");
}

async fn volumes(ec2: &AwsEc2) -> Judged {
    let asked = [VOLUME, OTHER].map(vol).to_vec();
    let query = VolumeQuery::FilterIds(asked.clone());
    let page = ec2.describe_volumes(&query, &PageRequest::default()).await.map_err(reads)?;
    assert_eq!(page.items.len(), 2, "a volume is missing from a complete page");
    for v in &page.items {
        assert!(asked.contains(&v.id));
        let (state, attachments) = match v.id.as_str() {
            VOLUME => (VolumeState::Available, 0),
            _ => (VolumeState::InUse, 1),
        };
        assert!(v.state == state || matches!(v.state, VolumeState::Other(_)), "{v:?}");
        assert_eq!(v.attachments.len(), attachments, "{v:?}");
        for a in &v.attachments {
            judge_attachment(a, v.id.as_str(), &AttachmentState::Attached);
        }
    }
    Ok(())
}

async fn volume_changes(ec2: &AwsEc2, name: &str) -> Judged {
    let zone = Place::Zone(ZoneName::parse("us-west-2a").unwrap());
    let create = CreateVolume {
        client_token: "t".into(),
        place: zone,
        size: Gib(100),
        volume_type: VolumeType::Gp3,
        iops: None,
        throughput: None,
        encrypted: false,
        kms_key_id: None,
        snapshot: None,
        initialization_rate: None,
        multi_attach: false,
        outpost_arn: None,
        tags: Tags::new(),
        dry_run: false,
    };
    let copy = CopyVolume {
        client_token: "t".into(),
        source: vol(OTHER),
        size: Gib(100),
        volume_type: VolumeType::Gp3,
        iops: None,
        throughput: None,
        encrypted: false,
        kms_key_id: None,
        multi_attach: false,
        tags: Tags::new(),
    };
    let made = match name {
        "create_volume" => ec2.create_volume(&create).await,
        _ => ec2.copy_volume(&copy).await,
    };
    let made = made.map_err(mutates)?;
    assert!(matches!(made.state, VolumeState::Creating | VolumeState::Other(_)), "{made:?}");
    assert!(made.size > Gib(0) && made.attachments.is_empty());
    Ok(())
}

async fn attachments(ec2: &AwsEc2, name: &str) -> Judged {
    let (volume, instance) = (vol(VOLUME), InstanceId::parse(INSTANCE).unwrap());
    let device = DeviceName::new("/dev/xvdaa");
    let (attachment, state) = match name {
        "attach_volume" => {
            let request = AttachRequest { volume, instance: instance.clone(), device, card: None };
            (ec2.attach_volume(&request).await, AttachmentState::Attaching)
        }
        _ => {
            let request = DetachRequest { volume, instance: instance.clone() };
            (ec2.detach_volume(&request).await, AttachmentState::Detaching)
        }
    };
    let attachment = attachment.map_err(mutates)?;
    judge_attachment(&attachment, VOLUME, &state);
    assert_eq!(attachment.instance, Some(instance));
    Ok(())
}

async fn modifications(ec2: &AwsEc2, name: &str) -> Judged {
    let volumes = [vol(VOLUME)];
    let request =
        ModifyVolume { volume: vol(VOLUME), size: Some(Gib(200)), volume_type: None, iops: None, throughput: None };
    let modification = match name {
        "modify_volume" => ec2.modify_volume(&request).await.map_err(mutates)?,
        _ => {
            let page = ec2.describe_modifications(&volumes, &PageRequest::default()).await.map_err(reads)?;
            assert_eq!(page.items.len(), 1);
            page.items[0].clone()
        }
    };
    assert_eq!(modification.volume, volumes[0]);
    let state = modification.state;
    assert!(matches!(state, ModificationState::Optimizing | ModificationState::Other(_)), "{state:?}");
    Ok(())
}

async fn snapshots(ec2: &AwsEc2, name: &str) -> Judged {
    let id = SnapshotId::parse(SNAPSHOT).unwrap();
    let request =
        CreateSnapshot { volume: vol(VOLUME), description: String::new(), outpost_arn: None, tags: Tags::new() };
    let snapshot = match name {
        "create_snapshot" => ec2.create_snapshot(&request).await.map_err(mutates)?,
        _ => {
            let query = SnapshotQuery::FilterIds(vec![id.clone()]);
            let page = ec2.describe_snapshots(&query, &PageRequest::default()).await.map_err(reads)?;
            assert_eq!(page.items.len(), 1);
            assert_eq!(page.items[0].id, id);
            page.items[0].clone()
        }
    };
    assert!(matches!(snapshot.state, SnapshotState::Pending | SnapshotState::Other(_)), "{snapshot:?}");
    if name == "create_snapshot" {
        assert_eq!(snapshot.source_volume, Some(vol(VOLUME)));
    }
    Ok(())
}

async fn snapshot_extras(ec2: &AwsEc2, name: &str) -> Judged {
    let snapshot = SnapshotId::parse(SNAPSHOT).unwrap();
    if name == "lock_snapshot" {
        let mode = Some("governance".to_owned());
        let lock = LockSnapshot { snapshot, mode, cool_off_hours: None, expiration: None, duration_days: Some(1) };
        return ec2.lock_snapshot(&lock).await.map_err(mutates);
    }
    if name == "describe_locked_snapshots" {
        let lock = ec2.describe_lock(&snapshot).await.map_err(reads)?.expect("it is locked");
        assert_eq!(lock.snapshot, snapshot);
        assert!(matches!(lock.state, LockState::ComplianceCoolOff | LockState::Other(_)), "{lock:?}");
        return Ok(());
    }
    let zones = ["us-west-2a", "us-west-2b"].map(|z| ZoneName::parse(z).unwrap());
    let restores = ec2.enable_fast_snapshot_restores(&snapshot, &zones).await.map_err(mutates)?;
    assert!(restores.enabled.len() <= 1 && restores.failures.len() == 1, "{restores:?}");
    Ok(())
}

async fn instances(ec2: &AwsEc2) -> Judged {
    let id = InstanceId::parse(INSTANCE).unwrap();
    let page = ec2.describe_instances(std::slice::from_ref(&id), &PageRequest::default()).await.map_err(reads)?;
    assert_eq!(page.items.len(), 1);
    assert_eq!(page.items[0].id, id);
    assert_eq!(page.items[0].devices.len(), 2, "{page:?}");
    Ok(())
}

async fn others(ec2: &AwsEc2, name: &str) -> Judged {
    let tags = Tags::from([("k".to_owned(), "v".to_owned())]);
    match name {
        "delete_volume" => ec2.delete_volume(&vol(VOLUME)).await.map_err(mutates),
        "delete_snapshot" => ec2.delete_snapshot(&SnapshotId::parse(SNAPSHOT).unwrap()).await.map_err(mutates),
        "create_tags" => ec2.create_tags(VOLUME, &tags).await.map_err(mutates),
        "delete_tags" => ec2.delete_tags(VOLUME, &["k".into()]).await.map_err(mutates),
        "describe_availability_zones" => {
            let zones = ec2.describe_zones().await.map_err(reads)?;
            assert_eq!(zones.len(), 1);
            Ok(())
        }
        "describe_instance_types" => {
            let info = ec2.describe_instance_type("r8gb.48xlarge").await.map_err(reads)?;
            assert_eq!(info.unwrap().instance_type, "r8gb.48xlarge");
            Ok(())
        }
        _ => {
            let page = ec2.describe_volume_status(&[vol(VOLUME)], &PageRequest::default()).await.map_err(reads)?;
            assert_eq!((page.items.len(), page.items[0].volume.as_str()), (1, VOLUME));
            assert!(page.items[0].details.is_some());
            Ok(())
        }
    }
}

/// Makes the call that belongs to the reply, and judges the result.
async fn judge(ec2: &AwsEc2, name: &str) -> Judged {
    match name {
        "describe_volumes" => volumes(ec2).await,
        "create_volume" | "copy_volumes" => volume_changes(ec2, name).await,
        "attach_volume" | "detach_volume" => attachments(ec2, name).await,
        "modify_volume" | "describe_volumes_modifications" => modifications(ec2, name).await,
        "create_snapshot" | "describe_snapshots" => snapshots(ec2, name).await,
        "lock_snapshot" | "describe_locked_snapshots" | "enable_fast_snapshot_restores" => {
            snapshot_extras(ec2, name).await
        }
        "describe_instances" => instances(ec2).await,
        _ => others(ec2, name).await,
    }
}

const NAMES: [&str; 20] = [
    "attach_volume",
    "copy_volumes",
    "create_snapshot",
    "create_tags",
    "create_volume",
    "delete_snapshot",
    "delete_tags",
    "delete_volume",
    "describe_availability_zones",
    "describe_instance_types",
    "describe_instances",
    "describe_locked_snapshots",
    "describe_snapshots",
    "describe_volume_status",
    "describe_volumes",
    "describe_volumes_modifications",
    "detach_volume",
    "enable_fast_snapshot_restores",
    "lock_snapshot",
    "modify_volume",
];

/// A client that receives the reply in its slot.
struct Bench {
    runtime: tokio::runtime::Runtime,
    slot: Arc<Mutex<(u16, Bytes)>>,
    ec2: AwsEc2,
}

impl Bench {
    fn new() -> Self {
        // Paused: the pauses between attempts of a describe take no time.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let slot = Arc::new(Mutex::new((200, Bytes::new())));
        let answers = Arc::clone(&slot);
        let transport = Transport::answering(move |_| {
            let (status, body) = answers.lock().unwrap().clone();
            async move { Ok(http::Response::builder().status(status).body(body).unwrap()) }
        });
        let ec2 = runtime.block_on(in_process::client(transport));
        Self { runtime, slot, ec2 }
    }

    fn judge(&self, name: &str, status: u16, body: Vec<u8>) -> Judged {
        *self.slot.lock().unwrap() = (status, Bytes::from(body));
        self.runtime.block_on(judge(&self.ec2, name))
    }
}

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        source_file: Some(file!()),
        ..ProptestConfig::default()
    })
}

#[test]
fn every_reply_of_the_corpus_is_read() {
    let bench = Bench::new();
    for name in NAMES {
        let outcome = bench.judge(name, 200, corpus::read(name).into_bytes());
        assert!(outcome.is_ok(), "{name}: {outcome:?}");
    }
}

/// Such a reply never causes a panic. After a mutation, the outcome is unknown.
#[test]
fn reply_with_changed_bytes_is_never_a_wrong_success() {
    let bench = Bench::new();
    let check = |(at, changes): (prop::sample::Index, Vec<Change>)| -> TestCaseResult {
        let name = NAMES[at.index(NAMES.len())];
        let mut body = corpus::read(name).into_bytes();
        changes.iter().for_each(|change| change.apply(&mut body));
        if let Err((error, mutating)) = bench.judge(name, 200, body) {
            let open = error.class == ErrorClass::Ambiguous;
            prop_assert!(open || !mutating, "{name}: {error} is {:?}", error.class);
        }
        Ok(())
    };
    runner(1500).run(&(any::<prop::sample::Index>(), changes()), check).unwrap();
}

#[test]
fn error_answer_with_changed_bytes_is_never_a_success() {
    let bench = Bench::new();
    let check = |(at, changes): (prop::sample::Index, Vec<Change>)| -> TestCaseResult {
        let name = NAMES[at.index(NAMES.len())];
        let mut body = corpus::read("error").into_bytes();
        changes.iter().for_each(|change| change.apply(&mut body));
        prop_assert!(bench.judge(name, 400, body).is_err(), "{name}");
        Ok(())
    };
    runner(500).run(&(any::<prop::sample::Index>(), changes()), check).unwrap();
}

#[test]
fn random_bytes_are_never_a_success() {
    let bench = Bench::new();
    let check = |(at, body): (prop::sample::Index, Vec<u8>)| -> TestCaseResult {
        let name = NAMES[at.index(NAMES.len())];
        prop_assert!(bench.judge(name, 200, body).is_err(), "{name}");
        Ok(())
    };
    runner(300).run(&(any::<prop::sample::Index>(), prop::collection::vec(byte(), 0..200)), check).unwrap();
}

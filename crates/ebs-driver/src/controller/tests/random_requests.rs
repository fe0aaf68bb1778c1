//! Requests with random fields. Each gets a CSI code and a readable message, and a refused request changes nothing.
//!
//! Every run makes the same requests. `RANDOM_REQUESTS_SEED` sets the seed, and `RANDOM_REQUESTS` the number of
//! requests.

use std::collections::{BTreeMap, BTreeSet};

use csi_proto::csi::{TopologyRequirement, VolumeContentSource};
use ebs_ec2::SplitMix64;
use ebs_sim::iam::Extra;

use super::*;

/// The error codes that CSI's tables permit, and those that gRPC permits for every RPC.
const CODES: &str = "InvalidArgument OutOfRange NotFound AlreadyExists ResourceExhausted FailedPrecondition Aborted \
                     Unavailable Unauthenticated PermissionDenied Unimplemented Internal";

/// Returns the durable state of EC2: live volumes with size, type, tags and attachments, and snapshots.
async fn state(world: &World) -> BTreeMap<String, String> {
    let state = world.ec2.engine().snapshot_of_state().await;
    let live = |state: &str| !state.starts_with("delet");
    let volumes = state.volumes.into_iter().filter(|v| live(&v.state)).map(|v| {
        let nodes: Vec<_> = v.attachments.iter().map(|a| a.instance_id.clone()).collect();
        (v.id, format!("{} {} {:?} {nodes:?}", v.size_gib, v.volume_type, v.tags))
    });
    let snapshots = state.snapshots.into_iter().map(|s| (s.id, format!("{:?}", s.tags)));
    volumes.chain(snapshots).collect()
}

/// The objects that requests name: a volume and one of its snapshots.
struct Objects {
    volume: String,
    snapshot: String,
}

impl Objects {
    /// Replaces the objects that no longer exist with new ones.
    async fn renew(&mut self, world: &World, number: u64) {
        let state = state(world).await;
        if !state.contains_key(&self.volume) {
            self.volume = world.volume(&format!("pvc-own-{number}")).await;
        }
        if !state.contains_key(&self.snapshot) {
            let taken = within("a snapshot", world.take(&format!("snapshot-own-{number}"), &self.volume, &[])).await;
            self.snapshot = taken.expect("a snapshot can be taken").snapshot_id;
        }
    }
}

/// Returns why an error is unsuitable. A client must be able to act on the error, and a person must be able to read it.
fn faults(request: &AnyRequest, Refused { code, message }: &Refused) -> Vec<&'static str> {
    let lower = message.to_lowercase();
    let is_of_the_request = matches!(code.as_str(), "InvalidArgument" | "OutOfRange");
    let is_named = || request.changed.iter().flat_map(|field| field.words()).any(|word| lower.contains(word));
    let rules = [
        ("CSI does not permit its code", CODES.split(' ').any(|known| known == code)),
        ("it has no message", !message.trim().is_empty()),
        ("its message has control characters", !message.chars().any(char::is_control)),
        ("its message is too long", message.chars().count() <= 2_100),
        ("something broke", !["internal error", "ended unexpectedly"].iter().any(|broken| message.contains(broken))),
        ("it names no field that was changed", !is_of_the_request || is_named()),
    ];
    rules.into_iter().filter(|(_, holds)| !holds).map(|(fault, _)| fault).collect()
}

/// The requests call all controller RPCs. Each field is a random text, number or map, including maps whose keys differ
/// only in case. Each request gets a CSI code, and a bounded message that names the field and has no control
/// characters. A refused request changes nothing in EC2. No request panics.
#[tokio::test(start_paused = true)]
async fn random_requests_get_a_csi_code_and_change_nothing_if_refused() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("RANDOM_REQUESTS_SEED").unwrap_or(1);
    let world = World::start().await;
    for extra in [Extra::HyperPod, Extra::Kms] {
        world.ec2.declare(extra);
    }
    let mut random = Random(SplitMix64::new(seed));
    let mut objects = Objects { volume: String::new(), snapshot: String::new() };
    objects.renew(&world, 0).await;
    let mut before = state(&world).await;
    let (mut refused, mut found) = (BTreeSet::new(), Vec::new());
    for number in 1..=number("RANDOM_REQUESTS").unwrap_or(10_000) {
        let request = AnyRequest::random(&mut random, &objects, world.here.as_str());
        world.ec2.clear_calls();
        let answer = within("an answer", request.send(&world)).await;
        if let Err(error) = &answer {
            refused.insert(request.rpc.name());
            found.extend(faults(&request, error).into_iter().map(|fault| format!("{fault}: {request:?}: {error:?}")));
        }
        if world.mutations().is_empty() {
            continue;
        }
        let after = state(&world).await;
        if after != before && answer.is_err() {
            found.push(format!("it was refused and has changed something: {request:?}: {answer:?}"));
        }
        for made in after.keys().filter(|id| id.starts_with("vol-") && !before.contains_key(*id)) {
            world.delete(made).await.expect("what was made can be deleted");
        }
        objects.renew(&world, number).await;
        before = state(&world).await;
    }
    let first: Vec<String> = found.iter().take(12).map(|text| text.chars().take(3_000).collect()).collect();
    assert!(first.is_empty(), "RANDOM_REQUESTS_SEED={seed}: {} answers are wrong: {first:#?}", found.len());
    assert_eq!(refused.len(), RPCS.len(), "each RPC refuses a request: {refused:?}");
}

/// A field whose value is random.
#[derive(Debug, Clone, Copy)]
enum Field {
    Name,
    Capacity,
    Capabilities,
    Parameters,
    Source,
    Topology,
    Volume,
    Snapshot,
    Node,
    Readonly,
    Context,
    Entries,
    Token,
}

use Field::*;

/// Each RPC that reads its request, with the request's fields.
const RPCS: [(Rpc, &[Field]); 12] = [
    (Rpc::CreateVolume, &[Name, Capacity, Capabilities, Parameters, Parameters, Source, Topology]),
    (Rpc::DeleteVolume, &[Volume]),
    (Rpc::ControllerPublishVolume, &[Volume, Node, Capabilities, Readonly, Context]),
    (Rpc::ControllerUnpublishVolume, &[Volume, Node]),
    (Rpc::ValidateVolumeCapabilities, &[Volume, Capabilities, Parameters, Context]),
    (Rpc::ListVolumes, &[Entries, Token]),
    (Rpc::CreateSnapshot, &[Name, Volume, Parameters]),
    (Rpc::DeleteSnapshot, &[Snapshot]),
    (Rpc::ListSnapshots, &[Snapshot, Volume, Entries, Token]),
    (Rpc::GetSnapshot, &[Snapshot]),
    (Rpc::ControllerExpandVolume, &[Volume, Capacity, Capabilities]),
    (Rpc::ControllerModifyVolume, &[Volume, Parameters]),
];

impl Field {
    /// Returns lower-case words, one of which must be in the message when the field is invalid.
    fn words(self) -> &'static [&'static str] {
        match self {
            // The driver also writes the name to a tag, so the message may name the tag.
            Name => &["name", "tag"],
            Capacity => &["required_bytes", "limit_bytes", "capacity_range", "volume size"],
            Capabilities => &["capabilit", "access mode", "can be used with", "cannot be used with", "several nodes"],
            Parameters => &["parameter", "tag", "fastsnapshotrestoreavailabilityzones", "volume type"],
            Source => &["source", "snapshot", "volume", "clone"],
            Topology => &["accessibility_requirements", "topology", "zone", "outpost"],
            Volume => &["volume_id", "node-local volume"],
            Snapshot => &["snapshot"],
            Node => &["node"],
            Readonly => &["readonly"],
            Context => &["volume_context"],
            Entries => &["max_entries"],
            Token => &["token"],
        }
    }
}

/// A request for any of the RPCs, with the fields of all of them. Each RPC uses only its own fields.
#[derive(Debug)]
struct AnyRequest {
    rpc: Rpc,
    changed: Vec<Field>,
    create: CreateVolumeRequest,
    volume: String,
    snapshot: String,
    node: String,
    readonly: bool,
    context: HashMap<String, String>,
    entries: i32,
    token: String,
}

impl AnyRequest {
    /// Returns a valid request for a random RPC, with one or several random fields.
    fn random(random: &mut Random, objects: &Objects, node: &str) -> Self {
        let (rpc, fields) = if random.one_in(4) { RPCS[0] } else { random.pick(&RPCS) };
        let mut request = Self {
            rpc,
            changed: Vec::new(),
            create: in_zone(named(&format!("pvc-{:x}", random.bits())), "us-west-2a"),
            volume: objects.volume.clone(),
            snapshot: if rpc == Rpc::ListSnapshots { String::new() } else { objects.snapshot.clone() },
            node: node.to_owned(),
            readonly: false,
            context: HashMap::new(),
            entries: 0,
            token: String::new(),
        };
        for _ in 0..if random.one_in(4) { fields.len() } else { 1 } {
            request.change(random.pick(fields), random);
        }
        request
    }

    fn change(&mut self, field: Field, random: &mut Random) {
        self.changed.push(field);
        let create = &mut self.create;
        match field {
            Name => create.name = random.text(),
            Capacity => {
                let range = CapacityRange { required_bytes: random.long(), limit_bytes: random.long() };
                let half = CapacityRange { limit_bytes: 0, ..range };
                create.capacity_range = random.pick(&[Some(range), Some(half), None]);
            }
            Capabilities => create.volume_capabilities = random.capabilities(),
            Parameters => (create.parameters, create.mutable_parameters) = (random.map(), random.map()),
            Source => {
                let snapshot = SourceType::Snapshot(SnapshotSource { snapshot_id: random.text() });
                let volume = SourceType::Volume(VolumeSource { volume_id: random.text() });
                let source = VolumeContentSource { r#type: random.pick(&[None, Some(snapshot), Some(volume)]) };
                create.volume_content_source = Some(source);
            }
            Topology => {
                let [requisite, preferred] = [random.terms(), random.terms()];
                create.accessibility_requirements = Some(TopologyRequirement { requisite, preferred });
            }
            Volume => self.volume = random.text(),
            Snapshot => self.snapshot = random.text(),
            Node => self.node = random.text(),
            Readonly => self.readonly = true,
            Context => self.context = random.map(),
            Entries => self.entries = random.int(),
            Token => self.token = random.text(),
        }
    }

    /// Sends the request as a sidecar does.
    async fn send(&self, world: &World) -> Result<(), Refused> {
        let create = self.create.clone();
        let (volume_id, snapshot_id, node_id) = (self.volume.clone(), self.snapshot.clone(), self.node.clone());
        let (name, parameters, capacity_range) =
            (create.name.clone(), create.parameters.clone(), create.capacity_range);
        let (volume_context, readonly) = (self.context.clone(), self.readonly);
        let volume_capability = create.volume_capabilities.first().cloned();
        let (max_entries, starting_token) = (self.entries, self.token.clone());
        macro_rules! send {
            ($rpc:ident($request:ident { $($field:ident $(: $value:expr)?),* })) => {
                ask!(world, $rpc, $request { $($field $(: $value)?,)* ..Default::default() }).map(drop)
            };
        }
        match self.rpc {
            Rpc::CreateVolume => world.create(create).await.map(drop),
            Rpc::DeleteVolume => world.delete(&volume_id).await,
            Rpc::ControllerPublishVolume => send!(controller_publish_volume(ControllerPublishVolumeRequest {
                volume_id,
                node_id,
                volume_capability,
                readonly,
                volume_context
            })),
            Rpc::ControllerUnpublishVolume => world.unpublish(&volume_id, &node_id).await,
            Rpc::ValidateVolumeCapabilities => send!(validate_volume_capabilities(ValidateVolumeCapabilitiesRequest {
                volume_id,
                volume_context,
                parameters,
                volume_capabilities: create.volume_capabilities
            })),
            Rpc::ListVolumes => ask!(world, list_volumes, ListVolumesRequest { max_entries, starting_token }).map(drop),
            Rpc::CreateSnapshot => {
                send!(create_snapshot(CreateSnapshotRequest { name, parameters, source_volume_id: volume_id }))
            }
            Rpc::DeleteSnapshot => world.delete_snapshot(&snapshot_id).await,
            Rpc::GetSnapshot => send!(get_snapshot(GetSnapshotRequest { snapshot_id })),
            Rpc::ListSnapshots => send!(list_snapshots(ListSnapshotsRequest {
                max_entries,
                starting_token,
                snapshot_id,
                source_volume_id: volume_id
            })),
            Rpc::ControllerExpandVolume => world.expand(&volume_id, capacity_range, volume_capability).await.map(drop),
            Rpc::ControllerModifyVolume => send!(controller_modify_volume(ControllerModifyVolumeRequest {
                volume_id,
                mutable_parameters: create.mutable_parameters
            })),
            other => panic!("{other} does not read its request"),
        }
    }
}

struct Random(SplitMix64);

/// Texts, separated by commas.
const TEXTS: &str = ", ,\t\r\n,\0,\u{1b}[31mred\u{7},\u{202e}dlrow,日本語のボリューム,🦀🦀🦀,e\u{301}\u{327},İıſK,0,-1,+1,1e9,0x10, 7 ,007,\
    2147483647,2147483648,99999999999999999999999999,3.14,NaN,true,TRUE,t,yes,null,gp3,GP3,io2,standard,gp9,ext4,xfs,\
    ntfs,vol-,vol-0123456789abcdef0,VOL-0123456789ABCDEF0,snap-0123456789abcdef0,i-0123456789abcdef0,\
    aws://us-west-2a/vol-0123456789abcdef0,local-ebs://dev/xvdbz,hyperpod-x-i-0123456789abcdef0,\
    arn:aws:kms:us-west-2:123456789012:key/1,us-west-2a,us-west-2z,../../etc/passwd,'; DROP TABLE volumes; --,a=b,\
    a={{.PVCName,a={{ printf \"%s\" .PVName }},kubernetes.io/x=y";

const KEYS: &str = "type TYPE volumeType iops IOPS iopsPerGB iopspergb allowAutoIOPSPerGBIncrease \
    allowAutoIOPSIncreaseOnModify throughput volumeInitializationRate encrypted Encrypted kmsKeyId \
    csi.storage.k8s.io/pvc/name csi.storage.k8s.io/fstype fsType blockSize inodeSize bytesPerInode numberOfInodes \
    ext4BigAlloc ext4ClusterSize ext4EncryptionSupport blockAttachUntilInitialized formatBlankRestore \
    tagSpecification_1 tagSpecification tagspecification_2 tagDeletion_1 lockMode lockDuration \
    fastSnapshotRestoreAvailabilityZones outpostArn";

const SEGMENTS: &str = "topology.kubernetes.io/zone topology.ebs.csi.aws.com/zone topology.k8s.aws/zone-id \
    topology.ebs.csi.aws.com/outpost-id topology.ebs.csi.aws.com/partition";

impl Random {
    fn bits(&mut self) -> u64 {
        self.0.draw()
    }

    /// Returns a number below `end`, which must be above 0.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.0.below(u64::try_from(end).expect("small"))).expect("below a usize")
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Returns one of the words, or sometimes an arbitrary text.
    fn word(&mut self, words: &str, separator: char) -> String {
        let words: Vec<&str> = words.split(separator).collect();
        self.pick(&words).to_owned()
    }

    fn char(&mut self) -> char {
        let range = [0..0x20, 0x20..0x7f, 0x20..0x7f, 0x80..0x250, 0x3000..0x30ff, 0x1_f600..0x1_f64f];
        let range = self.pick(&range);
        let at = range.start + u32::try_from(self.below(range.len())).expect("small");
        char::from_u32(at).unwrap_or('?')
    }

    fn text(&mut self) -> String {
        match self.below(8) {
            0 => (0..self.below(40)).map(|_| self.char()).collect(),
            1 if self.one_in(4) => self.word(TEXTS, ',').repeat(1 + self.below(20_000)),
            2 => self.word(TEXTS, ',') + &self.word(TEXTS, ','),
            3 => format!("{}-{:017x}", self.pick(&["vol", "snap", "i"]), self.bits() >> 1),
            _ => self.word(TEXTS, ','),
        }
    }

    fn long(&mut self) -> i64 {
        let odd = [0, 1, -1, i64::MIN, i64::MAX, GIB - 1, GIB, GIB + 1, 4 * GIB, -GIB, 64 << 40, (64 << 40) + 1];
        if self.one_in(2) { self.pick(&odd) } else { self.bits().cast_signed() >> self.below(64) }
    }

    fn int(&mut self) -> i32 {
        let odd = [0, 1, 4, 5, -1, i32::MIN, i32::MAX, 1_000, 1_001];
        let any = i32::try_from(self.long() >> 32).unwrap_or_default();
        if self.one_in(2) { self.pick(&odd) } else { any }
    }

    /// Returns a map with known and unknown keys, of which some differ only in case.
    fn map(&mut self) -> HashMap<String, String> {
        let mut map = HashMap::new();
        for _ in 0..=self.below(3) {
            let key = if self.one_in(4) { self.text() } else { self.word(KEYS, ' ') };
            if self.one_in(6) {
                map.insert(key.to_uppercase(), self.text());
            }
            map.insert(key, self.text());
        }
        map
    }

    fn capabilities(&mut self) -> Vec<VolumeCapability> {
        let count = self.below(4);
        let mut one = || {
            let (fs_type, mount_flags, volume_mount_group) = (self.text(), vec![self.text()], self.text());
            let mount = AccessType::Mount(MountVolume { fs_type, mount_flags, volume_mount_group });
            let access_type = self.pick(&[None, Some(mount), Some(AccessType::Block(BlockVolume {}))]);
            let any = self.int();
            let mode = self.pick(&[None, Some(1), Some(5), Some(any)]);
            VolumeCapability { access_type, access_mode: mode.map(|mode| AccessMode { mode }) }
        };
        (0..count).map(|_| one()).collect()
    }

    fn terms(&mut self) -> Vec<csi::Topology> {
        let count = self.below(3);
        let mut segment = || {
            let key = if self.one_in(4) { self.text() } else { self.word(SEGMENTS, ' ') };
            (key, self.text())
        };
        (0..count).map(|number| csi::Topology { segments: (0..=number).map(|_| segment()).collect() }).collect()
    }
}

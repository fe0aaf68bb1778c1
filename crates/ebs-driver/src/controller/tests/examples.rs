//! Applies the examples in the documentation.

use serde_json::Value;

use super::documents::repository;
use super::*;

const PAGES: [&str; 5] =
    ["docs/parameters.md", "docs/tagging.md", "docs/snapshots.md", "docs/modify-volume.md", "docs/resizing.md"];
/// The ARN in the examples, which belongs to the simulated account.
const OUTPOST: &str = "arn:aws:outposts:us-west-2:123456789012:outpost/op-0123456789abcdef0";

/// Returns the objects of a YAML text.
fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).expect("the example is YAML")
}

/// Returns the text at a JSON pointer, or an empty text when it is missing.
fn text<'a>(object: &'a Value, at: &str) -> &'a str {
    object.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the map of strings at a key. Panics for a value that Kubernetes would not read as a string.
fn strings(object: &Value, at: &str) -> Vec<(String, String)> {
    let entries = object.pointer(at).and_then(Value::as_object).into_iter().flatten();
    entries.map(|(key, value)| (key.clone(), value.as_str().expect("a quoted string").to_owned())).collect()
}

/// Returns the objects in the ```yaml blocks of a page.
fn objects(page: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(repository().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
    let blocks = text.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().expect("a first part"));
    blocks.flat_map(documents).collect()
}

/// Returns the objects of each file in `examples/`.
fn example_files() -> Vec<(String, Vec<Value>)> {
    let mut files = Vec::new();
    for folder in std::fs::read_dir(repository().join("examples")).expect("examples").flatten() {
        if folder.path().is_dir() {
            for file in std::fs::read_dir(folder.path()).expect("a folder").flatten() {
                let text = std::fs::read_to_string(file.path()).expect("a text");
                let name = file.path().strip_prefix(repository()).unwrap_or(&file.path()).display().to_string();
                files.push((name, documents(&text)));
            }
        }
    }
    assert!(files.len() >= 23, "{} files", files.len());
    files
}

/// Returns the CreateVolume request that the provisioner sends for a claim of this class.
fn volume_of(class: &Value, name: &str) -> CreateVolumeRequest {
    let mut parameters: HashMap<String, String> = strings(class, "/parameters").into_iter().collect();
    let fs_type = parameters.remove("csi.storage.k8s.io/fstype").unwrap_or_else(|| "ext4".to_owned());
    for (key, value) in [("pvc/name", "data-0"), ("pvc/namespace", "shop"), ("pv/name", name)] {
        parameters.insert(format!("csi.storage.k8s.io/{key}"), value.to_owned());
    }
    let request = with_capability(of_gib(named(name), 100), mount(&fs_type));
    CreateVolumeRequest { parameters, accessibility_requirements: topology_of(class), ..request }
}

/// Returns the terms of `allowedTopologies`, one for each combination of values.
fn topology_of(class: &Value) -> Option<csi::TopologyRequirement> {
    let terms = class["allowedTopologies"].as_array()?;
    let mut requisite = Vec::new();
    for term in terms {
        let expressions = term["matchLabelExpressions"].as_array().expect("expressions");
        let mut combinations = vec![HashMap::new()];
        for expression in expressions {
            let values = expression["values"].as_array().expect("values");
            let with = |segments: &HashMap<String, String>, value: &Value| {
                let mut segments = segments.clone();
                segments.insert(text(expression, "/key").to_owned(), text(value, "").to_owned());
                segments
            };
            combinations = combinations.iter().flat_map(|s| values.iter().map(move |v| with(s, v))).collect();
        }
        requisite.extend(combinations.into_iter().map(|segments| csi::Topology { segments }));
    }
    Some(csi::TopologyRequirement { preferred: requisite.clone(), requisite })
}

/// The test applies every StorageClass, VolumeSnapshotClass and VolumeAttributesClass in the documentation and in
/// `examples/` unchanged. Each creates a volume or a snapshot, or modifies a volume. Every parameter must be a string,
/// as Kubernetes requires.
#[tokio::test(start_paused = true)]
async fn every_documented_class_can_be_applied() {
    let (mut classes, mut snapshot_classes, mut attributes_classes, mut others) = (0, 0, 0, 0);
    let pages = PAGES.iter().map(|page| ((*page).to_owned(), objects(page)));
    for (page, objects) in pages.chain(example_files()) {
        for object in objects {
            let what = format!("{page}: {} {}", text(&object, "/kind"), text(&object, "/metadata/name"));
            assert!(!text(&object, "/apiVersion").is_empty() && !text(&object, "/metadata/name").is_empty(), "{what}");
            let (count, driver) = match text(&object, "/kind") {
                "StorageClass" => {
                    apply_class(&what, &object).await;
                    (&mut classes, "/provisioner")
                }
                "VolumeSnapshotClass" => {
                    apply_snapshot_class(&what, &object).await;
                    (&mut snapshot_classes, "/driver")
                }
                "VolumeAttributesClass" => {
                    apply_attributes_class(&what, &object).await;
                    (&mut attributes_classes, "/driverName")
                }
                "VolumeSnapshotContent" => (&mut others, "/spec/driver"),
                "PersistentVolume" => (&mut others, "/spec/csi/driver"),
                "PersistentVolumeClaim" | "VolumeSnapshot" | "Pod" | "Deployment" => continue,
                other => panic!("{page}: this test does not apply a {other:?}"),
            };
            *count += 1;
            assert_eq!(text(&object, driver), "ebs.csi.aws.com", "{what}");
        }
    }
    let found = (classes, snapshot_classes, attributes_classes);
    assert!(classes >= 4 && snapshot_classes >= 3 && attributes_classes >= 2, "so many classes were found: {found:?}");
}

/// The test publishes the PersistentVolume unchanged. It has no volume attributes, which would have no effect.
#[tokio::test(start_paused = true)]
async fn documented_node_local_volume_is_published_with_its_fs_type() {
    let volumes = objects("docs/node-local-volumes.md");
    let [volume] = &volumes[..] else { panic!("{volumes:?}") };
    let csi = |key: &str| text(volume, &format!("/spec/csi/{key}"));
    assert_eq!([text(volume, "/kind"), csi("driver")], ["PersistentVolume", "ebs.csi.aws.com"]);
    assert!(["ext3", "ext4", "xfs"].contains(&csi("fsType")), "{volume:?}");
    assert!(volume.pointer("/spec/csi/volumeAttributes").is_none(), "they have no effect");
    let world = super::node_local::world().await;
    super::node_local::attached_by_hand(&world).await;
    let mount = MountVolume { fs_type: csi("fsType").to_owned(), ..MountVolume::default() };
    let volume_capability = Some(capability(AccessType::Mount(mount), Mode::MultiNodeMultiWriter));
    let request = ControllerPublishVolumeRequest { volume_capability, ..world.to_publish(csi("volumeHandle")) };
    assert!(world.publish_as(request).await.expect("published").contains_key("volumeID"));
}

async fn apply_class(what: &str, class: &Value) {
    let world = World::start().await;
    if class.pointer("/parameters/kmsKeyId").is_some() {
        world.ec2.declare(ebs_sim::iam::Extra::Kms);
    }
    let mut request = volume_of(class, "pvc-1");
    if class.pointer("/parameters/volumeInitializationRate").is_some() {
        let volume = world.volume("pvc-source").await;
        let snapshot = world.take("snapshot-1", &volume, &[]).await.expect("taken").snapshot_id;
        request = from_snapshot(request, &snapshot);
    }
    let made = world.create(request).await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
    assert_eq!(made.capacity_bytes, 100 * GIB, "{what}");
    let volume = world.volumes().await.into_iter().find(|v| v.id == made.volume_id).expect("the volume exists");
    check_properties(what, &volume, &strings(class, "/parameters").into_iter().collect());
    let zones = zones_of(class);
    assert!(zones.is_empty() || zones.contains(&volume.zone), "{what}: in {}, not in one of {zones:?}", volume.zone);
    let zone = made.accessible_topology[0].segments["topology.kubernetes.io/zone"].as_str();
    assert_eq!(zone, volume.zone, "{what}");
    for (key, value) in strings(class, "/parameters") {
        if ["blockSize", "inodeSize", "bytesPerInode", "numberOfInodes"].contains(&key.as_str()) {
            assert_eq!(made.volume_context.get(&key.to_lowercase()), Some(&value), "{what}");
        }
    }
}

/// Checks the properties of a volume of 100 GiB that was created with a class. The test repeats the rules of
/// `docs/parameters.md`. Without a KMS key in the class, the key is not checked: the account decides.
fn check_properties(what: &str, volume: &SimVolume, class: &HashMap<String, String>) {
    let text = |key: &str| class.get(key).cloned();
    let number = |key: &str| text(key).map(|value| value.parse::<u32>().expect("a number"));
    let volume_type = text("type").unwrap_or_else(|| "gp3".to_owned());
    let (least, most, every_throughput, every_iops) = match volume_type.as_str() {
        "gp3" => (3_000, 80_000, Some(125), Some(3_000)),
        "io1" => (100, 5_000, None, None),
        "io2" => (100, 100_000, None, None),
        // 3 IOPS for each GiB.
        "gp2" => (0, 0, None, Some(300)),
        other => panic!("no class has used {other} so far: add its properties"),
    };
    let by_size = number("iopsPerGB").map(|ratio| (ratio * 100).clamp(least, most));
    let key = text("kmsKeyId");
    let encrypted = key.is_some() || text("encrypted").as_deref() == Some("true");
    assert_eq!((&volume.volume_type, volume.encrypted), (&volume_type, encrypted), "{what}");
    assert_eq!(volume.iops, number("iops").or(by_size).or(every_iops), "{what}");
    assert_eq!(volume.throughput, number("throughput").or(every_throughput), "{what}");
    assert_eq!(volume.volume_initialization_rate, number("volumeInitializationRate"), "{what}");
    assert!(key.is_none() || volume.kms_key_id == key, "{what}: {:?}", volume.kms_key_id);
}

/// Returns the zones that a class allows, or an empty list for all.
fn zones_of(class: &Value) -> Vec<String> {
    let terms = topology_of(class).map(|topology| topology.requisite).unwrap_or_default();
    terms.into_iter().map(|mut term| term.segments.remove("topology.kubernetes.io/zone").expect("a zone")).collect()
}

/// Checks that a volume created with the class, and a volume modified with it, have the same properties.
async fn apply_attributes_class(what: &str, class: &Value) {
    let world = World::start().await;
    let claim = [("csi.storage.k8s.io/pvc/name", "data-0"), ("csi.storage.k8s.io/pvc/namespace", "shop")];
    let plain = of_gib(with_parameters(named("pvc-1"), &claim), 100);
    let parameters: HashMap<String, String> = strings(class, "/parameters").into_iter().collect();
    let with_class =
        CreateVolumeRequest { name: "pvc-2".to_owned(), mutable_parameters: parameters.clone(), ..plain.clone() };
    world.create(with_class).await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
    let volume = world.create(plain).await.expect("created").volume_id;
    let parameters: Vec<(&str, &str)> = parameters.iter().map(|(k, v)| (k.as_str(), v.as_str())).chain(claim).collect();
    world.modify(&volume, &parameters).await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
    let mut volumes = world.volumes().await;
    volumes.iter_mut().for_each(|volume| drop(volume.tags.remove("CSIVolumeName")));
    let shape = |v: &SimVolume| (v.volume_type.clone(), v.iops, v.throughput, v.tags.clone());
    assert_eq!(shape(&volumes[0]), shape(&volumes[1]), "{what}");
    let text = |key: &str| parameters.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    let number = |key: &str| text(key).map(|value| value.parse::<u32>().expect("a number"));
    for volume in &volumes {
        assert_eq!(volume.volume_type, text("type").unwrap_or("gp3"), "{what}");
        let by_size = number("iopsPerGB").map(|ratio| ratio * 100);
        assert!(number("iops").or(by_size).is_none_or(|iops| volume.iops == Some(iops)), "{what}: {volume:?}");
        assert!(number("throughput").is_none_or(|t| volume.throughput == Some(t)), "{what}: {volume:?}");
    }
}

async fn apply_snapshot_class(what: &str, class: &Value) {
    let world = World::start().await;
    let parameters = strings(class, "/parameters");
    let parameters: Vec<(&str, &str)> = parameters.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let text = |key: &str| parameters.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    let place = [("topology.kubernetes.io/zone", HERE), ("topology.ebs.csi.aws.com/outpost-id", OUTPOST)];
    let place = if text("outpostArn").is_some() { &place[..] } else { &place[..1] };
    let volume = world.create(in_place(named("pvc-1"), place)).await.expect("created").volume_id;
    world.take("snapshot-1", &volume, &parameters).await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
    let taken = world.take("snapshot-1", &volume, &parameters).await;
    assert!(taken.as_ref().is_ok_and(|snapshot| snapshot.ready_to_use), "{what}: {taken:?}");
    let kept = world.ec2.engine().snapshot_of_state().await.snapshots.remove(0);
    assert_eq!(kept.outpost_arn.as_deref(), text("outpostArn"), "{what}");
    let calls = world.ec2.calls();
    let asked = |action: Action| calls.iter().any(|call| call.action == action);
    assert_eq!(asked(Action::LockSnapshot), text("lockMode").is_some(), "{what}");
    let zones = text("fastSnapshotRestoreAvailabilityZones");
    assert_eq!(asked(Action::EnableFastSnapshotRestores), zones.is_some(), "{what}");
}

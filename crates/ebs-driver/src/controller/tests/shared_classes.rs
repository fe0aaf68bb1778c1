//! One StorageClass for claims of every kind: empty volumes, restores and clones, file systems and raw block volumes.

use ebs_sim::api::Call;

use super::*;

fn as_block(request: CreateVolumeRequest) -> CreateVolumeRequest {
    with_capability(request, block(Mode::SingleNodeWriter))
}

/// Returns a request with these class parameters, in the zone of the first instance.
fn of_class(name: &str, class: &[(&str, &str)]) -> CreateVolumeRequest {
    in_zone(with_parameters(named(name), class), HERE)
}

async fn world_with_keys() -> World {
    let world = World::start().await;
    world.ec2.declare(ebs_sim::iam::Extra::Kms);
    world
}

/// Returns the CreateVolume requests without dry runs.
fn creations(world: &World) -> Vec<ebs_sim::api::CreateVolume> {
    let creation = |call: ebs_sim::port::PortCall| match call.request {
        Call::CreateVolume(request) if !request.dry_run => Some(request),
        _ => None,
    };
    world.ec2.calls().into_iter().filter_map(creation).collect()
}

/// The class also applies to claims without a snapshot. For these, the driver does not send the rate to EC2.
#[tokio::test(start_paused = true)]
async fn initialization_rate_applies_to_restores_only() {
    let world = World::start().await;
    let source = world.volume("pvc-source").await;
    let snapshot = world.take("snapshot-1", &source, &[]).await.expect("taken").snapshot_id;
    world.ec2.clear_calls();
    let class = |name: &str| of_class(name, &[("volumeInitializationRate", "200")]);
    world.create(class("pvc-empty")).await.expect("an empty volume");
    world.create(from_volume(class("pvc-clone"), &source)).await.expect("a clone");
    world.create(from_snapshot(class("pvc-restored"), &snapshot)).await.expect("a restored volume");
    let rates: Vec<_> = creations(&world).iter().map(|request| request.volume_initialization_rate).collect();
    assert_eq!(rates, [None, Some(200)]);
    let nonsense = with_parameters(named("pvc-2"), &[("volumeInitializationRate", "fast")]);
    refused(world.create(nonsense).await, "InvalidArgument", "volumeInitializationRate");
}

/// The class sets IOPS or throughput for a volume type that does not support it. EC2 creates the volume with the
/// defaults of its type.
#[tokio::test(start_paused = true)]
async fn iops_or_throughput_that_a_type_lacks_is_omitted() {
    let world = World::start().await;
    let numbers = [("iops", "4000"), ("iopsPerGB", "50"), ("throughput", "250")];
    for volume_type in ["gp2", "st1", "sc1", "standard"] {
        for number in numbers {
            let name = format!("pvc-{volume_type}-{}", number.0);
            let request = with_parameters(of_gib(named(&name), 200), &[("type", volume_type), number]);
            world.create(request).await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        }
    }
    let io2 = [("type", "io2"), ("iops", "4000"), ("throughput", "250")];
    world.create(with_parameters(named("pvc-io2"), &io2)).await.expect("created");
    for request in creations(&world) {
        assert_eq!(request.throughput, None, "{request:?}");
        let iops = if request.volume_type.as_deref() == Some("io2") { Some(4000) } else { None };
        assert_eq!(request.iops, iops, "{request:?}");
    }
}

/// The VolumeAttributesClass changes the type, or sets IOPS with a parameter that the StorageClass does not use.
#[tokio::test(start_paused = true)]
async fn attributes_class_overrides_the_storage_class() {
    let world = World::start().await;
    let create = async |name: &str, class: &[(&str, &str)], attributes: &[(&str, &str)]| {
        let request = with_parameters(of_gib(named(name), 200), class);
        world.create(CreateVolumeRequest { mutable_parameters: map(attributes), ..request }).await
    };
    create("pvc-1", &[("type", "io2"), ("iops", "4000")], &[("type", "gp2")]).await.expect("gp2 without IOPS");
    create("pvc-2", &[("type", "io2"), ("iopsPerGB", "50")], &[("iops", "3000")]).await.expect("3000 IOPS");
    create("pvc-3", &[("type", "io2"), ("iops", "3000")], &[("iopsPerGB", "50")]).await.expect("50 IOPS per GiB");
    let asked: Vec<_> = creations(&world).into_iter().map(|r| (r.volume_type.unwrap_or_default(), r.iops)).collect();
    let io2 = |iops| ("io2".to_owned(), Some(iops));
    assert_eq!(asked, [("gp2".to_owned(), None), io2(3000), io2(10_000)]);
    let volume =
        world.volumes().await.into_iter().find(|v| v.tags["CSIVolumeName"] == "pvc-2").expect("the volume exists");
    assert!(!volume.tags.contains_key("ebs.csi.aws.com/IOPSPerGb"), "{:?}", volume.tags);
}

/// The claim itself asks for the attributes class, so the driver refuses a property that the type lacks, at creation
/// and at modification.
#[tokio::test(start_paused = true)]
async fn attributes_that_a_type_lacks_are_refused() {
    let world = World::start().await;
    for attribute in [("iops", "4000"), ("iopsPerGB", "50"), ("throughput", "250")] {
        let request = with_parameters(named("pvc-1"), &[("type", "gp2")]);
        let request = CreateVolumeRequest { mutable_parameters: map(&[attribute]), ..request };
        refused(world.create(request).await, "InvalidArgument", attribute.0.trim_end_matches("PerGB"));
    }
}

/// The class also serves claims with a file system, which get the options.
#[tokio::test(start_paused = true)]
async fn format_options_are_omitted_for_raw_volumes() {
    let world = World::start().await;
    let class = [("blockSize", "4096"), ("inodeSize", "512"), ("ext4BigAlloc", "true"), ("ext4ClusterSize", "65536")];
    let raw = world.create(as_block(with_parameters(named("pvc-raw"), &class))).await.expect("a raw volume");
    assert_eq!(raw.volume_context, map(&[]));
    let mut both = with_parameters(named("pvc-both"), &class);
    both.volume_capabilities.push(block(Mode::SingleNodeWriter));
    assert_eq!(world.create(both).await.expect("created").volume_context.len(), class.len());
    let nonsense = as_block(with_parameters(named("pvc-2"), &[("blockSize", "-b 1")]));
    refused(world.create(nonsense).await, "InvalidArgument", "blockSize");
}

/// The line contains every key and the reason.
#[tokio::test(start_paused = true)]
async fn omitted_parameters_are_logged_in_one_line() {
    let world = World::start().await;
    let log = crate::log::Log::listen();
    let class = [("type", "gp2"), ("iops", "4000"), ("volumeInitializationRate", "200"), ("blockSize", "4096")];
    world.create(as_block(with_parameters(named("pvc-1"), &class))).await.expect("created");
    world.create(with_parameters(named("pvc-2"), &[("blockSize", "4096")])).await.expect("created");
    let told = ["pvc-1", "iops", "gp2", "volumeInitializationRate", "snapshot", "blocksize", "raw block volume"];
    let found = log.lines_with(&["do not apply"]);
    assert_eq!((found.len(), log.lines_with(&told).len()), (1, 1), "{found:#?}");
}

const KEY_ID: &str = "1234abcd-12ab-34cd-56ef-1234567890ab";

/// EC2 accepts several spellings of a KMS key, but reports only one of them. With any of the accepted spellings, the
/// same class creates a volume and its clone.
#[tokio::test(start_paused = true)]
async fn clone_is_created_with_the_class_of_its_source() {
    let world = world_with_keys().await;
    let arn = |resource: &str| format!("arn:aws:kms:us-west-2:123456789012:{resource}");
    let spellings = [
        KEY_ID.to_owned(),
        KEY_ID.to_uppercase(),
        arn(&format!("key/{KEY_ID}")),
        "mrk-1234abcd12ab34cd56ef1234567890ab".to_owned(),
        "alias/mine".to_owned(),
        arn("alias/mine"),
    ];
    for (number, key) in spellings.iter().enumerate() {
        let class = |name: &str| of_class(&format!("{name}-{number}"), &[("encrypted", "true"), ("kmsKeyId", key)]);
        let source = world.create(class("pvc")).await.expect("created").volume_id;
        let again = world.create(class("pvc")).await.expect("found");
        assert_eq!(again.volume_id, source, "{key}");
        let clone = async || world.create(from_volume(class("clone"), &source)).await;
        let made = clone().await.unwrap_or_else(|error| panic!("{key}: {error:?}")).volume_id;
        assert_eq!(clone().await.expect("found").volume_id, made, "{key}");
    }
    assert!(world.volumes().await.iter().all(|volume| volume.encrypted));
}

/// A request with another key does not find the volume.
#[tokio::test(start_paused = true)]
async fn existing_volume_is_found_by_any_spelling_of_its_kms_key() {
    let mut world = world_with_keys().await;
    let arn = format!("arn:aws:kms:us-west-2:123456789012:key/{KEY_ID}");
    let class = |key: &str| of_class("pvc-1", &[("kmsKeyId", key)]);
    let made = world.create(class(KEY_ID)).await.expect("created");
    world.replace_driver();
    for key in [arn.as_str(), "alias/mine", &format!("key/{KEY_ID}")] {
        assert_eq!(world.create(class(key)).await, Ok(made.clone()), "{key}");
    }
    refused(world.create(class("9999abcd-12ab-34cd-56ef-1234567890ab")).await, "AlreadyExists", "KMS key");
    assert_eq!(world.volumes().await.len(), 1);
}

/// The requested key differs from the key of the encrypted source. The error contains both.
#[tokio::test(start_paused = true)]
async fn clone_with_another_kms_key_is_refused() {
    let world = world_with_keys().await;
    // With a key, the volume is encrypted even if `encrypted` is false.
    let encrypted = of_class("pvc-1", &[("encrypted", "false"), ("kmsKeyId", KEY_ID)]);
    let source = world.create(encrypted).await.expect("created").volume_id;
    assert!(world.volumes().await[0].encrypted);
    let other = "9999abcd-12ab-34cd-56ef-1234567890ab";
    let result = world.create(from_volume(of_class("pvc-2", &[("kmsKeyId", other)]), &source)).await;
    refused(result.clone(), "InvalidArgument", other);
    refused(result, "InvalidArgument", KEY_ID);
}

/// One class can create a volume, restore its snapshot and clone the volume. A clone of an encrypted volume stays
/// encrypted.
#[tokio::test(start_paused = true)]
async fn encrypted_false_allows_clones_of_encrypted_volumes() {
    let world = world_with_keys().await;
    let class = |name: &str| of_class(name, &[("encrypted", "false")]);
    let open = world.create(class("pvc-1")).await.expect("created").volume_id;
    let snapshot = world.take("snapshot-1", &open, &[]).await.expect("taken").snapshot_id;
    world.create(from_snapshot(class("pvc-2"), &snapshot)).await.expect("restored");
    world.create(from_volume(class("pvc-3"), &open)).await.expect("cloned");
    assert!(world.volumes().await.iter().all(|volume| !volume.encrypted));
    let secret = of_class("pvc-4", &[("encrypted", "true")]);
    let secret = world.create(secret).await.expect("created").volume_id;
    let clone = world.create(from_volume(class("pvc-5"), &secret)).await.expect("cloned").volume_id;
    let volumes = world.volumes().await;
    assert!(volumes.iter().any(|volume| volume.id == clone && volume.encrypted));
}

/// The clone is encrypted with the key of the class or of the account.
#[tokio::test(start_paused = true)]
async fn clone_of_an_unencrypted_volume_is_encrypted_on_request() {
    let world = world_with_keys().await;
    let open = world.volume("pvc-1").await;
    let arn = format!("arn:aws:kms:us-west-2:123456789012:key/{KEY_ID}");
    let rows: [(&str, &[(&str, &str)]); 3] = [
        ("pvc-2", &[("encrypted", "true")]),
        ("pvc-3", &[("encrypted", "true"), ("kmsKeyId", &arn)]),
        ("pvc-4", &[("kmsKeyId", "alias/mine")]),
    ];
    for (name, class) in rows {
        let request = || from_volume(of_class(name, class), &open);
        let clone = world.create(request()).await.unwrap_or_else(|error| panic!("{name}: {error:?}")).volume_id;
        assert_eq!(world.create(request()).await.expect("found").volume_id, clone);
        let volumes = world.volumes().await;
        let volume = volumes.iter().find(|volume| volume.id == clone).expect("the volume exists");
        assert!(volume.encrypted, "{name}");
        if name == "pvc-3" {
            assert_eq!(volume.kms_key_id.as_ref(), Some(&arn));
        }
    }
}

/// The volume can still change its type and grow.
#[tokio::test(start_paused = true)]
async fn recorded_iops_ratio_is_ignored_for_a_type_without_iops() {
    let world = World::start().await;
    let class = [("type", "io2"), ("iopsPerGB", "50"), ("allowAutoIOPSIncreaseOnModify", "true")];
    let volume = world.create(with_parameters(of_gib(named("pvc-1"), 10), &class)).await.expect("created").volume_id;
    world.modify(&volume, &[("type", "gp2")]).await.expect("gp2");
    tokio::time::advance(Duration::from_hours(7)).await;
    assert_eq!(world.grow(&volume, 20).await, Ok(20));
    let found = world.volumes().await.into_iter().find(|v| v.id == volume).expect("the volume exists");
    assert_eq!((found.volume_type.as_str(), found.size_gib, found.iops), ("gp2", 20, Some(100)));
    tokio::time::advance(Duration::from_hours(7)).await;
    refused(world.modify(&volume, &[("iops", "4000")]).await, "InvalidArgument", "iops");
}

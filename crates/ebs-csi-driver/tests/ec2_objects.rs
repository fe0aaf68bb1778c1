//! Tests which volumes and snapshots the controller creates, as EC2 shows them. All calls use the network.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use anyhow::{Context, ensure};
use csi_proto::csi;
use ebs_sim::iam::Extra;
use ebs_testkit::control::State;
use ebs_testkit::csi_client::{Access, GIB, new_volume, refused, restored_volume};
use ebs_testkit::world::World;
use tonic::Code;

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const BOUND: Duration = Duration::from_secs(120);

/// The parameters of a class, the requested GiB, and the volume in EC2: type, GiB and IOPS.
type Row<'a> = (&'a [(&'a str, &'a str)], i64, (&'a str, u32, Option<u32>));

fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

async fn in_ec2(world: &World) -> anyhow::Result<State> {
    world.control().state().await
}

/// EC2 shows no IOPS for magnetic disks.
#[tokio::test]
async fn each_volume_type_has_its_size_and_iops_in_ec2() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).mode("controller").start().await?;
    let rows: &[Row<'_>] = &[
        (&[("type", "gp2")], 100, ("gp2", 100, Some(300))),
        (&[("type", "standard")], 1, ("standard", 1, None)),
        (&[("type", "st1")], 125, ("st1", 125, None)),
        (&[("type", "sc1")], 125, ("sc1", 125, None)),
        (&[("type", "io1"), ("iops", "200")], 4, ("io1", 4, Some(200))),
        (&[("type", "io2"), ("iops", "4000")], 4, ("io2", 4, Some(4000))),
        (&[("type", "gp3"), ("iops", "5000")], 10, ("gp3", 10, Some(5000))),
        // IOPS by size.
        (&[("type", "io1"), ("iopsPerGB", "50")], 10, ("io1", 10, Some(500))),
        (&[("type", "io2"), ("iopsPerGB", "500")], 10, ("io2", 10, Some(5000))),
        (&[("type", "gp3"), ("iopsPerGB", "400")], 10, ("gp3", 10, Some(4000))),
        // The highest ratio of io1 is 50 IOPS for each GiB, and its maximum is 64,000.
        (&[("type", "io1"), ("iopsPerGB", "60")], 10, ("io1", 10, Some(500))),
        (&[("type", "io1"), ("iopsPerGB", "50")], 2000, ("io1", 2000, Some(64_000))),
        // The minimum is 100 for io1 and io2, and 3000 for gp3.
        (&[("type", "io1"), ("iopsPerGB", "10"), ("allowAutoIOPSPerGBIncrease", "true")], 4, ("io1", 4, Some(100))),
        (&[("type", "io2"), ("iopsPerGB", "10"), ("allowAutoIOPSPerGBIncrease", "true")], 4, ("io2", 4, Some(100))),
        (&[("type", "gp3"), ("iopsPerGB", "10"), ("allowAutoIOPSPerGBIncrease", "true")], 10, ("gp3", 10, Some(3000))),
    ];
    for (at, (parameters, gib, (volume_type, size, iops))) in rows.iter().enumerate() {
        let what = format!("{parameters:?}, {gib} GiB");
        let mut request = new_volume(&format!("pvc-{at}"), *gib, &Access::Block);
        request.parameters = map(parameters);
        let made = world.client().create_volume(request).await.map_err(refused).with_context(|| what.clone())?;
        let state = in_ec2(&world).await?;
        let volume = state.volume(&made.volume_id).with_context(|| what.clone())?;
        let shown = (volume.volume_type.as_str(), volume.size_gib, volume.iops);
        ensure!(shown == (*volume_type, *size, *iops), "{what}: EC2 has {shown:?}");
        ensure!(made.capacity_bytes == i64::from(*size) * GIB, "{what}: {made:?}");
        world.client().delete_volume(&made.volume_id).await.map_err(refused)?;
    }
    world.finish().await
}

/// Without `allowAutoIOPSPerGBIncrease`, EC2 receives the low IOPS and rejects them.
#[tokio::test]
async fn iops_below_the_minimum_are_rejected_without_increase() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).mode("controller").start().await?;
    for (volume_type, parameter) in [("io1", None), ("io2", None), ("gp3", None), ("io1", Some("false"))] {
        let mut request = new_volume("pvc-1", 4, &Access::Block);
        request.parameters = map(&[("type", volume_type), ("iopsPerGB", "10")]);
        request.parameters.extend(parameter.map(|on| ("allowAutoIOPSPerGBIncrease".to_owned(), on.to_owned())));
        let error = world.client().create_volume(request).await.err().with_context(|| volume_type.to_owned())?;
        ensure!(error.code() == Code::InvalidArgument, "{volume_type}: {error:?}");
        ensure!(error.message().contains("IOPS") || error.message().contains("iops"), "{volume_type}: {error:?}");
    }
    world.finish().await
}

/// The parameters are those that `--extra-create-metadata` of the provisioner and the snapshotter adds.
#[tokio::test]
async fn tags_in_ec2_name_claim_cluster_and_snapshot() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).mode("controller").arg("--k8s-tag-cluster-id=blue").start().await?;
    let mut request = new_volume("pvc-1234", 1, &Access::Block);
    request.parameters.extend(map(&[
        ("csi.storage.k8s.io/pvc/name", "data-0"),
        ("csi.storage.k8s.io/pvc/namespace", "shop"),
        ("csi.storage.k8s.io/pv/name", "pvc-1234"),
    ]));
    let volume = world.client().create_volume(request).await.map_err(refused)?.volume_id;
    let request = csi::CreateSnapshotRequest {
        name: "snapshot-1".to_owned(),
        source_volume_id: volume.clone(),
        parameters: map(&[
            ("csi.storage.k8s.io/volumesnapshot/name", "nightly"),
            ("csi.storage.k8s.io/volumesnapshot/namespace", "shop"),
            ("csi.storage.k8s.io/volumesnapshotcontent/name", "snapcontent-1"),
        ]),
        ..Default::default()
    };
    let snapshot = world.client().controller().create_snapshot(request).await.map_err(refused)?.into_inner();
    let snapshot = snapshot.snapshot.context("a snapshot")?.snapshot_id;

    let state = in_ec2(&world).await?;
    let cluster = [
        ("ebs.csi.aws.com/cluster", "true"),
        ("ebs.csi.aws.com/cluster-name", "blue"),
        ("kubernetes.io/cluster/blue", "owned"),
    ];
    let expected =
        |own: &[(&str, &str)]| -> BTreeMap<String, String> { map(&cluster).into_iter().chain(map(own)).collect() };
    let tags = state.volume(&volume).context("the volume")?.tags.clone();
    let of_volume = expected(&[
        ("CSIVolumeName", "pvc-1234"),
        ("KubernetesCluster", "blue"),
        ("Name", "blue-dynamic-pvc-1234"),
        ("kubernetes.io/created-for/pv/name", "pvc-1234"),
        ("kubernetes.io/created-for/pvc/name", "data-0"),
        ("kubernetes.io/created-for/pvc/namespace", "shop"),
    ]);
    ensure!(tags.clone().into_iter().collect::<BTreeMap<_, _>>() == of_volume, "{tags:?}");
    let tags = state.snapshots.iter().find(|each| each.id == snapshot).context("the snapshot")?.tags.clone();
    let of_snapshot = expected(&[("CSIVolumeSnapshotName", "snapshot-1"), ("Name", "blue-dynamic-snapshot-1")]);
    ensure!(tags.clone().into_iter().collect::<BTreeMap<_, _>>() == of_snapshot, "{tags:?}");
    world.client().delete_snapshot(&snapshot).await.map_err(refused)?;
    world.client().delete_volume(&volume).await.map_err(refused)?;
    world.finish().await
}

/// The restored volume is also encrypted with the key, although its class does not name one.
#[tokio::test]
async fn snapshot_of_an_encrypted_volume_has_the_same_key() -> anyhow::Result<()> {
    let key = "arn:aws:kms:us-west-2:123456789012:key/11111111-2222-3333-4444-555555555555";
    let world = World::builder(DRIVER).mode("controller").with_extra(Extra::Kms).start().await?;
    let mut request = new_volume("pvc-1", 1, &Access::Block);
    request.parameters.extend(map(&[("encrypted", "true"), ("kmsKeyId", key)]));
    let volume = world.client().create_volume(request).await.map_err(refused)?.volume_id;
    let snapshot = world.client().snapshot_ready("snapshot-1", &volume, BOUND).await?.snapshot_id;
    let request = restored_volume("pvc-2", 1, &Access::Block, &snapshot);
    let restored = world.client().create_volume(request).await.map_err(refused)?.volume_id;
    let state = in_ec2(&world).await?;
    let kept = state.snapshots.iter().find(|each| each.id == snapshot).context("the snapshot")?;
    ensure!(kept.encrypted && kept.kms_key.as_deref() == Some(key), "{kept:?}");
    for id in [&volume, &restored] {
        let volume = state.volume(id).context("the volume")?;
        ensure!(volume.encrypted && volume.kms_key.as_deref() == Some(key), "{volume:?}");
    }
    world.client().delete_snapshot(&snapshot).await.map_err(refused)?;
    for id in [volume, restored] {
        world.client().delete_volume(&id).await.map_err(refused)?;
    }
    world.finish().await
}

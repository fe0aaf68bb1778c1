//! Requests that many operations share: zones, EBS cards, IOPS limits.

use std::sync::Arc;
use std::time::Duration;

use ebs_cloud::{CapacityRequest, VolumeSpec};
use ebs_ec2::{Action, Gib, IopsRequest};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::fixture::{Fixture, in_zone, spec};

async fn create_all(fixture: &Fixture, specs: impl Iterator<Item = VolumeSpec>) {
    let mut running = JoinSet::new();
    for spec in specs {
        let (cloud, waiters) = (Arc::clone(&fixture.cloud), fixture.waiters.clone());
        running.spawn(async move { cloud.volumes.create(&spec, &waiters).await.map(drop) });
    }
    for made in running.join_all().await {
        made.expect("a plain volume can be created");
    }
}

#[tokio::test(start_paused = true)]
async fn zones_and_cards_are_described_once_for_all_operations() {
    let fixture = Fixture::new().await;
    create_all(&fixture, (0..100).map(|n| spec(&format!("pvc-{n}")))).await;
    assert_eq!((fixture.volumes().await.len(), fixture.count(Action::DescribeAvailabilityZones)), (100, 1));
    let [node, _] = fixture.nodes().await;
    create_all(&fixture, (0..10).map(|n| in_zone(spec(&format!("here-{n}")), "us-west-2a"))).await;
    let mut running = JoinSet::new();
    for volume in fixture.volumes().await.iter().filter(|v| v.tags["CSIVolumeName"].starts_with("here-")) {
        let id = ebs_ec2::VolumeId::parse(&volume.id).expect("an id");
        let (cloud, waiters, node) = (Arc::clone(&fixture.cloud), fixture.waiters.clone(), node.clone());
        running.spawn(async move { cloud.attachments.attach(&id, &node, &waiters).await.map(drop) });
    }
    assert_eq!(running.len(), 10);
    for attached in running.join_all().await {
        attached.expect("there is room for ten");
    }
    assert_eq!(fixture.count(Action::DescribeInstanceTypes), 1);
}

fn greedy(name: &str, zone: &str) -> VolumeSpec {
    let capacity = CapacityRequest { required: Some(Gib(200)), fallback: Gib(200), limit: None };
    VolumeSpec { iops: IopsRequest::explicit(900_000), capacity, ..in_zone(spec(name), zone) }
}

/// It delays its own zone for only 5 s. After that, EC2 decides on the requested IOPS.
#[tokio::test(start_paused = true)]
async fn hanging_iops_probe_does_not_delay_other_zones() {
    let fixture = Fixture::new().await;
    let gate = fixture.sim.hold(Action::CreateVolume);
    let began = Instant::now();
    let (slow, quick) = (greedy("slow", "us-west-2a"), greedy("quick", "us-west-2b"));
    let (slow, quick) = tokio::join!(async { (fixture.create(&slow).await.is_ok(), began.elapsed()) }, async {
        gate.reached().await;
        (fixture.create(&quick).await.is_ok(), began.elapsed())
    },);
    assert!(quick.0 && quick.1 < Duration::from_secs(2), "{quick:?}");
    assert!(slow.1 < Duration::from_secs(8), "{slow:?}");
    assert_eq!(
        fixture.probes().iter().filter(|probe| probe.availability_zone.as_deref() == Some("us-west-2b")).count(),
        1
    );
}

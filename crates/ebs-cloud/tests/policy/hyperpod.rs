//! Tests volumes of HyperPod nodes, which SageMaker attaches.

use std::time::Duration;

use ebs_cloud::{CloudErrorKind, Object};
use ebs_ec2::{Action, ErrorClass, Limit, NodeId, Waiters};
use ebs_sim::engine::TimingOverride;
use ebs_sim::iam::Extra;
use tokio::time::Instant;

use crate::fixture::{Fixture, assert_error, assert_mentions};

fn node(cluster: &str) -> NodeId {
    NodeId::parse(&format!("hyperpod-{cluster}-i-0123456789abcdef0")).expect("a node")
}

async fn fixture() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.sim.declare(Extra::HyperPod);
    fixture
}

/// Each attach describes the volume first and never describes an instance.
#[tokio::test(start_paused = true)]
async fn cluster_node_attach_uses_sagemaker_and_is_idempotent() {
    let fixture = fixture().await;
    let volume = fixture.volume("pvc-1").await;
    fixture
        .timing(TimingOverride { attach_ms: Some(4_000), detach_ms: Some(4_000), ..TimingOverride::default() })
        .await;
    let node = node("my-big-cluster");
    let first = fixture.attach(&volume.id, &node).await.unwrap();
    let again = fixture.attach(&volume.id, &node).await.unwrap();
    let after_restart = fixture.twin().attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap();
    assert_eq!((&first.device, &again.device), (&after_restart.device, &first.device));
    assert_eq!(fixture.count(Action::AttachClusterNodeVolume), 1, "the describe finds the attachment");
    assert_eq!(fixture.count(Action::AttachVolume) + fixture.count(Action::DescribeInstances), 0);
    for _ in 0..2 {
        fixture.detach(&volume.id, &node).await.unwrap();
        assert!(fixture.volumes().await[0].attachments.is_empty());
    }
    assert_eq!(fixture.accepted(Action::DetachClusterNodeVolume), 1);
    assert_eq!(fixture.count(Action::DetachVolume), 0);
}

#[tokio::test(start_paused = true)]
async fn volume_of_a_cluster_node_counts_as_attached_elsewhere() {
    let fixture = fixture().await;
    let volume = fixture.volume("pvc-1").await;
    let [instance, _] = fixture.nodes().await;
    fixture.attach(&volume.id, &node("blue")).await.unwrap();
    let other = NodeId::parse("hyperpod-blue-i-0fedcba9876543210").unwrap();
    for other in [instance, other] {
        let error = assert_error(fixture.attach(&volume.id, &other).await, CloudErrorKind::FailedPrecondition);
        assert_mentions(&error, &["cluster/blue"]);
    }
}

#[tokio::test(start_paused = true)]
async fn each_cluster_node_attach_error_maps_to_its_error_kind() {
    let fixture = fixture().await;
    let volume = fixture.volume("pvc-1").await;
    let missing = CloudErrorKind::NotFound(Object::Volume(volume.id.clone()));
    for (class, kind) in [
        (ErrorClass::LimitExceeded(Limit::Attachments), CloudErrorKind::LimitExceeded),
        (ErrorClass::VolumeNotFound, missing),
        (ErrorClass::InstanceNotFound, CloudErrorKind::NotFound(Object::Instance(node("blue").instance().clone()))),
        (ErrorClass::InvalidParameter, CloudErrorKind::InvalidArgument),
    ] {
        fixture.sim.fail_next(Action::AttachClusterNodeVolume, class, false);
        assert_error(fixture.attach(&volume.id, &node("blue")).await, kind);
    }
}

/// SageMaker's IncorrectState, InvalidAttachment.NotFound and InvalidVolume.NotFound mean that nothing is attached.
/// Other refusals are errors.
#[tokio::test(start_paused = true)]
async fn detach_from_a_cluster_node_without_the_volume_succeeds() {
    let fixture = fixture().await;
    let volume = fixture.volume("pvc-1").await;
    for class in [ErrorClass::IncorrectState, ErrorClass::AttachmentNotFound, ErrorClass::VolumeNotFound] {
        fixture.sim.fail_next(Action::DetachClusterNodeVolume, class, false);
        fixture.detach(&volume.id, &node("blue")).await.unwrap();
    }
    fixture.sim.fail_next(Action::DetachClusterNodeVolume, ErrorClass::InvalidParameter, false);
    assert_error(fixture.detach(&volume.id, &node("blue")).await, CloudErrorKind::InvalidArgument);
}

/// SageMaker's answer does not identify the detached attachment. Just after startup, a describe may show an earlier
/// attachment, whose age proves nothing about a later one that another process made.
#[tokio::test(start_paused = true)]
async fn new_process_ignores_attachment_ages_in_describes() {
    let mut fixture = fixture().await;
    let times = TimingOverride { detach_ms: Some(10_000), ..TimingOverride::default() };
    let (volume, node) = (fixture.volume("pvc-1").await.id, node("blue"));
    let earlier = fixture.attach(&volume, &node).await.unwrap();
    fixture.pass(600).await;
    fixture.detach(&volume, &node).await.unwrap();
    fixture.twin().attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
    fixture.timing(times).await;
    fixture.restart();
    let (mut looks, began) = (0, Instant::now());
    fixture.ec2.override_volumes(move |volumes| {
        looks += 1;
        for attachments in volumes.iter_mut().map(|v| &mut v.attachments).filter(|_| began.elapsed().as_secs() < 14) {
            if looks > 1 {
                attachments.clear();
            }
            for attachment in attachments {
                attachment.attach_time = earlier.attach_time;
                attachment.state = ebs_ec2::AttachmentState::Detaching;
            }
        }
    });
    fixture.detach(&volume, &node).await.unwrap();
    assert!(fixture.volumes().await[0].attachments.is_empty(), "reported detached after {:?}", began.elapsed());
}

/// Neither SageMaker's answer nor a describe shows when the attachment of this process began, and the age of an earlier
/// attachment proves nothing about it.
#[tokio::test(start_paused = true)]
async fn undated_attachment_gets_no_age_from_earlier_ones() {
    let mut fixture = fixture().await;
    let (volume, node) = (fixture.volume("pvc-1").await.id, node("blue"));
    let earlier = fixture.attach(&volume, &node).await.unwrap();
    fixture.pass(600).await;
    fixture.detach(&volume, &node).await.unwrap();
    fixture.pass(20).await;
    fixture.timing(TimingOverride { detach_ms: Some(10_000), ..TimingOverride::default() }).await;
    fixture.ec2.hide_dates_of_cluster_nodes();
    fixture.restart();
    let (sim, mut looks, began) = (fixture.sim.clone(), 0, Instant::now());
    let detaches = sim.count(Action::DetachClusterNodeVolume);
    fixture.ec2.override_volumes(move |volumes| {
        if began.elapsed().as_secs() >= 14 {
            return;
        }
        // Only the first DescribeVolumes reply after the detach lists an attachment, and shows the earlier attachment's
        // time.
        looks += u32::from(sim.count(Action::DetachClusterNodeVolume) > detaches);
        for attachments in volumes.iter_mut().map(|v| &mut v.attachments) {
            if looks != 1 {
                attachments.clear();
            }
            for attachment in attachments {
                attachment.attach_time = earlier.attach_time;
                attachment.state = ebs_ec2::AttachmentState::Detaching;
            }
        }
    });
    let waiters = Waiters::default();
    let waiter = waiters.join();
    let (attached, _successor) = tokio::join!(fixture.cloud.attachments.attach(&volume, &node, &waiters), async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        drop(waiter);
        waiters.supersede()
    });
    attached.unwrap_err();
    fixture.detach(&volume, &node).await.unwrap();
    assert!(fixture.volumes().await[0].attachments.is_empty(), "reported detached after {:?}", began.elapsed());
}

//! Tests NodeGetInfo: the node's ID, and how many volumes it can attach.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ebs_driver::node::NodeOptions;
use ebs_ec2::NodeId;
use ebs_metadata::{Answer, BlockDevices, Machine, MetadataError, NodeMetadata, Source, SourceError, SourceKind};
use tokio::task::JoinSet;

use crate::prelude::*;

async fn info(calls: &Calls) -> csi::NodeGetInfoResponse {
    calls.service.node_get_info(Request::new(csi::NodeGetInfoRequest {})).await.expect("it never fails").into_inner()
}

async fn limit(calls: &Calls) -> i64 {
    info(calls).await.max_volumes_per_node
}

/// Returns the driver after a boot of its machine. According to the metadata, `block_devices` volumes were attached at
/// that boot.
fn booted(node: &Node, boot: &str, block_devices: u32) -> Calls {
    booted_with(node, boot, block_devices, |_| {})
}

fn booted_with(
    node: &Node,
    boot: &str,
    block_devices: u32,
    change: impl FnOnce(&mut ebs_mounter::MounterConfig),
) -> Calls {
    std::fs::write(node.path("boot_id"), format!("{boot}\n")).unwrap();
    let of_machine = NodeMetadata { block_devices: BlockDevices::AtBoot(block_devices), ..metadata() };
    node.again_as((options_of(of_machine), Operations::new()), |config| {
        config.boot_id = node.path("boot_id");
        change(config);
    })
}

/// The response has the ID, the zone under both keys, the operating system and the limit. A node of a HyperPod cluster
/// has the ID by which the controller identifies it. A node on an Outpost also has its partition, region, account and
/// Outpost ID.
#[tokio::test]
async fn node_reports_its_id_topology_limit_and_capabilities() {
    let node = Node::new(MIB);
    let mut expected = context(&[
        ("topology.ebs.csi.aws.com/zone", "us-west-2a"),
        ("topology.kubernetes.io/zone", "us-west-2a"),
        ("kubernetes.io/os", "linux"),
    ]);
    let plain = info(&node).await;
    assert_eq!((plain.node_id.as_str(), plain.max_volumes_per_node), ("i-0abc", 26));
    assert_eq!(plain.accessible_topology.unwrap().segments, expected);
    let id = "hyperpod-abc123def456-i-0123456789abcdef0";
    let arn = "arn:aws-us-gov:outposts:us-gov-west-1:123456789012:outpost/op-0123456789abcdef0";
    let outpost = Some(ebs_ec2::OutpostArn::parse(arn).unwrap());
    let other = NodeMetadata { node: NodeId::parse(id).unwrap(), outpost, ..metadata() };
    let other = info(&node.again_as((options_of(other), Operations::new()), |_| {})).await;
    expected.extend(context(&[
        ("topology.ebs.csi.aws.com/partition", "aws-us-gov"),
        ("topology.ebs.csi.aws.com/region", "us-gov-west-1"),
        ("topology.ebs.csi.aws.com/account-id", "123456789012"),
        ("topology.ebs.csi.aws.com/outpost-id", "op-0123456789abcdef0"),
    ]));
    assert_eq!((other.node_id.as_str(), other.accessible_topology.unwrap().segments), (id, expected));
    let reply = node.service.node_get_capabilities(Request::new(csi::NodeGetCapabilitiesRequest {})).await.unwrap();
    use csi::node_service_capability::rpc::Type::{ExpandVolume, GetVolumeHealth, GetVolumeStats, StageUnstageVolume};
    use csi::node_service_capability::{Rpc, Type};
    let kinds: Vec<_> =
        reply.into_inner().capabilities.into_iter().filter_map(|capability| capability.r#type).collect();
    let wanted = [StageUnstageVolume, ExpandVolume, GetVolumeStats, GetVolumeHealth];
    assert_eq!(kinds, wanted.map(|kind| Type::Rpc(Rpc { r#type: kind.into() })));
}

/// The limit does not change when the driver restarts or its volumes are detached. Volumes that another program
/// attached lower the limit.
#[test]
fn attach_limit_is_unchanged_by_a_reboot_with_volumes_attached() {
    with_staged_node(async |node| {
        assert_eq!(limit(node).await, 26);
        let first = booted(node, "first", 1);
        assert_eq!(limit(&first).await, 26);
        node.unstage().await.unwrap();
        assert_eq!((limit(&first).await, limit(&booted(node, "first", 1)).await), (26, 26));
        // At the next boot, no volume of the driver is attached, but a volume of another program is.
        assert_eq!(limit(&booted(node, "second", 1)).await, 25);
        node.staged("ext4").await;
        // The volume was attached after the boot, so the metadata does not count it.
        assert_eq!(limit(&booted(node, "second", 1)).await, 25);
    });
}

#[test]
fn volume_detached_while_powered_off_does_not_raise_the_limit() {
    with_staged_node(async |node| {
        let elsewhere = tempfile::tempdir().unwrap();
        let without = |config: &mut ebs_mounter::MounterConfig| {
            config.simulated_devices = Some(elsewhere.path().to_owned());
        };
        assert_eq!(limit(&booted_with(node, "first", 1, without)).await, 25);
        assert_eq!(limit(&booted(node, "second", 1)).await, 25);
    });
}

/// Another program attached the node-local volume, so it uses one slot.
#[test]
fn node_local_volume_lowers_the_limit_after_a_reboot() {
    with_node(async |node| {
        node.stage(crate::node_local::stage_request(node, mount("ext4", &[]))).await.unwrap();
        assert_eq!(limit(&booted(node, "first", 1)).await, 25);
    });
}

/// A metadata source whose responses alternate between one and three network interfaces, until it is down.
#[derive(Debug, Clone, Default)]
struct Restless {
    answers: Arc<AtomicU32>,
    is_down: Arc<AtomicBool>,
}

impl Source for Restless {
    fn kind(&self) -> SourceKind {
        SourceKind::Imds
    }

    fn read(&self) -> Answer<'_> {
        Box::pin(std::future::ready(Ok(metadata())))
    }

    fn refresh<'a>(&'a self, known: &'a NodeMetadata) -> Answer<'a> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            if self.is_down.load(Ordering::Relaxed) {
                return Err(SourceError::new(SourceKind::Imds, MetadataError::Disabled));
            }
            let network_interfaces = 1 + 2 * (self.answers.fetch_add(1, Ordering::Relaxed) % 2);
            Ok(NodeMetadata { network_interfaces, ..known.clone() })
        })
    }
}

/// The number of network interfaces changes during the calls, but each response is based on a single number. While the
/// metadata service is down, responses use the last number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_node_get_info_responses_are_consistent() {
    let node = Node::new(MIB);
    let source = Restless::default();
    let machine = Machine::find(vec![Box::new(source.clone())], None).await.unwrap();
    let options = NodeOptions { machine: Arc::new(machine), ..options() };
    let calls = node.again_as((options, Operations::new()), |_| {});
    let mut asking = JoinSet::new();
    for _ in 0..64 {
        let calls = calls.clone();
        asking.spawn(async move { limit(&calls).await });
    }
    let answers = asking.join_all().await;
    assert!(answers.iter().all(|limit| [26, 24].contains(limit)), "{answers:?}");
    assert!(answers.contains(&26) && answers.contains(&24), "{answers:?}");
    source.is_down.store(true, Ordering::Relaxed);
    let (last, again) = (limit(&calls).await, limit(&calls).await);
    assert!([26, 24].contains(&last) && last == again, "{last} {again}");
}

//! NodeGetInfo: the ID of the node, and how many volumes it can attach.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use csi_proto::csi;
use csi_proto::csi::node_server::Node as _;
use ebs_driver::node::NodeService;
use ebs_ec2::NodeId;
use ebs_metadata::{Answer, BlockDevices, Imds, ImdsOptions, Machine, NodeMetadata, Source, SourceKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::Request;

use crate::node::{MIB, Node, context, metadata, mount, options_of, with_node, with_staged_node};

async fn info(service: &NodeService) -> csi::NodeGetInfoResponse {
    service.node_get_info(Request::new(csi::NodeGetInfoRequest {})).await.expect("it never fails").into_inner()
}

async fn limit(service: &NodeService) -> i64 {
    info(service).await.max_volumes_per_node
}

/// Returns the driver after a boot of its machine. The metadata counts `block_devices` volumes as attached at that
/// boot.
fn booted(node: &Node, boot: &str, block_devices: u32) -> NodeService {
    booted_with(node, boot, block_devices, |_| {})
}

fn booted_with(
    node: &Node,
    boot: &str,
    block_devices: u32,
    change: impl FnOnce(&mut ebs_mounter::MounterConfig),
) -> NodeService {
    std::fs::write(node.path("boot_id"), format!("{boot}\n")).unwrap();
    let of_machine = NodeMetadata { block_devices: BlockDevices::AtBoot(block_devices), ..metadata() };
    node.again_as(options_of(of_machine), |config| {
        config.boot_id = node.path("boot_id");
        change(config);
    })
}

/// The driver may restart, and its volumes may be detached. Volumes that another program attached lower the limit.
#[test]
fn limit_is_the_same_after_a_reboot_with_volumes_attached() {
    with_staged_node(async |node| {
        assert_eq!(limit(&node.service).await, 26);
        let first = booted(node, "first", 1);
        assert_eq!(limit(&first).await, 26);
        node.unstage().await.unwrap();
        assert_eq!((limit(&first).await, limit(&booted(node, "first", 1)).await), (26, 26));
        // At the next boot its volume is not attached, and a volume of another program is.
        assert_eq!(limit(&booted(node, "second", 1)).await, 25);
        node.staged("ext4").await;
        // It was attached after the boot, so the metadata does not count it.
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

/// Another program attached it, so it uses one slot.
#[test]
fn node_local_volume_lowers_the_limit_after_a_reboot() {
    with_node(async |node| {
        let mut request = node.stage_request("ext4", &[]);
        request.volume_id = "local-ebs://dev/xvdbz".to_owned();
        request.publish_context = context(&[("devicePath", "/dev/xvdbz"), ("volumeID", node.volume.as_str())]);
        request.volume_capability = Some(mount("ext4", &[]));
        node.stage(request).await.unwrap();
        assert_eq!(limit(&booted(node, "first", 1)).await, 25);
    });
}

/// The controller knows the node by this ID.
#[tokio::test]
async fn hyperpod_node_reports_its_hyperpod_id() {
    let node = Node::new(MIB);
    let id = "hyperpod-abc123def456-i-0123456789abcdef0";
    let of_cluster = NodeMetadata { node: NodeId::parse(id).unwrap(), ..metadata() };
    assert_eq!(info(&node.again_with(options_of(of_cluster))).await.node_id, id);
}

/// Starts a metadata service that alternates between one and three network interfaces.
async fn restless(tasks: &mut JoinSet<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answers = Arc::new(AtomicUsize::new(0));
    tasks.spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).await.unwrap_or(0);
            let (status, count) = match request[..read].starts_with(b"PUT") {
                true => ("403 Forbidden", 0),
                false => ("200 OK", 1 + 2 * (answers.fetch_add(1, Ordering::Relaxed) % 2)),
            };
            let body: String = (0..count).map(|card| format!("0e:49:61:0f:c3:1{card}/\n")).collect();
            let length = body.len();
            let reply = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
            let _ = stream.write_all(reply.as_bytes()).await;
        }
    });
    address
}

/// A metadata source whose first value is complete, and that then queries the service.
#[derive(Debug)]
struct Known(Imds);

impl Source for Known {
    fn kind(&self) -> SourceKind {
        SourceKind::Imds
    }

    fn read(&self) -> Answer<'_> {
        Box::pin(std::future::ready(Ok(metadata())))
    }

    fn refresh<'a>(&'a self, known: &'a NodeMetadata) -> Answer<'a> {
        self.0.refresh(known)
    }
}

/// The driver subtracts its own volumes only from the count of the metadata service, which includes them.
#[test]
fn count_without_the_drivers_own_volumes_is_unchanged() {
    with_staged_node(async |node| {
        // One of the driver's volumes was attached at boot.
        assert_eq!(limit(&booted(node, "first", 1)).await, 26);
        let counted = NodeMetadata { block_devices: BlockDevices::Others(1), ..metadata() };
        std::fs::write(node.path("boot_id"), "first\n").unwrap();
        let service = node.again_as(options_of(counted), |config| config.boot_id = node.path("boot_id"));
        assert_eq!(limit(&service).await, 25);
    });
}

/// The number of network interfaces changes meanwhile, and each response has one of the real numbers. When the metadata
/// service is down, it is the last number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_node_get_info_is_consistent() {
    let node = Node::new(MIB);
    let mut tasks = JoinSet::new();
    let endpoint = Some(format!("http://{}", restless(&mut tasks).await));
    let imds = Imds::with(ImdsOptions { endpoint, ..ImdsOptions::default() }).unwrap();
    let machine = Machine::find(vec![Box::new(Known(imds))], None).await.unwrap();
    let service = node.again_on(machine);
    let mut asking = JoinSet::new();
    for _ in 0..64 {
        let service = service.clone();
        asking.spawn(async move { limit(&service).await });
    }
    let answers = asking.join_all().await;
    assert!(answers.iter().all(|limit| [26, 24].contains(limit)), "{answers:?}");
    assert!(answers.contains(&26) && answers.contains(&24), "{answers:?}");
    tasks.abort_all();
    while tasks.join_next().await.is_some() {}
    let (last, again) = (limit(&service).await, limit(&service).await);
    assert!([26, 24].contains(&last) && last == again, "{last} {again}");
}

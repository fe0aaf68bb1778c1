//! A node service that reaches its machine only through csi-proxy. It must pass the tests of the service on the machine
//! itself, as far as the proxy's interface permits.
#![cfg(unix)]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi;
use csi_proto::csi::node_server::Node;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, MountVolume};
use ebs_driver::csi_node::CsiNode;
use ebs_driver::operation::Operations;
use ebs_ec2::{DriverName, NodeId, ZoneName};
use ebs_metadata::{BlockDevices, LimitFlags, Machine, NodeMetadata};
use ebs_windows_node::{NodeOptions, Unproven, WindowsNode};
use tokio::task::JoinSet;
use tonic::{Code, Request, Status};
use winstorage::Policy;
use winstorage::fake::{Effect, FakeHost, Late};
use winstorage::host::{Answer, EntryKind};
use winstorage::types::WinPath;

#[path = "over_proxy/foreign.rs"]
mod foreign;
#[path = "csi_sanity/proxied.rs"]
mod proxied;

const KUBELET: &str = r"C:\var\lib\kubelet";
const VOLUME: &str = "vol-0123456789abcdef0";
const SERIAL: &str = "vol0123456789abcdef0_00000001.";
const STAGING: &str = r"C:\var\lib\kubelet\plugins\staging\globalmount";
const TARGET: &str = r"C:\var\lib\kubelet\pods\6a\mount";
const GIB: u64 = 1 << 30;

/// A node service, its machine behind a proxy, and the proxy's tasks.
struct World {
    host: FakeHost,
    node: CsiNode<WindowsNode>,
    _proxy: JoinSet<()>,
}

/// The project of a node's csi-proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proxy {
    Ours,
    Foreign,
}

/// Creates an offline, blank disk 1, and the kubelet's directories.
fn machine() -> FakeHost {
    let host = FakeHost::new();
    host.add_directory(r"C:\var\lib\kubelet\pods\6a");
    host.add_directory(r"C:\var\lib\kubelet\plugins\staging");
    host.add_disk(1, SERIAL, 10 * GIB, false);
    host
}

/// Creates the same machine, with a real clock.
fn machine_with_a_clock() -> anyhow::Result<FakeHost> {
    let host = FakeHost::from_json("{}").map_err(anyhow::Error::msg)?;
    host.add_directory(r"C:\var\lib\kubelet\pods\6a");
    host.add_directory(r"C:\var\lib\kubelet\plugins\staging");
    host.add_disk(1, SERIAL, 10 * GIB, false);
    Ok(host)
}

impl World {
    /// Uses this project's proxy. The driver may not format a disk that is not proven blank.
    async fn new() -> anyhow::Result<Self> {
        Self::over(machine(), Proxy::Ours, Unproven::Refuse).await
    }

    /// Creates a new driver on this machine.
    async fn over(host: FakeHost, whose: Proxy, unproven: Unproven) -> anyhow::Result<Self> {
        let metadata = NodeMetadata {
            node: NodeId::parse("i-0123456789abcdef0")?,
            instance_type: "m5.large".to_owned(),
            region: "us-west-2".to_owned(),
            zone: ZoneName::parse("us-west-2a")?,
            outpost: None,
            network_interfaces: 1,
            block_devices: BlockDevices::Others(0),
        };
        let options = NodeOptions {
            driver: DriverName::default(),
            machine: Arc::new(Machine::told(metadata)),
            limits: LimitFlags::default(),
        };
        let policy = Policy::new(vec![WinPath::normalise(KUBELET).expect("a path")]);
        let mut proxy = JoinSet::new();
        let storage = match whose {
            Proxy::Ours => proxied::over_proxy(&host, policy, &mut proxy, unproven).await?,
            Proxy::Foreign => foreign::over_foreign_proxy(&host, policy, &mut proxy, unproven).await?,
        };
        Ok(Self { node: WindowsNode::new(options, Arc::new(storage), Operations::new()), host, _proxy: proxy })
    }

    async fn stage(&self) -> Result<(), Status> {
        let request = csi::NodeStageVolumeRequest {
            volume_id: VOLUME.to_owned(),
            staging_target_path: STAGING.to_owned(),
            volume_capability: capability(),
            publish_context: context(),
            ..Default::default()
        };
        self.node.node_stage_volume(Request::new(request)).await.map(drop)
    }

    async fn publish(&self) -> Result<(), Status> {
        let request = csi::NodePublishVolumeRequest {
            volume_id: VOLUME.to_owned(),
            staging_target_path: STAGING.to_owned(),
            target_path: TARGET.to_owned(),
            volume_capability: capability(),
            publish_context: context(),
            ..Default::default()
        };
        self.node.node_publish_volume(Request::new(request)).await.map(drop)
    }

    async fn unpublish(&self) -> Result<(), Status> {
        let request = csi::NodeUnpublishVolumeRequest { volume_id: VOLUME.to_owned(), target_path: TARGET.to_owned() };
        self.node.node_unpublish_volume(Request::new(request)).await.map(drop)
    }

    async fn unstage(&self) -> Result<(), Status> {
        let (volume_id, staging_target_path) = (VOLUME.to_owned(), STAGING.to_owned());
        let request = csi::NodeUnstageVolumeRequest { volume_id, staging_target_path };
        self.node.node_unstage_volume(Request::new(request)).await.map(drop)
    }

    fn formats(&self) -> usize {
        self.host.volumes_of(1).iter().map(|volume| self.host.formats(volume)).sum()
    }
}

fn capability() -> Option<csi::VolumeCapability> {
    Some(csi::VolumeCapability {
        access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
        access_type: Some(AccessType::Mount(MountVolume { fs_type: "ntfs".to_owned(), ..Default::default() })),
    })
}

fn context() -> HashMap<String, String> {
    HashMap::from([("devicePath".to_owned(), "/dev/xvdaa".to_owned())])
}

/// One format, one link, and the disk is offline in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_calls_over_csi_proxy_change_nothing() -> anyhow::Result<()> {
    let world = World::new().await?;
    for _ in 0..2 {
        world.stage().await?;
        assert_eq!((world.formats(), world.host.is_online(1)), (1, true));
    }
    for _ in 0..2 {
        world.publish().await?;
        assert!(
            matches!(world.host.kind_at(TARGET), Some(EntryKind::SymbolicLink { target, .. }) if target == STAGING)
        );
    }
    for _ in 0..2 {
        world.unpublish().await?;
        assert_eq!(world.host.kind_at(TARGET), None);
    }
    for _ in 0..2 {
        world.unstage().await?;
        assert_eq!((world.host.kind_at(STAGING), world.host.is_online(1)), (None, false));
    }
    world.stage().await?;
    assert_eq!(world.formats(), 1, "what was formatted is mounted as it is");
    Ok(())
}

/// csi-proxy cannot prove that a disk without a file system of Windows is blank. Without permission, the driver does
/// not even partition it, and the disk goes offline again. A disk with a file system of Windows is mounted in both
/// cases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unproven_disk_is_not_formatted_without_permission() -> anyhow::Result<()> {
    let world = World::over(machine(), Proxy::Foreign, Unproven::Refuse).await?;
    for _ in 0..2 {
        let refused = world.stage().await.expect_err("nothing proves it blank");
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains("--format-over-csi-proxy"), "{refused}");
        assert!(world.host.volumes_of(1).is_empty(), "it was given a partition");
        assert!(!world.host.is_online(1));
    }
    let formatted = World::over(machine(), Proxy::Foreign, Unproven::Format).await?;
    formatted.stage().await?;
    assert_eq!(formatted.formats(), 1);
    formatted.unstage().await?;
    let careful = World::over(formatted.host.clone(), Proxy::Foreign, Unproven::Refuse).await?;
    careful.stage().await?;
    assert_eq!(careful.formats(), 1, "what was formatted is mounted as it is");
    Ok(())
}

/// A blank disk is formatted without --format-over-csi-proxy, and a disk with contents is not formatted even with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_csi_proxy_formats_only_a_blank_disk() -> anyhow::Result<()> {
    let blank = World::over(machine(), Proxy::Ours, Unproven::Refuse).await?;
    blank.stage().await?;
    assert_eq!(blank.formats(), 1);

    let host = machine();
    host.write_disk(1, 0x438, b"\x53\xef");
    let holds_data = World::over(host, Proxy::Ours, Unproven::Format).await?;
    let refused = holds_data.stage().await.expect_err("it holds an ext4");
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(refused.message().contains("offset 1080"), "{refused}");
    for step in ["initialize_gpt", "create_data_partition", "format_ntfs"] {
        assert_eq!(holds_data.host.calls(step), 0, "{step}");
    }
    Ok(())
}

/// A file system that Windows shows late looks unformatted at first. The driver waits for it and never formats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_file_system_is_not_formatted_over_a_foreign_proxy() -> anyhow::Result<()> {
    for unproven in [Unproven::Format, Unproven::Refuse] {
        let host = machine_with_a_clock()?;
        let first = World::over(host.clone(), Proxy::Foreign, Unproven::Format).await?;
        first.stage().await?;
        first.unstage().await?;
        host.show_late(1, Late::FileSystems, Duration::from_secs(1));
        let world = World::over(host, Proxy::Foreign, unproven).await?;
        world.stage().await?;
        assert_eq!(world.formats(), 1, "{unproven:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stats_come_from_the_proxy_if_the_path_is_not_visible() -> anyhow::Result<()> {
    let world = World::new().await?;
    world.stage().await?;
    world.publish().await?;
    let stats = async || {
        let (volume_id, volume_path) = (VOLUME.to_owned(), TARGET.to_owned());
        let request = csi::NodeGetVolumeStatsRequest { volume_id, volume_path, ..Default::default() };
        anyhow::Ok(world.node.node_get_volume_stats(Request::new(request)).await?.into_inner().usage.remove(0))
    };
    let own = stats().await?;
    world.host.inject("space", 0, Effect::Fail(Answer::Win32(3)));
    assert_eq!(stats().await?, own);
    Ok(())
}

/// The volume is formatted once, and the disk never stays online in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_stage_over_csi_proxy_is_finished_by_the_next() -> anyhow::Result<()> {
    for step in ["set_online", "initialize_gpt", "create_data_partition", "online_partition", "format_ntfs", "mount"] {
        let world = World::new().await?;
        world.host.inject(step, 0, Effect::FailAfter(Answer::Com(0x8004_1001)));
        let refused = world.stage().await.expect_err(step);
        assert!(refused.message().contains("call csi-proxy's"), "{step}: {refused}");
        world.stage().await.unwrap_or_else(|error| panic!("{step}: {error}"));
        assert_eq!(world.formats(), 1, "{step}");
        world.unstage().await?;
        assert!(!world.host.is_online(1), "{step}");
    }
    Ok(())
}

/// The error has the proxy's text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonempty_target_is_not_removed_over_csi_proxy() -> anyhow::Result<()> {
    let world = World::new().await?;
    world.stage().await?;
    world.host.add_directory(&format!(r"{TARGET}\data"));
    let refused = world.publish().await.expect_err("it is not empty");
    assert!(refused.message().contains("not empty"), "{refused}");
    assert_eq!(world.host.kind_at(&format!(r"{TARGET}\data")), Some(EntryKind::Directory));
    Ok(())
}

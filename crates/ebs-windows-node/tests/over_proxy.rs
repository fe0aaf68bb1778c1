//! A node service that has nothing of the machine but its csi-proxy: what the suites of the service over the machine itself hold, as far as
//! the proxy's interface lets it be told.
#![cfg(unix)]

use std::collections::HashMap;
use std::sync::Arc;

use csi_proto::csi;
use csi_proto::csi::node_server::Node;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, MountVolume};
use ebs_driver::operation::Operations;
use ebs_metadata::{BlockDevices, LimitFlags, Machine, NodeMetadata};
use ebs_types::{DriverName, NodeId, ZoneName};
use ebs_windows_node::{NodeOptions, Unproven, WindowsNode};
use tokio::task::JoinSet;
use tonic::{Code, Request, Status};
use winstorage::Policy;
use winstorage::fake::{Effect, FakeHost};
use winstorage::host::{Answer, EntryKind};
use winstorage::types::WinPath;

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
    node: WindowsNode,
    _proxy: JoinSet<()>,
}

impl World {
    /// Its driver has leave to format what is not proven blank.
    async fn new() -> anyhow::Result<Self> {
        Self::with(Unproven::Format).await
    }

    async fn with(unproven: Unproven) -> anyhow::Result<Self> {
        let host = FakeHost::new();
        host.add_directory(r"C:\var\lib\kubelet\pods\6a");
        host.add_directory(r"C:\var\lib\kubelet\plugins\staging");
        host.add_disk(1, SERIAL, 10 * GIB, false);
        Self::over(host, unproven).await
    }

    /// A driver that has just started, over this machine.
    async fn over(host: FakeHost, unproven: Unproven) -> anyhow::Result<Self> {
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
        let storage = proxied::over_proxy(&host, policy, &mut proxy, unproven).await?;
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

/// Over csi-proxy each call of a volume's life may come twice, and does nothing the second time: one format, one link, the disk offline in
/// the end.
///
/// Rule: see `crates/ebs-windows-node/tests/csi_sanity.rs::csi_sanity_finds_no_fault_with_a_windows_node_over_csi_proxy`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_csi_proxy_each_call_may_come_twice() -> anyhow::Result<()> {
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

/// csi-proxy cannot tell whether a disk without a file system of Windows is blank: it is not written to, not even a partition, and goes offline
/// again; unless the driver was started with leave to. One that has a file system of Windows is mounted either way.
///
/// Rule: D-5; windows.md N-3; node.md N-5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_csi_proxy_no_disk_is_formatted_that_is_not_proven_blank() -> anyhow::Result<()> {
    let world = World::with(Unproven::Refuse).await?;
    for _ in 0..2 {
        let refused = world.stage().await.expect_err("nothing proves it blank");
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains("--format-over-csi-proxy"), "{refused}");
        assert!(world.host.volumes_of(1).is_empty(), "it was given a partition");
        assert!(!world.host.is_online(1));
    }
    let formatted = World::new().await?;
    formatted.stage().await?;
    formatted.unstage().await?;
    let careful = World::over(formatted.host.clone(), Unproven::Refuse).await?;
    careful.stage().await?;
    assert_eq!(careful.formats(), 1, "what was formatted is mounted as it is");
    Ok(())
}

/// A stage that failed at any step of the machine is finished by the next one: formatted once, never with a disk left online in between.
///
/// Rule: see `crates/ebs-windows-node/tests/csi_sanity.rs::csi_sanity_finds_no_fault_with_a_windows_node_over_csi_proxy`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_csi_proxy_a_stage_that_failed_is_finished_by_the_next() -> anyhow::Result<()> {
    for step in ["set_online", "initialize_gpt", "create_data_partition", "online_partition", "format_ntfs", "mount"] {
        let world = World::new().await?;
        world.host.inject(step, 0, Effect::FailAfter(Answer::Com(0x8004_1001)));
        let refused = world.stage().await.expect_err(step);
        assert!(refused.message().contains("csi-proxy refused"), "{step}: {refused}");
        world.stage().await.unwrap_or_else(|error| panic!("{step}: {error}"));
        assert_eq!(world.formats(), 1, "{step}");
        world.unstage().await?;
        assert!(!world.host.is_online(1), "{step}");
    }
    Ok(())
}

/// What is at a target and not empty stays, in the proxy's words.
///
/// Rule: see `crates/ebs-windows-node/tests/csi_sanity.rs::csi_sanity_finds_no_fault_with_a_windows_node_over_csi_proxy`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_csi_proxy_what_is_at_the_target_stays() -> anyhow::Result<()> {
    let world = World::new().await?;
    world.stage().await?;
    world.host.add_directory(&format!(r"{TARGET}\data"));
    let refused = world.publish().await.expect_err("it is not empty");
    assert!(refused.message().contains("not empty"), "{refused}");
    assert_eq!(world.host.kind_at(&format!(r"{TARGET}\data")), Some(EntryKind::Directory));
    Ok(())
}

//! A CSI client over a unix socket, with a method for each call of an orchestrator, and raw clients for other requests.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use csi_proto::csi;
use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::identity_client::IdentityClient;
use csi_proto::csi::node_client::NodeClient;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::MissedTickBehavior;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{IntoRequest, Request, Status};

use crate::kubelet;
use crate::process::Process;

/// Time limit of a call, on a busy machine.
const CALL_BOUND: Duration = Duration::from_secs(180);

/// The minimum pause of the snapshotter between two calls for a snapshot that is not ready.
const SNAPSHOT_RETRY: Duration = Duration::from_secs(1);

/// Clients of the three CSI services on one socket.
#[derive(Debug, Clone)]
pub struct CsiClient {
    socket: PathBuf,
    channel: Channel,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    Mount(String),
    Block,
}

impl Access {
    /// Returns the capability for one writer on one node.
    pub fn capability(&self) -> csi::VolumeCapability {
        use csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume, access_mode::Mode};
        let access_type = match self {
            Self::Mount(fs_type) => AccessType::Mount(MountVolume { fs_type: fs_type.clone(), ..Default::default() }),
            Self::Block => AccessType::Block(BlockVolume {}),
        };
        csi::VolumeCapability {
            access_type: Some(access_type),
            access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
        }
    }
}

/// Bytes in a GiB; CSI counts in bytes.
pub const GIB: i64 = 1 << 30;

/// The default zone of the simulator's own instance.
pub const HOME_ZONE: &str = "us-west-2a";

/// Returns the topology that the provisioner requests for a pod on a node of this zone.
pub fn in_zone(zone: &str) -> csi::TopologyRequirement {
    let segments = [("topology.kubernetes.io/zone".to_owned(), zone.to_owned())].into();
    let term = vec![csi::Topology { segments }];
    csi::TopologyRequirement { requisite: term.clone(), preferred: term }
}

/// Converts the status of a failed call to an error with the text that a user sees.
pub fn refused(status: Status) -> anyhow::Error {
    anyhow::anyhow!("{:?}: {}", status.code(), status.message())
}

/// Returns the provisioner's request for a new volume of a pod in [`HOME_ZONE`].
pub fn new_volume(name: &str, gib: i64, access: &Access) -> csi::CreateVolumeRequest {
    csi::CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(csi::CapacityRange { required_bytes: gib * GIB, limit_bytes: 0 }),
        volume_capabilities: vec![access.capability()],
        parameters: [("type".to_owned(), "gp3".to_owned())].into(),
        accessibility_requirements: Some(in_zone(HOME_ZONE)),
        ..Default::default()
    }
}

pub fn restored_volume(name: &str, gib: i64, access: &Access, snapshot_id: &str) -> csi::CreateVolumeRequest {
    use csi::volume_content_source::{SnapshotSource, Type};
    let source = Type::Snapshot(SnapshotSource { snapshot_id: snapshot_id.to_owned() });
    csi::CreateVolumeRequest {
        volume_content_source: Some(csi::VolumeContentSource { r#type: Some(source) }),
        ..new_volume(name, gib, access)
    }
}

impl CsiClient {
    /// Creates a client that connects with its first call and reconnects after each restart of the driver.
    pub fn lazy(socket: &Path) -> Self {
        let path = socket.to_owned();
        let connector = tower::service_fn(move |_: Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from_static("http://csi.invalid").timeout(CALL_BOUND);
        Self { socket: socket.to_owned(), channel: endpoint.connect_with_connector_lazy(connector) }
    }

    /// Creates a client of a driver that was just started: waits at most `bound` until `Probe` reports ready.
    pub async fn ready(socket: &Path, driver: &mut Process, bound: Duration) -> anyhow::Result<Self> {
        let client = Self::lazy(socket);
        let deadline = tokio::time::Instant::now() + bound;
        let mut tick = tokio::time::interval(Duration::from_millis(25));
        loop {
            tick.tick().await;
            if let Some(status) = driver.ended()? {
                bail!("the driver exited with {status} while starting:\n{}", driver.log_tail(30));
            }
            let answer = client.probe().await;
            if matches!(answer, Ok(true)) {
                return Ok(client);
            }
            if tokio::time::Instant::now() > deadline {
                bail!("the driver is not ready after {bound:?} ({answer:?}):\n{}", driver.log_tail(30));
            }
        }
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    pub fn identity(&self) -> IdentityClient<Channel> {
        IdentityClient::new(self.channel.clone())
    }

    pub fn controller(&self) -> ControllerClient<Channel> {
        ControllerClient::new(self.channel.clone())
    }

    pub fn node(&self) -> NodeClient<Channel> {
        NodeClient::new(self.channel.clone())
    }

    /// Returns whether the driver reports that it is ready; a missing field counts as ready.
    pub async fn probe(&self) -> Result<bool, Status> {
        let answer = self.identity().probe(csi::ProbeRequest {}).await?.into_inner();
        Ok(answer.ready.unwrap_or(true))
    }

    pub async fn create_volume(&self, request: csi::CreateVolumeRequest) -> Result<csi::Volume, Status> {
        let answer = self.controller().create_volume(request).await?.into_inner();
        answer.volume.ok_or_else(|| Status::internal("CreateVolume returned no volume"))
    }

    pub async fn delete_volume(&self, volume_id: &str) -> Result<(), Status> {
        let request = csi::DeleteVolumeRequest { volume_id: volume_id.to_owned(), ..Default::default() };
        self.controller().delete_volume(request).await.map(drop)
    }

    pub async fn create_snapshot(&self, name: &str, volume_id: &str) -> Result<csi::Snapshot, Status> {
        let request = csi::CreateSnapshotRequest {
            source_volume_id: volume_id.to_owned(),
            name: name.to_owned(),
            ..Default::default()
        };
        let answer = self.controller().create_snapshot(request).await?.into_inner();
        answer.snapshot.ok_or_else(|| Status::internal("CreateSnapshot returned no snapshot"))
    }

    /// Repeats CreateSnapshot like the snapshotter until the snapshot is ready, for at most `bound`.
    pub async fn snapshot_ready(&self, name: &str, volume_id: &str, bound: Duration) -> anyhow::Result<csi::Snapshot> {
        let deadline = tokio::time::Instant::now() + bound;
        let mut tick = tokio::time::interval(SNAPSHOT_RETRY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let snapshot = self.create_snapshot(name, volume_id).await.map_err(refused).context("CreateSnapshot")?;
            if snapshot.ready_to_use {
                return Ok(snapshot);
            }
            if tokio::time::Instant::now() > deadline {
                bail!("snapshot {} is not ready after {bound:?}", snapshot.snapshot_id);
            }
        }
    }

    pub async fn delete_snapshot(&self, snapshot_id: &str) -> Result<(), Status> {
        let request = csi::DeleteSnapshotRequest { snapshot_id: snapshot_id.to_owned(), ..Default::default() };
        self.controller().delete_snapshot(request).await.map(drop)
    }

    /// Calls NodeStageVolume and checks the response with [`kubelet::check_stage`]. Tests must call it instead of the
    /// raw client's method.
    pub async fn stage(&self, request: impl IntoRequest<csi::NodeStageVolumeRequest>) -> Result<(), Status> {
        let request = request.into_request();
        let staging = PathBuf::from(&request.get_ref().staging_target_path);
        let answer = self.node().node_stage_volume(request).await.map(drop);
        kubelet::check_stage(&staging, &answer).expect("the kubelet does not forget a mount after this response");
        answer
    }

    /// Returns the response to NodeGetInfo.
    pub async fn node_info(&self) -> Result<csi::NodeGetInfoResponse, Status> {
        Ok(self.node().node_get_info(csi::NodeGetInfoRequest {}).await?.into_inner())
    }

    /// Returns the request with a deadline (`grpc-timeout`), as a sidecar sends it.
    pub fn within<T>(request: T, deadline: Duration) -> Request<T> {
        let mut request = Request::new(request);
        request.set_timeout(deadline);
        request
    }
}

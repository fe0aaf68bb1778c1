//! The lifecycle of one volume on one node, with the calls of an orchestrator: attach, stage, publish, and the reverse.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use csi_proto::csi;
use tonic::Status;

use crate::csi_client::{Access, CsiClient, GIB};

/// A volume and its paths on this node. Its methods make the calls of the attacher, the resizer and the kubelet.
#[derive(Debug, Clone)]
pub struct VolumeOnNode {
    client: CsiClient,
    pub volume: csi::Volume,
    pub access: Access,
    pub node_id: String,
    pub staging: PathBuf,
    /// The target path: a directory, or a file for a raw block volume.
    pub target: PathBuf,
    /// The publish context that ControllerPublishVolume returned; empty before that.
    pub publish_context: HashMap<String, String>,
}

impl VolumeOnNode {
    /// Creates a volume that is neither attached nor staged. `dir` is the kubelet's directory, with the staging and
    /// target paths. Creates the directories that the kubelet creates.
    pub fn new(
        client: &CsiClient,
        volume: csi::Volume,
        access: &Access,
        node_id: &str,
        dir: &Path,
    ) -> std::io::Result<Self> {
        let staging = dir.join("staging").join(&volume.volume_id).join("globalmount");
        let pod = dir.join("pods").join(&volume.volume_id);
        std::fs::create_dir_all(&staging)?;
        std::fs::create_dir_all(&pod)?;
        Ok(Self {
            client: client.clone(),
            volume,
            access: access.clone(),
            node_id: node_id.to_owned(),
            staging,
            target: pod.join("mount"),
            publish_context: HashMap::new(),
        })
    }

    pub fn id(&self) -> &str {
        &self.volume.volume_id
    }

    /// Replaces the client, for example after a restart of the driver.
    pub fn set_client(&mut self, client: &CsiClient) {
        self.client = client.clone();
    }

    pub fn attach_request(&self) -> csi::ControllerPublishVolumeRequest {
        csi::ControllerPublishVolumeRequest {
            volume_id: self.id().to_owned(),
            node_id: self.node_id.clone(),
            volume_capability: Some(self.access.capability()),
            volume_context: self.volume.volume_context.clone(),
            ..Default::default()
        }
    }

    pub async fn attach(&mut self) -> Result<(), Status> {
        let answer = self.client.controller().controller_publish_volume(self.attach_request()).await?.into_inner();
        self.publish_context = answer.publish_context;
        Ok(())
    }

    pub async fn detach(&mut self) -> Result<(), Status> {
        let request = csi::ControllerUnpublishVolumeRequest {
            volume_id: self.id().to_owned(),
            node_id: self.node_id.clone(),
            ..Default::default()
        };
        self.client.controller().controller_unpublish_volume(request).await.map(drop)
    }

    pub fn stage_request(&self) -> csi::NodeStageVolumeRequest {
        csi::NodeStageVolumeRequest {
            volume_id: self.id().to_owned(),
            publish_context: self.publish_context.clone(),
            staging_target_path: text(&self.staging),
            volume_capability: Some(self.access.capability()),
            volume_context: self.volume.volume_context.clone(),
            ..Default::default()
        }
    }

    /// NodeStageVolume.
    pub async fn stage(&self) -> Result<(), Status> {
        self.client.stage(self.stage_request()).await
    }

    pub async fn unstage(&self) -> Result<(), Status> {
        let request =
            csi::NodeUnstageVolumeRequest { volume_id: self.id().to_owned(), staging_target_path: text(&self.staging) };
        self.client.node().node_unstage_volume(request).await.map(drop)
    }

    pub fn publish_request(&self) -> csi::NodePublishVolumeRequest {
        csi::NodePublishVolumeRequest {
            volume_id: self.id().to_owned(),
            publish_context: self.publish_context.clone(),
            staging_target_path: text(&self.staging),
            target_path: text(&self.target),
            volume_capability: Some(self.access.capability()),
            volume_context: self.volume.volume_context.clone(),
            ..Default::default()
        }
    }

    pub async fn publish(&self) -> Result<(), Status> {
        self.client.node().node_publish_volume(self.publish_request()).await.map(drop)
    }

    pub async fn unpublish(&self) -> Result<(), Status> {
        let request =
            csi::NodeUnpublishVolumeRequest { volume_id: self.id().to_owned(), target_path: text(&self.target) };
        self.client.node().node_unpublish_volume(request).await.map(drop)
    }

    pub async fn bring_up(&mut self) -> Result<(), Status> {
        self.attach().await?;
        self.stage().await?;
        self.publish().await
    }

    pub async fn take_down(&mut self) -> Result<(), Status> {
        self.unpublish().await?;
        self.unstage().await?;
        self.detach().await
    }

    /// Calls NodeGetVolumeStats for the target. Returns the total and used bytes.
    pub async fn stats(&self) -> Result<(i64, i64), Status> {
        use csi::volume_usage::Unit;
        let request = csi::NodeGetVolumeStatsRequest {
            volume_id: self.id().to_owned(),
            volume_path: text(&self.target),
            staging_target_path: text(&self.staging),
        };
        let answer = self.client.node().node_get_volume_stats(request).await?.into_inner();
        let bytes = answer.usage.iter().find(|usage| usage.unit() == Unit::Bytes);
        bytes.map(|usage| (usage.total, usage.used)).ok_or_else(|| Status::internal("no usage in bytes"))
    }

    /// Calls ControllerExpandVolume. Returns whether NodeExpandVolume is required.
    pub async fn expand_in_ec2(&mut self, gib: i64) -> Result<bool, Status> {
        let request = csi::ControllerExpandVolumeRequest {
            volume_id: self.id().to_owned(),
            capacity_range: Some(csi::CapacityRange { required_bytes: gib * GIB, limit_bytes: 0 }),
            volume_capability: Some(self.access.capability()),
            ..Default::default()
        };
        let answer = self.client.controller().controller_expand_volume(request).await?.into_inner();
        self.volume.capacity_bytes = answer.capacity_bytes;
        Ok(answer.node_expansion_required)
    }

    /// Calls NodeExpandVolume for the target. Returns the capacity that the node reports.
    pub async fn expand_on_node(&self) -> Result<i64, Status> {
        let request = csi::NodeExpandVolumeRequest {
            volume_id: self.id().to_owned(),
            volume_path: text(&self.target),
            staging_target_path: text(&self.staging),
            capacity_range: Some(csi::CapacityRange { required_bytes: self.volume.capacity_bytes, limit_bytes: 0 }),
            volume_capability: Some(self.access.capability()),
            ..Default::default()
        };
        Ok(self.client.node().node_expand_volume(request).await?.into_inner().capacity_bytes)
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

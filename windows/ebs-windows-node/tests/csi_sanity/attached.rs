//! A node service whose machine has exactly the disks that are attached in the simulated EC2.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use csi_proto::csi;
use csi_proto::csi::node_server::Node;
use ebs_sim::port::SimEc2;
use tonic::{Request, Response, Status};
use winstorage::fake::FakeHost;

/// A fake machine in this process or another one, with the requests of [`winstorage::fake::control`].
pub(crate) trait Machine: Clone + Send + Sync + 'static {
    fn ask(&self, request: &str) -> String;

    /// Returns the path on the fake machine that represents a path of this machine.
    fn path(&self, here: &str) -> String {
        here.to_owned()
    }

    fn tell(&self, request: &str) {
        assert_eq!(self.ask(request), "done", "{request}");
    }

    fn attach(&self, number: u32, serial: &str, size: u64) {
        self.tell(&format!("attach {number} {serial} {size}"));
    }

    fn is_online(&self, number: u32) -> bool {
        self.ask(&format!("online {number}")) == "true"
    }

    fn formats(&self, number: u32) -> usize {
        self.ask(&format!("formats {number}")).parse().expect("a number")
    }
}

impl Machine for FakeHost {
    fn ask(&self, request: &str) -> String {
        winstorage::fake::control::answer(self, request)
    }
}

/// A node service that synchronises the machine's disks with EC2 before each call.
#[derive(Clone)]
pub(crate) struct Attached<N, M> {
    node: N,
    host: M,
    ec2: SimEc2,
    instance: String,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    disks: BTreeMap<String, u32>,
    last: u32,
    online: Vec<String>,
    formats: BTreeMap<String, usize>,
}

impl<N, M: Machine> Attached<N, M> {
    /// Creates the service. Its disk numbers are above `last`, because several instances may share a machine.
    pub(crate) fn new(node: N, host: M, ec2: SimEc2, instance: String, last: u32) -> Self {
        let seen = Arc::new(Mutex::new(Seen { last, ..Seen::default() }));
        Self { node, host, ec2, instance, seen }
    }

    pub(crate) async fn sync(&self) {
        let state = self.ec2.engine().snapshot_of_state().await;
        let is_here = |attachment: &ebs_sim::api::SimAttachment| {
            attachment.instance_id == self.instance
                && attachment.state == "attached"
                && !attachment.delete_on_termination
        };
        let attached = state.volumes.iter().filter(|volume| volume.attachments.iter().any(is_here));
        let attached: BTreeMap<String, u64> =
            attached.map(|volume| (volume.id.clone(), u64::from(volume.size_gib) << 30)).collect();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<String> = seen.disks.keys().filter(|volume| !attached.contains_key(*volume)).cloned().collect();
        for volume in gone {
            let Some(number) = seen.disks.remove(&volume) else { continue };
            let formats = self.host.formats(number);
            seen.formats.insert(volume.clone(), formats);
            if self.host.is_online(number) {
                seen.online.push(volume);
            }
            self.host.tell(&format!("detach {number}"));
        }
        for (volume, size) in attached {
            if let Some(number) = seen.disks.get(&volume) {
                self.host.tell(&format!("resize {number} {size}"));
                continue;
            }
            seen.last += 1;
            let number = seen.last;
            self.host.attach(number, &format!("{}_00000001.", volume.replacen('-', "", 1)), size);
            seen.disks.insert(volume, number);
        }
    }

    pub(crate) fn detached_online(&self) -> Vec<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).online.clone()
    }

    pub(crate) fn formatted(&self) -> usize {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.formats.values().filter(|formats| **formats > 0).count()
    }

    pub(crate) fn formatted_twice(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let twice = seen.formats.iter().filter(|(_, formats)| **formats > 1);
        twice.map(|(volume, _)| volume.clone()).collect()
    }

    /// Creates a directory on this machine for each published path of the fake machine, because csi-sanity checks the
    /// paths on this machine.
    fn show(&self, target: &str) {
        let target_here = Path::new(target);
        let is_there = self.host.ask(&format!("exists {}", self.host.path(target))) == "true";
        let shown = match (is_there, target_here.exists()) {
            (true, false) => std::fs::create_dir(target_here),
            (false, true) => std::fs::remove_dir(target_here),
            _ => Ok(()),
        };
        shown.expect("the target's directory is csi-sanity's");
    }
}

macro_rules! synchronise_first {
    ($($method:ident($request:ident) -> $response:ident;)+) => {
        #[tonic::async_trait]
        impl<N: Node + Clone, M: Machine> Node for Attached<N, M> {
            $(async fn $method(&self, request: Request<csi::$request>) -> Result<Response<csi::$response>, Status> {
                self.sync().await;
                self.node.$method(request).await
            })+

            async fn node_publish_volume(
                &self,
                request: Request<csi::NodePublishVolumeRequest>,
            ) -> Result<Response<csi::NodePublishVolumeResponse>, Status> {
                self.sync().await;
                let target = request.get_ref().target_path.clone();
                let published = self.node.node_publish_volume(request).await?;
                self.show(&target);
                Ok(published)
            }

            async fn node_unpublish_volume(
                &self,
                request: Request<csi::NodeUnpublishVolumeRequest>,
            ) -> Result<Response<csi::NodeUnpublishVolumeResponse>, Status> {
                self.sync().await;
                let target = request.get_ref().target_path.clone();
                let unpublished = self.node.node_unpublish_volume(request).await?;
                self.show(&target);
                Ok(unpublished)
            }
        }
    };
}

synchronise_first! {
    node_stage_volume(NodeStageVolumeRequest) -> NodeStageVolumeResponse;
    node_unstage_volume(NodeUnstageVolumeRequest) -> NodeUnstageVolumeResponse;
    node_expand_volume(NodeExpandVolumeRequest) -> NodeExpandVolumeResponse;
    node_get_volume_stats(NodeGetVolumeStatsRequest) -> NodeGetVolumeStatsResponse;
    node_get_volume_health(NodeGetVolumeHealthRequest) -> NodeGetVolumeHealthResponse;
    node_get_storage_health(NodeGetStorageHealthRequest) -> NodeGetStorageHealthResponse;
    node_get_capabilities(NodeGetCapabilitiesRequest) -> NodeGetCapabilitiesResponse;
    node_get_info(NodeGetInfoRequest) -> NodeGetInfoResponse;
}

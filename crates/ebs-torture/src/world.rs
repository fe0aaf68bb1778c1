//! One disk, one directory, and the service that is killed and started again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use csi_proto::csi;
use csi_proto::csi::node_client::NodeClient;
use ebs_mounter::{MountEntry, MountTable};
use ebs_testkit::csi_client::CsiClient;
use ebs_testkit::loop_device::LoopDevice;
use ebs_testkit::process::{Process, ProcessSpec};
use ebs_types::VolumeId;
use tokio::time::Instant;
use tonic::transport::Channel;

/// How long the service may take to start.
const START: Duration = Duration::from_secs(30);
const START_LOOK: Duration = Duration::from_millis(4);

/// Everything of one cycle.
#[derive(Debug)]
pub(crate) struct World {
    program: PathBuf,
    pub(crate) volume: VolumeId,
    pub(crate) fs_type: &'static str,
    pub(crate) disk: LoopDevice,
    /// Times of attachment differ; so does every attachment's.
    pub(crate) attachments: u32,
    service: Option<Process>,
    client: Option<CsiClient>,
    // The last field: the directory goes when nothing uses it any more.
    place: tempfile::TempDir,
}

impl World {
    pub(crate) fn new(program: &Path, volume: VolumeId, fs_type: &'static str, bytes: u64) -> anyhow::Result<Self> {
        let place = tempfile::Builder::new().prefix("ebs-torture-").tempdir().context("a directory")?;
        let disk = LoopDevice::new_in(place.path(), &volume, bytes).context("a loop device")?;
        let program = program.to_owned();
        Ok(Self { program, volume, fs_type, disk, attachments: 1, service: None, client: None, place })
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.place.path().canonicalize().unwrap_or_else(|_| self.place.path().to_owned())
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.directory().join("state")
    }

    pub(crate) fn staging(&self) -> PathBuf {
        self.directory().join("staging/globalmount")
    }

    /// Where a pod sees the file system.
    pub(crate) fn target(&self) -> PathBuf {
        self.directory().join("pod-fs/mount")
    }

    /// Where a pod sees the device.
    pub(crate) fn raw_target(&self) -> PathBuf {
        self.directory().join("pod-raw/device")
    }

    fn log(&self) -> PathBuf {
        self.directory().join("service.log")
    }

    /// The end of the service's log.
    pub(crate) fn log_tail(&self) -> String {
        ebs_testkit::process::log_tail(&self.log(), 12)
    }

    /// Starts the service, after a kill the next one, and waits until it answers.
    pub(crate) async fn start(&mut self) -> anyhow::Result<()> {
        let socket = self.directory().join("csi.sock");
        let argument = |path: PathBuf| path.into_os_string();
        let args = [
            "serve".into(),
            "--socket".into(),
            argument(socket.clone()),
            "--state".into(),
            argument(self.state()),
            "--devices".into(),
            argument(self.directory()),
        ];
        let spec = ProcessSpec {
            name: "node service".to_owned(),
            program: self.program.clone(),
            args: args.into(),
            env: [("RUST_BACKTRACE".to_owned(), "0".to_owned())].into(),
            log: self.log(),
        };
        let mut service = Process::spawn(spec)?;
        let client = CsiClient::lazy(&socket);
        let deadline = Instant::now() + START;
        while client.node().node_get_capabilities(csi::NodeGetCapabilitiesRequest {}).await.is_err() {
            if service.ended()?.is_some() || Instant::now() > deadline {
                bail!("the service does not start:\n{}", self.log_tail());
            }
            tokio::time::sleep(START_LOOK).await;
        }
        (self.service, self.client) = (Some(service), Some(client));
        Ok(())
    }

    pub(crate) fn client(&self) -> anyhow::Result<NodeClient<Channel>> {
        Ok(self.client.as_ref().context("no service runs")?.node())
    }

    pub(crate) fn service(&self) -> Option<&Process> {
        self.service.as_ref()
    }

    /// `kill -9` of the service alone: what it runs is orphaned.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut service) = self.service.take() {
            service.kill()?;
        }
        self.client = None;
        Ok(())
    }

    /// The mounts at one path, oldest first.
    pub(crate) async fn mounts_at(&self, path: &Path) -> anyhow::Result<Vec<MountEntry>> {
        let table = MountTable::read().await.context("the mount table")?;
        Ok(table.entries().iter().filter(|entry| entry.target == path).cloned().collect())
    }

    /// True when the file system is seen at a path.
    pub(crate) async fn is_file_system_at(&self, path: &Path) -> anyhow::Result<bool> {
        Ok(self.mounts_at(path).await?.last().is_some_and(|entry| entry.device.major != 0))
    }

    /// True when the device is seen at the raw target.
    pub(crate) async fn is_raw_published(&self) -> anyhow::Result<bool> {
        Ok(!self.mounts_at(&self.raw_target()).await?.is_empty())
    }

    fn context(&self) -> std::collections::HashMap<String, String> {
        let time = format!("2026-11-21T17:{:02}:00Z", self.attachments % 60);
        [("devicePath", "/dev/xvdaa"), ("ebs.csi.aws.com/source", "none"), ("ebs.csi.aws.com/attach-time", &time)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into()
    }

    /// `spoilt`: with an argument that mkfs refuses.
    pub(crate) fn stage_request(&self, spoilt: bool) -> csi::NodeStageVolumeRequest {
        let mut volume_context = std::collections::HashMap::new();
        if spoilt {
            volume_context.insert("blocksize".to_owned(), "3".to_owned());
        }
        csi::NodeStageVolumeRequest {
            volume_id: self.volume.to_string(),
            publish_context: self.context(),
            staging_target_path: text(&self.staging()),
            volume_capability: Some(self.capability(false)),
            volume_context,
            ..Default::default()
        }
    }

    pub(crate) fn unstage_request(&self) -> csi::NodeUnstageVolumeRequest {
        let staging_target_path = text(&self.staging());
        csi::NodeUnstageVolumeRequest { volume_id: self.volume.to_string(), staging_target_path }
    }

    pub(crate) fn publish_request(&self, raw: bool) -> csi::NodePublishVolumeRequest {
        csi::NodePublishVolumeRequest {
            volume_id: self.volume.to_string(),
            publish_context: self.context(),
            staging_target_path: text(&self.staging()),
            target_path: text(&if raw { self.raw_target() } else { self.target() }),
            volume_capability: Some(self.capability(raw)),
            ..Default::default()
        }
    }

    pub(crate) fn unpublish_request(&self, raw: bool) -> csi::NodeUnpublishVolumeRequest {
        let target_path = text(&if raw { self.raw_target() } else { self.target() });
        csi::NodeUnpublishVolumeRequest { volume_id: self.volume.to_string(), target_path }
    }

    fn capability(&self, raw: bool) -> csi::VolumeCapability {
        use ebs_testkit::csi_client::Access;
        if raw { Access::Block.capability() } else { Access::Mount(self.fs_type.to_owned()).capability() }
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

//! The requests that the orchestrator sends for a volume.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Context;
use csi_proto::csi;
use ebs_testkit::csi_client::Access;

use super::Volume;
use crate::planted::record_of;
use crate::shared::Shared;

impl Volume {
    fn context(&self) -> HashMap<String, String> {
        let time = self.attach_time();
        [("devicePath", "/dev/xvdaa"), ("ebs.csi.aws.com/source", "none"), ("ebs.csi.aws.com/attach-time", &time)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into()
    }

    fn attach_time(&self) -> String {
        format!("2026-11-21T17:{:02}:00Z", self.attachments % 60)
    }

    /// Planted bug: writes the record of an mkfs that never ran.
    pub(crate) fn forge_record(&self, shared: &Shared) -> anyhow::Result<()> {
        let name = self.device()?.file_name().unwrap_or_default().to_owned();
        let diskseq = std::fs::read_to_string(Path::new("/sys/block").join(name).join("diskseq"))?;
        let boot = std::fs::read_to_string(self.node(shared).boot_id())?;
        let (id, bytes, fs) = (&self.id, self.bytes, self.fs_type);
        let (boot, diskseq, time) = (boot.trim(), diskseq.trim(), self.attach_time());
        let text = format!(
            "volume={id}\npartition=none\nbytes={bytes}\nfs={fs}\nattach-time={time}\nboot={boot}\ndiskseq={diskseq}\nstate=started\nend\n"
        );
        std::fs::write(record_of(&self.node(shared).state(), id), text).context("forge a record")
    }

    /// Returns a NodeStageVolume request. With `spoilt`, it has an argument that mkfs rejects.
    pub(crate) fn stage_request(&self, shared: &Shared, spoilt: bool) -> csi::NodeStageVolumeRequest {
        let mut volume_context = HashMap::new();
        if spoilt {
            volume_context.insert("blocksize".to_owned(), "3".to_owned());
        }
        csi::NodeStageVolumeRequest {
            volume_id: self.id.to_string(),
            publish_context: self.context(),
            staging_target_path: text(&self.node(shared).staging(&self.id)),
            volume_capability: Some(Access::Mount(self.fs_type.to_owned()).capability()),
            volume_context,
            ..Default::default()
        }
    }

    pub(crate) fn publish_request(&self, shared: &Shared, raw: bool) -> csi::NodePublishVolumeRequest {
        let node = self.node(shared);
        let access = if raw { Access::Block } else { Access::Mount(self.fs_type.to_owned()) };
        csi::NodePublishVolumeRequest {
            volume_id: self.id.to_string(),
            publish_context: self.context(),
            staging_target_path: text(&node.staging(&self.id)),
            target_path: text(&if raw { node.raw_target(&self.id) } else { node.target(&self.id) }),
            volume_capability: Some(access.capability()),
            ..Default::default()
        }
    }
}

pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

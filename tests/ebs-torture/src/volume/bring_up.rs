//! The orchestrator's actions that bring a volume to a pod: stage, publish, enlarge and expand.

use std::path::Path;
use std::time::Duration;

use csi_proto::csi;
use ebs_testkit::csi_client::Access;
use rustix::mount::mount_bind;

use super::requests::text;
use super::{MIB, MOST_BYTES, Volume};
use crate::calls::{Answer, Refusal};
use crate::planted::Planted;
use crate::shared::Shared;

/// The state before a NodeStageVolume call.
struct Before {
    /// The request has an argument that mkfs rejects.
    spoilt: bool,
    cuts: u64,
    kills: u64,
    tool_kills: u64,
    was_used: bool,
    /// Metadata was damaged, and nothing else (an interrupted check, an open file) prevented the driver from repairing
    /// it.
    must_be_repaired: bool,
}

impl Volume {
    pub(crate) async fn stage(
        &mut self,
        shared: &Shared,
        spoilt: bool,
        leave: Option<Duration>,
    ) -> anyhow::Result<Answer> {
        let before = Before {
            spoilt,
            cuts: self.cuts(shared),
            kills: self.kills(shared),
            tool_kills: self.node(shared).tool_kills.get(),
            was_used: self.is_published(shared).await?,
            must_be_repaired: self.trouble.is_damaged && !self.truth.half_grown && self.trouble.copy.is_none(),
        };
        if shared.planted == Some(Planted::ForceWithoutRecord) && !self.truth.raw.is_empty() {
            self.forge_record(shared)?;
        }
        let request = self.stage_request(shared, spoilt);
        let what = if spoilt { "stage with a bad argument" } else { "stage" };
        let mut answer =
            self.call(shared, leave, what, async move |mut client| client.node_stage_volume(request).await).await;
        if shared.planted == Some(Planted::GrowthDecidesAccess) && self.growth_fails && answer == Answer::Done {
            answer = Answer::Refused(Refusal::Failed, "planted: the file system has not grown".to_owned());
            self.tell(shared, "planted: NodeStageVolume fails because the file system has not grown");
        }
        if self.kills(shared) == before.kills {
            self.look_at_code(shared, &answer).await?;
        }
        match &answer {
            Answer::Done => self.staged(shared, &before).await?,
            Answer::Refused(refusal, why) => self.not_staged(shared, &before, *refusal, why),
            Answer::Unknown(_) => {
                self.truth.refused = false;
                self.truth.unclear |= !self.truth.has_file_system;
                self.truth.half_grown |= self.may_have_grown();
            }
        }
        self.look_at_raw(shared, before.cuts).await?;
        Ok(answer)
    }

    async fn staged(&mut self, shared: &Shared, before: &Before) -> anyhow::Result<()> {
        let (cuts, staging) = (before.cuts, self.node(shared).staging(&self.id));
        let was_lost = !self.truth.unflushed.is_empty() && self.has_power(shared, cuts);
        if !self.truth.raw.is_empty() || was_lost {
            self.broken(shared, "a volume with raw data on it was staged: it was formatted over");
        }
        if !self.node(shared).is_file_system_at(&staging).await? && self.has_power(shared, cuts) {
            self.broken(shared, "NodeStageVolume succeeded, but nothing is mounted");
        }
        self.look_whose_disk_is_at(shared, &staging, cuts).await?;
        shared.count("completed NodeStageVolume calls");
        self.truth.has_file_system = true;
        (self.truth.unclear, self.truth.half, self.truth.half_by_cut) = (false, false, false);
        (self.truth.refused, self.truth.half_grown, self.truth.maybe_raw) = (false, false, false);
        self.look_at_staged(shared, cuts, before.was_used).await?;
        self.trouble.must_grow &= before.was_used || self.growth_fails;
        self.trouble.is_damaged = false;
        self.look_at_files(shared, staging, cuts).await;
        Ok(())
    }

    /// Returns whether NodeStageVolume may have grown a file system before it mounted it. This includes an enlarged
    /// disk, because a call whose answer was lost may have created the disk's file system.
    fn may_have_grown(&self) -> bool {
        self.truth.has_file_system || self.trouble.must_grow
    }

    fn not_staged(&mut self, shared: &Shared, before: &Before, refusal: Refusal, why: &str) {
        self.truth.refused = true;
        let tools_were_killed = before.tool_kills != self.node(shared).tool_kills.get();
        let is_struck = tools_were_killed || self.kills(shared) != before.kills || self.node(shared).has_orphans();
        if before.must_be_repaired && !is_struck && self.has_power(shared, before.cuts) {
            self.broken(shared, &format!("NodeStageVolume failed although e2fsck -p repairs the file system: {why}"));
        }
        if refusal == Refusal::Failed && before.spoilt && !tools_were_killed {
            // An mkfs that rejects its arguments ends on its own with an error, so the record is gone.
            self.truth.record_forgotten();
        } else if refusal == Refusal::Failed && !self.truth.has_file_system {
            // mkfs may have been killed, or its disk may have failed.
            self.truth.unclear = true;
            self.truth.half |= !tools_were_killed;
        }
        // After an interrupted growth, the driver checks the file system and returns the result of the check.
        self.truth.half_grown |= self.may_have_grown() && (tools_were_killed || refusal == Refusal::Failed);
        if shared.planted == Some(Planted::RecordOutlivesRefusal) && self.keeper.put_back() {
            self.tell(shared, "planted: the record of the rejected format is restored");
        }
    }

    /// Checks that NodeStageVolume does not return a final code while something is mounted. After a final code
    /// (`isFinalError` in the kubelet's `csi_client.go`), the kubelet detaches the volume without an unstage.
    async fn look_at_code(&self, shared: &Shared, answer: &Answer) -> anyhow::Result<()> {
        if let Answer::Refused(_, why) = answer
            && !self.node(shared).is_down.get()
            && self.is_staged(shared).await?
        {
            self.broken(shared, &format!("NodeStageVolume returned a final code while the volume is mounted: {why}"));
        }
        Ok(())
    }

    pub(crate) async fn publish(
        &mut self,
        shared: &Shared,
        raw: bool,
        leave: Option<Duration>,
    ) -> anyhow::Result<Answer> {
        let cuts = self.cuts(shared);
        let request = self.publish_request(shared, raw);
        let what = if raw { "publish raw" } else { "publish" };
        let staging = self.node(shared).staging(&self.id);
        let target = self.node(shared).target(&self.id);
        // A repeated call changes nothing for a pod that already has the file system.
        let is_new = !raw && self.node(shared).mounts_at(&target).await?.is_empty();
        let was_read_only = is_new && self.is_read_only_at(shared, &staging).await?;
        let mut answer =
            self.call(shared, leave, what, async move |mut client| client.node_publish_volume(request).await).await;
        if raw && answer != Answer::Done {
            // The driver may have removed the format record before the call failed.
            self.truth.half |= self.truth.unclear;
        }
        let is_refused = matches!(answer, Answer::Refused(..));
        if shared.planted == Some(Planted::ReadOnlyPublished) && is_refused && was_read_only {
            self.bind_read_only(shared, &staging)?;
            answer = Answer::Done;
        }
        if answer != Answer::Done {
            return Ok(answer);
        }
        if raw {
            self.truth.record_forgotten();
            let is_published = self.is_raw_published(shared).await?;
            let raw_target = self.node(shared).raw_target(&self.id);
            self.look_whose_disk_is_at(shared, &raw_target, cuts).await?;
            if !is_published && self.has_power(shared, cuts) {
                self.broken(shared, "NodePublishVolume succeeded, but the target is not a device");
            }
            if shared.planted == Some(Planted::RecordOutlivesRawPublish) && self.keeper.put_back() {
                self.tell(shared, "planted: the record of the interrupted format is restored");
            }
        } else {
            if !self.node(shared).is_file_system_at(&target).await? && self.has_power(shared, cuts) {
                self.broken(shared, "NodePublishVolume succeeded, but nothing is mounted at the target");
            }
            let is_read_only = was_read_only && self.is_read_only_at(shared, &target).await?;
            if is_read_only && self.has_power(shared, cuts) {
                self.broken(shared, "a file system that the kernel made read-only was published for writing");
            }
            self.trouble.is_read_only &= is_read_only || !is_new;
            self.look_at_files(shared, target, cuts).await;
        }
        Ok(answer)
    }

    /// Planted bug: binds the staged file system to the target, whatever its state.
    fn bind_read_only(&self, shared: &Shared, staging: &Path) -> anyhow::Result<()> {
        let target = self.node(shared).target(&self.id);
        self.tell(shared, "planted: NodePublishVolume uses a read-only file system");
        std::fs::create_dir_all(&target)?;
        Ok(mount_bind(staging, &target)?)
    }

    /// Returns whether the volume is mounted or bound at one of its targets.
    async fn is_published(&self, shared: &Shared) -> anyhow::Result<bool> {
        let target = self.node(shared).target(&self.id);
        Ok(self.is_raw_published(shared).await? || self.node(shared).is_file_system_at(&target).await?)
    }

    pub(crate) async fn is_raw_published(&self, shared: &Shared) -> anyhow::Result<bool> {
        let node = self.node(shared);
        Ok(!node.mounts_at(&node.raw_target(&self.id)).await?.is_empty())
    }

    /// Enlarges the disk during other work, as EC2 can do.
    pub(crate) async fn enlarge(&mut self, shared: &Shared) -> anyhow::Result<()> {
        let by = if self.fs_type == "xfs" { 40 * MIB } else { 8 * MIB + self.rng.below(24) * MIB };
        if self.bytes + by > MOST_BYTES || !self.truth.raw.is_empty() || !self.truth.unflushed.is_empty() {
            return Ok(());
        }
        self.bytes += by;
        self.trouble.must_grow = true;
        shared.disks.borrow_mut().resize(&self.id, self.bytes)?;
        if let Some(disk) = &self.disk {
            disk.look_again().await?;
        }
        // Enlarging the disk makes the format record invalid.
        self.truth.half |= self.truth.unclear;
        shared.count("grown disks");
        self.tell(shared, &format!("the disk has {} MiB", self.bytes / MIB));
        Ok(())
    }

    pub(crate) async fn expand(&mut self, shared: &Shared, leave: Option<Duration>) -> anyhow::Result<Answer> {
        let cuts = self.cuts(shared);
        let (staging, target) = (self.node(shared).staging(&self.id), self.node(shared).target(&self.id));
        let request = csi::NodeExpandVolumeRequest {
            volume_id: self.id.to_string(),
            volume_path: text(&target),
            staging_target_path: text(&staging),
            volume_capability: Some(Access::Mount(self.fs_type.to_owned()).capability()),
            ..Default::default()
        };
        let answer =
            self.call(shared, leave, "expand", async move |mut client| client.node_expand_volume(request).await).await;
        if answer == Answer::Done {
            shared.count("completed online growths");
            self.trouble.must_grow = false;
            self.look_at_files(shared, target, cuts).await;
        }
        Ok(answer)
    }
}

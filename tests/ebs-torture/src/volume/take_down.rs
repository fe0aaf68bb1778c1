//! The orchestrator's actions when no pod needs the volume any more: unpublish and unstage. Then EC2 detaches the
//! volume.

use std::os::unix::fs::FileExt;
use std::time::Duration;

use anyhow::Context;
use csi_proto::csi;

use super::Volume;
use super::requests::text;
use crate::calls::{Answer, Refusal};
use crate::planted::Planted;
use crate::shared::Shared;
use crate::truth::{Raw, is_free};

impl Volume {
    pub(crate) async fn unpublish(
        &mut self,
        shared: &Shared,
        raw: bool,
        leave: Option<Duration>,
    ) -> anyhow::Result<Answer> {
        let node = self.node(shared);
        let target = if raw { node.raw_target(&self.id) } else { node.target(&self.id) };
        let request = csi::NodeUnpublishVolumeRequest { volume_id: self.id.to_string(), target_path: text(&target) };
        let what = if raw { "unpublish raw" } else { "unpublish" };
        let answer =
            self.call(shared, leave, what, async move |mut client| client.node_unpublish_volume(request).await).await;
        if answer == Answer::Done && (target.exists() || !node.mounts_at(&target).await?.is_empty()) {
            self.broken(shared, "NodeUnpublishVolume succeeded, but the target still exists");
        }
        Ok(answer)
    }

    /// Repeats an interrupted unpublish, as a kubelet does before an unstage. Returns the answer of an unpublish that
    /// did not succeed.
    async fn repeat_unpublish(&mut self, shared: &Shared, leave: Option<Duration>) -> anyhow::Result<Option<Answer>> {
        for raw in [false, true] {
            let node = self.node(shared);
            let target = if raw { node.raw_target(&self.id) } else { node.target(&self.id) };
            if target.exists() && node.mounts_at(&target).await?.is_empty() {
                let answer = self.unpublish(shared, raw, leave).await?;
                if answer != Answer::Done {
                    return Ok(Some(answer));
                }
            }
        }
        Ok(None)
    }

    /// Unstages the volume. After a success, the torture attaches the disk again, to the same or another node.
    pub(crate) async fn unstage(&mut self, shared: &Shared, leave: Option<Duration>) -> anyhow::Result<Answer> {
        if let Some(unanswered) = self.repeat_unpublish(shared, leave).await? {
            return Ok(unanswered);
        }
        let (cuts, node) = (self.cuts(shared), self.node(shared));
        let (staging, target) = (node.staging(&self.id), node.target(&self.id));
        let was_published = node.is_file_system_at(&target).await? || self.is_raw_published(shared).await?;
        let request =
            csi::NodeUnstageVolumeRequest { volume_id: self.id.to_string(), staging_target_path: text(&staging) };
        let mut answer = self
            .call(shared, leave, "unstage", async move |mut client| client.node_unstage_volume(request).await)
            .await;
        if shared.planted == Some(Planted::UnstageIgnoresUses)
            && matches!(&answer, Answer::Refused(Refusal::Rule, why) if why.contains("still in use"))
        {
            self.tell(shared, "planted: NodeUnstageVolume succeeds");
            answer = Answer::Done;
        }
        if answer != Answer::Done {
            // The driver may have removed the format record before the call failed.
            self.truth.half |= self.truth.unclear;
            self.look_at_refusal(shared, &answer, was_published);
            return Ok(answer);
        }
        if self.node(shared).is_down.get() {
            // The power was cut after the response, so the disk is still attached when the node boots.
            self.truth.record_forgotten();
            return Ok(answer);
        }
        if was_published && self.has_power(shared, cuts) {
            self.broken(shared, "a volume that is still published was unstaged");
            return Ok(answer);
        }
        if !is_free(self.device()?).context("check whether the disk is in use")? {
            self.broken(shared, "NodeUnstageVolume succeeded, but the disk is still open");
            return Ok(answer);
        }
        self.truth.record_forgotten();
        if self.has_power(shared, cuts) {
            let flushed = self.truth.let_go();
            if shared.planted == Some(Planted::FlushLeftOut) {
                self.lose(shared, &flushed)?;
            }
        }
        self.trouble.end();
        self.truth.refused = false;
        if shared.planted == Some(Planted::MountStaysBehind) && self.truth.has_file_system {
            let stays = self.node(shared).directory().join(format!("stays-{}", self.index));
            std::fs::create_dir_all(&stays)?;
            rustix::mount::mount("none", &stays, "tmpfs", rustix::mount::MountFlags::empty(), None)?;
        }
        self.keeper.forget();
        self.move_on(shared).await?;
        Ok(answer)
    }

    /// Checks a failed NodeUnstageVolume: leftovers that no process uses must not keep the volume on the node.
    fn look_at_refusal(&self, shared: &Shared, answer: &Answer, was_published: bool) {
        let is_held = matches!(answer, Answer::Refused(Refusal::Rule, why) if why.contains("held"));
        if let Some(idle) = self.trouble.idle()
            && is_held
            && !was_published
            && !self.node(shared).has_orphans()
        {
            self.broken(shared, &format!("NodeUnstageVolume failed because of {idle}: {answer:?}"));
        }
    }

    /// Planted bug: undoes unflushed writes of a pod, as if they had not reached the disk when NodeUnstageVolume
    /// returned.
    fn lose(&self, shared: &Shared, unflushed: &[Raw]) -> anyhow::Result<()> {
        let backing = shared.disks.borrow().backing(&self.id, self.at);
        for raw in unflushed {
            self.tell(shared, "planted: NodeUnstageVolume does not flush");
            let disk = std::fs::File::options().write(true).open(&backing).context("open the disk's file")?;
            disk.write_all_at(&vec![0; raw.length], raw.offset).context("undo a write")?;
        }
        Ok(())
    }

    /// Moves the disk to some node. Data that the old node has not yet written to the disk is lost.
    async fn move_on(&mut self, shared: &Shared) -> anyhow::Result<()> {
        let place = &shared.places[self.index];
        // The disk may have lost power in the middle of its last write.
        let has_power = shared.disks.borrow_mut().has_power(&self.id)? && !place.is_dead.get();
        if has_power {
            shared.disks.borrow_mut().pull(&self.id)?;
        }
        self.detach(shared).await?;
        shared.disks.borrow_mut().plug(&self.id)?;
        let has_power = has_power && shared.disks.borrow_mut().has_power(&self.id)?;
        if place.is_dead.replace(false) || !has_power {
            shared.disks.borrow_mut().power_on(&self.id)?;
            self.truth.power_lost();
            self.tell(shared, "the disk regains power");
        }
        let nodes = shared.nodes.len() as u64;
        let to = usize::try_from(self.rng.below(nodes)).unwrap_or(0);
        if to != self.at {
            shared.count("moves to another node");
        }
        self.attach(shared, to).await?;
        let cuts = self.cuts(shared);
        self.look_at_raw(shared, cuts).await
    }
}

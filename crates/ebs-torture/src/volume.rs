//! One volume of a cycle: what an orchestrator, a pod and a stranger do with it, and what is known afterwards.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use csi_proto::csi;
use csi_proto::csi::node_client::NodeClient;
use ebs_testkit::csi_client::Access;
use ebs_testkit::cut_disk::Attached;
use ebs_types::{SplitMix64, VolumeId};
use rustix::fs::makedev;
use tonic::transport::Channel;

use crate::calls::{Answer, Refusal, call};
use crate::faults::up_to;
use crate::node::Node;
use crate::planted::{Keeper, Planted, record_of};
use crate::shared::Shared;
use crate::step::Step;
use crate::truth::{Truth, is_free, missing_below, missing_on};

mod requests;

use requests::text;

pub(crate) const MIB: u64 = 1 << 20;
const MOST_BYTES: u64 = 512 * MIB;

#[derive(Debug)]
pub(crate) struct Volume {
    /// Which of the cycle's volumes it is.
    pub(crate) index: usize,
    pub(crate) id: VolumeId,
    pub(crate) fs_type: &'static str,
    pub(crate) bytes: u64,
    /// The node that it is attached to.
    pub(crate) at: usize,
    /// `None` only while it moves.
    pub(crate) disk: Option<Attached>,
    /// Times of attachment differ; so does every attachment's.
    pub(crate) attachments: u32,
    pub(crate) truth: Truth,
    pub(crate) keeper: Keeper,
    is_raw: bool,
    pub(crate) rng: SplitMix64,
}

impl Volume {
    /// A volume, attached to the first node.
    pub(crate) async fn new(index: usize, id: VolumeId, shared: &Shared, mut rng: SplitMix64) -> anyhow::Result<Self> {
        // mkfs.xfs takes nothing below 300 MiB.
        let (fs_type, bytes) = match rng.below(100) {
            0..58 => ("ext4", (16 + rng.below(48)) * MIB),
            58..72 => ("ext3", (16 + rng.below(48)) * MIB),
            _ => ("xfs", (304 + rng.below(64)) * MIB),
        };
        let (can_zero, is_raw) = (rng.below(2) == 0, rng.below(4) == 0);
        shared.disks.borrow_mut().add(&id, bytes, can_zero)?;
        shared.tell(format!("volume {index}: a blank disk of {} MiB for {fs_type}", bytes / MIB));
        let mut volume = Self {
            index,
            id,
            fs_type,
            bytes,
            at: 0,
            disk: None,
            attachments: 0,
            truth: Truth::default(),
            keeper: Keeper::default(),
            is_raw,
            rng,
        };
        volume.attach(shared, 0).await?;
        Ok(volume)
    }

    pub(crate) fn node<'a>(&self, shared: &'a Shared) -> &'a Node {
        &shared.nodes[self.at]
    }

    pub(crate) fn device(&self) -> anyhow::Result<&Path> {
        Ok(self.disk.as_ref().context("the disk is attached nowhere")?.path())
    }

    pub(crate) fn tell(&self, shared: &Shared, line: &str) {
        shared.tell(format!("volume {} on node {}: {line}", self.index, self.at));
    }

    pub(crate) fn broken(&self, shared: &Shared, rule: &str) {
        shared.broken(format!("volume {} ({}): {rule}", self.index, self.fs_type));
    }

    /// Whether its disk can be looked at: a power cut makes every look worthless.
    pub(crate) fn has_power(&self, shared: &Shared, cuts_before: u64) -> bool {
        let place = &shared.places[self.index];
        let has_struck = || shared.armed.get() == Some(self.index) && shared.has_struck();
        place.cuts.get() == cuts_before && !place.is_dead.get() && !self.node(shared).is_down.get() && !has_struck()
    }

    pub(crate) fn cuts(&self, shared: &Shared) -> u64 {
        shared.places[self.index].cuts.get()
    }

    pub(crate) async fn attach(&mut self, shared: &Shared, node: usize) -> anyhow::Result<()> {
        let backing = shared.disks.borrow().backing(&self.id, node);
        self.disk = Some(Attached::new(backing).await.context("attach the disk")?);
        self.at = node;
        self.attachments += 1;
        shared.places[self.index].at.set(Some(node));
        Ok(())
    }

    /// After a power cut the same attachment goes on, as EC2 sees it.
    pub(crate) async fn attach_after_boot(&mut self, shared: &Shared) -> anyhow::Result<()> {
        self.attach(shared, self.at).await?;
        self.attachments -= 1;
        Ok(())
    }

    pub(crate) async fn detach(&mut self, shared: &Shared) -> anyhow::Result<()> {
        shared.places[self.index].at.set(None);
        match self.disk.take() {
            Some(disk) => disk.detach().await.context("detach the disk"),
            None => Ok(()),
        }
    }

    /// One step by the rng, with the client leaving in the middle of some.
    pub(crate) async fn step(&mut self, shared: &Shared) -> anyhow::Result<()> {
        let mut step = Step::any(&mut self.rng, self.is_raw, self.truth.has_file_system);
        for _ in 0..6 {
            if self.makes_sense(shared, step).await? {
                break;
            }
            step = Step::any(&mut self.rng, self.is_raw, self.truth.has_file_system);
        }
        shared.count("steps");
        let leave = |rng: &mut SplitMix64, millis| (rng.below(100) < 8).then(|| up_to(rng, millis));
        match step {
            Step::Stage { spoilt } => {
                let leave = leave(&mut self.rng, 100);
                self.stage(shared, spoilt, leave).await.map(drop)
            }
            Step::Publish { raw } => {
                let leave = leave(&mut self.rng, 20);
                self.publish(shared, raw, leave).await.map(drop)
            }
            Step::Unpublish { raw } => {
                let leave = leave(&mut self.rng, 20);
                self.unpublish(shared, raw, leave).await.map(drop)
            }
            Step::Unstage => {
                let leave = leave(&mut self.rng, 20);
                self.unstage(shared, leave).await.map(drop)
            }
            Step::WriteFile => self.write_file(shared, true).await,
            Step::WriteWithoutSync => self.write_file(shared, false).await,
            Step::WriteRaw => self.write_raw(shared).await,
            Step::WriteForeign => self.write_foreign(shared).await,
            Step::Enlarge => self.enlarge(shared).await,
            Step::Expand => {
                let leave = leave(&mut self.rng, 20);
                self.expand(shared, leave).await.map(drop)
            }
        }
    }

    /// False for steps that nobody can take now.
    async fn makes_sense(&self, shared: &Shared, step: Step) -> anyhow::Result<bool> {
        let node = self.node(shared);
        match step {
            Step::WriteFile | Step::WriteWithoutSync | Step::Expand | Step::Unpublish { raw: false } => {
                node.is_file_system_at(&node.target(&self.id)).await
            }
            Step::WriteRaw | Step::Unpublish { raw: true } => self.is_raw_published(shared).await,
            Step::WriteForeign => Ok(self.truth.refused && self.may_write_raw()?),
            Step::Publish { raw: false } => node.is_file_system_at(&node.staging(&self.id)).await,
            Step::Publish { raw: true } => Ok(!self.truth.has_file_system),
            _ => Ok(true),
        }
    }

    /// A call of the service of its node.
    async fn call<T, F>(
        &mut self,
        shared: &Shared,
        leave: Option<Duration>,
        what: &str,
        request: impl FnOnce(NodeClient<Channel>) -> F,
    ) -> Answer
    where
        F: Future<Output = Result<T, tonic::Status>>,
    {
        let node = self.node(shared);
        let record = record_of(&node.state(), &self.id);
        let answer = match node.client() {
            Some(client) => call(leave, &mut self.keeper, &record, request(client)).await,
            None => Answer::Unknown("no service runs".to_owned()),
        };
        self.tell(shared, &format!("{what}: {answer:?}"));
        answer
    }

    pub(crate) async fn stage(
        &mut self,
        shared: &Shared,
        spoilt: bool,
        leave: Option<Duration>,
    ) -> anyhow::Result<Answer> {
        let (cuts, kills) = (self.cuts(shared), self.node(shared).tool_kills.get());
        if shared.planted == Some(Planted::ForceWithoutRecord) && !self.truth.raw.is_empty() {
            self.forge_record(shared)?;
        }
        let request = self.stage_request(shared, spoilt);
        let what = if spoilt { "stage with a bad argument" } else { "stage" };
        let answer =
            self.call(shared, leave, what, async move |mut client| client.node_stage_volume(request).await).await;
        let staging = self.node(shared).staging(&self.id);
        match &answer {
            Answer::Done => {
                if !self.truth.raw.is_empty() {
                    self.broken(shared, "a volume with raw data on it was staged: it was formatted over");
                }
                if !self.node(shared).is_file_system_at(&staging).await? && self.has_power(shared, cuts) {
                    self.broken(shared, "stage says that it is done, and nothing is mounted");
                }
                self.look_whose_disk_is_at(shared, &staging, cuts).await?;
                shared.count("stages done");
                self.truth.has_file_system = true;
                (self.truth.unclear, self.truth.half, self.truth.half_by_cut) = (false, false, false);
                (self.truth.refused, self.truth.half_grown, self.truth.maybe_raw) = (false, false, false);
                self.look_at_files(shared, staging, cuts).await;
            }
            Answer::Refused(refusal, _) => {
                self.truth.refused = true;
                let tools_were_killed = kills != self.node(shared).tool_kills.get();
                if *refusal == Refusal::Failed && spoilt && !tools_were_killed {
                    // An mkfs that refuses its arguments has ended by itself with an error: its record is gone.
                    self.truth.record_forgotten();
                } else if *refusal == Refusal::Failed && !self.truth.has_file_system {
                    // It may be an mkfs that was killed, or one whose disk has failed it.
                    self.truth.unclear = true;
                    self.truth.half |= !tools_were_killed;
                }
                self.truth.half_grown |= self.truth.has_file_system && *refusal == Refusal::Failed;
                if shared.planted == Some(Planted::RecordOutlivesRefusal) && self.keeper.put_back() {
                    self.tell(shared, "planted: the record of the refused format is back");
                }
            }
            Answer::Unknown(_) => {
                self.truth.refused = false;
                self.truth.unclear |= !self.truth.has_file_system;
                self.truth.half_grown |= self.truth.has_file_system;
            }
        }
        self.look_at_raw(shared, cuts).await?;
        Ok(answer)
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
        let answer =
            self.call(shared, leave, what, async move |mut client| client.node_publish_volume(request).await).await;
        if raw && answer != Answer::Done {
            // It may have got as far as forgetting the record.
            self.truth.half |= self.truth.unclear;
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
                self.broken(shared, "publish says that it is done, and no device is at the target");
            }
            if shared.planted == Some(Planted::RecordOutlivesRawPublish) && self.keeper.put_back() {
                self.tell(shared, "planted: the record of the interrupted format is back");
            }
        } else {
            let target = self.node(shared).target(&self.id);
            if !self.node(shared).is_file_system_at(&target).await? && self.has_power(shared, cuts) {
                self.broken(shared, "publish says that it is done, and nothing is mounted at the target");
            }
            self.look_at_files(shared, target, cuts).await;
        }
        Ok(answer)
    }

    /// What is mounted or bound at a path must be this volume's disk.
    async fn look_whose_disk_is_at(&self, shared: &Shared, at: &Path, cuts: u64) -> anyhow::Result<()> {
        let own = self.device()?.metadata().context("the disk's number")?.rdev();
        let shown = self.node(shared).mounts_at(at).await?.last().cloned();
        let number = match shown {
            Some(entry) if entry.device.major != 0 => Some(makedev(entry.device.major, entry.device.minor)),
            // A device node is bound there.
            Some(_) => at.metadata().ok().map(|node| node.rdev()),
            None => None,
        };
        if number.is_some_and(|number| number != own) && self.has_power(shared, cuts) {
            self.broken(shared, &format!("another disk is shown at {}", at.display()));
        }
        Ok(())
    }

    pub(crate) async fn is_raw_published(&self, shared: &Shared) -> anyhow::Result<bool> {
        let node = self.node(shared);
        Ok(!node.mounts_at(&node.raw_target(&self.id)).await?.is_empty())
    }

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
            self.broken(shared, "unpublish says that it is done, and the target is still there");
        }
        Ok(answer)
    }

    /// A kubelet unstages only what it has unpublished: where a publish or an unpublish was broken off between the mount and its
    /// place, it repeats the unpublish first. What that came to, if it is not done.
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

    /// After a success the disk is detached at once, as EC2 would, and attached anew, here or to another node.
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
            self.tell(shared, "planted: unstage says that it is done");
            answer = Answer::Done;
        }
        if answer != Answer::Done {
            // It may have got as far as forgetting the record.
            self.truth.half |= self.truth.unclear;
            return Ok(answer);
        }
        if self.node(shared).is_down.get() {
            // The power went after the answer; the node comes back with the disk.
            self.truth.record_forgotten();
            return Ok(answer);
        }
        if was_published && self.has_power(shared, cuts) {
            self.broken(shared, "a volume that is still published was unstaged");
            return Ok(answer);
        }
        if !is_free(self.device()?).context("look at the disk")? {
            self.broken(shared, "unstage says that it is done, and somebody holds the disk");
            return Ok(answer);
        }
        self.truth.record_forgotten();
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

    /// Detaches the disk and attaches it to some node.
    async fn move_on(&mut self, shared: &Shared) -> anyhow::Result<()> {
        self.detach(shared).await?;
        let place = &shared.places[self.index];
        // It may have lost it in the middle of the last write.
        let has_power = shared.disks.borrow_mut().has_power(&self.id)?;
        if place.is_dead.replace(false) || !has_power {
            shared.disks.borrow_mut().power_on(&self.id)?;
            self.truth.power_lost();
            self.tell(shared, "the disk has power again");
        } else {
            shared.disks.borrow_mut().flush(&self.id)?;
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

    pub(crate) async fn look_at_files(&self, shared: &Shared, mount: PathBuf, cuts: u64) {
        let missing = missing_below(&self.truth.files, mount.clone()).await;
        if !missing.is_empty() && self.has_power(shared, cuts) {
            self.broken(shared, &format!("acknowledged data is lost: {missing:?} below {}", mount.display()));
        }
    }

    pub(crate) async fn look_at_raw(&self, shared: &Shared, cuts: u64) -> anyhow::Result<()> {
        if self.truth.raw.is_empty() {
            return Ok(());
        }
        let missing = missing_on(&self.truth.raw, self.device()?.to_owned()).await;
        if !self.has_power(shared, cuts) {
            return Ok(());
        }
        let missing = missing.context("read the device")?;
        if !missing.is_empty() {
            self.broken(shared, &format!("data on the raw device is lost at {missing:?}"));
        }
        Ok(())
    }

    /// EC2 makes the disk larger, under whatever goes on.
    async fn enlarge(&mut self, shared: &Shared) -> anyhow::Result<()> {
        let by = if self.fs_type == "xfs" { 40 * MIB } else { 8 * MIB + self.rng.below(24) * MIB };
        if self.bytes + by > MOST_BYTES || !self.truth.raw.is_empty() {
            return Ok(());
        }
        self.bytes += by;
        shared.disks.borrow_mut().resize(&self.id, self.bytes)?;
        if let Some(disk) = &self.disk {
            disk.look_again().await?;
        }
        // A record is of a disk of this size.
        self.truth.half |= self.truth.unclear;
        shared.count("disks made larger");
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
            shared.count("growths under a mount done");
            self.look_at_files(shared, target, cuts).await;
        }
        Ok(answer)
    }
}

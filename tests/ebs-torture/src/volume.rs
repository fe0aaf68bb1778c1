//! One volume of a cycle: the actions of an orchestrator, a pod and another program on it, and its expected state
//! afterwards.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use csi_proto::csi::node_client::NodeClient;
use ebs_ec2::{SplitMix64, VolumeId};
use rustix::fs::makedev;
use tonic::transport::Channel;

use crate::calls::{Answer, call};
use crate::cut_disk::Attached;
use crate::faults::up_to;
use crate::node::Node;
use crate::planted::{Keeper, record_of};
use crate::shared::Shared;
use crate::step::Step;
use crate::trouble::Trouble;
use crate::truth::{Truth, missing_below, missing_on};

mod bring_up;
mod disturb;
mod requests;
mod take_down;

pub(crate) const MIB: u64 = 1 << 20;
const MOST_BYTES: u64 = 512 * MIB;

#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) index: usize,
    pub(crate) id: VolumeId,
    pub(crate) fs_type: &'static str,
    pub(crate) bytes: u64,
    pub(crate) at: usize,
    /// The attached disk; `None` only while it moves.
    pub(crate) disk: Option<Attached>,
    /// Number of attachments so far. Each has a different attach time.
    pub(crate) attachments: u32,
    pub(crate) truth: Truth,
    pub(crate) keeper: Keeper,
    pub(crate) trouble: Trouble,
    /// True while the tools that grow file systems fail.
    pub(crate) growth_fails: bool,
    is_raw: bool,
    pub(crate) rng: SplitMix64,
}

impl Volume {
    pub(crate) async fn new(index: usize, id: VolumeId, shared: &Shared, mut rng: SplitMix64) -> anyhow::Result<Self> {
        // mkfs.xfs requires at least 300 MiB.
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
            trouble: Trouble::default(),
            growth_fails: false,
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
        Ok(self.disk.as_ref().context("the disk is not attached")?.path())
    }

    pub(crate) fn tell(&self, shared: &Shared, line: &str) {
        shared.tell(format!("volume {} on node {}: {line}", self.index, self.at));
    }

    pub(crate) fn broken(&self, shared: &Shared, rule: &str) {
        shared.broken(format!("volume {} ({}): {rule}", self.index, self.fs_type));
    }

    /// Returns whether the disk has had power since `cuts_before`. If not, a read proves nothing.
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

    /// Attaches the disk after a power cut of its node. For EC2, it is still the same attachment.
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

    /// Makes a random step. In some steps, the client disconnects before the response.
    pub(crate) async fn step(&mut self, shared: &Shared) -> anyhow::Result<()> {
        let mut step = Step::Stage { spoilt: false };
        for _ in 0..7 {
            let next = Step::any(&mut self.rng, self.is_raw, self.truth.has_file_system);
            if self.makes_sense(shared, next).await? {
                step = next;
                break;
            }
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
            Step::WriteRaw { synced } => self.write_raw(shared, synced).await,
            Step::WriteForeign => self.write_foreign(shared).await,
            Step::Enlarge => self.enlarge(shared).await,
            Step::Expand => {
                let leave = leave(&mut self.rng, 20);
                self.expand(shared, leave).await.map(drop)
            }
            Step::StageWithoutGrowth => self.stage_without_growth(shared).await,
            Step::Freeze => self.freeze(shared).await,
            Step::CopyMounts { is_open } => self.copy_mounts(shared, is_open),
            Step::Damage => self.damage(shared),
            Step::KernelError => self.kernel_finds_error(shared).await,
        }
    }

    async fn makes_sense(&self, shared: &Shared, step: Step) -> anyhow::Result<bool> {
        let node = self.node(shared);
        let (is_frozen, is_read_only) = (self.trouble.is_frozen, self.trouble.is_read_only);
        match step {
            // A write to a frozen file system waits for the thaw, and no process would thaw it.
            Step::WriteFile | Step::WriteWithoutSync | Step::Expand | Step::Enlarge | Step::StageWithoutGrowth
                if is_frozen =>
            {
                Ok(false)
            }
            Step::WriteFile | Step::WriteWithoutSync | Step::StageWithoutGrowth if is_read_only => Ok(false),
            Step::WriteFile | Step::WriteWithoutSync | Step::Expand | Step::Unpublish { raw: false } => {
                node.is_file_system_at(&node.target(&self.id)).await
            }
            Step::WriteRaw { .. } | Step::Unpublish { raw: true } => self.is_raw_published(shared).await,
            Step::WriteForeign => Ok(self.truth.refused && self.may_write_raw()?),
            Step::Publish { raw: false } => node.is_file_system_at(&node.staging(&self.id)).await,
            Step::Publish { raw: true } => Ok(!self.truth.has_file_system),
            Step::StageWithoutGrowth => Ok(self.truth.has_file_system && !shared.places[self.index].is_dead.get()),
            Step::Freeze => {
                let may_freeze =
                    shared.armed.get() != Some(self.index) && !is_frozen && !is_read_only && !self.trouble.must_grow;
                Ok(may_freeze
                    && self.has_power(shared, self.cuts(shared))
                    && node.is_file_system_at(&node.target(&self.id)).await?)
            }
            Step::CopyMounts { .. } => {
                Ok(self.trouble.copy.is_none() && node.is_file_system_at(&node.staging(&self.id)).await?)
            }
            Step::Damage => self.may_be_damaged(shared).await,
            Step::KernelError => {
                let may_fail = self.is_ext() && !is_frozen && !is_read_only;
                Ok(may_fail
                    && self.has_power(shared, self.cuts(shared))
                    && node.is_file_system_at(&node.staging(&self.id)).await?)
            }
            _ => Ok(true),
        }
    }

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

    /// Checks that the mount or bind at a path is this volume's disk.
    async fn look_whose_disk_is_at(&self, shared: &Shared, at: &Path, cuts: u64) -> anyhow::Result<()> {
        let own = self.device()?.metadata().context("read the disk's number")?.rdev();
        let shown = self.node(shared).mounts_at(at).await?.last().cloned();
        let number = match shown {
            Some(entry) if entry.device.major != 0 => Some(makedev(entry.device.major, entry.device.minor)),
            // A device node is bound to the path.
            Some(_) => at.metadata().ok().map(|node| node.rdev()),
            None => None,
        };
        if number.is_some_and(|number| number != own) && self.has_power(shared, cuts) {
            self.broken(shared, &format!("another disk is at {}", at.display()));
        }
        Ok(())
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
}

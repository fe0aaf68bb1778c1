//! The steps of a cycle: what an orchestrator, a pod and a stranger do, and what is known afterwards.

use anyhow::Context;
use ebs_testkit::content;

use crate::calls::{Answer, Refusal, call};
use crate::cycle::Cycle;
use crate::faults::{self, Fault};
use crate::planted::Planted;
use crate::truth::{Kept, Raw, has_magic, is_free};

/// The parts of a disk of which a proof of blankness reads every byte.
const READ_WHOLE: u64 = 1 << 20;

/// What may be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Stage { spoilt: bool },
    Publish { raw: bool },
    WriteFile,
    WriteRaw,
    WriteForeign,
    Unpublish { raw: bool },
    Unstage,
    Restart,
}

impl Cycle {
    /// A step by the rng, of those that an orchestrator or a stranger could do now.
    pub(crate) fn choose(&mut self) -> Step {
        let all = [
            (22, Step::Stage { spoilt: false }),
            (8, Step::Stage { spoilt: true }),
            (14, Step::Publish { raw: false }),
            (9, Step::Publish { raw: true }),
            (14, Step::WriteFile),
            (10, Step::WriteRaw),
            (12, Step::WriteForeign),
            (8, Step::Unpublish { raw: false }),
            (10, Step::Unpublish { raw: true }),
            (10, Step::Unstage),
            (3, Step::Restart),
        ];
        let mut left = self.rng.below(all.iter().map(|(weight, _)| weight).sum());
        for (weight, step) in all {
            if left < weight {
                return step;
            }
            left -= weight;
        }
        Step::Restart
    }

    pub(crate) async fn step(&mut self, step: Step) -> anyhow::Result<()> {
        match step {
            Step::Stage { spoilt } => {
                let fault = Fault::any(&mut self.rng);
                self.stage(spoilt, fault).await.map(drop)
            }
            Step::Publish { raw } => {
                let fault = Fault::short(&mut self.rng);
                self.publish(raw, fault).await.map(drop)
            }
            Step::Unpublish { raw } => {
                let fault = Fault::short(&mut self.rng);
                self.unpublish(raw, fault).await.map(drop)
            }
            Step::Unstage => {
                let fault = Fault::short(&mut self.rng);
                self.unstage(fault).await.map(drop)
            }
            Step::WriteFile => self.write_file().await,
            Step::WriteRaw => self.write_raw().await,
            Step::WriteForeign => self.write_foreign().await,
            Step::Restart => {
                self.tell("kill -9 of the idle service");
                faults::kill(&mut self.world, false)?;
                self.world.start().await
            }
        }
    }

    pub(crate) async fn stage(&mut self, spoilt: bool, fault: Fault) -> anyhow::Result<Answer> {
        let (mut client, request) = (self.world.client()?, self.world.stage_request(spoilt));
        let answer = call(&mut self.world, fault, &mut self.keeper, client.node_stage_volume(request)).await?;
        self.tell(format!("stage{} with {fault:?}: {answer:?}", if spoilt { " with a bad argument" } else { "" }));
        let staging = self.world.staging();
        match &answer {
            Answer::Done => {
                if !self.truth.raw.is_empty() {
                    self.broken("a volume with raw data on it was staged: it was formatted over");
                }
                if !self.world.is_file_system_at(&staging).await? {
                    self.broken("stage says that it is done, and nothing is mounted");
                }
                self.truth.has_file_system = true;
                (self.truth.unclear, self.truth.half, self.truth.refused) = (false, false, false);
                self.look_at_files(&staging);
            }
            Answer::Refused(refusal, _) => {
                self.truth.refused = true;
                // An mkfs that refuses its arguments has ended by itself with an error: its record is gone.
                if *refusal == Refusal::Failed && spoilt {
                    self.truth.record_forgotten();
                }
                if self.planted == Some(Planted::RecordOutlivesRefusal) && self.keeper.put_back() {
                    self.tell("planted: the record of the refused format is back");
                }
            }
            Answer::Unknown(_) => {
                self.truth.refused = false;
                self.truth.unclear |= !self.truth.has_file_system;
            }
        }
        self.look_at_raw()?;
        Ok(answer)
    }

    pub(crate) async fn publish(&mut self, raw: bool, fault: Fault) -> anyhow::Result<Answer> {
        let (mut client, request) = (self.world.client()?, self.world.publish_request(raw));
        let answer = call(&mut self.world, fault, &mut self.keeper, client.node_publish_volume(request)).await?;
        self.tell(format!("publish{} with {fault:?}: {answer:?}", if raw { " raw" } else { "" }));
        if raw && answer != Answer::Done {
            // It may have got as far as forgetting the record.
            self.truth.half |= self.truth.unclear;
        }
        if answer != Answer::Done {
            return Ok(answer);
        }
        if raw {
            self.truth.record_forgotten();
            if !self.world.is_raw_published().await? {
                self.broken("publish says that it is done, and no device is at the target");
            }
            if self.planted == Some(Planted::RecordOutlivesRawPublish) && self.keeper.put_back() {
                self.tell("planted: the record of the interrupted format is back");
            }
        } else {
            let target = self.world.target();
            if !self.world.is_file_system_at(&target).await? {
                self.broken("publish says that it is done, and nothing is mounted at the target");
            }
            self.look_at_files(&target);
        }
        Ok(answer)
    }

    pub(crate) async fn unpublish(&mut self, raw: bool, fault: Fault) -> anyhow::Result<Answer> {
        let (mut client, request) = (self.world.client()?, self.world.unpublish_request(raw));
        let answer = call(&mut self.world, fault, &mut self.keeper, client.node_unpublish_volume(request)).await?;
        self.tell(format!("unpublish{} with {fault:?}: {answer:?}", if raw { " raw" } else { "" }));
        let target = if raw { self.world.raw_target() } else { self.world.target() };
        if answer == Answer::Done && (target.exists() || !self.world.mounts_at(&target).await?.is_empty()) {
            self.broken("unpublish says that it is done, and the target is still there");
        }
        Ok(answer)
    }

    /// After a success the disk is detached at once, as EC2 would, and attached anew.
    pub(crate) async fn unstage(&mut self, fault: Fault) -> anyhow::Result<Answer> {
        let was_published =
            self.world.is_file_system_at(&self.world.target()).await? || self.world.is_raw_published().await?;
        let (mut client, request) = (self.world.client()?, self.world.unstage_request());
        let answer = call(&mut self.world, fault, &mut self.keeper, client.node_unstage_volume(request)).await?;
        self.tell(format!("unstage with {fault:?}: {answer:?}"));
        if answer != Answer::Done {
            // It may have got as far as forgetting the record.
            self.truth.half |= self.truth.unclear;
            return Ok(answer);
        }
        if was_published {
            self.broken("a volume that is still published was unstaged");
        }
        if !is_free(self.world.disk.path()).context("look at the disk")? {
            self.broken("unstage says that it is done, and somebody holds the disk");
        }
        self.truth.record_forgotten();
        self.truth.refused = false;
        if self.planted == Some(Planted::MountStaysBehind) && self.truth.has_file_system {
            let stays = self.world.directory().join("stays");
            std::fs::create_dir_all(&stays)?;
            rustix::mount::mount("none", &stays, "tmpfs", rustix::mount::MountFlags::empty(), None)?;
        }
        self.keeper.forget();
        self.world.disk.attach_again().await.context("detach and attach the disk")?;
        self.world.attachments += 1;
        self.look_at_raw()?;
        Ok(answer)
    }

    /// A pod writes a file and syncs it.
    async fn write_file(&mut self) -> anyhow::Result<()> {
        let target = self.world.target();
        if self.truth.files.len() >= 24 || !self.world.is_file_system_at(&target).await? {
            return Ok(());
        }
        let (name, seed) = (format!("file-{}", self.truth.files.len()), self.rng.draw());
        let hash =
            content::write_file(&target.join(&name), seed, 1 + self.rng.below(60_000)).context("write a file")?;
        self.tell(format!("wrote {name}"));
        self.truth.files.push(Kept { name, hash });
        Ok(())
    }

    /// A pod writes to the raw device.
    async fn write_raw(&mut self) -> anyhow::Result<()> {
        if !self.world.is_raw_published().await? || !self.may_write_raw()? {
            return Ok(());
        }
        let target = self.world.raw_target();
        self.put(&target, "a pod").await
    }

    /// Somebody writes to the disk, after the driver has refused to use it.
    async fn write_foreign(&mut self) -> anyhow::Result<()> {
        if !self.truth.refused || !self.may_write_raw()? {
            return Ok(());
        }
        let device = self.world.disk.path().to_owned();
        self.put(&device, "somebody").await
    }

    /// Not under a file system, whole or half made, nor beside an mkfs: who does that has destroyed it himself. Nor while a
    /// broken-off mkfs has a record, which is leave to do it again.
    fn may_write_raw(&self) -> anyhow::Result<bool> {
        let device = self.world.disk.path();
        let quiet = !self.truth.has_file_system && !self.truth.unclear && self.truth.raw.len() < 8;
        Ok(quiet && is_free(device)? && !has_magic(device)?)
    }

    /// Bytes where a proof of blankness finds them for certain: in the first or the last MiB, or over two whole stretches.
    async fn put(&mut self, path: &std::path::Path, who: &str) -> anyhow::Result<()> {
        use std::os::unix::fs::FileExt;
        let bytes = content::size_of(self.world.disk.path())?;
        let stretch = bytes / 1024;
        let (offset, length) = match self.rng.below(3) {
            0 => (self.rng.below(READ_WHOLE / 512 - 8) * 512, 4096),
            1 => (bytes - READ_WHOLE + self.rng.below(READ_WHOLE / 512 - 8) * 512, 4096),
            _ => (READ_WHOLE + self.rng.below((bytes - 3 * READ_WHOLE - 2 * stretch) / 4096) * 4096, 2 * stretch),
        };
        let overlaps = |raw: &Raw| offset < raw.offset + raw.length as u64 && raw.offset < offset + length;
        if self.truth.raw.iter().any(overlaps) {
            return Ok(());
        }
        let raw = Raw { offset, length: usize::try_from(length)?, seed: self.rng.draw() };
        let device = std::fs::File::options().write(true).open(path).context("open the device")?;
        device.write_all_at(&raw.bytes(), offset).context("write to the device")?;
        device.sync_all().context("sync the device")?;
        self.tell(format!("{who} wrote {length} bytes at {offset} of the device"));
        self.truth.raw.push(raw);
        Ok(())
    }
}

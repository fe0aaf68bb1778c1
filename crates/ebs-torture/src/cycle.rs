//! One cycle: random steps with faults, then the end of all faults, and what must hold then.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use ebs_testkit::leftovers::Leftovers;
use ebs_testkit::loop_device::unused_volume_id;
use ebs_testkit::mount_namespace::in_mount_namespace;
use ebs_types::SplitMix64;
use tokio::time::Instant;

use crate::calls::{Answer, Refusal};
use crate::faults::{self, Fault};
use crate::planted::{Keeper, Planted};
use crate::truth::Truth;
use crate::world::World;

const MIB: u64 = 1 << 20;
/// How long the volume may take to be as it should be once the faults have ended.
const SETTLE: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_millis(50);

/// How to run a cycle.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program whose `serve` is the service: `ebs-torture` itself.
    pub program: PathBuf,
    /// A bug to plant.
    pub planted: Option<Planted>,
}

/// A rule that was broken.
#[derive(Debug, Clone)]
pub struct Failure {
    pub seed: u64,
    /// What does not hold.
    pub rule: String,
    /// What happened, step by step, and the end of the service's log.
    pub trace: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {}\n{}", self.seed, self.rule, self.trace)
    }
}

/// A cycle while it runs.
#[derive(Debug)]
pub(crate) struct Cycle {
    pub(crate) world: World,
    pub(crate) truth: Truth,
    pub(crate) rng: SplitMix64,
    pub(crate) keeper: Keeper,
    pub(crate) planted: Option<Planted>,
    trace: Vec<(String, usize)>,
    broken: Option<String>,
}

/// Runs one cycle in a mount namespace of its own. `None` when every rule holds.
///
/// # Panics
/// When this process is not root.
pub fn run(seed: u64, options: &Options) -> Option<Failure> {
    let found = Arc::new(Mutex::new(None));
    let (result, options) = (Arc::clone(&found), options.clone());
    in_mount_namespace(move || async move {
        let failure = whole(seed, &options).await;
        *result.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    });
    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
    found.take()
}

async fn whole(seed: u64, options: &Options) -> Option<Failure> {
    let mut cycle = match Cycle::new(seed, options) {
        Ok(cycle) => cycle,
        Err(error) => return Some(Failure { seed, rule: format!("{error:#}"), trace: String::new() }),
    };
    if let Err(error) = cycle.all().await {
        cycle.broken(format!("the cycle came to no end: {error:#}"));
    }
    let times =
        |(line, times): &(String, usize)| if *times == 1 { line.clone() } else { format!("{line} ({times} times)") };
    let lines: Vec<String> = cycle.trace.iter().map(times).collect();
    let trace = format!("  {}\nthe service's log:\n{}\n", lines.join("\n  "), cycle.world.log_tail());
    let rule = cycle.broken.take();
    let swept = cycle.sweep();
    rule.or(swept.err().map(|error| format!("{error:#}"))).map(|rule| Failure { seed, rule, trace })
}

impl Cycle {
    fn new(seed: u64, options: &Options) -> anyhow::Result<Self> {
        let mut rng = SplitMix64::new(seed);
        // mkfs.xfs takes nothing below 300 MiB.
        let (fs_type, bytes) = if rng.below(100) < 70 {
            ("ext4", (16 + rng.below(48)) * MIB)
        } else {
            ("xfs", (304 + rng.below(64)) * MIB)
        };
        let world = World::new(&options.program, unused_volume_id(), fs_type, bytes)?;
        let keeper = Keeper::new(&world.state());
        let blank = format!("a blank disk of {} MiB for {fs_type}, {}", bytes / MIB, world.disk.path().display());
        let trace = vec![(blank, 1)];
        Ok(Self { world, truth: Truth::default(), rng, keeper, planted: options.planted, trace, broken: None })
    }

    async fn all(&mut self) -> anyhow::Result<()> {
        self.world.start().await?;
        for _ in 0..8 + self.rng.below(16) {
            let step = self.choose();
            self.step(step).await?;
            if self.broken.is_some() {
                return Ok(());
            }
        }
        self.tell("the faults end");
        faults::kill(&mut self.world, false)?;
        self.world.start().await?;
        if !self.settle().await? || self.broken.is_some() {
            return Ok(());
        }
        self.take_down().await
    }

    pub(crate) fn tell(&mut self, line: impl Into<String>) {
        let line = line.into();
        match self.trace.last_mut() {
            // A call that is repeated until it is done, and is answered the same each time.
            Some((last, times)) if *last == line => *times += 1,
            _ => self.trace.push((line, 1)),
        }
    }

    /// A rule does not hold. The first one counts.
    pub(crate) fn broken(&mut self, rule: impl Into<String>) {
        let rule = rule.into();
        self.tell(format!("BROKEN: {rule}"));
        self.broken.get_or_insert(rule);
    }

    pub(crate) fn look_at_files(&mut self, mount: &Path) {
        let missing = self.truth.missing_below(mount);
        if !missing.is_empty() {
            self.broken(format!("acknowledged data is lost: {missing:?} below {}", mount.display()));
        }
    }

    pub(crate) fn look_at_raw(&mut self) -> anyhow::Result<()> {
        let missing = self.truth.missing_on(self.world.disk.path()).context("read the device")?;
        if !missing.is_empty() {
            self.broken(format!("data on the raw device is lost at {missing:?}"));
        }
        Ok(())
    }

    /// Without faults: the volume is staged and shows all its data, or is refused for what lies on it. False when it is
    /// not to be used any further.
    async fn settle(&mut self) -> anyhow::Result<bool> {
        self.until_done("unpublish raw", Self::unpublish_raw).await?;
        let mounted = self.world.is_file_system_at(&self.world.staging()).await?;
        if !mounted && !faults::orphans_have_ended(self.world.disk.path(), SETTLE).await? {
            self.broken("the disk is held by somebody although nothing is mounted and no fault goes on");
            return Ok(false);
        }
        let deadline = Instant::now() + SETTLE;
        loop {
            match self.stage(false, Fault::None).await? {
                Answer::Done => return self.use_it().await.map(|()| true),
                Answer::Refused(Refusal::Rule, why) => return Ok(self.judge_refusal(&why)),
                other if Instant::now() > deadline => {
                    self.broken(format!("the volume is not staged although the faults have ended: {other:?}"));
                    return Ok(false);
                }
                _ => tokio::time::sleep(RETRY).await,
            }
        }
    }

    /// A refusal is right when data lies on the disk, or half a file system whose record is gone; it names what it found.
    fn judge_refusal(&mut self, why: &str) -> bool {
        let has_evidence = why.contains("not blank") || why.contains("holds");
        if self.truth.raw.is_empty() && !self.truth.half {
            self.broken(format!("a volume that never held data of others needs a hand to be staged: {why}"));
        } else if !has_evidence {
            self.broken(format!("a refusal without evidence: {why}"));
        }
        true
    }

    async fn use_it(&mut self) -> anyhow::Result<()> {
        self.until_done("publish", Self::publish_mount).await?;
        let target = self.world.target();
        self.look_at_files(&target);
        Ok(())
    }

    async fn take_down(&mut self) -> anyhow::Result<()> {
        self.until_done("unpublish", Self::unpublish_mount).await?;
        self.until_done("unstage", Self::unstage_plainly).await?;
        self.look_for_leftovers()
    }

    async fn publish_mount(&mut self) -> anyhow::Result<Answer> {
        self.publish(false, Fault::None).await
    }

    async fn unpublish_mount(&mut self) -> anyhow::Result<Answer> {
        self.unpublish(false, Fault::None).await
    }

    async fn unpublish_raw(&mut self) -> anyhow::Result<Answer> {
        self.unpublish(true, Fault::None).await
    }

    async fn unstage_plainly(&mut self) -> anyhow::Result<Answer> {
        self.unstage(Fault::None).await
    }

    /// Calls again and again, as an orchestrator does, until it is done.
    async fn until_done<F>(&mut self, what: &str, mut request: F) -> anyhow::Result<()>
    where
        F: AsyncFnMut(&mut Self) -> anyhow::Result<Answer>,
    {
        let deadline = Instant::now() + SETTLE;
        loop {
            match request(self).await? {
                Answer::Done => return Ok(()),
                other if Instant::now() > deadline => {
                    self.broken(format!("{what} does not come to an end although the faults have ended: {other:?}"));
                    return Ok(());
                }
                _ => tokio::time::sleep(RETRY).await,
            }
        }
    }

    fn look_for_leftovers(&mut self) -> anyhow::Result<()> {
        let left = Leftovers::below(&self.world.directory())?;
        if !left.mounts.is_empty() {
            self.broken(format!("mounts were left behind: {:?}", left.mounts));
        }
        let records = Keeper::records(&self.world.state());
        if !records.is_empty() {
            self.broken(format!("records of formats were left behind: {records:?}"));
        }
        let places = [self.world.staging(), self.world.target(), self.world.raw_target()];
        let places: Vec<_> = places.iter().filter(|path| path.exists()).collect();
        // A staging directory on which this call unmounted nothing is the orchestrator's.
        if places.iter().any(|path| **path != self.world.staging()) {
            self.broken(format!("places of mounts were left behind: {places:?}"));
        }
        Ok(())
    }

    /// Ends everything that is this cycle's, whatever it ended with.
    fn sweep(mut self) -> anyhow::Result<()> {
        faults::kill(&mut self.world, true)?;
        Leftovers::release_below(&self.world.directory()).map(drop)
    }
}

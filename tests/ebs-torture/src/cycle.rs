//! One cycle: rounds of steps, some of them with a fault, then the end of all faults and the final checks.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use ebs_ec2::SplitMix64;
use ebs_testkit::leftovers::Leftovers;
use ebs_testkit::loop_device::unused_volume_id;
use ebs_testkit::mount_namespace::in_mount_namespace;
use ebs_testkit::replaced_tool::ReplacedTool;
use ebs_testkit::run_dir::OwnDir;
use futures_util::future::{Either, join_all, select};
use tokio::time::Instant;

use crate::cut_disk::CutDisks;
use crate::faults::{Fault, LOST_RECORDS};
use crate::node::Node;
use crate::planted::Planted;
use crate::settle;
use crate::shared::{Counts, Place, Shared};
use crate::volume::Volume;

/// A cycle takes one or two seconds. A cycle that takes longer than this limit hangs.
const CYCLE: Duration = Duration::from_secs(900);
const NODES: usize = 2;
/// Number of early rounds, in which most disks get their file systems.
const EARLY: u64 = 4;

/// The options of a cycle.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program to start: `ebs-torture` itself. Its subcommand `serve` is the service, and `disks` is the disk
    /// server.
    pub program: PathBuf,
    pub planted: Option<Planted>,
}

/// A violated rule.
#[derive(Debug, Clone)]
pub struct Failure {
    pub seed: u64,
    pub rule: String,
    /// The trace of the steps, and the end of the services' logs.
    pub trace: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {}\n{}", self.seed, self.rule, self.trace)
    }
}

#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// `None` if no rule was violated.
    pub failure: Option<Failure>,
    pub counts: Counts,
}

#[derive(Debug)]
pub(crate) struct Cycle {
    pub(crate) shared: Shared,
    pub(crate) volumes: Vec<Volume>,
    rng: SplitMix64,
    /// The replaced tool of a planted bug.
    _tool: Option<ReplacedTool>,
    // The last field, so that the directory is removed after everything that uses it.
    place: OwnDir,
}

fn run(seed: u64, options: &Options) -> Outcome {
    let found = Arc::new(Mutex::new(Outcome::default()));
    let (result, options) = (Arc::clone(&found), options.clone());
    in_mount_namespace(move || async move {
        let outcome = whole(seed, &options).await;
        *result.lock().unwrap_or_else(PoisonError::into_inner) = outcome;
    });
    std::mem::take(&mut found.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Runs cycles from the first seed on several threads, until `count` have begun, the time is over, or `ended` returns
/// false. Returns the number of cycles.
pub fn run_seeds(
    first: u64,
    count: u64,
    (threads, bound): (u64, Duration),
    options: &Options,
    ended: impl Fn(Outcome) -> bool + Sync,
) -> u64 {
    let (began, next, goes_on) = (Instant::now(), AtomicU64::new(0), AtomicBool::new(true));
    std::thread::scope(|scope| {
        for _ in 0..threads.min(count) {
            scope.spawn(|| {
                while goes_on.load(Ordering::Relaxed) && began.elapsed() < bound {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    if !ended(run(first.wrapping_add(number), options)) {
                        goes_on.store(false, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    next.into_inner().min(count)
}

async fn whole(seed: u64, options: &Options) -> Outcome {
    let mut cycle = match Cycle::new(seed, options).await {
        Ok(cycle) => cycle,
        Err(error) => {
            let failure = Failure { seed, rule: format!("{error:#}"), trace: String::new() };
            return Outcome { failure: Some(failure), counts: Counts::default() };
        }
    };
    match tokio::time::timeout(CYCLE, cycle.all()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => cycle.shared.broken(format!("the cycle did not finish: {error:#}")),
        Err(_elapsed) => cycle.shared.broken("the cycle hangs"),
    }
    let logs: Vec<String> = cycle.shared.nodes.iter().map(Node::log_tail).collect();
    let trace = format!("  {}\nthe services' logs:\n{}\n", cycle.shared.story(), logs.join("\n--\n"));
    let rule = cycle.shared.take_broken();
    let counts = cycle.shared.counts.take();
    let swept = cycle.sweep();
    let rule = rule.or(swept.err().map(|error| format!("{error:#}")));
    Outcome { failure: rule.map(|rule| Failure { seed, rule, trace }), counts }
}

impl Cycle {
    async fn new(seed: u64, options: &Options) -> anyhow::Result<Self> {
        let mut rng = SplitMix64::new(seed);
        let place = OwnDir::new("torture-").context("a directory")?;
        let disks = CutDisks::start(&options.program, place.path()).await?;
        let mut nodes = Vec::new();
        for index in 0..NODES {
            let (directory, devices) = (place.path().join(format!("node-{index}")), disks.directory_of_node(index));
            nodes.push(Node::new(&options.program, directory, devices, rng.below(10) < 7)?);
        }
        let new_place = |_| Place {
            id: unused_volume_id(),
            at: std::cell::Cell::new(None),
            cuts: std::cell::Cell::new(0),
            is_dead: std::cell::Cell::new(false),
        };
        let places: Vec<Place> = (0..1 + rng.below(3)).map(new_place).collect();
        let shared = Shared::new(nodes, disks, places, options.planted);
        let mut volumes = Vec::new();
        for (index, place) in shared.places.iter().enumerate() {
            volumes.push(Volume::new(index, place.id.clone(), &shared, SplitMix64::new(rng.draw())).await?);
        }
        let is_ignored = options.planted == Some(Planted::JournalErrorIgnored);
        let tool = is_ignored.then(|| ReplacedTool::by_script("e2fsck", "exit 0")).transpose()?;
        Ok(Self { shared, volumes, rng, _tool: tool, place })
    }

    async fn all(&mut self) -> anyhow::Result<()> {
        for node in 0..NODES {
            self.shared.nodes[node].start().await?;
        }
        for round in 0..6 + self.rng.below(10) {
            self.round(round < EARLY).await?;
            if self.shared.is_broken() {
                return Ok(());
            }
            // Some later steps correctly remove a format record, and would hide the planted bug.
            if self.shared.counts.borrow().of(LOST_RECORDS) > 0 {
                break;
            }
        }
        self.shared.tell("the faults end");
        for node in 0..NODES {
            self.shared.nodes[node].kill(false)?;
            self.shared.nodes[node].start().await?;
        }
        let shared = &self.shared;
        let ends = join_all(self.volumes.iter_mut().map(|volume| settle::settle(volume, shared))).await;
        ends.into_iter().collect::<anyhow::Result<()>>()?;
        if !shared.is_broken() {
            self.look_for_leftovers()?;
        }
        Ok(())
    }

    /// Runs one step for every volume concurrently, perhaps with a fault.
    async fn round(&mut self, is_early: bool) -> anyhow::Result<()> {
        let volumes = self.volumes.len() as u64;
        let fault = match self.shared.planted {
            Some(Planted::RecordNotKept) if is_early => Some(Fault::in_format(&mut self.rng, volumes)),
            _ => Fault::any(&mut self.rng, volumes, is_early),
        };
        let seed = self.rng.draw();
        let shared = &self.shared;
        let steps = join_all(self.volumes.iter_mut().map(|volume| volume.step(shared)));
        let ended = match fault {
            None => steps.await,
            Some(fault) => match select(std::pin::pin!(fault.strike(shared, seed)), std::pin::pin!(steps)).await {
                Either::Left((struck, steps)) => {
                    struck?;
                    steps.await
                }
                Either::Right((ended, _)) => ended,
            },
        };
        if let Some(fault) = fault {
            fault.end(shared, seed)?;
        }
        ended.into_iter().collect::<anyhow::Result<()>>()?;
        self.bring_back().await
    }

    /// Boots nodes again after power cuts, and restarts services that were killed.
    async fn bring_back(&mut self) -> anyhow::Result<()> {
        for node in 0..NODES {
            let has_booted = self.shared.nodes[node].is_down.get();
            if has_booted {
                self.boot(node).await?;
            }
            if self.shared.nodes[node].client().is_none() {
                self.shared.nodes[node].start().await?;
            }
            let shared = &self.shared;
            for volume in self.volumes.iter_mut().filter(|volume| has_booted && volume.at == node) {
                // The boot has ended the pods, so the orchestrator unpublishes their volumes.
                settle::until_done(volume, shared, "unpublish", async |v, s| v.unpublish(s, false, None).await).await?;
                settle::until_done(volume, shared, "unpublish", async |v, s| v.unpublish(s, true, None).await).await?;
            }
        }
        Ok(())
    }

    async fn boot(&mut self, node: usize) -> anyhow::Result<()> {
        let shared = &self.shared;
        for volume in self.volumes.iter_mut().filter(|volume| volume.at == node) {
            volume.trouble.end();
            volume.thaw(shared)?;
        }
        shared.nodes[node].forget_mounts().await?;
        for volume in self.volumes.iter_mut().filter(|volume| volume.at == node) {
            volume.detach(shared).await?;
            shared.places[volume.index].is_dead.set(false);
            shared.disks.borrow_mut().power_on(&volume.id)?;
            volume.truth.power_lost();
        }
        shared.nodes[node].boot()?;
        for volume in self.volumes.iter_mut().filter(|volume| volume.at == node) {
            volume.attach_after_boot(shared).await?;
            let cuts = shared.places[volume.index].cuts.get();
            volume.look_at_raw(shared, cuts).await?;
        }
        shared.tell(format!("node {node} has booted"));
        Ok(())
    }

    fn look_for_leftovers(&self) -> anyhow::Result<()> {
        let left = Leftovers::below(self.place.path())?;
        let mounts: Vec<_> = left.mounts.iter().filter(|at| !at.ends_with("disks")).collect();
        if !mounts.is_empty() {
            self.shared.broken(format!("mounts were left behind: {mounts:?}"));
        }
        for node in &self.shared.nodes {
            for volume in &self.volumes {
                let places = [node.target(&volume.id), node.raw_target(&volume.id)];
                let places: Vec<_> = places.iter().filter(|path| path.exists()).collect();
                if !places.is_empty() {
                    self.shared.broken(format!("mount directories were left behind: {places:?}"));
                }
            }
        }
        Ok(())
    }

    /// Ends everything that belongs to this cycle, whatever its outcome.
    fn sweep(mut self) -> anyhow::Result<()> {
        for node in &self.shared.nodes {
            node.stop()?;
        }
        let mut thawed = Ok(());
        // End the disks first. Requests that wait for them then fail, so that the next steps cannot hang.
        self.shared.disks.borrow_mut().abort();
        for volume in &mut self.volumes {
            volume.trouble.end();
            thawed = thawed.and(volume.thaw(&self.shared));
        }
        let swept = Leftovers::below(&self.place.path().join("node-0"))
            .and_then(|left| left.release())
            .and_then(|()| Leftovers::release_below(&self.place.path().join("node-1")));
        self.volumes.clear();
        let ended = self.shared.disks.borrow_mut().end();
        thawed.and(swept.map(drop)).and(ended)
    }
}

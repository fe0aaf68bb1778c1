//! A whole run from one number: it begins, goes wrong, clears up, and everything must be as it should be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ebs_ec2::Ec2;
use ebs_sim::api::{self, Call, Reply};
use ebs_sim::buckets::{Limits, Rate};
use ebs_sim::engine::{BurntToken, Consistency, EngineConfig, Timing, TimingOverride};
use ebs_sim::port::SimEc2;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::beliefs::{Beliefs, Claim, Claimed, Held, SnapClaim, Snapped};
use crate::calls::Target;
use crate::content::{self, VolumeOrder};
use crate::dice::Dice;
use crate::field::Field;
use crate::planted::Planted;
use crate::truth::is_live;
use crate::weather::Weather;
use crate::world::{Checked, Node, Violation, World, broken};

/// How to run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// A bug to plant.
    pub planted: Option<Planted>,
    /// Every call to EC2 is told too.
    pub verbose: bool,
}

/// A rule was broken.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The number of the run.
    pub seed: u64,
    /// The rule and what was seen.
    pub rule: String,
    /// What happened, a line each, times in seconds since the start.
    pub story: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.rule)?;
        for line in &self.story {
            writeln!(f, "  {line}")?;
        }
        Ok(())
    }
}

/// Time in which everything must be as wanted once the faults are over.
const TO_CONVERGE: Duration = Duration::from_secs(3600);
/// Between two tries of the orchestrator then.
const RETRY: Duration = Duration::from_secs(5);

/// Runs one seed over the port, without an SDK, on a runtime of its own with paused time. Needs a stack of 16 MiB in
/// an unoptimised build.
///
/// # Errors
/// As [`run`].
pub fn run_on_port(seed: u64, options: &Options) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without threads starts");
    runtime.block_on(run(seed, options, |sim| Box::pin(async move { Arc::new(sim) })))
}

/// A client of EC2 that is being made.
pub type Made<E> = Pin<Box<dyn Future<Output = Arc<E>> + Send>>;

/// Runs one seed on the simulated EC2; `client` makes each driver process its client of it. Needs a current-thread
/// runtime with paused time.
///
/// # Errors
/// [`Failure`] tells the rule that was broken and how it came about.
pub async fn run<E: Ec2>(
    seed: u64,
    options: &Options,
    client: impl Fn(SimEc2) -> Made<E> + Send + 'static,
) -> Result<(), Failure> {
    let mut dice = Dice::new(seed);
    let mut world = World::begin(&mut dice, seed, options, Box::new(client)).await;
    match world.live().await {
        Ok(()) => Ok(()),
        Err(Violation(rule)) => {
            world.tell("-- broken");
            Err(Failure { seed, rule, story: world.trace })
        }
    }
}

impl<E: Ec2> World<E> {
    async fn begin(
        dice: &mut Dice,
        seed: u64,
        options: &Options,
        client: Box<dyn Fn(SimEc2) -> Made<E> + Send>,
    ) -> Self {
        let mut weather = Weather::draw(&mut dice.fork());
        if options.planted == Some(Planted::LateBeyondBelief) {
            weather = weather.late_beyond_belief();
        }
        let can_lack_room = weather.can_lack_room();
        let mut setup = dice.fork();
        let quota_is_small = setup.mille(150);
        let timing = timing(&mut setup);
        let sim = SimEc2::start(EngineConfig {
            timing: Timing::Realistic,
            burnt_token: if setup.mille(500) { BurntToken::Mismatch } else { BurntToken::OldReply },
            max_volumes: if quota_is_small { 8 } else { 100_000 },
            seed: Some(seed),
            consistency: Consistency { max_lag: weather.max_lag },
            limits: setup.mille(150).then(|| small_buckets(&mut setup)),
            ..EngineConfig::default()
        })
        .await
        .expect("an engine in memory starts");
        sim.engine().set_timing(timing).await;
        let field = Arc::new(Field::new(dice.fork(), weather, options.planted, options.verbose));
        let mut world = Self {
            sim,
            client,
            field,
            dice: dice.fork(),
            beliefs: Beliefs::default(),
            nodes: Vec::new(),
            foreign: BTreeMap::new(),
            foreign_snapshots: BTreeSet::new(),
            drivers: Vec::new(),
            active: 0,
            no_driver_until: Instant::now(),
            calls: BTreeMap::new(),
            next_call: 0,
            running: JoinSet::new(),
            history: Vec::new(),
            made: BTreeSet::new(),
            snapshot_deeds: Vec::new(),
            quota_is_small,
            trace: Vec::new(),
            can_lack_room,
            timing,
            sticky_until: None,
        };
        world.furnish(&mut setup).await;
        // As on a process that has run for a while, or one that was started just now.
        world.start_driver().await;
        if setup.mille(700) {
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
        let weather = crate::field::lock(&world.field.weather).clone();
        world.tell(format!("{weather:?}{}", if quota_is_small { ", few volumes allowed" } else { "" }));
        world
    }

    /// Nodes, names, and what others have in the account.
    async fn furnish(&mut self, dice: &mut Dice) {
        let zones = ["us-west-2a", "us-west-2b"];
        for _ in 0..dice.between(0, 2) {
            self.launch(zones[usize::from(dice.mille(250))]).await;
        }
        let state = self.sim.engine().snapshot_of_state().await;
        self.nodes = state.instances.iter().map(|i| Node { id: i.id.clone(), zone: i.zone.clone() }).collect();
        let zones: Vec<String> = self.nodes.iter().map(|node| node.zone.clone()).collect();
        for n in 0..dice.between(2, 4) {
            let name = format!("pvc-{n}");
            let order = VolumeOrder::draw(dice, &name, &zones);
            let has_stranger = dice.mille(150);
            if has_stranger {
                self.add_stranger(dice, &order).await;
            }
            let claim = Claim { name, order, wish: true, state: Claimed::Absent, creating: 0, has_stranger };
            self.beliefs.claims.push(claim);
        }
        for n in 0..2 {
            let (name, source) = (format!("snapshot-{n}"), String::new());
            let snap = SnapClaim { name, source, wish: true, state: Snapped::Absent, creating: 0, twinned: false };
            self.beliefs.snaps.push(snap);
        }
        let state = self.sim.engine().snapshot_of_state().await;
        self.foreign = state.volumes.into_iter().map(|v| (v.id.clone(), v)).collect();
    }

    async fn launch(&self, zone: &str) {
        let call = api::RunInstances {
            image_id: Some("ami-00000000000000000".to_owned()),
            instance_type: Some("m5.large".to_owned()),
            min_count: Some(1),
            max_count: Some(1),
            availability_zone: Some(zone.to_owned()),
            ..Default::default()
        };
        let answer = self.sim.engine().call(Call::RunInstances(call)).await;
        answer.expect("a plain instance can be launched");
        tokio::time::sleep(Duration::from_secs(120)).await;
    }

    /// A volume that carries the name of one of ours and is not ours, or is ours and another.
    async fn add_stranger(&mut self, dice: &mut Dice, order: &VolumeOrder) {
        let zone = order.zones[0].clone();
        let name = ("CSIVolumeName", order.name.as_str());
        let (tags, size, kind) = match dice.below(4) {
            0 => (content::tags(&[name]), order.gib, "gp3"),
            1 => {
                let green = [name, ("ebs.csi.aws.com/cluster", "true"), ("kubernetes.io/cluster/green", "owned")];
                (content::tags(&green), order.gib, "gp3")
            }
            // Of our cluster, and of a type that no request of a run has.
            2 => (order.tags(), order.gib + 100, "gp2"),
            _ => (order.tags(), order.gib, "gp2"),
        };
        let tags = tags.into_iter().map(|(key, value)| api::Tag { key, value }).collect();
        let call = api::CreateVolume {
            availability_zone: Some(zone),
            size: Some(size),
            volume_type: Some(kind.to_owned()),
            tag_specifications: vec![api::TagSpecification { resource_type: "volume".to_owned(), tags }],
            ..Default::default()
        };
        let made = self.sim.engine().call(Call::CreateVolume(call)).await;
        assert!(matches!(made, Ok(Reply::CreateVolume(_))), "a plain volume can be made: {made:?}");
        tokio::time::sleep(Duration::from_secs(10)).await;
    }

    async fn live(&mut self) -> Checked {
        let steps = self.dice.between(12, 45);
        for _ in 0..steps {
            self.step().await?;
            let pause = self.pause();
            self.pass(pause).await?;
        }
        self.clear_up();
        self.settle_down().await?;
        self.take_all_down().await
    }

    /// Without faults every wish is fulfilled, or refused for good.
    async fn settle_down(&mut self) -> Checked {
        let end = Instant::now() + TO_CONVERGE;
        self.quiet(Duration::from_secs(600)).await?;
        let mut tried: BTreeMap<usize, u32> = BTreeMap::new();
        loop {
            let mut open = Vec::new();
            for at in 0..self.beliefs.claims.len() {
                // A creation that is refused for good is tried a second time: by then nothing may stand in its way.
                let is_absent = matches!(self.beliefs.claims[at].state, Claimed::Absent);
                if is_absent && *tried.get(&at).unwrap_or(&0) >= 2 {
                    continue;
                }
                if self.advance_claim(at, Duration::from_secs(60)) {
                    open.push(self.beliefs.claims[at].name.clone());
                    *tried.entry(at).or_default() += u32::from(is_absent);
                }
            }
            open.extend(self.bring_home());
            for at in 0..self.beliefs.snaps.len() {
                if !matches!(self.beliefs.snaps[at].state, Snapped::Absent)
                    && self.advance_snapshot(at, Duration::from_secs(60))
                {
                    open.push(self.beliefs.snaps[at].name.clone());
                }
            }
            if open.is_empty() && self.running.is_empty() {
                return Ok(());
            }
            if Instant::now() >= end {
                return broken(format!("an hour after the faults were over there was still work on {open:?}"));
            }
            self.pass(RETRY).await?;
        }
    }

    /// Every volume to the one node where it is wanted.
    fn bring_home(&mut self) -> Vec<String> {
        let mut open = Vec::new();
        for at in 0..self.beliefs.claims.len() {
            let claim = &self.beliefs.claims[at];
            let Claimed::Exists(disk) = claim.state.clone() else { continue };
            if !claim.wish {
                continue;
            }
            let deadline = Duration::from_secs(360);
            let (name, id) = (claim.name.clone(), disk.id.clone());
            let away: Vec<usize> = disk.nodes().into_iter().filter(|n| Some(*n) != disk.home).collect();
            for node in &away {
                if disk.holds[node].unpublishing == 0 {
                    self.send(Target::Unpublish { id: id.clone(), node: *node }, deadline);
                }
            }
            match disk.home {
                _ if !away.is_empty() => open.push(name),
                Some(home) if !disk.holds.get(&home).is_some_and(|h| matches!(h.state, Held::Attached(_))) => {
                    let hold = disk.holds.get(&home).cloned().unwrap_or_default();
                    if hold.publishing == 0 && hold.unpublishing == 0 {
                        let target = match hold.state {
                            Held::Leaving => Target::Unpublish { id, node: home },
                            _ => Target::Publish { id, node: home, shared: disk.shared },
                        };
                        self.send(target, deadline);
                    }
                    open.push(name);
                }
                _ => {}
            }
        }
        open
    }

    /// Everything is deleted, and nothing stays or comes back.
    async fn take_all_down(&mut self) -> Checked {
        self.tell("-- everything goes");
        self.beliefs.claims.iter_mut().for_each(|claim| claim.wish = false);
        self.beliefs.snaps.iter_mut().for_each(|snap| snap.wish = false);
        self.settle_down().await?;
        self.remove_twins().await;
        self.pass(Duration::from_secs(120)).await?;
        let truth = self.sim.engine().snapshot_of_state().await;
        let left = truth.volumes.iter().filter(|v| is_live(v) && !self.foreign.contains_key(&v.id));
        let left: Vec<&String> = left
            .map(|v| &v.id)
            .chain(truth.snapshots.iter().filter(|s| !self.foreign_snapshots.contains(&s.id)).map(|s| &s.id))
            .collect();
        if left.is_empty() { Ok(()) } else { broken(format!("everything was deleted, and there is {left:?}")) }
    }

    /// Snapshots that two drivers took at once are an administrator's.
    async fn remove_twins(&mut self) {
        let names: Vec<String> = self.beliefs.snaps.iter().filter(|s| s.twinned).map(|s| s.name.clone()).collect();
        let truth = self.sim.engine().snapshot_of_state().await;
        for name in names {
            for twin in crate::truth::named_snapshots(&truth, &name) {
                let call = api::DeleteSnapshot { snapshot_id: twin.id.clone(), dry_run: false };
                let gone = self.sim.engine().call(Call::DeleteSnapshot(call)).await;
                assert!(gone.is_ok(), "a plain snapshot can be deleted: {gone:?}");
            }
        }
    }

    /// True in runs where a zone can be full; an answer to a call made before the faults were over may still say so.
    pub(crate) fn has_full_zones(&self) -> bool {
        self.can_lack_room
    }
}

/// Buckets so small that a few calls empty them.
fn small_buckets(dice: &mut Dice) -> Limits {
    let capacity = u32::try_from(dice.between(2, 6)).unwrap_or(2);
    let rates = BTreeMap::from([("*".to_owned(), Rate { capacity, per_second: 1 })]);
    Limits { enabled: true, rates }
}

/// Times a little different from run to run.
fn timing(dice: &mut Dice) -> TimingOverride {
    let mut around = |millis: u64| Some(dice.between(millis / 4, millis * 3));
    TimingOverride {
        create_ms: around(2_000),
        delete_ms: around(3_000),
        attach_ms: around(2_500),
        detach_ms: around(4_000),
        snapshot_ms: around(20_000),
        modify_ms: around(4_000),
        optimize_ms: around(60_000),
        ..TimingOverride::default()
    }
}

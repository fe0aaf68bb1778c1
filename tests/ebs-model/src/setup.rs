//! The setup of a run: a simulated EC2, nodes, names, and the account's foreign objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ebs_ec2::Ec2;
use ebs_sim::api::{self, Call, Reply};
use ebs_sim::buckets::{Limits, Rate};
use ebs_sim::engine::{AccountSettings, BurntToken, Consistency, EngineConfig, Quotas, Timing, TimingOverride};
use ebs_sim::iam::Extra;
use ebs_sim::port::SimEc2;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::beliefs::{Beliefs, Claim, SnapClaim, SnapshotBelief, VolumeBelief};
use crate::content::{self, Key, SnapOrder, VolumeOrder};
use crate::fault_plan::FaultPlan;
use crate::network::Network;
use crate::planted::Planted;
use crate::retries::SidecarRetries;
use crate::rng::Rng;
use crate::world::{Made, Node, Options, World};

impl<E: Ec2> World<E> {
    pub(crate) async fn begin(
        rng: &mut Rng,
        seed: u64,
        options: &Options,
        client: Box<dyn Fn(SimEc2) -> Made<E> + Send>,
    ) -> Self {
        let mut fault_plan = FaultPlan::draw(&mut rng.fork());
        if options.planted == Some(Planted::LateBeyondBelief) {
            fault_plan = fault_plan.late_beyond_belief();
        }
        let can_lack_room = fault_plan.can_lack_room();
        let mut setup = rng.fork();
        let quota_is_small = setup.per_mille(150);
        let few_fast_restores = setup.per_mille(300);
        let sim = simulated(EngineConfig {
            timing: Timing::Realistic,
            burnt_token: if setup.per_mille(500) { BurntToken::Mismatch } else { BurntToken::OldReply },
            max_volumes: if quota_is_small { 8 } else { 100_000 },
            seed: Some(seed),
            consistency: Consistency { max_lag: fault_plan.max_lag },
            limits: setup.per_mille(150).then(|| small_buckets(&mut setup)),
            account: account(few_fast_restores),
            ..EngineConfig::default()
        })
        .await;
        sim.engine().set_timing(timing(&mut setup)).await;
        let network = Arc::new(Network::new(rng.fork(), fault_plan, options.planted, options.verbose));
        let mut world = Self {
            sim,
            client,
            network,
            rng: rng.fork(),
            // A separate random generator, so that drawing wrong clocks changes nothing else in a run.
            clocks: Rng::new(seed.rotate_left(17)),
            retries: SidecarRetries::draw(&mut setup),
            beliefs: Beliefs::default(),
            nodes: Vec::new(),
            foreign: BTreeMap::new(),
            foreign_snapshots: BTreeSet::new(),
            drivers: Vec::new(),
            holders: [0; 4],
            no_driver_until: Instant::now(),
            calls: BTreeMap::new(),
            next_call: 0,
            running: JoinSet::new(),
            history: Vec::new(),
            made: BTreeSet::new(),
            names_taken: Vec::new(),
            snapshot_events: Vec::new(),
            quota_is_small,
            few_fast_restores,
            locks_have_ended: false,
            to_switch_off: BTreeSet::new(),
            trace: Vec::new(),
            can_lack_room,
            sticky_until: None,
        };
        world.populate_account(&mut setup).await;
        world.start_drivers(&mut setup).await;
        let fault_plan = crate::driver_process::lock(&world.network.fault_plan).clone();
        world.tell(format!("{fault_plan:?}{}", if quota_is_small { ", low volume quota" } else { "" }));
        world
    }

    async fn start_drivers(&mut self, rng: &mut Rng) {
        if rng.per_mille(500) {
            // A standby process, which has been running for a long time when it acquires a lease.
            self.start_driver().await;
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        // The driver that every sidecar calls. At the first request it is new, or it has been running for 30 s.
        self.call_a_new_driver().await;
        if rng.per_mille(700) {
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
    }

    /// Creates nodes, names, and foreign objects.
    async fn populate_account(&mut self, rng: &mut Rng) {
        let zones = ["us-west-2a", "us-west-2b"];
        for _ in 0..rng.between(0, 2) {
            self.launch(zones[usize::from(rng.per_mille(250))]).await;
        }
        let state = self.sim.engine().snapshot_of_state().await;
        self.nodes =
            state.instances.iter().map(|i| Node { id: i.id.clone(), zone: i.zone.clone(), is_gone: false }).collect();
        let zones: Vec<String> = self.nodes.iter().map(|node| node.zone.clone()).collect();
        for n in 0..rng.between(2, 4) {
            let name = format!("pvc-{n}");
            let order = VolumeOrder::draw(rng, &name, &zones);
            let name_is_taken = rng.per_mille(150);
            if name_is_taken {
                self.add_foreign_volume(rng, &order).await;
            }
            let claim = Claim { name, order, wish: true, state: VolumeBelief::Absent, creating: 0, name_is_taken };
            self.beliefs.claims.push(claim);
        }
        for n in 0..2 {
            let (name, order) = (format!("snapshot-{n}"), SnapOrder::default());
            let snap =
                SnapClaim { name, order, wish: true, state: SnapshotBelief::Absent, creating: 0, twinned: false };
            self.beliefs.snaps.push(snap);
        }
        if rng.per_mille(150) {
            self.add_foreign_snapshot().await;
        }
        let state = self.sim.engine().snapshot_of_state().await;
        self.foreign_snapshots = state.snapshots.into_iter().map(|s| s.id).collect();
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

    /// Creates a volume with the name of one of our volumes: without the driver's tags, or with them and other
    /// parameters.
    async fn add_foreign_volume(&mut self, rng: &mut Rng, order: &VolumeOrder) {
        let zone = order.zones[0].clone();
        let name = ("CSIVolumeName", order.name.as_str());
        let (tags, size, kind) = match rng.below(4) {
            0 => (content::tags(&[name]), order.gib, "gp3"),
            1 => {
                let green = [name, ("ebs.csi.aws.com/cluster", "true"), ("kubernetes.io/cluster/green", "owned")];
                (content::tags(&green), order.gib, "gp3")
            }
            // A volume of our cluster, with a type that no request of a run uses.
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

    async fn add_foreign_snapshot(&self) {
        let state = self.sim.engine().snapshot_of_state().await;
        let Some(volume) = state.volumes.first() else { return };
        let tag = ("CSIVolumeSnapshotName".to_owned(), "snapshot-0".to_owned());
        let tags = vec![api::Tag { key: tag.0, value: tag.1 }];
        let call = api::CreateSnapshot {
            volume_id: volume.id.clone(),
            tag_specifications: vec![api::TagSpecification { resource_type: "snapshot".to_owned(), tags }],
            ..Default::default()
        };
        let made = self.sim.engine().call(Call::CreateSnapshot(call)).await;
        assert!(matches!(made, Ok(Reply::CreateSnapshot(_))), "a plain snapshot can be taken: {made:?}");
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
}

async fn simulated(config: EngineConfig) -> SimEc2 {
    let sim = SimEc2::start(config).await.expect("an engine in memory starts");
    sim.declare(Extra::Kms);
    sim.declare(Extra::SnapshotLocks);
    sim
}

/// Returns the account's settings: one disabled key and, optionally, a quota that permits only one snapshot with fast
/// restores.
fn account(few_fast_restores: bool) -> AccountSettings {
    let quotas = Quotas { fast_restores: few_fast_restores.then_some(1), ..Quotas::default() };
    let unusable_kms_keys = vec![Key::Disabled.alias().to_owned()];
    AccountSettings { unusable_kms_keys, quotas, ..AccountSettings::default() }
}

/// Returns rate limits so small that a few calls exhaust them.
fn small_buckets(rng: &mut Rng) -> Limits {
    let capacity = u32::try_from(rng.between(2, 6)).unwrap_or(2);
    let rates = BTreeMap::from([("*".to_owned(), Rate { capacity, per_second: 1 })]);
    Limits { enabled: true, rates }
}

/// Returns delays that differ slightly between runs.
fn timing(rng: &mut Rng) -> TimingOverride {
    let mut around = |millis: u64| Some(rng.between(millis / 4, millis * 3));
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

//! Invariants under any sequence of calls.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::api::{CopyVolumes, DeleteSnapshot, DeleteVolume, DescribeInstances, ModifyVolume, TerminateInstances};
use crate::config::Consistency;

/// A step. Its numbers choose among the existing objects.
#[derive(Debug, Clone)]
enum Step {
    Create { token: u8, gib: u8, shared: bool },
    Copy { volume: u8 },
    Delete { volume: u8 },
    Attach { volume: u8, instance: u8, device: u8 },
    Detach { volume: u8, instance: u8, force: bool },
    Modify { volume: u8, gib: u8 },
    Snapshot { volume: u8 },
    Restore { snapshot: u8 },
    DeleteSnapshot { snapshot: u8 },
    Launch,
    Terminate { instance: u8 },
    Look,
    Pass { ms: u16 },
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..6_u8, 1..9_u8, any::<bool>()).prop_map(|(token, gib, shared)| Step::Create { token, gib, shared }),
        1 => any::<u8>().prop_map(|volume| Step::Copy { volume }),
        2 => any::<u8>().prop_map(|volume| Step::Delete { volume }),
        6 => any::<(u8, u8, u8)>().prop_map(|(volume, instance, device)| Step::Attach { volume, instance, device }),
        4 => any::<(u8, u8, bool)>().prop_map(|(volume, instance, force)| Step::Detach { volume, instance, force }),
        2 => any::<(u8, u8)>().prop_map(|(volume, gib)| Step::Modify { volume, gib }),
        2 => any::<u8>().prop_map(|volume| Step::Snapshot { volume }),
        1 => any::<u8>().prop_map(|snapshot| Step::Restore { snapshot }),
        1 => any::<u8>().prop_map(|snapshot| Step::DeleteSnapshot { snapshot }),
        1 => Just(Step::Launch),
        1 => any::<u8>().prop_map(|instance| Step::Terminate { instance }),
        2 => Just(Step::Look),
        6 => (0..20_000_u16).prop_map(|ms| Step::Pass { ms }),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..60)
}

/// Returns the n-th id, modulo their number, or an unknown id if none exists.
fn pick<'a>(all: impl Iterator<Item = &'a String>, n: u8, none: &str) -> String {
    let all: Vec<&String> = all.collect();
    usize::from(n).checked_rem(all.len()).map_or_else(|| none.to_owned(), |at| all[at].clone())
}

impl World {
    fn some_volume(&self, n: u8) -> String {
        pick(self.sim.volumes.keys(), n, "vol-00000000000000000")
    }

    fn some_snapshot(&self, n: u8) -> String {
        pick(self.sim.snapshots.keys(), n, "snap-00000000000000000")
    }

    fn some_instance(&self, n: u8) -> String {
        pick(self.sim.instances.iter().map(|i| &i.id), n, "i-00000000000000000")
    }

    fn call_of(&self, step: &Step) -> Option<Call> {
        Some(match step {
            Step::Create { token, gib, shared } => Call::CreateVolume(CreateVolume {
                client_token: Some(format!("t{token}")).filter(|_| *token > 2),
                size: Some(i64::from(*gib) + 4),
                volume_type: Some(if *shared { "io2" } else { "gp3" }.to_owned()),
                iops: shared.then_some(100),
                multi_attach_enabled: Some(*shared),
                ..gp3()
            }),
            Step::Copy { volume } => {
                Call::CopyVolumes(CopyVolumes { source_volume_id: self.some_volume(*volume), ..Default::default() })
            }
            Step::Delete { volume } => {
                Call::DeleteVolume(DeleteVolume { volume_id: self.some_volume(*volume), dry_run: false })
            }
            Step::Attach { volume, instance, device } => {
                let device = format!("/dev/xvdb{}", char::from(b'a' + device % 4));
                attach(&self.some_volume(*volume), &self.some_instance(*instance), &device)
            }
            Step::Detach { volume, instance, force } => Call::DetachVolume(DetachVolume {
                volume_id: self.some_volume(*volume),
                instance_id: Some(self.some_instance(*instance)),
                force: *force,
                ..Default::default()
            }),
            Step::Modify { volume, gib } => Call::ModifyVolume(ModifyVolume {
                volume_id: self.some_volume(*volume),
                size: Some(i64::from(*gib)),
                ..Default::default()
            }),
            Step::Snapshot { volume } => {
                Call::CreateSnapshot(CreateSnapshot { volume_id: self.some_volume(*volume), ..Default::default() })
            }
            Step::Restore { snapshot } => Call::CreateVolume(CreateVolume {
                snapshot_id: Some(self.some_snapshot(*snapshot)),
                size: None,
                ..gp3()
            }),
            Step::DeleteSnapshot { snapshot } => {
                Call::DeleteSnapshot(DeleteSnapshot { snapshot_id: self.some_snapshot(*snapshot), dry_run: false })
            }
            Step::Launch => Call::RunInstances(crate::api::RunInstances {
                image_id: Some("ami-1".to_owned()),
                min_count: Some(1),
                max_count: Some(1),
                ..Default::default()
            }),
            Step::Terminate { instance } => Call::TerminateInstances(TerminateInstances {
                instance_ids: vec![self.some_instance(*instance)],
                dry_run: false,
            }),
            Step::Look => Call::DescribeInstances(DescribeInstances::default()),
            Step::Pass { .. } | Step::Restart => return None,
        })
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Pass { ms } => self.pass(Duration::from_millis(u64::from(*ms))),
            Step::Restart => {
                self.sim = Sim::load(&self.sim.save(), &self.config).unwrap();
                self.sim.resume(self.now);
                self.settle();
            }
            other => {
                let call = self.call_of(other).expect("the others are no calls");
                let reads = call.action().starts_with("Describe");
                let before = self.sim.save();
                let result = self.apply(call);
                if result.is_err() || reads {
                    assert_eq!(self.sim.save(), before, "{step:?} changed something: {result:?}");
                }
                self.settle();
            }
        }
    }
}

fn check(world: &World, sizes: &mut BTreeMap<String, u32>, tokens: &mut BTreeMap<String, String>) {
    let mut names = BTreeSet::new();
    for volume in world.sim.volumes.values() {
        let seen = volume.describe();
        assert!(seen.multi_attach || seen.attachments.len() <= 1, "attached twice: {seen:?}");
        let on: BTreeSet<&String> = seen.attachments.iter().map(|a| &a.instance_id).collect();
        assert_eq!(on.len(), seen.attachments.len(), "twice on one instance: {seen:?}");
        for attachment in &seen.attachments {
            let instance = world.sim.instances.iter().find(|i| i.id == attachment.instance_id);
            let instance = instance.unwrap_or_else(|| panic!("attached to nobody: {seen:?}"));
            assert_eq!(instance.zone, seen.zone);
            assert_ne!(instance.state().0, "terminated", "{seen:?}");
            let name = (attachment.instance_id.clone(), attachment.device.clone());
            assert!(names.insert(name), "a name used twice: {attachment:?}");
        }
        let size = sizes.entry(seen.id.clone()).or_insert(seen.size_gib);
        assert!(seen.size_gib >= *size, "it has shrunk: {seen:?}");
        *size = seen.size_gib;
    }
    for (token, of) in world.sim.tokens_and_volumes() {
        let known = tokens.entry(token.clone()).or_insert_with(|| of.clone());
        assert_eq!(*known, of, "a token changed hands");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// No sequence of calls, restarts and stale reads attaches a volume twice, uses a device name twice, shrinks a
    /// volume, moves a token, or lets a rejected call change anything. Everything settles.
    #[test]
    fn no_sequence_of_calls_violates_invariants(steps in steps(), realistic: bool, lag in 0..16_u64) {
        let timing = if realistic { Timing::Realistic } else { Timing::Instant };
        let consistency = Consistency { max_lag: Duration::from_secs(lag) };
        let mut world = World::of(EngineConfig { timing, consistency, seed: Some(1), ..EngineConfig::default() });
        let (mut sizes, mut tokens) = (BTreeMap::new(), BTreeMap::new());
        for step in &steps {
            world.step(step);
            check(&world, &mut sizes, &mut tokens);
        }
        world.pass(Duration::from_hours(2));
        for volume in world.sim.volumes.values() {
            let seen = volume.describe();
            prop_assert!(matches!(seen.state.as_str(), "available" | "in-use"), "{seen:?} has not settled");
            prop_assert!(seen.attachments.iter().all(|a| a.state == "attached"), "{seen:?} has not settled");
        }
    }

    #[test]
    fn seed_and_calls_determine_history(steps in steps(), seed: u64) {
        let run = || {
            let consistency = Consistency { max_lag: Duration::from_secs(15) };
            let mut world = World::of(EngineConfig { consistency, seed: Some(seed), ..EngineConfig::default() });
            let mut history = Vec::new();
            for step in &steps {
                match world.call_of(step) {
                    Some(call) => history.push(format!("{:?}", world.call(call))),
                    None => world.step(step),
                }
                history.extend(world.volumes_by("status", &["*"]));
            }
            history
        };
        prop_assert_eq!(run(), run());
    }
}

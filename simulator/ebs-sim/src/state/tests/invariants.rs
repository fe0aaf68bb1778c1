//! Tests of invariants that hold after any sequence of calls.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::config::Consistency;

/// A step of a test. Its numbers select existing objects.
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

/// Returns the id at position `n` modulo the number of ids, or `none` if there are no ids.
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

    fn call_of(&self, step: &Step) -> Option<String> {
        let (volume, snapshot) = (|n: &u8| self.some_volume(*n), |n: &u8| self.some_snapshot(*n));
        let instance = |n: &u8| self.some_instance(*n);
        Some(match step {
            Step::Create { token, gib, shared } => {
                let token = if *token > 2 { format!("ClientToken=t{token}") } else { String::new() };
                let kind = if *shared { "VolumeType=io2 Iops=100 MultiAttachEnabled=true" } else { "" };
                format!("{GP3} Size={} {kind} {token}", gib + 4)
            }
            Step::Copy { volume: n } => format!("CopyVolumes SourceVolumeId={}", volume(n)),
            Step::Delete { volume: n } => format!("DeleteVolume VolumeId={}", volume(n)),
            Step::Attach { volume: n, instance: i, device } => {
                attach(&volume(n), &instance(i), &format!("/dev/xvdb{}", char::from(b'a' + device % 4)))
            }
            Step::Detach { volume: n, instance: i, force } => {
                detach(&volume(n), &instance(i)) + &format!(" Force={force}")
            }
            Step::Modify { volume: n, gib } => format!("ModifyVolume VolumeId={} Size={gib}", volume(n)),
            Step::Snapshot { volume: n } => format!("CreateSnapshot VolumeId={}", volume(n)),
            Step::Restore { snapshot: n } => format!("{GP3} !Size SnapshotId={}", snapshot(n)),
            Step::DeleteSnapshot { snapshot: n } => format!("DeleteSnapshot SnapshotId={}", snapshot(n)),
            Step::Launch => "RunInstances ImageId=ami-1 MinCount=1 MaxCount=1".to_owned(),
            Step::Terminate { instance: n } => format!("TerminateInstances InstanceId.1={}", instance(n)),
            Step::Look => "DescribeInstances".to_owned(),
            Step::Pass { .. } | Step::Restart => return None,
        })
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Pass { ms } => self.pass(Duration::from_millis(u64::from(*ms))),
            Step::Restart => {
                self.sim = load(&self.sim.save(), &self.config).unwrap();
                self.sim.resume(self.now);
                self.settle();
            }
            other => {
                let call = self.call_of(other).expect("the others are no calls");
                let reads = call.starts_with("Describe");
                let before = self.sim.save();
                let result = self.apply(&call);
                if result.is_err() || reads {
                    assert_eq!(self.sim.save(), before, "{step:?} changed something: {result:?}");
                }
                self.settle();
            }
        }
    }
}

/// Settles a copy of the state with a visit to each volume, and checks that nothing changes.
fn check_that_no_resting_volume_is_due(world: &World) {
    let mut visited = world.sim.clone();
    visited.volumes.values_mut().for_each(drop);
    visited.touch();
    visited.advance(world.now);
    assert_eq!(visited.volumes, world.sim.volumes);
    assert_eq!(visited.take_effects(), []);
    assert_eq!(visited.next_due(world.now), world.sim.next_due(world.now));
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
    for (token, of) in world.sim.tokens.iter().map(|(token, of)| (token, of.volume.clone())) {
        let known = tokens.entry(token.clone()).or_insert_with(|| of.clone());
        assert_eq!(*known, of, "a token changed hands");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// No sequence of calls, restarts and stale reads attaches a volume twice, uses a device name twice, shrinks a
    /// volume, assigns a token to another volume, or lets a rejected call change anything. All transitions complete.
    #[test]
    fn no_sequence_of_calls_violates_invariants(steps in steps(), realistic: bool, lag in 0..16_u64) {
        let timing = if realistic { Timing::Realistic } else { Timing::Instant };
        let consistency = Consistency { max_lag: Duration::from_secs(lag) };
        let mut world = World::of(EngineConfig { timing, consistency, seed: Some(1), ..EngineConfig::default() });
        let (mut sizes, mut tokens) = (BTreeMap::new(), BTreeMap::new());
        for step in &steps {
            world.step(step);
            check(&world, &mut sizes, &mut tokens);
            check_that_no_resting_volume_is_due(&world);
        }
        world.pass(HOUR * 2);
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
                    Some(call) => history.push(format!("{:?}", world.call(&call))),
                    None => world.step(step),
                }
                history.extend(world.volumes_by("status", &["*"]));
            }
            history
        };
        prop_assert_eq!(run(), run());
    }
}

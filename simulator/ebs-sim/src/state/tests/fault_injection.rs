//! Tests of stuck attachments, disturbed devices, and stale reads.

use super::*;
use crate::config::Consistency;
use crate::faults::{Attachment as Stuck, Device};

fn stuck(how: Stuck) -> FaultInjection {
    FaultInjection { attachment: Some(how), ..FaultInjection::default() }
}

fn disturbed(device: Device) -> FaultInjection {
    FaultInjection { device: Some(device), ..FaultInjection::default() }
}

impl World {
    fn apply_injected(&mut self, call: &str, injection: &FaultInjection) -> Reply {
        let reply = self.sim.apply(self.now, Call::line(call).unwrap(), injection).unwrap();
        self.settle();
        reply
    }

    fn attached_with(&mut self, injection: &FaultInjection) -> (String, String) {
        let (volume, instance) = self.ready();
        self.apply_injected(&attach(&volume, &instance, "/dev/xvdaa"), injection);
        (volume, instance)
    }

    fn health(&mut self, volume: &str) -> String {
        let Ok(Reply::DescribeVolumeStatus(found)) = self.apply(&format!("DescribeVolumeStatus VolumeId.1={volume}"))
        else {
            panic!("no status of {volume}")
        };
        found.items[0].status.clone()
    }

    fn seen(&self, volume: &str) -> (String, Option<String>) {
        let attachment = self.attachment(volume);
        (attachment.state, attachment.loop_device)
    }

    fn lagged(&mut self, call: &str, lag: Duration) -> Reply {
        self.apply_injected(call, &FaultInjection { lag: Some(lag), ..FaultInjection::default() })
    }
}

#[test]
fn stuck_attachment_is_attaching_until_released() {
    let mut world = World::realistic();
    let (volume, _) = world.attached_with(&stuck(Stuck::StuckAttaching));
    world.pass(HOUR * 3);
    assert_eq!(world.attachment(&volume).state, "attaching");
    world.sim.release(world.now, &volume, None).unwrap();
    world.settle();
    assert_eq!(world.attachment(&volume).state, "attached");
}

#[test]
fn detach_ends_attachment_that_is_stuck_attaching() {
    let mut world = World::instant();
    let (volume, instance) = world.attached_with(&stuck(Stuck::StuckAttaching));
    world.done(&detach(&volume, &instance));
    assert_eq!(world.volume(&volume).state, "available");
}

#[test]
fn only_force_or_release_ends_stuck_or_busy_detachment() {
    for (how, state) in [(Stuck::StuckDetaching, "detaching"), (Stuck::Busy, "busy")] {
        let mut world = World::instant();
        let (volume, instance) = world.attached();
        let reply = world.apply_injected(&detach(&volume, &instance), &stuck(how));
        assert!(matches!(reply, Reply::DetachVolume(a) if a.state == state));
        world.pass(DAY);
        assert_eq!(world.attachment(&volume).state, state);
        assert_eq!(world.refused(&detach(&volume, &instance)), "IncorrectState");
        world.done(&format!("DetachVolume VolumeId={volume} Force=true"));
        assert_eq!(world.volume(&volume).state, "available", "{state}");

        world.attach(&volume, "/dev/xvdaa");
        world.apply_injected(&detach(&volume, &instance), &stuck(how));
        world.sim.release(world.now, &volume, Some(&instance)).unwrap();
        world.settle();
        assert_eq!(world.volume(&volume).state, "available", "{state}");
        assert!(world.sim.release(world.now, &volume, None).is_err());
    }
}

#[test]
fn late_device_appears_after_attached_state() {
    let mut world = World::instant();
    let (volume, _) = world.attached_with(&disturbed(Device::Late(secs(30))));
    assert_eq!(world.seen(&volume), ("attached".to_owned(), None));
    world.pass(secs(29));
    assert_eq!(world.seen(&volume).1, None);
    world.pass(secs(1));
    assert_eq!(world.seen(&volume).1.as_deref(), Some("/dev/loop9"));
}

#[test]
fn device_can_appear_without_its_link() {
    let mut world = World::instant();
    let (volume, instance) = world.ready();
    let attach = Call::line(&attach(&volume, &instance, "/dev/xvdaa")).unwrap();
    world.sim.apply(world.now, attach, &disturbed(Device::OtherName)).unwrap();
    world.sim.advance(world.now);
    let effects = world.sim.take_effects();
    assert!(effects.contains(&Effect::Connect { volume, instance, linked: false, breakable: false }), "{effects:?}");
}

/// EC2 still reports the volume as `attached`.
#[test]
fn vanished_device_can_be_healed_or_detached() {
    let mut world = World::instant();
    let injection = disturbed(Device::Vanish(secs(9)));
    let (volume, instance) = world.attached_with(&injection);
    world.pass(secs(8));
    assert!(world.seen(&volume).1.is_some());
    world.pass(secs(1));
    assert_eq!(world.seen(&volume), ("attached".to_owned(), None));
    world.sim.heal_device(&volume).unwrap();
    world.settle();
    assert!(world.seen(&volume).1.is_some());
    world.done(&detach(&volume, &instance));
    world.apply_injected(&attach(&volume, &instance, "/dev/xvdaa"), &injection);
    world.pass(secs(10));
    world.done(&detach(&volume, &instance));
    assert_eq!(world.volume(&volume).state, "available");
}

#[test]
fn volume_with_io_errors_is_impaired_until_healed() {
    let mut world = World::instant();
    let (volume, _) = world.attached_with(&disturbed(Device::IoError(secs(9))));
    assert_eq!(world.health(&volume), "ok");
    world.now += secs(9);
    world.sim.advance(world.now);
    assert_eq!(world.sim.take_effects(), [Effect::BreakIo { volume: volume.clone() }]);
    assert_eq!(world.health(&volume), "impaired");
    world.sim.heal_device(&volume).unwrap();
    assert_eq!(world.sim.take_effects(), [Effect::HealIo { volume: volume.clone() }]);
    assert_eq!(world.health(&volume), "ok");
}

/// A stale read does not show a new object, and still shows a deleted one. Mutating calls use the current state.
#[test]
fn stale_read_shows_old_versions() {
    let mut world = World::instant();
    world.sim.keep_past(world.now);
    world.pass(secs(1));
    let (volume, instance) = (world.gp3(), world.instance(0));
    world.pass(secs(1));
    world.attach(&volume, "/dev/xvdaa");
    world.pass(secs(1));
    let describe = format!("DescribeVolumes {}", by("volume-id", &volume));
    let seen = |world: &mut World, lag: u64| match world.lagged(&describe, secs(lag)) {
        Reply::DescribeVolumes(found) => found.items.first().map_or("absent".to_owned(), |v| v.state.clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!([0, 1, 2, 3].map(|lag| seen(&mut world, lag)), ["in-use", "in-use", "available", "absent"]);
    world.done(&detach(&volume, &instance));
    world.done(&format!("DeleteVolume VolumeId={volume}"));
    assert_eq!(seen(&mut world, 0), "absent");
    world.pass(secs(1));
    assert_eq!([1, 2].map(|lag| seen(&mut world, lag)), ["absent", "in-use"]);
    assert_eq!(world.refused(&detach(&volume, &instance)), "InvalidVolume.NotFound", "mutating calls see what is");
}

/// A stale read does not change the state.
#[test]
fn block_devices_of_an_instance_lag_like_its_volumes() {
    let mut world = World::instant();
    world.sim.keep_past(world.now);
    let (volume, instance) = world.ready();
    world.pass(secs(20));
    world.attach(&volume, "/dev/xvdaa");
    world.pass(secs(1));
    let devices =
        [0, 2].map(|lag| match world.lagged(&format!("DescribeInstances InstanceId.1={instance}"), secs(lag)) {
            Reply::DescribeInstances(found) => found.items[0].devices.len(),
            other => panic!("{other:?}"),
        });
    assert_eq!(devices, [2, 1]);
    assert_eq!(world.volume(&volume).attachments.len(), 1, "a read changes nothing");
}

#[test]
fn reads_lag_up_to_15_s_as_determined_by_seed() {
    let run = |seed| {
        let consistency = Consistency { max_lag: HOUR };
        let mut world = World::of(EngineConfig { seed: Some(seed), consistency, ..EngineConfig::default() });
        let volume = world.gp3();
        let mut history = Vec::new();
        for _ in 0..40 {
            history.push(world.volumes_by("volume-id", &[&volume]).len());
            world.pass(Duration::from_millis(500));
        }
        (volume, history)
    };
    let (id, history) = run(7);
    assert!(history[..28].contains(&0) && history[..28].contains(&1), "{history:?}");
    assert!(history[30..].iter().all(|n| *n == 1), "after 15 s everybody sees it: {history:?}");
    assert_eq!(run(7), (id.clone(), history));
    assert_ne!(run(8).0, id);
}

//! Tests of stuck attachments, disturbed devices, and stale reads.

use super::*;
use crate::api::{DeleteVolume, DescribeInstances, DescribeVolumeStatus, SimVolumeStatus};
use crate::config::Consistency;
use crate::faults::{Attachment as Stuck, Device, FaultInjection};

fn stuck(how: Stuck) -> FaultInjection {
    FaultInjection { attachment: Some(how), ..FaultInjection::default() }
}

impl World {
    fn apply_injected(&mut self, call: Call, injection: &FaultInjection) -> Result<Reply, Fault> {
        let reply = self.sim.apply_with(self.now, call, injection);
        self.settle();
        reply
    }

    fn health(&mut self, volume: &str) -> SimVolumeStatus {
        let call = DescribeVolumeStatus { volume_ids: vec![volume.to_owned()], ..Default::default() };
        match self.apply(Call::DescribeVolumeStatus(call)) {
            Ok(Reply::DescribeVolumeStatus(mut listing)) => listing.items.remove(0),
            other => panic!("no status: {other:?}"),
        }
    }

    fn attachment_state(&self, volume: &str) -> Option<String> {
        self.volume(volume).attachments.first().map(|a| a.state.clone())
    }

    fn lagged(&mut self, volume: &str, lag: Duration) -> Option<SimVolume> {
        let filters = vec![filter_of("volume-id", &[volume])];
        let call = Call::DescribeVolumes(DescribeVolumes { filters, ..Default::default() });
        match self.apply_injected(call, &FaultInjection { lag: Some(lag), ..FaultInjection::default() }) {
            Ok(Reply::DescribeVolumes(listing)) => listing.items.into_iter().next(),
            other => panic!("not described: {other:?}"),
        }
    }
}

#[test]
fn stuck_attachment_is_attaching_until_released() {
    let mut world = World::realistic();
    let (volume, instance) = (world.gp3(), world.instance(0));
    world.pass(Duration::from_secs(5));
    world.apply_injected(attach(&volume, &instance, "/dev/xvdaa"), &stuck(Stuck::StuckAttaching)).unwrap();
    world.pass(Duration::from_hours(3));
    assert_eq!(world.attachment_state(&volume).as_deref(), Some("attaching"));
    world.sim.release(world.now, &volume, None).unwrap();
    world.settle();
    assert_eq!(world.attachment_state(&volume).as_deref(), Some("attached"));
}

#[test]
fn detach_ends_attachment_that_is_stuck_attaching() {
    let mut world = World::instant();
    let (volume, instance) = (world.gp3(), world.instance(0));
    world.apply_injected(attach(&volume, &instance, "/dev/xvdaa"), &stuck(Stuck::StuckAttaching)).unwrap();
    world.call(detach(&volume, &instance)).unwrap();
    assert_eq!(world.volume(&volume).state, "available");
}

#[test]
fn only_force_ends_stuck_or_busy_detachment() {
    for (how, state) in [(Stuck::StuckDetaching, "detaching"), (Stuck::Busy, "busy")] {
        let mut world = World::instant();
        let (volume, instance) = (world.gp3(), world.instance(0));
        world.attach(&volume, "/dev/xvdaa");
        let reply = world.apply_injected(detach(&volume, &instance), &stuck(how)).unwrap();
        assert!(matches!(reply, Reply::DetachVolume(a) if a.state == state));
        world.pass(Duration::from_hours(24));
        assert_eq!(world.attachment_state(&volume).as_deref(), Some(state));
        assert_eq!(world.refused(detach(&volume, &instance)), "IncorrectState");
        let force = DetachVolume { volume_id: volume.clone(), force: true, ..Default::default() };
        world.call(Call::DetachVolume(force)).unwrap();
        assert_eq!(world.volume(&volume).state, "available", "{state}");
    }
}

#[test]
fn released_detachment_continues() {
    let mut world = World::instant();
    let (volume, instance) = (world.gp3(), world.instance(0));
    world.attach(&volume, "/dev/xvdaa");
    world.apply_injected(detach(&volume, &instance), &stuck(Stuck::Busy)).unwrap();
    world.sim.release(world.now, &volume, Some(&instance)).unwrap();
    world.settle();
    assert_eq!(world.attachment_state(&volume), None);
    assert!(world.sim.release(world.now, &volume, None).is_err());
}

#[test]
fn late_device_appears_after_attached_state() {
    let mut world = World::instant();
    let (volume, instance) = (world.gp3(), world.instance(0));
    let late = FaultInjection { device: Some(Device::Late(Duration::from_secs(30))), ..FaultInjection::default() };
    world.apply_injected(attach(&volume, &instance, "/dev/xvdaa"), &late).unwrap();
    let device = |world: &World| world.volume(&volume).attachments[0].loop_device.clone();
    assert_eq!((world.attachment_state(&volume).as_deref(), device(&world)), (Some("attached"), None));
    world.pass(Duration::from_secs(29));
    assert_eq!(device(&world), None);
    world.pass(Duration::from_secs(1));
    assert_eq!(device(&world).as_deref(), Some("/dev/loop9"));
}

#[test]
fn device_can_appear_without_its_link() {
    let mut world = World::instant();
    let (volume, instance) = (world.gp3(), world.instance(0));
    let injection = FaultInjection { device: Some(Device::OtherName), ..FaultInjection::default() };
    world.sim.apply_with(world.now, attach(&volume, &instance, "/dev/xvdaa"), &injection).unwrap();
    world.sim.advance(world.now);
    let effects = world.sim.take_effects();
    assert!(effects.contains(&Effect::Connect { volume, instance, linked: false, breakable: false }), "{effects:?}");
}

/// EC2 still reports `attached`.
#[test]
fn vanished_device_can_be_healed_or_detached() {
    let mut world = World::instant();
    let (volume, instance) = (world.gp3(), world.instance(0));
    let injection =
        FaultInjection { device: Some(Device::Vanish(Duration::from_secs(9))), ..FaultInjection::default() };
    let seen = |world: &World| world.volume(&volume).attachments.remove(0);
    world.apply_injected(attach(&volume, &instance, "/dev/xvdaa"), &injection).unwrap();
    world.pass(Duration::from_secs(8));
    assert!(seen(&world).loop_device.is_some());
    world.pass(Duration::from_secs(1));
    assert_eq!((seen(&world).state.as_str(), seen(&world).loop_device), ("attached", None));
    world.sim.heal_device(&volume).unwrap();
    world.settle();
    assert!(seen(&world).loop_device.is_some());
    world.call(detach(&volume, &instance)).unwrap();
    world.apply_injected(attach(&volume, &instance, "/dev/xvdaa"), &injection).unwrap();
    world.pass(Duration::from_secs(10));
    world.call(detach(&volume, &instance)).unwrap();
    assert_eq!(world.volume(&volume).state, "available");
}

#[test]
fn volume_with_io_errors_is_impaired_until_healed() {
    let mut world = World::instant();
    let (volume, instance) = (world.gp3(), world.instance(0));
    let injection =
        FaultInjection { device: Some(Device::IoError(Duration::from_secs(9))), ..FaultInjection::default() };
    world.apply_injected(attach(&volume, &instance, "/dev/xvdaa"), &injection).unwrap();
    assert_eq!(world.health(&volume).status, "ok");
    world.now += Duration::from_secs(9);
    world.sim.advance(world.now);
    assert_eq!(world.sim.take_effects(), [Effect::BreakIo { volume: volume.clone() }]);
    assert_eq!(world.health(&volume).status, "impaired");
    world.sim.heal_device(&volume).unwrap();
    assert_eq!(world.sim.take_effects(), [Effect::HealIo { volume: volume.clone() }]);
    assert_eq!(world.health(&volume).status, "ok");
}

/// An object is absent before its creation and present after its deletion. Mutating calls use the current state.
#[test]
fn stale_read_shows_old_versions() {
    let mut world = World::instant();
    world.sim.keep_past(world.now);
    let second = Duration::from_secs(1);
    world.pass(second);
    let volume = world.gp3();
    world.pass(second);
    world.attach(&volume, "/dev/xvdaa");
    world.pass(second);
    let seen = |world: &mut World, seconds| world.lagged(&volume, second * seconds).map(|v| v.state);
    assert_eq!(seen(&mut world, 0).as_deref(), Some("in-use"));
    assert_eq!(seen(&mut world, 1).as_deref(), Some("in-use"));
    assert_eq!(seen(&mut world, 2).as_deref(), Some("available"));
    assert_eq!(seen(&mut world, 3), None, "not there yet");
    let instance = world.instance(0);
    world.call(detach(&volume, &instance)).unwrap();
    world.call(Call::DeleteVolume(DeleteVolume { volume_id: volume.clone(), dry_run: false })).unwrap();
    assert_eq!(seen(&mut world, 0), None);
    world.pass(second);
    assert_eq!(seen(&mut world, 1), None);
    assert_eq!(seen(&mut world, 2).as_deref(), Some("in-use"), "still there");
    assert_eq!(world.refused(detach(&volume, &instance)), "InvalidVolume.NotFound", "mutating calls see what is");
}

/// A read changes nothing.
#[test]
fn block_devices_of_instance_lag_with_its_volumes() {
    let mut world = World::instant();
    world.sim.keep_past(world.now);
    let (volume, instance) = (world.gp3(), world.instance(0));
    world.pass(Duration::from_secs(20));
    world.attach(&volume, "/dev/xvdaa");
    world.pass(Duration::from_secs(1));
    let devices = |world: &mut World, lag| {
        let call = DescribeInstances { instance_ids: vec![instance.clone()], ..Default::default() };
        let injection = FaultInjection { lag: Some(Duration::from_secs(lag)), ..FaultInjection::default() };
        match world.apply_injected(Call::DescribeInstances(call), &injection) {
            Ok(Reply::DescribeInstances(listing)) => listing.items[0].devices.len(),
            other => panic!("not described: {other:?}"),
        }
    };
    assert_eq!((devices(&mut world, 0), devices(&mut world, 2)), (2, 1));
    assert_eq!(world.volume(&volume).attachments.len(), 1, "a read changes nothing");
}

#[test]
fn reads_lag_up_to_15_s_as_determined_by_seed() {
    let run = |seed| {
        let consistency = Consistency { max_lag: Duration::from_secs(3600) };
        let config = EngineConfig { seed: Some(seed), consistency, ..EngineConfig::default() };
        let mut world = World::of(config);
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

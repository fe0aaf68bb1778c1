//! Tests that save a state and load it.

use super::*;

impl World {
    /// Simulates a killed simulator that starts again from its saved state. Returns the effects.
    fn restart(&mut self) -> Vec<Effect> {
        self.sim = load(&self.sim.save(), &self.config).unwrap();
        self.sim.resume(self.now);
        self.sim.take_effects()
    }
}

#[test]
fn saved_state_and_tokens_survive_a_restart() {
    let mut world = World::instant();
    let volume = world.create("ClientToken=t").id;
    world.snapshot(&volume);
    let before = world.sim.view(world.now);
    assert_eq!(world.restart(), []);
    assert_eq!(world.sim.view(world.now), before);
    assert_eq!(world.create("ClientToken=t").id, volume, "tokens are remembered");
}

#[test]
fn attached_volume_gets_its_device_after_restart() {
    let mut world = World::instant();
    let (volume, instance) = world.attached();
    assert_eq!(world.sim.connected_volumes(), [volume.clone()].into());
    let effects = world.restart();
    assert_eq!(effects, [Effect::Connect { volume: volume.clone(), instance, linked: true, breakable: false }]);
    assert_eq!(world.attachment(&volume).state, "attached");
    world.sim.finish(world.now, &effects[0], &Outcome::Done(Some("/dev/loop5".into())));
    assert_eq!(world.attachment(&volume).loop_device.as_deref(), Some("/dev/loop5"));
}

#[test]
fn running_detach_continues_after_restart() {
    let mut world = World::instant();
    let (volume, instance) = world.attached();
    world.apply(&detach(&volume, &instance)).unwrap();
    let effects = world.restart();
    assert_eq!(effects, [Effect::Disconnect { volume: volume.clone(), instance, force: false }]);
    world.sim.finish(world.now, &effects[0], &Outcome::Done(None));
    world.settle();
    assert_eq!(world.volume(&volume).state, "available");
}

#[test]
fn creation_and_growth_are_repeated_after_restart() {
    let mut world = World::instant();
    let grown = world.gp3();
    world.apply(GP3).unwrap();
    let wanted = world.sim.take_effects();
    world.apply(&format!("ModifyVolume VolumeId={grown} Size=9")).unwrap();
    let effects = world.restart();
    assert!(effects.contains(&wanted[0]), "{effects:?}");
    assert!(effects.contains(&Effect::Grow { volume: grown, gib: 9 }), "{effects:?}");
}

/// A copy whose point in time was lost in a crash is undone, because no client has seen it.
#[test]
fn unconfirmed_copies_are_undone_after_restart() {
    let mut world = World::instant();
    let volume = world.gp3();
    world.apply(&format!("CreateSnapshot VolumeId={volume}")).unwrap();
    let copy = format!("CopyVolumes SourceVolumeId={volume} ClientToken=t");
    let Ok(Reply::CopyVolumes(copies)) = world.apply(&copy) else { panic!() };
    world.sim.take_effects();
    assert_eq!(world.restart(), [Effect::DeleteBacking { volume: copies[0].id.clone() }]);
    assert!(world.sim.snapshots.is_empty());
    world.done(&copy);
}

#[test]
fn invalid_state_is_rejected() {
    let config = EngineConfig::default();
    assert!(load(b"{}", &config).is_err());
    assert!(load(b"", &config).is_err());
    let other = String::from_utf8(World::instant().sim.save()).unwrap().replacen("\"format\":2", "\"format\":3", 1);
    assert!(load(other.as_bytes(), &config).unwrap_err().contains("format 3"));
}

//! Client tokens.

use super::*;
use crate::config::BurntToken;

fn tagged(first: &str, second: &str) -> String {
    let of = "TagSpecification.1";
    format!("ClientToken=t {of}.ResourceType=volume {of}.Tag.1.Key={first} {of}.Tag.2.Key={second}")
}

#[test]
fn same_token_and_parameters_return_same_volume() {
    let mut world = World::instant();
    let first = world.create("ClientToken=t");
    let again = world.create("ClientToken=t");
    assert_eq!(first.id, again.id);
    assert_eq!(again.state, "available", "the reply shows the volume as it is now");
    assert_ne!(world.create("ClientToken=u").id, first.id);
    assert_ne!(world.gp3(), world.gp3(), "without a token each call makes a volume");
}

/// The code is IdempotentParameterMismatch.
#[test]
fn same_token_with_other_parameters_is_mismatch() {
    let mut world = World::instant();
    world.create("ClientToken=t");
    for other in ["Size=5", "AvailabilityZone=us-west-2b", "Iops=3000", "Encrypted=false", &tagged("a", "b")] {
        let call = format!("{GP3} ClientToken=t {other}");
        assert_eq!(world.refused(&call), "IdempotentParameterMismatch", "{other}");
    }
}

#[test]
fn order_of_tags_does_not_change_the_request() {
    let mut world = World::instant();
    assert_eq!(world.create(&tagged("a", "b")).id, world.create(&tagged("b", "a")).id);
}

#[test]
fn token_of_deleted_volume_is_burnt_for_12_hours() {
    let mut world = World::instant();
    let volume = world.create("ClientToken=t").id;
    world.done(&format!("DeleteVolume VolumeId={volume}"));
    let again = format!("{GP3} ClientToken=t");
    assert_eq!(world.refused(&again), "IdempotentParameterMismatch");
    world.pass(HOUR * 12 - secs(1));
    assert_eq!(world.refused(&again), "IdempotentParameterMismatch");
    world.pass(secs(1));
    assert_ne!(world.create("ClientToken=t").id, volume);
}

/// EC2 is known to give either reply, and the configuration selects one.
#[test]
fn burnt_token_may_return_reply_of_deleted_volume() {
    let mut world = World::of(EngineConfig { burnt_token: BurntToken::OldReply, ..EngineConfig::default() });
    let volume = world.create("ClientToken=t").id;
    world.done(&format!("DeleteVolume VolumeId={volume}"));
    let reply = world.create("ClientToken=t");
    assert_eq!((reply.id.as_str(), reply.size_gib), (volume.as_str(), 4));
    assert!(!world.sim.volumes.contains_key(&volume));
}

#[test]
fn dry_run_does_not_use_up_token() {
    let mut world = World::instant();
    assert_eq!(world.refused(&format!("{GP3} ClientToken=t DryRun=true")), "DryRunOperation");
    world.create("ClientToken=t Size=9");
}

//! Tests of client tokens.

use super::*;
use crate::config::BurntToken;

/// EC2 is known to give either of two replies. The configuration selects one.
#[test]
fn token_of_deleted_volume_may_return_original_reply() {
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

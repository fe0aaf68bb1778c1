//! Client tokens.

use super::*;
use crate::api::{DeleteVolume, Tag, TagSpecification};
use crate::config::BurntToken;

fn named(token: &str) -> CreateVolume {
    CreateVolume { client_token: Some(token.to_owned()), ..gp3() }
}

fn tagged(token: &str, tags: &[(&str, &str)]) -> CreateVolume {
    let tags = tags.iter().map(|(k, v)| Tag { key: (*k).to_owned(), value: (*v).to_owned() }).collect();
    CreateVolume {
        tag_specifications: vec![TagSpecification { resource_type: "volume".to_owned(), tags }],
        ..named(token)
    }
}

#[test]
fn same_token_and_parameters_return_same_volume() {
    let mut world = World::instant();
    let first = world.create(named("t"));
    let again = world.create(named("t"));
    assert_eq!(first.id, again.id);
    assert_eq!(again.state, "available", "the reply shows the volume as it is now");
    assert_ne!(world.create(named("u")).id, first.id);
    assert_ne!(world.gp3(), world.gp3(), "without a token each call makes a volume");
}

/// The code is IdempotentParameterMismatch.
#[test]
fn same_token_with_other_parameters_is_mismatch() {
    let mut world = World::instant();
    world.create(named("t"));
    for other in [
        CreateVolume { size: Some(5), ..named("t") },
        CreateVolume { availability_zone: Some("us-west-2b".into()), ..named("t") },
        CreateVolume { iops: Some(3000), ..named("t") },
        CreateVolume { encrypted: Some(false), ..named("t") },
        tagged("t", &[("a", "b")]),
    ] {
        assert_eq!(world.refused(Call::CreateVolume(other)), "IdempotentParameterMismatch");
    }
}

#[test]
fn order_of_tags_does_not_change_the_request() {
    let mut world = World::instant();
    let first = world.create(tagged("t", &[("a", "1"), ("b", "2")]));
    assert_eq!(world.create(tagged("t", &[("b", "2"), ("a", "1")])).id, first.id);
}

#[test]
fn token_of_deleted_volume_is_burnt_for_12_hours() {
    let mut world = World::instant();
    let volume = world.create(named("t")).id;
    world.call(Call::DeleteVolume(DeleteVolume { volume_id: volume.clone(), dry_run: false })).unwrap();
    assert_eq!(world.refused(Call::CreateVolume(named("t"))), "IdempotentParameterMismatch");
    world.pass(Duration::from_secs(12 * 3600 - 1));
    assert_eq!(world.refused(Call::CreateVolume(named("t"))), "IdempotentParameterMismatch");
    world.pass(Duration::from_secs(1));
    assert_ne!(world.create(named("t")).id, volume);
}

/// EC2 is known to give either reply, and the configuration selects one.
#[test]
fn burnt_token_may_return_reply_of_deleted_volume() {
    let mut world = World::of(EngineConfig { burnt_token: BurntToken::OldReply, ..EngineConfig::default() });
    let volume = world.create(named("t")).id;
    world.call(Call::DeleteVolume(DeleteVolume { volume_id: volume.clone(), dry_run: false })).unwrap();
    let reply = world.create(named("t"));
    assert_eq!((reply.id.as_str(), reply.size_gib), (volume.as_str(), 4));
    assert!(!world.sim.volumes.contains_key(&volume));
}

#[test]
fn dry_run_does_not_use_up_token() {
    let mut world = World::instant();
    world.call(Call::CreateVolume(CreateVolume { dry_run: true, ..named("t") })).unwrap_err();
    world.create(CreateVolume { size: Some(9), ..named("t") });
}

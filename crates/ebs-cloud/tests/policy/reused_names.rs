//! Names that were used before: EC2 remembers their client tokens, and this process does not.

use std::time::Duration;

use ebs_cloud::VolumeSpec;
use ebs_ec2::{Action, ErrorClass};
use ebs_sim::engine::{BurntToken, EngineConfig};
use tokio::time::Instant;

use crate::fixture::{Fixture, message_of, spec};

const BOTH: [BurntToken; 2] = [BurntToken::Mismatch, BurntToken::OldReply];

/// An account in which the name has had so many volumes, the last one deleted a while ago, and a process that knows nothing of it.
async fn after_so_many(times: usize, burnt_token: BurntToken, wanted: &VolumeSpec) -> Fixture {
    let mut fixture = Fixture::with(EngineConfig { burnt_token, ..EngineConfig::default() }).await;
    for _ in 0..times {
        let made = fixture.create(wanted).await.expect("a plain volume can be created");
        fixture.cloud.volumes.delete(&made.id, &fixture.waiters).await.expect("it can be deleted");
        fixture.pass(60).await;
    }
    fixture.restart();
    fixture.sim.clear_calls();
    fixture
}

#[tokio::test(start_paused = true)]
async fn a_name_used_often_gets_its_volume_in_one_attempt() {
    for burnt_token in BOTH {
        let fixture = after_so_many(8, burnt_token, &spec("pvc-1")).await;
        let began = Instant::now();
        let made = fixture.create(&spec("pvc-1")).await;
        made.unwrap_or_else(|error| panic!("{burnt_token:?}: {}", message_of(&error)));
        assert!(began.elapsed() < Duration::from_secs(25), "{burnt_token:?}: {:?}", began.elapsed());
        assert_eq!(fixture.creations().len(), 9, "{burnt_token:?}");
    }
}

/// A key that cannot be used is the usual reason for a volume that vanishes, and none for one that was deleted.
#[tokio::test(start_paused = true)]
async fn an_encrypted_name_used_often_is_no_matter_of_its_key() {
    for burnt_token in BOTH {
        let wanted = VolumeSpec { encrypted: true, ..spec("pvc-1") };
        let fixture = after_so_many(4, burnt_token, &wanted).await;
        let made = fixture.create(&wanted).await;
        made.unwrap_or_else(|error| panic!("{burnt_token:?}: {}", message_of(&error)));
    }
}

/// Under the last token that was used there is a live volume: it is the one.
#[tokio::test(start_paused = true)]
async fn the_volume_under_a_later_token_is_found() {
    for burnt_token in BOTH {
        let mut fixture = after_so_many(4, burnt_token, &spec("pvc-1")).await;
        let live = fixture.create(&spec("pvc-1")).await.unwrap();
        fixture.pass(60).await;
        fixture.restart();
        assert_eq!(fixture.create(&spec("pvc-1")).await.unwrap().id, live.id, "{burnt_token:?}");
        assert_eq!(fixture.volumes().await.len(), 1, "{burnt_token:?}");
    }
}

/// A new volume that a describe does not show yet is not an old one, and gets no second one beside it.
#[tokio::test(start_paused = true)]
async fn a_new_volume_that_is_not_shown_yet_is_waited_for() {
    for burnt_token in BOTH {
        let fixture = after_so_many(3, burnt_token, &spec("pvc-1")).await;
        let (sim, mut made) = (fixture.sim.clone(), None);
        fixture.ec2.override_volumes(move |volumes| {
            if sim.count(Action::CreateVolume) < 4 {
                return;
            }
            let made = made.get_or_insert_with(Instant::now);
            if made.elapsed() < Duration::from_secs(13) {
                volumes.clear();
            }
        });
        fixture.create(&spec("pvc-1")).await.unwrap();
        assert_eq!((fixture.volumes().await.len(), fixture.creations().len()), (1, 4), "{burnt_token:?}");
    }
}

/// Two volumes that vanish are followed by a third attempt; a third one is the end of it, since the next would go the same way.
#[tokio::test(start_paused = true)]
async fn a_volume_that_vanishes_is_made_again_twice_and_no_more() {
    for (vanish, made) in [(2, true), (3, false)] {
        let fixture = Fixture::new().await;
        let mut seen: Vec<ebs_types::VolumeId> = Vec::new();
        fixture.ec2.override_volumes(move |volumes| {
            for volume in volumes.iter_mut() {
                if !seen.contains(&volume.id) {
                    seen.push(volume.id.clone());
                }
                if seen.iter().position(|id| *id == volume.id) < Some(vanish) {
                    volume.state = ebs_cloud::VolumeState::Deleting;
                }
            }
        });
        let outcome = fixture.create(&spec("pvc-1")).await;
        assert_eq!(outcome.is_ok(), made, "{vanish}: {outcome:?}");
        assert_eq!(fixture.creations().len(), 3, "{vanish}");
    }
}

/// A process that has been asked alone for a while learns nothing by waiting when another volume carries the name.
#[tokio::test(start_paused = true)]
async fn a_differing_volume_is_reported_at_once_by_a_leader_of_long_standing() {
    let fixture = Fixture::new().await;
    fixture.serve_alone().await;
    fixture
        .stranger(ebs_ec2::CreateVolume { size: ebs_types::Gib(9), ..crate::fixture::request(&spec("pvc-1"), "x") })
        .await;
    fixture.pass(60).await;
    let wanted = VolumeSpec {
        capacity: ebs_cloud::CapacityRequest { limit: Some(ebs_types::Gib(5)), ..spec("pvc-1").capacity },
        ..spec("pvc-1")
    };
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::IdempotentMismatch, false);
    let began = Instant::now();
    let error = fixture.create(&wanted).await.unwrap_err();
    assert_eq!(error.kind, ebs_cloud::CloudErrorKind::AlreadyExists, "{error:?}");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

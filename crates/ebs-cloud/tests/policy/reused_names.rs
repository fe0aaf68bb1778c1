//! Names that earlier volumes had: EC2 remembers their client tokens, but this process does not.

use std::collections::BTreeSet;
use std::time::Duration;

use ebs_cloud::VolumeSpec;
use ebs_ec2::{Action, ErrorClass};
use ebs_sim::engine::{BurntToken, EngineConfig};
use tokio::time::Instant;

use crate::fixture::{Fixture, assert_error, message_of, request, spec};

const BOTH: [BurntToken; 2] = [BurntToken::Mismatch, BurntToken::OldReply];

/// Creates and deletes `times` volumes with the name, waits a while, and restarts the process.
async fn after_so_many(times: usize, burnt_token: BurntToken, wanted: &VolumeSpec) -> Fixture {
    let mut fixture = Fixture::with(EngineConfig { burnt_token, ..EngineConfig::default() }).await;
    for _ in 0..times {
        let made = fixture.create(wanted).await.expect("a plain volume can be created");
        fixture.delete(&made.id).await.expect("it can be deleted");
        fixture.pass(60).await;
    }
    fixture.restart();
    fixture.sim.clear_calls();
    fixture
}

#[tokio::test(start_paused = true)]
async fn volume_is_created_once_despite_many_used_tokens() {
    for burnt_token in BOTH {
        let fixture = after_so_many(8, burnt_token, &spec("pvc-1")).await;
        let began = Instant::now();
        let made = fixture.create(&spec("pvc-1")).await;
        made.unwrap_or_else(|error| panic!("{burnt_token:?}: {}", message_of(&error)));
        assert!(began.elapsed() < Duration::from_secs(25), "{burnt_token:?}: {:?}", began.elapsed());
        assert_eq!(fixture.creations().len(), 9, "{burnt_token:?}");
    }
}

/// An encrypted volume that vanishes usually has an unusable KMS key, but not if a client deleted the volume.
#[tokio::test(start_paused = true)]
async fn encrypted_volume_is_created_despite_used_tokens() {
    for burnt_token in BOTH {
        let wanted = VolumeSpec { encrypted: true, ..spec("pvc-1") };
        let fixture = after_so_many(4, burnt_token, &wanted).await;
        let made = fixture.create(&wanted).await;
        made.unwrap_or_else(|error| panic!("{burnt_token:?}: {}", message_of(&error)));
    }
}

#[tokio::test(start_paused = true)]
async fn live_volume_with_a_later_token_is_found() {
    for burnt_token in BOTH {
        let mut fixture = after_so_many(4, burnt_token, &spec("pvc-1")).await;
        let live = fixture.create(&spec("pvc-1")).await.unwrap();
        fixture.pass(60).await;
        fixture.restart();
        assert_eq!(fixture.create(&spec("pvc-1")).await.unwrap().id, live.id, "{burnt_token:?}");
        assert_eq!(fixture.volumes().await.len(), 1, "{burnt_token:?}");
    }
}

/// The driver creates no second volume.
#[tokio::test(start_paused = true)]
async fn new_volume_that_is_not_listed_yet_is_awaited() {
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

/// After the third loss, the creation fails, because the next volume would be lost too.
#[tokio::test(start_paused = true)]
async fn vanishing_volume_is_recreated_at_most_twice() {
    for (vanish, made) in [(2, true), (3, false)] {
        let fixture = Fixture::new().await;
        let mut seen: Vec<ebs_ec2::VolumeId> = Vec::new();
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
        let began = Instant::now();
        let outcome = fixture.create(&spec("pvc-1")).await;
        assert_eq!(outcome.is_ok(), made, "{vanish}: {outcome:?}");
        assert!(began.elapsed() < Duration::from_secs(30), "each loss ends the wait: {:?}", began.elapsed());
        let tokens: BTreeSet<_> = fixture.creations().into_iter().map(|request| request.client_token).collect();
        assert_eq!((tokens.len(), fixture.creations().len()), (3, 3), "{vanish}");
    }
}

/// A process that has been the only leader for a while would learn nothing more by waiting.
#[tokio::test(start_paused = true)]
async fn established_leader_reports_a_mismatched_volume_at_once() {
    let fixture = Fixture::new().await;
    fixture.serve_alone().await;
    fixture.stranger(ebs_ec2::CreateVolume { size: ebs_ec2::Gib(9), ..request(&spec("pvc-1"), "x") }).await;
    fixture.pass(60).await;
    let wanted = VolumeSpec {
        capacity: ebs_cloud::CapacityRequest { limit: Some(ebs_ec2::Gib(5)), ..spec("pvc-1").capacity },
        ..spec("pvc-1")
    };
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::IdempotentMismatch, false);
    let began = Instant::now();
    assert_error(fixture.create(&wanted).await, ebs_cloud::CloudErrorKind::AlreadyExists);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

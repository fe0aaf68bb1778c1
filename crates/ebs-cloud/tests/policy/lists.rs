use std::collections::BTreeSet;

use ebs_cloud::CloudErrorKind;
use ebs_ec2::{Action, ErrorClass, VolumeId};

use crate::fixture::{Fixture, assert_error, request, snapshot_spec, spec};

async fn ids_in_pages_of(fixture: &Fixture, length: u32) -> Vec<VolumeId> {
    let (mut ids, mut token) = (Vec::new(), None);
    loop {
        let page = fixture.cloud.volumes.list(length, token).await.expect("a listing works");
        assert!(
            length == 0 || page.items.len() <= usize::try_from(length).expect("lengths are small"),
            "{} > {length}",
            page.items.len()
        );
        ids.extend(page.items.into_iter().map(|v| v.id));
        match page.next {
            None => return ids,
            next => token = next,
        }
    }
}

/// Pages of 1 to 4 entries are shorter than EC2's own pages.
#[tokio::test(start_paused = true)]
async fn pages_of_any_length_list_every_managed_volume_once() {
    let fixture = Fixture::new().await;
    let mut made = BTreeSet::new();
    for n in 0..13 {
        made.insert(fixture.volume(&format!("pvc-{n}")).await.id);
        // Some volumes get the same age.
        fixture.pass(n % 2).await;
    }
    let mut foreign = spec("foreign");
    foreign.tags.remove("ebs.csi.aws.com/cluster");
    fixture.stranger(request(&foreign, "their-token")).await;
    for length in [0, 1, 2, 4, 5, 6, 13, 5000] {
        let seen = ids_in_pages_of(&fixture, length).await;
        assert_eq!(seen.len(), 13, "in pages of {length}");
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), made, "in pages of {length}");
    }
}

/// EC2 returns all objects in one reply if the request has no page length.
#[tokio::test(start_paused = true)]
async fn listing_without_a_length_has_pages_of_500() {
    let fixture = Fixture::new().await;
    for n in 0..1_001 {
        fixture.stranger(request(&spec(&format!("pvc-{n}")), &format!("token-{n}"))).await;
    }
    let (mut lengths, mut token) = (Vec::new(), None);
    loop {
        let page = fixture.cloud.volumes.list(0, token).await.unwrap();
        lengths.push(page.items.len());
        match page.next {
            None => break,
            next => token = next,
        }
    }
    assert_eq!(lengths, [500, 500, 1]);
}

#[tokio::test(start_paused = true)]
async fn short_pages_are_stable_while_volumes_come_and_go() {
    let fixture = Fixture::new().await;
    let mut made = Vec::new();
    for n in 0..3 {
        made.push(fixture.volume(&format!("pvc-{n}")).await.id);
        fixture.pass(1).await;
    }
    let first = fixture.cloud.volumes.list(2, None).await.unwrap();
    for volume in &first.items {
        fixture.delete(&volume.id).await.unwrap();
    }
    made.push(fixture.volume("pvc-new").await.id);
    let rest = fixture.cloud.volumes.list(0, first.next).await.unwrap();
    assert_eq!(rest.items.into_iter().map(|v| v.id).collect::<Vec<_>>(), made[2..]);
    assert_eq!(rest.next, None);
}

#[tokio::test(start_paused = true)]
async fn invalid_page_token_is_rejected() {
    let fixture = Fixture::new().await;
    fixture.volume("pvc-1").await;
    for (length, token) in [(0, "nonsense"), (2, "nonsense"), (0, "after:x"), (2, "after:1")] {
        assert_error(fixture.cloud.volumes.list(length, Some(token.to_owned())).await, CloudErrorKind::BadPageToken);
        assert_error(
            fixture.cloud.snapshots.list(None, length, Some(token.to_owned())).await,
            CloudErrorKind::BadPageToken,
        );
    }
}

/// The driver lists only the account's own snapshots.
#[tokio::test(start_paused = true)]
async fn snapshots_are_listed_all_or_by_volume() {
    let fixture = Fixture::new().await;
    let (one, two) = (fixture.volume("pvc-1").await, fixture.volume("pvc-2").await);
    for n in 0..6 {
        let source = if n < 4 { &one } else { &two };
        fixture.snapshot(&snapshot_spec(&format!("snap-{n}"), &source.id)).await.unwrap();
        fixture.pass(1).await;
    }
    let all = fixture.cloud.snapshots.list(None, 0, None).await.unwrap();
    assert_eq!((all.items.len(), all.next), (6, None));
    let first = fixture.cloud.snapshots.list(Some(one.id.clone()), 3, None).await.unwrap();
    let second = fixture.cloud.snapshots.list(Some(one.id.clone()), 3, first.next.clone()).await.unwrap();
    assert_eq!((first.items.len(), second.items.len(), second.next), (3, 1, None));
    assert!(first.items.iter().chain(&second.items).all(|s| s.source_volume.as_ref() == Some(&one.id)));
    let nobody = VolumeId::parse("vol-0123456789abcdef0").unwrap();
    assert!(fixture.cloud.snapshots.list(Some(nobody), 0, None).await.unwrap().items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn listing_continues_after_an_empty_page_with_a_token() {
    let fixture = Fixture::new().await;
    let source = fixture.volume("pvc-1").await;
    for n in 0..7 {
        let spec = snapshot_spec(&format!("snap-{n}"), &source.id);
        fixture.snapshot(&spec).await.unwrap();
    }
    let mut pages = 0;
    fixture.ec2.override_snapshots(move |snapshots| {
        pages += 1;
        if pages == 1 {
            snapshots.clear();
        }
    });
    let page = fixture.cloud.snapshots.list(None, 5, None).await.unwrap();
    assert_eq!((page.items.len(), page.next), (2, None), "those of the second page");
}

/// A throttled describe only delays the listing.
#[tokio::test(start_paused = true)]
async fn listing_with_lost_answers_is_retried_twice() {
    for (lost, listed) in [(2, true), (3, false)] {
        let fixture = Fixture::new().await;
        fixture.volume("pvc-1").await;
        fixture.sim.fail_next(Action::DescribeVolumes, ErrorClass::Throttled, false);
        fixture.sim.clear_calls();
        for _ in 0..lost {
            fixture.sim.fail_next(Action::DescribeVolumes, ErrorClass::Ambiguous, false);
        }
        let page = fixture.cloud.volumes.list(0, None).await;
        assert_eq!((page.is_ok(), fixture.count(Action::DescribeVolumes)), (listed, 4), "{page:?}");
    }
}

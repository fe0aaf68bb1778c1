use ebs_ec2::{CreateVolume, Gib, Place, VolumeType, Volumes, ZoneName};

use super::*;

async fn list(world: &World, max_entries: i32, token: &str) -> Result<(Vec<csi::Volume>, String), Refused> {
    let request = ListVolumesRequest { max_entries, starting_token: token.to_owned() };
    let answer = world.service.list_volumes(Request::new(request)).await.map_err(Refused::from)?.into_inner();
    Ok((answer.entries.into_iter().map(|e| e.volume.expect("a volume")).collect(), answer.next_token))
}

/// Creates a volume without the driver's tags.
async fn foreign(world: &World) {
    let place = Place::Zone(ZoneName::parse("us-west-2a").expect("a zone"));
    let request = CreateVolume::plain("theirs", place, Gib(1), VolumeType::Gp3);
    world.ec2.by_test().create_volume(&request).await.expect("created");
}

#[tokio::test(start_paused = true)]
async fn list_volumes_returns_only_volumes_with_the_driver_tag() {
    let world = World::start().await;
    foreign(&world).await;
    let mine = world.volume("pvc-1").await;
    let (volumes, next) = list(&world, 0, "").await.expect("lists");
    assert_eq!((volumes.len(), next.as_str()), (1, ""));
    assert_eq!((volumes[0].volume_id.as_str(), volumes[0].capacity_bytes), (mine.as_str(), 4 * GIB));
    assert_eq!(volumes[0].accessible_topology[0].segments["topology.kubernetes.io/zone"], "us-west-2a");
}

#[tokio::test(start_paused = true)]
async fn pages_of_any_length_list_every_volume_once() {
    let world = World::start().await;
    let mut mine = Vec::new();
    for name in ["a", "b", "c"] {
        mine.push(world.volume(name).await);
    }
    mine.sort();
    for max in [0, 1, 2, 3, 7] {
        let (mut seen, mut token) = (Vec::new(), String::new());
        for _ in 0..5 {
            let (volumes, next) = list(&world, max, &token).await.expect("lists");
            assert!(max == 0 || i32::try_from(volumes.len()).expect("few") <= max);
            seen.extend(volumes.into_iter().map(|v| v.volume_id));
            token = next;
            if token.is_empty() {
                break;
            }
        }
        seen.sort();
        assert_eq!(seen, mine, "max_entries {max}");
    }
}

/// The token is Aborted, the length InvalidArgument.
#[tokio::test(start_paused = true)]
async fn invalid_token_or_negative_length_is_refused() {
    let world = World::start().await;
    refused(list(&world, 0, "nobody gave this").await, "Aborted", "token");
    refused(list(&world, -1, "").await, "InvalidArgument", "max_entries");
}

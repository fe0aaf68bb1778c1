use super::*;

async fn staged() -> World {
    let world = World::new();
    world.stage().await.unwrap();
    world
}

/// Publishing links the target to the staging path; a link that leads there stays as it is, one that leads elsewhere is replaced, and an
/// empty directory makes room.
#[tokio::test]
async fn a_target_is_a_link_to_the_staging_path() {
    let world = staged().await;
    world.publish().await.unwrap();
    assert!(world.is_published());
    world.host.clear_log();
    world.publish().await.unwrap();
    assert!(world.is_published());
    assert_eq!((world.host.calls("remove"), world.host.calls("create_link")), (0, 0), "a pod keeps its link");

    world.host.add_link(TARGET, &format!(r"{KUBELET}\elsewhere"));
    world.publish().await.unwrap();
    assert!(world.is_published());

    world.unpublish().await.unwrap();
    world.host.add_directory(TARGET);
    world.publish().await.unwrap();
    assert!(world.is_published());
}

/// A directory with something in it, a file and a mount point are never removed for a publish or an unpublish.
#[tokio::test]
async fn what_is_not_ours_at_a_target_stays() {
    let world = staged().await;
    let volume = world.host.volumes_of(1).remove(0);
    let makes: [&dyn Fn(&FakeHost); 3] =
        [&|host| host.add_directory(&format!(r"{TARGET}\data")), &|host| host.add_file(TARGET), &|host| {
            host.add_mount_point(TARGET, &volume)
        }];
    for make in makes {
        world.host.remove_path(TARGET);
        make(&world.host);
        let before = world.host.kind_at(TARGET);
        for refused in [world.publish().await.unwrap_err(), world.unpublish().await.unwrap_err()] {
            assert_eq!(code(&refused), "FailedPrecondition");
            assert!(refused.message().contains("the path is taken"), "{refused}");
        }
        assert_eq!(world.host.kind_at(TARGET), before);
    }
}

/// Only the volume itself, mounted at the staging path, is published.
#[tokio::test]
async fn only_a_staged_volume_is_published() {
    let world = World::new();
    let refused = world.publish().await.unwrap_err();
    assert_eq!(code(&refused), "FailedPrecondition");
    assert!(refused.message().contains("stage the volume there first"), "{refused}");
    world.stage().await.unwrap();
    let other = csi::NodePublishVolumeRequest { volume_id: "vol-0aaaaaaaaaaaaaaaa".to_owned(), ..publish_request() };
    let refused = world.publish_as(other).await.unwrap_err();
    assert!(refused.message().contains("not this volume"), "{refused}");
    world.host.remove_disk(1);
    let refused = world.publish().await.unwrap_err();
    assert!(refused.message().contains("is not there"), "{refused}");
    assert_eq!(world.host.kind_at(TARGET), None);
}

/// Unpublishing removes the link alone: what it leads to, and the staging path, stay; a target that is missing is a success.
#[tokio::test]
async fn unpublishing_removes_the_link_alone() {
    let world = staged().await;
    world.publish().await.unwrap();
    world.unpublish().await.unwrap();
    world.unpublish().await.unwrap();
    assert_eq!(world.host.kind_at(TARGET), None);
    assert!(world.is_staged() && world.host.is_online(1));
}

/// Usage is told of the volume that the path leads to, in bytes; a path that does not show the volume is not found.
#[tokio::test]
async fn usage_is_told_of_the_volume_that_a_path_leads_to() {
    let world = staged().await;
    world.publish().await.unwrap();
    for path in [TARGET, STAGING] {
        let usage = world.stats(path).await.unwrap();
        assert_eq!(usage.unit, i32::from(csi::volume_usage::Unit::Bytes));
        assert!(usage.total > i64::try_from(9 * GIB).unwrap() && usage.used > 0);
        assert_eq!(usage.available, usage.total - usage.used);
    }
    let pods = format!(r"{KUBELET}\pods");
    for path in ["relative", r"C:\elsewhere", &pods, r"C:\var\lib\kubelet\none"] {
        let refused = world.stats(path).await.unwrap_err();
        assert!(["NotFound", "InvalidArgument"].contains(&code(&refused).as_str()), "{path}: {refused}");
    }
    assert_eq!(code(&world.stats(&pods).await.unwrap_err()), "NotFound");
}

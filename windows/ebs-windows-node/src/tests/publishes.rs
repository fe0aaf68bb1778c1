use super::*;

async fn staged() -> World {
    let world = World::new();
    world.stage().await.unwrap();
    world
}

#[tokio::test]
async fn publish_links_the_target_to_the_staging_path() {
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

#[tokio::test]
async fn foreign_entry_at_the_target_is_not_removed() {
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
            assert!(refused.message().contains("the path is in use"), "{refused}");
        }
        assert_eq!(world.host.kind_at(TARGET), before);
    }
}

#[tokio::test]
async fn only_a_staged_volume_is_published() {
    let world = World::new();
    let refused = world.publish().await.unwrap_err();
    assert_eq!(code(&refused), "FailedPrecondition");
    assert!(refused.message().contains("stage the volume there first"), "{refused}");
    world.stage().await.unwrap();
    let other = csi::NodePublishVolumeRequest { volume_id: "vol-0aaaaaaaaaaaaaaaa".to_owned(), ..publish_request() };
    let refused = world.publish_as(other).await.unwrap_err();
    assert!(refused.message().contains("another volume"), "{refused}");
    world.host.remove_disk(1);
    let refused = world.publish().await.unwrap_err();
    assert!(refused.message().contains("disk is missing"), "{refused}");
    assert_eq!(world.host.kind_at(TARGET), None);
}

#[tokio::test]
async fn stats_describe_the_volume_to_which_the_path_leads() {
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

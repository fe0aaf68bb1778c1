use super::*;

async fn published() -> World {
    let world = World::new();
    world.stage().await.unwrap();
    world.publish().await.unwrap();
    world
}

#[tokio::test]
async fn volume_grows_to_the_end_of_its_disk() {
    let world = published().await;
    assert_eq!(world.expand(10 * GIB).await.unwrap(), i64::try_from(10 * GIB).unwrap());
    assert_eq!(world.host.calls("resize_partition"), 0);
    world.host.set_disk_size(1, 15 * GIB);
    assert_eq!(world.expand(15 * GIB).await.unwrap(), i64::try_from(15 * GIB).unwrap());
    assert!(world.stats(TARGET).await.unwrap().total > i64::try_from(14 * GIB).unwrap());
    assert_eq!(world.host.calls("resize_partition"), 1);
    world.expand(15 * GIB).await.unwrap();
    assert_eq!(world.host.calls("resize_partition"), 1);
}

#[tokio::test]
async fn expand_fails_while_the_disk_has_not_grown() {
    let world = published().await;
    let refused = world.expand(20 * GIB).await.unwrap_err();
    assert_eq!(code(&refused), "Unavailable");
    world.unpublish().await.unwrap();
    let refused = world.expand(10 * GIB).await.unwrap_err();
    assert_eq!(code(&refused), "NotFound");
}

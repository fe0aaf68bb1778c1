use super::*;

async fn published() -> World {
    let world = World::new();
    world.stage().await.unwrap();
    world.publish().await.unwrap();
    world
}

/// Growth goes to the end of the disk, and the answer is the disk's size; without growth nothing is done.
#[tokio::test]
async fn a_volume_grows_to_the_end_of_its_disk() {
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

/// A disk that has not grown yet is no success, and neither is a path that does not show the volume.
#[tokio::test]
async fn a_disk_that_has_not_grown_yet_is_no_success() {
    let world = published().await;
    let refused = world.expand(20 * GIB).await.unwrap_err();
    assert_eq!(code(&refused), "Unavailable");
    world.unpublish().await.unwrap();
    let refused = world.expand(10 * GIB).await.unwrap_err();
    assert_eq!(code(&refused), "NotFound");
}

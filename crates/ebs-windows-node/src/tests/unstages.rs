use winstorage::fake::Effect;
use winstorage::host::Answer;

use super::*;

/// Unstaging flushes, unmounts, removes the place and takes the disk offline, in this order; asked again it is a success.
#[tokio::test]
async fn unstaging_leaves_an_offline_disk_and_nothing_else() {
    let world = World::new();
    world.stage().await.unwrap();
    world.host.clear_log();
    world.unstage().await.unwrap();
    assert_eq!(world.host.kind_at(STAGING), None);
    assert!(!world.host.is_online(1));
    let log = world.host.log();
    let order = ["flush", "unmount", "remove", "set_online"].map(|step| {
        let is_it = |line: &String| line.split(' ').next() == Some(step);
        log.iter().position(is_it).unwrap_or_else(|| panic!("no {step} in {log:#?}"))
    });
    assert!(order.is_sorted(), "{log:#?}");
    world.unstage().await.unwrap();
    world.host.remove_disk(1);
    world.unstage().await.unwrap();
}

/// A disk that nothing is mounted of any more is found by its serial number and taken offline: what a former process left is finished.
#[tokio::test]
async fn a_disk_that_was_left_online_goes_offline_with_the_next_unstage() {
    let mut world = World::new();
    world.stage().await.unwrap();
    world.host.inject("unmount", 0, Effect::CrashAfter);
    world.unstage().await.unwrap_err();
    world.replace_driver();
    assert!(world.host.is_online(1));
    world.unstage().await.unwrap();
    assert!(!world.host.is_online(1));
    assert_eq!(world.host.kind_at(STAGING), None);
}

/// A flush that fails unmounts nothing and takes nothing offline.
#[tokio::test]
async fn a_flush_that_fails_leaves_the_volume_mounted() {
    let world = World::new();
    world.stage().await.unwrap();
    world.host.inject("flush", 0, Effect::Fail(Answer::Method(1)));
    let refused = world.unstage().await.unwrap_err();
    assert_eq!(code(&refused), "Internal");
    assert!(world.is_staged() && world.host.is_online(1));
    world.unstage().await.unwrap();
}

/// The mount of another volume is not taken away, and a directory with something in it stays.
#[tokio::test]
async fn what_is_another_volumes_stays() {
    let world = World::new();
    world.stage().await.unwrap();
    let volume = world.host.volumes_of(1).remove(0);
    let (volume_id, staging_target_path) = ("vol-0aaaaaaaaaaaaaaaa".to_owned(), STAGING.to_owned());
    let request = csi::NodeUnstageVolumeRequest { volume_id, staging_target_path };
    let refused = world.node.node_unstage_volume(Request::new(request)).await.unwrap_err();
    assert_eq!(code(&refused), "FailedPrecondition");
    assert!(refused.message().contains(volume.guid()) && world.is_staged() && world.host.is_online(1), "{refused}");

    let world = World::new();
    world.host.add_file(&format!(r"{STAGING}\file"));
    world.unstage().await.unwrap();
    assert!(world.host.kind_at(&format!(r"{STAGING}\file")).is_some());
}

/// A volume that was detached without a word is let go: its mount point goes, and the next stage finds a free place.
#[tokio::test]
async fn a_volume_that_vanished_is_let_go() {
    let world = World::new();
    world.stage().await.unwrap();
    world.host.remove_disk(1);
    world.unstage().await.unwrap();
    assert_eq!(world.host.kind_at(STAGING), None);
}

/// A drive letter that Windows has given to the volume is no obstacle.
#[tokio::test]
async fn a_drive_letter_is_no_obstacle() {
    let world = World::new();
    world.stage().await.unwrap();
    world.host.set_drive_letter(1, 'E');
    world.unstage().await.unwrap();
    assert!(!world.host.is_online(1));
}

use winstorage::fake::Effect;
use winstorage::host::Answer;

use super::*;

#[tokio::test]
async fn unstage_leaves_an_offline_disk_and_no_directory() {
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

#[tokio::test]
async fn failed_flush_leaves_the_volume_mounted_and_online() {
    let world = World::new();
    world.stage().await.unwrap();
    world.host.inject("flush", 0, Effect::Fail(Answer::Method(1)));
    let refused = world.unstage().await.unwrap_err();
    assert_eq!(code(&refused), "Internal");
    assert!(world.is_staged() && world.host.is_online(1));
    world.unstage().await.unwrap();
}

#[tokio::test]
async fn unstage_does_not_remove_the_mount_of_another_volume() {
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

#[tokio::test]
async fn unstage_removes_the_mount_of_a_detached_volume() {
    let world = World::new();
    world.stage().await.unwrap();
    world.host.remove_disk(1);
    world.unstage().await.unwrap();
    assert_eq!(world.host.kind_at(STAGING), None);
}

#[tokio::test]
async fn drive_letter_does_not_prevent_unstage() {
    let world = World::new();
    world.stage().await.unwrap();
    world.host.set_drive_letter(1, 'E');
    world.unstage().await.unwrap();
    assert!(!world.host.is_online(1));
}

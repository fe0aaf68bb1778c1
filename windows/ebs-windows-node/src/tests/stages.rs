use std::time::Duration;

use winstorage::fake::{Effect, Late};
use winstorage::host::Answer;
use winstorage::service::STORAGE_BUSY;

use super::*;

#[tokio::test]
async fn new_disk_is_partitioned_formatted_and_mounted() {
    let world = World::new();
    world.stage().await.unwrap();
    assert!(world.is_staged() && world.host.is_online(1));
    assert_eq!(world.formats(), 1);
    world.host.clear_log();
    world.stage().await.unwrap();
    assert!(world.is_staged());
    assert_eq!(world.formats(), 1);
    for step in ["set_online", "initialize_gpt", "create_data_partition", "format_ntfs", "mount", "create_directory"] {
        assert_eq!(world.host.calls(step), 0, "{step} of a staged volume");
    }
}

#[tokio::test]
async fn disk_is_identified_by_its_serial_number() {
    let world = World::without_disk();
    let refused = world.stage().await.unwrap_err();
    assert_eq!(code(&refused), "NotFound");
    let text = format!(r#"Failed to find device path . disk number for device path "" volume id "{VOLUME}" not found"#);
    assert!(refused.message().contains(&text), "{refused}");

    world.host.add_disk(4, "vol0aaaaaaaaaaaaaaaa_00000001.", GIB, true);
    world.host.add_arriving_disk(1, SERIAL, 10 * GIB);
    world.host.inject("rescan", 0, Effect::Fail(Answer::Method(4)));
    world.host.inject("disk_locations", 0, Effect::Fail(Answer::Method(4)));
    world.stage().await.unwrap();
    assert!(world.is_staged());
    assert!(world.host.volumes_of(4).is_empty(), "the other disk is as it was");

    let world = World::new();
    world.host.add_disk(2, " VOL0123456789ABCDEF0 ", GIB, true);
    let refused = world.stage().await.unwrap_err();
    assert_eq!(code(&refused), "FailedPrecondition");
    assert!(refused.message().contains("disks 1 and 2"), "{refused}");
}

#[tokio::test]
async fn disk_location_is_used_only_on_non_nitro_instances() {
    let json = r#"{"virtual_time": true, "disks": [{"number": 1, "size": 10737418240,
        "location": "Bus 0 : Adapter 0 : Port 0 : Target 26 : LUN 0"}]}"#;
    for (instance_type, is_found) in [("m5.large", false), ("m4.large", true)] {
        let host = FakeHost::from_json(json).unwrap();
        let world = World::on(with_directories(host), instance_type);
        assert_eq!(world.stage().await.is_ok(), is_found, "{instance_type}");
        if is_found {
            world.publish().await.unwrap();
            world.unpublish().await.unwrap();
            world.unstage().await.unwrap();
            assert!(!world.host.is_online(1));
        }
    }
}

#[tokio::test]
async fn disk_with_unknown_contents_is_never_formatted() {
    for (offset, bytes) in [(0x438, b"\x53\xef".as_slice()), (0, b"XFSB"), (10 * GIB - 4096, b"x")] {
        let world = World::new();
        world.host.write_disk(1, offset, bytes);
        let refused = world.stage().await.unwrap_err();
        assert_eq!(code(&refused), "FailedPrecondition");
        assert!(refused.message().contains(&format!("offset {offset}")), "{refused}");
        for step in ["initialize_gpt", "create_data_partition", "format_ntfs"] {
            assert_eq!(world.host.calls(step), 0, "{step}");
        }
        assert!(!world.host.is_online(1), "a disk of which nothing is mounted may be detached next");
    }
}

#[tokio::test]
async fn blank_restored_volume_is_formatted_only_if_allowed() {
    let mut request = stage_request();
    request.publish_context.insert("ebs.csi.aws.com/source".to_owned(), "snapshot".to_owned());
    let world = World::new();
    let refused = world.stage_as(request.clone()).await.unwrap_err();
    assert_eq!(code(&refused), "FailedPrecondition");
    assert!(refused.message().contains("formatBlankRestore") && world.formats() == 0, "{refused}");
    request.volume_context.insert("formatblankrestore".to_owned(), "true".to_owned());
    world.stage_as(request).await.unwrap();
    assert!(world.is_staged());
}

#[tokio::test]
async fn disk_smaller_than_in_ec2_is_rejected() {
    let mut request = stage_request();
    request.publish_context.insert("ebs.csi.aws.com/size-gib".to_owned(), "11".to_owned());
    let world = World::new();
    let refused = world.stage_as(request.clone()).await.unwrap_err();
    assert_eq!(code(&refused), "FailedPrecondition");
    assert_eq!(world.host.calls("set_online"), 0);

    let system = csi::NodeStageVolumeRequest { volume_id: "vol-00000000000000000".to_owned(), ..stage_request() };
    let refused = world.stage_as(system).await.unwrap_err();
    assert_eq!(code(&refused), "FailedPrecondition");
    assert!(refused.message().contains("boot or system disk"), "{refused}");
    assert!(world.host.is_online(0) && world.host.kind_at(STAGING).is_none());
}

#[tokio::test]
async fn volume_that_windows_does_not_show_yet_is_unavailable() {
    let partition = r#"{"number": 1, "kind": "data", "size": 1048576}"#;
    let json = format!(
        r#"{{"virtual_time": true, "disks": [{{"number": 1, "serial": "{SERIAL}", "size": 10737418240, "style": "gpt", "partitions": [{partition}]}}]}}"#
    );
    let host = FakeHost::from_json(&json).unwrap();
    let world = World::on(host, "m5.large");
    let refused = world.stage().await.unwrap_err();
    assert_eq!(code(&refused), "Unavailable");
    assert!(refused.message().contains("does not appear in Windows yet"), "{refused}");
}

#[tokio::test]
async fn reused_disk_number_is_not_written_to() {
    let world = World::new();
    let swap = |host: &FakeHost| {
        host.remove_disk(1);
        host.add_disk(1, "vol0aaaaaaaaaaaaaaaa_00000001.", 10 * GIB, true);
    };
    // Swap the disks during the last read of the check for a blank disk.
    world.host.inject("read_disk", 900, Effect::Meanwhile(Box::new(swap)));
    let refused = world.stage().await.unwrap_err();
    assert_eq!(code(&refused), "Unavailable");
    assert!(refused.message().contains("was disk 1"), "{refused}");
    assert_eq!(world.host.calls("initialize_gpt"), 0);
    assert!(world.host.is_online(1), "what is another volume's stays as it is");
}

#[tokio::test]
async fn stage_sets_an_offline_disk_with_a_mount_point_online() {
    let world = World::new();
    world.stage().await.unwrap();
    let storage = Arc::clone(&world.node.implementation().disks.storage);
    storage.set_disk_state(winstorage::types::DiskNumber(1), false).unwrap();
    world.host.clear_log();
    world.stage().await.unwrap();
    assert!(world.is_staged() && world.host.is_online(1));
    assert_eq!((world.host.calls("mount"), world.formats()), (0, 1));
}

#[tokio::test]
async fn only_a_stale_mount_point_is_replaced_at_staging_path() {
    let world = World::new();
    world.host.add_disk(7, "vol0aaaaaaaaaaaaaaaa_00000001.", GIB, true);
    let storage = Arc::clone(&world.node.implementation().disks.storage);
    storage.partition_disk(winstorage::types::DiskNumber(7)).unwrap();
    let other = world.host.volumes_of(7).remove(0);
    world.host.add_mount_point(STAGING, &other);
    let refused = world.stage().await.unwrap_err();
    assert_eq!(code(&refused), "FailedPrecondition");
    assert!(refused.message().contains("disk 7") && !world.host.is_online(1), "{refused}");
    world.host.remove_disk(7);
    world.stage().await.unwrap();
    assert!(world.is_staged());

    let makes: [fn(&FakeHost); 3] = [
        |host| host.add_file(STAGING),
        |host| host.add_link(STAGING, KUBELET),
        |host| host.add_directory(&format!(r"{STAGING}\x")),
    ];
    for make in makes {
        let world = World::new();
        make(&world.host);
        let before = world.host.kind_at(STAGING);
        let refused = world.stage().await.unwrap_err();
        assert_eq!(code(&refused), "FailedPrecondition");
        assert!(world.host.kind_at(STAGING) == before && world.formats() == 0 && !world.host.is_online(1), "{refused}");
    }
}

#[tokio::test]
async fn stage_grows_a_file_system_smaller_than_its_disk() {
    let world = World::new();
    world.stage().await.unwrap();
    world.unstage().await.unwrap();
    world.host.set_disk_size(1, 10 * GIB + 50 * MIB);
    world.stage().await.unwrap();
    assert_eq!(world.host.calls("resize_partition"), 0);
    world.host.set_disk_size(1, 20 * GIB);
    // Another service holds the volume briefly.
    world.host.inject("resize_partition", 0, Effect::Fail(Answer::Method(STORAGE_BUSY)));
    // A failed rescan has no effect on this volume.
    world.host.inject("rescan", 0, Effect::Fail(Answer::Method(1)));
    world.stage().await.unwrap();
    assert_eq!(world.host.calls("resize_partition"), 2);
    assert!(world.stats(STAGING).await.unwrap().total > i64::try_from(19 * GIB).unwrap());
}

#[tokio::test]
async fn stage_waits_for_late_partitions_and_volumes() {
    for late in [Late::Partitions, Late::Volumes, Late::FileSystems] {
        let world = World::new();
        world.stage().await.unwrap();
        world.unstage().await.unwrap();
        world.host.show_late(1, late, Duration::from_secs(1));
        world.host.clear_log();
        world.stage().await.unwrap_or_else(|error| panic!("{late:?}: {error}"));
        assert!(world.is_staged(), "{late:?}");
        assert_eq!((world.formats(), world.host.calls("set_online")), (1, 1), "{late:?}");
    }
}

#[tokio::test]
async fn disk_stays_online_while_its_volume_is_late() {
    let world = World::new();
    world.stage().await.unwrap();
    world.unstage().await.unwrap();
    world.host.show_late(1, Late::Volumes, Duration::from_secs(15));
    let refused = world.stage().await.unwrap_err();
    assert_eq!(code(&refused), "Unavailable");
    assert!(world.host.is_online(1));
    world.stage().await.unwrap();
    assert_eq!(world.formats(), 1);
}

#[tokio::test]
async fn read_only_disk_is_staged_writable() {
    for (is_online, collides) in [(false, false), (false, true), (true, false)] {
        let world = World::new();
        if is_online {
            world.stage().await.unwrap();
        }
        world.host.set_read_only(1, collides);
        world.stage().await.unwrap_or_else(|error| panic!("online {is_online}, collides {collides}: {error}"));
        assert!(world.is_staged() && !world.host.is_read_only(1), "online {is_online}, collides {collides}");
        assert_eq!(world.formats(), 1);
        world.unstage().await.unwrap();
    }
}

#[tokio::test]
async fn failed_file_system_growth_does_not_fail_staging() {
    let world = World::new();
    world.stage().await.unwrap();
    world.unstage().await.unwrap();
    world.host.set_disk_size(1, 20 * GIB);
    for step in ["largest_size", "resize_partition"] {
        world.host.inject(step, 0, Effect::Fail(Answer::Method(5)));
        world.stage().await.unwrap_or_else(|error| panic!("{step}: {error}"));
        assert!(world.is_staged() && world.host.is_online(1), "{step}");
        world.unstage().await.unwrap();
    }
    world.host.inject("resize_partition", 0, Effect::Fail(Answer::Method(5)));
    world.stage().await.unwrap();
    world.publish().await.unwrap();
    world.host.inject("resize_partition", 0, Effect::Fail(Answer::Method(5)));
    world.expand(20 * GIB).await.unwrap_err();
    world.expand(20 * GIB).await.unwrap();
}

//! Tests that the driver refuses a volume that no node could use, before EC2 creates, attaches and bills it.

use super::*;

fn mounted(fs_type: &str, flags: &[&str]) -> CreateVolumeRequest {
    let mount = MountVolume {
        fs_type: fs_type.to_owned(),
        mount_flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
        ..Default::default()
    };
    with_capability(named("pvc-1"), capability(AccessType::Mount(mount), Mode::SingleNodeWriter))
}

async fn are_accepted(world: &World, requests: impl IntoIterator<Item = CreateVolumeRequest>) {
    for (number, request) in requests.into_iter().enumerate() {
        let request = CreateVolumeRequest { name: format!("pvc-{number}"), ..request };
        world.create(request.clone()).await.unwrap_or_else(|error| panic!("{request:?}: {error:?}"));
    }
}

fn for_systems(request: CreateVolumeRequest, systems: &[&str]) -> CreateVolumeRequest {
    let term = |os: &&str| csi::Topology {
        segments: map(&[("topology.kubernetes.io/zone", "us-west-2a"), ("kubernetes.io/os", os)]),
    };
    let requisite: Vec<_> = systems.iter().map(term).collect();
    let requirement = csi::TopologyRequirement { preferred: requisite[..1].to_vec(), requisite };
    CreateVolumeRequest { accessibility_requirements: Some(requirement), ..request }
}

/// CreateVolume and ControllerPublishVolume refuse the file system, and the error lists the supported ones.
/// ValidateVolumeCapabilities does not confirm it.
#[tokio::test(start_paused = true)]
async fn file_systems_that_no_node_mounts_are_refused() {
    let world = World::start().await;
    let volume = world.volume("pvc-there").await;
    world.ec2.clear_calls();
    for fs_type in ["btrfs", "zfs", "vfat", "ext5", "ext4 ", "ReFS", "nfs"] {
        let request = mounted(fs_type, &[]);
        let wanted = request.volume_capabilities.clone();
        for says in [fs_type, "ext4, ext3, ext2 or xfs", "ntfs"] {
            refused(world.create(request.clone()).await, "InvalidArgument", says);
        }
        let volume_capability = wanted.first().cloned();
        let publish = ControllerPublishVolumeRequest { volume_capability, ..world.to_publish(&volume) };
        refused(world.publish_as(publish).await, "InvalidArgument", fs_type);
        assert_eq!(world.mutations(), []);
        let request = ValidateVolumeCapabilitiesRequest {
            volume_id: volume.clone(),
            volume_capabilities: wanted,
            ..Default::default()
        };
        let answer = ask!(world, validate_volume_capabilities, request).expect("the volume exists");
        assert!(answer.confirmed.is_none() && answer.message.contains(fs_type), "{answer:?}");
    }
}

/// The names are case-insensitive, and an empty name is valid.
#[tokio::test(start_paused = true)]
async fn file_systems_of_linux_and_windows_nodes_are_accepted() {
    let world = World::start().await;
    let names = ["", "ext4", "EXT3", "ext2", "xfs", "XFS", "ntfs", "NTFS"];
    are_accepted(&world, names.map(|fs_type| mounted(fs_type, &[]))).await;
}

/// The driver refuses the file system when all required topology terms name the same operating system and that system
/// cannot mount it.
#[tokio::test(start_paused = true)]
async fn file_systems_of_the_other_operating_system_are_refused() {
    let world = World::start().await;
    for (fs_type, systems, os) in
        [("ntfs", &["linux"][..], "Linux"), ("NTFS", &["linux", "linux"], "Linux"), ("xfs", &["windows"], "Windows")]
    {
        for says in [fs_type, os] {
            refused(world.create(for_systems(mounted(fs_type, &[]), systems)).await, "InvalidArgument", says);
        }
    }
    assert_eq!(world.ec2.calls(), []);
    let rows = [
        ("ntfs", &["windows", "linux"][..]),
        ("ext4", &["linux", "windows"]),
        ("", &["windows"]),
        ("ext4", &["windows"]),
    ];
    are_accepted(&world, rows.map(|(fs_type, systems)| for_systems(mounted(fs_type, &[]), systems))).await;
}

/// The error names the flag. The driver accepts a flag that only a kernel can check.
#[tokio::test(start_paused = true)]
async fn mount_flags_that_no_node_supports_are_refused() {
    let world = World::start().await;
    for (flag, says) in [
        ("remount", "remount"),
        ("bind", "bind"),
        ("context=\"system_u", "unclosed quote"),
        ("noatime\nnodev", "character"),
    ] {
        refused(world.create(mounted("ext4", &["noatime", flag])).await, "InvalidArgument", says);
    }
    assert_eq!(world.ec2.calls(), []);
    world.create(mounted("xfs", &["noatime", "nobarrier,logbufs=8", "_netdev"])).await.expect("created");
}

/// ext2 and ext3 have 32-bit block numbers, so the driver rejects a larger size with OutOfRange, unless the volume has
/// a source, which already has a file system.
#[tokio::test(start_paused = true)]
async fn volume_larger_than_its_file_system_supports_is_refused() {
    let world = World::start().await;
    let sized = |fs_type: &str, gib, class: &[_]| of_gib(with_parameters(mounted(fs_type, &[]), class), gib);
    for (fs_type, gib, class) in [
        ("ext3", 16_384, &[][..]),
        ("ext2", 20_000, &[]),
        ("ext3", 4_096, &[("blockSize", "1024")]),
        ("ext3", 8_192, &[("blockSize", "2k")]),
    ] {
        for says in [fs_type, "ext4 or xfs"] {
            refused(world.create(sized(fs_type, gib, class)).await, "OutOfRange", says);
        }
    }
    assert_eq!(world.ec2.calls(), []);
    let rows = [("ext3", 16_383, "4096"), ("ext3", 4_095, "1024"), ("ext4", 60_000, "4096"), ("xfs", 60_000, "4096")];
    are_accepted(&world, rows.map(|(fs_type, gib, block)| sized(fs_type, gib, &[("blockSize", block)]))).await;
}

/// The error lists the valid values.
#[tokio::test(start_paused = true)]
async fn format_option_values_that_every_mkfs_rejects_are_refused() {
    let world = World::start().await;
    for (fs_type, key, value, range) in [
        ("ext4", "blockSize", "512", "1024 to 65536"),
        ("ext4", "blockSize", "128k", "1024 to 65536"),
        ("", "blockSize", "big", "number"),
        ("xfs", "blockSize", "512", "1024 to 65536"),
        ("xfs", "blockSize", "3000", "power of 2"),
        ("ext4", "inodeSize", "64", "128 to 4096"),
        ("ext3", "inodeSize", "300", "power of 2"),
        ("xfs", "inodeSize", "256", "512 to 2048"),
        ("xfs", "inodeSize", "4096", "512 to 2048"),
        ("ext4", "bytesPerInode", "1000", "1024 to 67108864"),
        ("ext4", "numberOfInodes", "many", "number"),
        ("ext4", "numberOfInodes", "4294967296", "4294967295"),
    ] {
        for says in [key.to_lowercase().as_str(), value, range] {
            let request = with_parameters(mounted(fs_type, &[]), &[(key, value)]);
            refused(world.create(request).await, "InvalidArgument", says);
        }
    }
    let clusters = |value| [("ext4BigAlloc", "true"), ("ext4ClusterSize", value)];
    for (value, range) in [("1024", "4096 to 536870912"), ("1g", "4096 to 536870912"), ("zero", "number")] {
        refused(world.create(with_parameters(mounted("ext4", &[]), &clusters(value))).await, "InvalidArgument", range);
    }
    assert_eq!(world.ec2.calls(), []);
    let rows = [
        ("ext4", &[("blockSize", "1024"), ("inodeSize", "1024"), ("bytesPerInode", "4k")][..]),
        ("ext4", &clusters("65536")),
        ("ext3", &[("numberOfInodes", "200192")]),
        ("xfs", &[("blockSize", "64k"), ("inodeSize", "2048")]),
    ];
    are_accepted(&world, rows.map(|(fs_type, class)| with_parameters(mounted(fs_type, &[]), class))).await;
}

use std::time::{Duration, UNIX_EPOCH};

use ebs_ec2::{DriverName, Gib, VolumeId};
use ebs_mounter::{FormatOptions, FsType, SizeWord};
use proptest::prelude::*;

use super::*;
use crate::capability::Access;
use crate::parameters::check_format_options;

const FILE_SYSTEMS: [FsType; 4] = [FsType::Ext2, FsType::Ext3, FsType::Ext4, FsType::Xfs];

fn size() -> impl Strategy<Value = Option<SizeWord>> {
    prop::option::of("[0-9]{1,6}[kKmM]?").prop_map(|text| text.and_then(|text| SizeWord::parse(&text).expect("a size")))
}

fn options() -> impl Strategy<Value = FormatOptions> {
    (size(), size(), size(), size(), any::<bool>(), size(), any::<bool>()).prop_map(
        |(block_size, inode_size, bytes_per_inode, number_of_inodes, bigalloc, cluster_size, encryption)| {
            FormatOptions {
                block_size,
                inode_size,
                bytes_per_inode,
                number_of_inodes,
                bigalloc,
                cluster_size,
                encryption,
                legacy_xfs: false,
            }
        },
    )
}

fn volume_context() -> impl Strategy<Value = VolumeContext> {
    (options(), any::<bool>(), any::<bool>()).prop_map(|(format, format_blank_restore, attach_when_initialized)| {
        VolumeContext { format, format_blank_restore, attach_when_initialized }
    })
}

fn publish_context() -> impl Strategy<Value = PublishContext> {
    let origin = prop_oneof![
        Just(VolumeOrigin::Blank),
        Just(VolumeOrigin::Snapshot),
        Just(VolumeOrigin::Clone),
        "[a-z]{5}s".prop_map(VolumeOrigin::Other),
    ];
    let time = (0..4_000_000_000u64, 0..1_000u64)
        .prop_map(|(s, ms)| UNIX_EPOCH + Duration::from_secs(s) + Duration::from_millis(ms));
    let device = prop::option::of("/dev/xvd[a-z]{2}".prop_map(Into::into));
    let local = prop::option::of("vol-[0-9a-f]{17}".prop_map(|id| VolumeId::parse(&id).expect("an id")));
    (device, local, prop::option::of(origin), prop::option::of(any::<u32>().prop_map(Gib)), prop::option::of(time))
        .prop_map(|(device, local, origin, size, attach_time)| PublishContext {
            device,
            local_volume: local,
            origin,
            size,
            attach_time,
        })
}

proptest! {
    #[test]
    fn parsed_volume_context_equals_the_written_context(written in volume_context()) {
        prop_assert_eq!(VolumeContext::parse(&written.to_map(), FsType::Ext4), Ok(written));
    }

    #[test]
    fn parsed_publish_context_equals_the_written_context(written in publish_context()) {
        let driver = DriverName::default();
        prop_assert_eq!(PublishContext::parse(&written.to_map(&driver), &driver), Ok(written));
    }

    #[test]
    fn node_accepts_format_options_that_the_controller_accepts(
        format in options(),
        fs_type in prop::sample::select(&FILE_SYSTEMS[..]),
    ) {
        let accesses = [Access::Mount { fs_type: fs_type.to_string() }];
        let created = check_format_options(&format, &accesses);
        let context = VolumeContext { format, ..VolumeContext::default() }.to_map();
        // The controller also refuses combinations that mkfs would refuse. The node does not check them and lets mkfs
        // report them.
        let is_known = !matches!(created, Err(crate::parameters::ParameterError::Formatting { .. }));
        prop_assert_eq!(is_known, VolumeContext::parse(&context, fs_type).is_ok());
    }
}

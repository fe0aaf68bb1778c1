use std::collections::HashMap;

use csi_proto::csi::volume_capability::{AccessMode, BlockVolume, MountVolume, access_mode::Mode};
use csi_proto::csi::{NodeExpandVolumeRequest, NodePublishVolumeRequest, NodeStageVolumeRequest, VolumeCapability};
use ebs_mounter::Attribute;

use super::*;
use crate::context::VolumeOrigin;

fn mount(fs_type: &str, flags: &[&str]) -> VolumeCapability {
    let mount = MountVolume {
        fs_type: fs_type.to_owned(),
        mount_flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
        ..MountVolume::default()
    };
    capability(Some(AccessType::Mount(mount)), Mode::SingleNodeWriter)
}

fn capability(access_type: Option<AccessType>, mode: Mode) -> VolumeCapability {
    VolumeCapability { access_type, access_mode: Some(AccessMode { mode: mode.into() }) }
}

fn map(entries: &[(&str, &str)]) -> HashMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn stage_request() -> NodeStageVolumeRequest {
    NodeStageVolumeRequest {
        volume_id: "vol-0abc".to_owned(),
        publish_context: map(&[("devicePath", "/dev/xvdaa")]),
        staging_target_path: "/staging".to_owned(),
        volume_capability: Some(mount("", &[])),
        ..NodeStageVolumeRequest::default()
    }
}

fn stage(change: impl FnOnce(&mut NodeStageVolumeRequest)) -> Result<Option<Stage>, RequestError> {
    let mut request = stage_request();
    change(&mut request);
    Stage::parse(&request, &DriverName::default(), false)
}

#[test]
fn stage_request_without_options_asks_for_ext4() {
    let plan = stage(|_| {}).unwrap().unwrap();
    assert_eq!(plan.format.fs_type, FsType::Ext4);
    let facts = PublishContext {
        device: Some("/dev/xvdaa".into()),
        local_volume: None,
        origin: None,
        size: None,
        attach_time: None,
    };
    assert_eq!(plan.attachment, facts);
    assert!(!plan.may_format_restored);
}

/// The code is InvalidArgument.
#[test]
fn stage_with_a_missing_or_invalid_field_is_refused() {
    type Change = fn(&mut NodeStageVolumeRequest);
    let rows: [(Change, &str); 14] = [
        (|r| r.volume_id.clear(), "volume_id"),
        (|r| r.staging_target_path.clear(), "staging_target_path"),
        (|r| r.volume_capability = None, "no volume capability"),
        (|r| r.volume_capability = Some(capability(None, Mode::SingleNodeReaderOnly)), "READER_ONLY"),
        (|r| r.volume_capability = Some(capability(None, Mode::SingleNodeWriter)), "neither block nor mount"),
        (|r| r.volume_id = LOCAL.to_owned(), "volumeID"),
        (|r| r.staging_target_path = "staging".to_owned(), "relative"),
        (|r| r.staging_target_path = "/a/../b".to_owned(), "staging_target_path"),
        (|r| r.volume_context = map(&[("partition", "-1")]), "partition"),
        (|r| r.volume_capability = Some(mount("ntfs", &[])), "ntfs"),
        (|r| r.volume_context = map(&[("blocksize", "4096 -F")]), "blocksize"),
        (|r| r.publish_context.clear(), "devicePath"),
        (|r| r.volume_capability = Some(mount("ext4", &["bind"])), "bind"),
        (|r| drop(r.publish_context.insert("ebs.csi.aws.com/size-gib".to_owned(), "4.5".to_owned())), "size-gib"),
    ];
    for (change, word) in rows {
        let error = stage(change).expect_err(word);
        assert_eq!(error.meaning(), Meaning::InvalidArgument);
        let text = crate::status::chain(&error);
        assert!(text.contains(word), "{word}: {text}");
    }
}

/// The driver also accepts the handle of an in-tree volume, which contains the zone.
#[test]
fn stage_accepts_in_tree_handles_but_no_invalid_volume_id() {
    let error = stage(|r| r.volume_id = "no-volume".to_owned()).unwrap_err();
    assert_eq!(error.meaning(), Meaning::NotFound);
    let plan = stage(|r| r.volume_id = "aws://us-west-2a/vol-0abc".to_owned()).unwrap().unwrap();
    assert_eq!(plan.volume.as_str(), "vol-0abc");
}

#[test]
fn raw_block_volume_needs_no_staging() {
    let block = || capability(Some(AccessType::Block(BlockVolume {})), Mode::MultiNodeMultiWriter);
    assert_eq!(stage(|r| r.volume_capability = Some(block())), Ok(None));
}

#[test]
fn format_option_must_fit_the_file_system_even_if_empty() {
    for (fs_type, key) in [("xfs", "bytesperinode"), ("ext3", "ext4bigalloc"), ("xfs", "ext4clustersize")] {
        let outcome = stage(|r| {
            r.volume_capability = Some(mount(fs_type, &[]));
            r.volume_context = map(&[(key, "")]);
        });
        assert!(
            matches!(outcome, Err(RequestError::Context(ContextError::Format { key: refused, .. })) if refused.as_str() == key),
            "{key}"
        );
    }
    let both = map(&[("ext4bigalloc", "true"), ("ext4encryptionsupport", "yes"), ("blocksize", "")]);
    let plan = stage(|r| r.volume_context = both).unwrap().unwrap();
    assert!(plan.format.options.bigalloc && !plan.format.options.encryption);
    assert_eq!(plan.format.options.block_size, None);
}

/// Each of the three values may be absent.
#[test]
fn source_size_and_attach_time_are_read_from_publish_context() {
    let context = map(&[
        ("devicePath", ""),
        ("ebs.csi.aws.com/source", "snapshot"),
        ("ebs.csi.aws.com/size-gib", "8"),
        ("ebs.csi.aws.com/attach-time", "2026-11-21T17:31:00Z"),
    ]);
    let plan = stage(|r| {
        r.publish_context = context;
        r.volume_context = map(&[("formatblankrestore", "true")]);
    });
    let plan = plan.unwrap().unwrap();
    let facts = PublishContext {
        local_volume: None,
        device: None,
        origin: Some(VolumeOrigin::Snapshot),
        size: Some(Gib(8)),
        attach_time: Some(humantime::parse_rfc3339("2026-11-21T17:31:00Z").unwrap()),
    };
    assert_eq!(plan.attachment, facts);
    assert!(plan.may_format_restored);
    let blank = stage(|r| drop(r.publish_context.insert("ebs.csi.aws.com/source".to_owned(), "none".to_owned())));
    assert_eq!(blank.unwrap().unwrap().attachment.restored_from(), None);
}

/// An empty name accepts any file system, and formats a blank disk as ext4.
#[test]
fn file_system_name_may_be_empty_and_is_case_insensitive() {
    for (name, asked, made) in [
        ("XFS", Some(FsType::Xfs), FsType::Xfs),
        ("ext3", Some(FsType::Ext3), FsType::Ext3),
        ("ext4", Some(FsType::Ext4), FsType::Ext4),
        ("", None, FsType::Ext4),
    ] {
        let staged = stage(|r| r.volume_capability = Some(mount(name, &["noatime"]))).unwrap().unwrap();
        assert_eq!((staged.fs_type, staged.format.fs_type), (asked, made), "{name:?}");
        // The driver adds no option to the request.
        assert_eq!(staged.options.to_string(), "noatime");
        let published = publish(|r| r.volume_capability = Some(mount(name, &[]))).unwrap();
        assert!(matches!(published.what, PublishWhat::Filesystem { fs_type, .. } if fs_type == asked), "{name:?}");
    }
}

fn publish_request() -> NodePublishVolumeRequest {
    NodePublishVolumeRequest {
        volume_id: "vol-0abc".to_owned(),
        publish_context: map(&[("devicePath", "/dev/xvdaa")]),
        staging_target_path: "/staging".to_owned(),
        target_path: "/target".to_owned(),
        volume_capability: Some(mount("ext4", &["nosuid"])),
        ..NodePublishVolumeRequest::default()
    }
}

fn publish(change: impl FnOnce(&mut NodePublishVolumeRequest)) -> Result<Publish, RequestError> {
    let mut request = publish_request();
    change(&mut request);
    Publish::parse(&request, &DriverName::default())
}

/// The code is InvalidArgument.
#[test]
fn publish_needs_an_access_type_and_readonly_sets_the_ro_flag() {
    let unset = publish(|r| r.volume_capability = Some(capability(None, Mode::SingleNodeWriter)));
    assert_eq!(unset, Err(RequestError::AccessTypeUnset));
    let plan = publish(|r| r.readonly = true).unwrap();
    assert_eq!(plan.options.attributes(), &[Attribute::ReadOnly, Attribute::NoSuid].into());
}

/// The controller cannot attach a volume read-only. Instead, its publish context contains the readonly flag of its
/// request, with the same effect as the flag of the node's request.
#[test]
fn node_enforces_the_readonly_flag_of_the_controller() {
    let context = map(&[("devicePath", "/dev/xvdaa"), ("ebs.csi.aws.com/readonly", "true")]);
    let plan = publish(|r| r.publish_context = context.clone()).unwrap();
    assert!(plan.options.is_read_only());
    let raw = capability(Some(AccessType::Block(BlockVolume {})), Mode::SingleNodeWriter);
    let plan = publish(|r| (r.publish_context, r.volume_capability) = (context.clone(), Some(raw))).unwrap();
    assert!(plan.options.is_read_only());
}

#[test]
fn publish_refuses_invalid_target_paths() {
    for bad in ["", "target", "/a/../b", "/"] {
        let error = publish(|r| r.target_path = bad.to_owned()).expect_err(bad);
        assert_eq!(error.meaning(), Meaning::InvalidArgument, "{bad:?}");
    }
}

const LOCAL: &str = "local-ebs://dev/xvdbz";

/// The driver refuses a request whose context has no volume or an invalid one.
#[test]
fn publish_context_names_the_volume_of_a_node_local_handle() {
    let local = |id: &str| map(&[("devicePath", "/dev/xvdbz"), ("volumeID", id)]);
    let plan = stage(|r| {
        r.volume_id = LOCAL.to_owned();
        r.publish_context = local("vol-0abc");
    });
    let plan = plan.unwrap().unwrap();
    assert_eq!((plan.volume.as_str(), plan.handle), ("vol-0abc", Handle::NodeLocal(LOCAL.to_owned())));
    let plan = publish(|r| {
        r.volume_id = LOCAL.to_owned();
        r.publish_context = local("vol-0abc");
    });
    assert_eq!(plan.unwrap().volume.as_str(), "vol-0abc");
    for (id, word) in [("", "volumeID"), ("xvdbz", "volumeID")] {
        let error = publish(|r| {
            r.volume_id = LOCAL.to_owned();
            r.publish_context = local(id);
        });
        let error = error.expect_err(id);
        assert_eq!(error.meaning(), Meaning::InvalidArgument);
        assert!(crate::status::chain(&error).contains(word), "{error}");
    }
}

/// This applies to staging, publishing and growth. An EC2 volume with a file system supports only one node.
#[test]
fn node_local_file_system_may_have_several_nodes() {
    let shared = |mode| Some(capability(mount("ext4", &[]).access_type, mode));
    let expand = |handle: &str, mode| {
        let request = NodeExpandVolumeRequest {
            volume_id: handle.to_owned(),
            volume_path: "/path".to_owned(),
            volume_capability: shared(mode),
            ..NodeExpandVolumeRequest::default()
        };
        Expand::parse(&request).map(drop)
    };
    let staged = |handle: &str, mode| {
        let ended = stage(|r| {
            (r.volume_id, r.volume_capability) = (handle.to_owned(), shared(mode));
            r.publish_context.insert("volumeID".to_owned(), "vol-0abc".to_owned());
        });
        ended.map(drop)
    };
    let published = |handle: &str, mode| {
        let ended = publish(|r| {
            (r.volume_id, r.volume_capability) = (handle.to_owned(), shared(mode));
            r.publish_context.insert("volumeID".to_owned(), "vol-0abc".to_owned());
        });
        ended.map(drop)
    };
    for mode in [Mode::SingleNodeWriter, Mode::MultiNodeMultiWriter] {
        assert_eq!([staged(LOCAL, mode), published(LOCAL, mode), expand(LOCAL, mode)], [Ok(()), Ok(()), Ok(())]);
    }
    let refused = |outcome| matches!(outcome, Err(RequestError::Capability(_)));
    for (handle, mode) in [("vol-0abc", Mode::MultiNodeMultiWriter), (LOCAL, Mode::MultiNodeReaderOnly)] {
        assert!(refused(staged(handle, mode)) && refused(published(handle, mode)) && refused(expand(handle, mode)));
    }
}

#[test]
fn expand_returns_not_found_for_an_invalid_path() {
    let request = NodeExpandVolumeRequest {
        volume_id: "vol-0abc".to_owned(),
        volume_path: "some/path".to_owned(),
        ..NodeExpandVolumeRequest::default()
    };
    assert_eq!(Expand::parse(&request).unwrap_err().meaning(), Meaning::NotFound);
}

//! The two string maps that travel with a volume: the publish context (by ControllerPublishVolume) and the volume context
//! (by CreateVolume, or by hand in a static PersistentVolume).

use std::collections::HashMap;
use std::path::PathBuf;

use ebs_mounter::{FormatOptions, FormatSpec, FsType, Partition, SizeWord};
use ebs_types::{DriverName, Gib};

use super::{AttachmentFacts, RequestError};

type Context = HashMap<String, String>;

/// The volume was made from a snapshot or clone and may be formatted all the same when it is proven blank.
const FORMAT_BLANK_RESTORE: &str = "formatblankrestore";

/// Keys for mkfs in the order in which they are checked, and the file systems that know them.
const FORMAT_KEYS: [(&str, &[FsType]); 7] = [
    ("blocksize", &[FsType::Ext2, FsType::Ext3, FsType::Ext4, FsType::Xfs]),
    ("inodesize", &[FsType::Ext2, FsType::Ext3, FsType::Ext4, FsType::Xfs]),
    ("bytesperinode", &[FsType::Ext2, FsType::Ext3, FsType::Ext4]),
    ("numberofinodes", &[FsType::Ext2, FsType::Ext3, FsType::Ext4]),
    ("ext4bigalloc", &[FsType::Ext4]),
    ("ext4clustersize", &[FsType::Ext4]),
    ("ext4encryptionsupport", &[FsType::Ext4]),
];

/// The partition, where one is named.
pub(super) fn partition(context: &Context) -> Result<Option<Partition>, RequestError> {
    let partition = context.get("partition").map(|text| Partition::parse(text)).transpose()?;
    Ok(partition.flatten())
}

/// How to make a file system, should one have to be made.
pub(super) fn format_spec(context: &Context, fs_type: FsType, legacy_xfs: bool) -> Result<FormatSpec, RequestError> {
    for (key, fs_types) in FORMAT_KEYS {
        let Some(value) = context.get(key) else { continue };
        SizeWord::parse(value).map_err(|error| RequestError::FormatKey { key, rule: error.to_string() })?;
        if !fs_types.contains(&fs_type) {
            let names: Vec<&str> = fs_types.iter().map(|fs| fs.as_str()).collect();
            let rule = format!("{value:?} is for {} only, and {fs_type} is asked for", names.join(", "));
            return Err(RequestError::FormatKey { key, rule });
        }
    }
    // Checked above; what is empty is no argument.
    let word = |key: &str| context.get(key).and_then(|value| SizeWord::parse(value).ok().flatten());
    let flag = |key: &str| context.get(key).is_some_and(|value| value == "true");
    let options = FormatOptions {
        block_size: word("blocksize"),
        inode_size: word("inodesize"),
        bytes_per_inode: word("bytesperinode"),
        number_of_inodes: word("numberofinodes"),
        bigalloc: flag("ext4bigalloc"),
        cluster_size: word("ext4clustersize"),
        encryption: flag("ext4encryptionsupport"),
        legacy_xfs,
    };
    Ok(FormatSpec { fs_type, options })
}

/// True when the StorageClass says that a blank restore may be formatted.
pub(super) fn may_format_restored(context: &Context) -> bool {
    context.get(FORMAT_BLANK_RESTORE).is_some_and(|value| value == "true")
}

/// Attributes with the driver's prefix have no effect here; saying so beats a surprise (`node.md` N-4).
pub(super) fn warn_of_unknown(context: &Context, driver: &DriverName) {
    let prefix = format!("{driver}/");
    for key in context.keys().filter(|key| key.starts_with(&prefix)) {
        tracing::warn!(key, "volume attribute has no effect on the node; set the file system by fsType");
    }
}

/// The name in EC2's block-device mapping: the outer `None` when the key is absent, the inner when it is empty.
pub(super) fn device(context: &Context) -> Option<Option<PathBuf>> {
    context.get(DriverName::DEVICE_PATH_KEY).map(|path| (!path.is_empty()).then(|| PathBuf::from(path)))
}

/// What the controller said of the attachment.
pub(super) fn attachment(context: &Context, driver: &DriverName) -> Result<AttachmentFacts, RequestError> {
    let device = device(context).ok_or(RequestError::Missing { field: "publish context key devicePath" })?;
    let restored_from = context.get(&driver.source_key()).filter(|source| *source != "none").cloned();
    let size_key = driver.size_key();
    let size = context.get(&size_key).map(|text| {
        let wrong =
            || RequestError::PublishContext { key: size_key.clone(), value: text.clone(), wanted: "number of GiB" };
        text.parse().map(Gib).map_err(|_| wrong())
    });
    let time_key = driver.attach_time_key();
    let attach_time = context.get(&time_key).map(|text| {
        let wrong = || RequestError::PublishContext { key: time_key.clone(), value: text.clone(), wanted: "time" };
        humantime::parse_rfc3339(text).map(|_| text.clone()).map_err(|_| wrong())
    });
    Ok(AttachmentFacts { device, restored_from, size: size.transpose()?, attach_time: attach_time.transpose()? })
}

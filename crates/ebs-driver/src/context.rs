//! The string maps that the controller sends to the node: the volume context (one for each volume) and the publish
//! context (one for each attachment). Only this module defines their keys and formats.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

use ebs_ec2::{DriverName, Gib, VolumeId};
use ebs_mounter::{FormatOptions, FsType, Partition, PartitionError, SizeWord};

/// A context value that the node cannot use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    #[error("the publish context has no key {key}")]
    Missing { key: &'static str },
    #[error("publish context key {key} is {value:?}, but must be {wanted}")]
    PublishValue { key: String, value: String, wanted: &'static str },
    #[error("volume context key {key} is not valid: {rule}")]
    Format { key: FormatKey, rule: String },
    #[error("volume context key {} is not valid", PARTITION)]
    Partition(#[from] PartitionError),
}

const EXT: &[FsType] = &[FsType::Ext2, FsType::Ext3, FsType::Ext4];
const EXT_AND_XFS: &[FsType] = &[FsType::Ext2, FsType::Ext3, FsType::Ext4, FsType::Xfs];
const EXT4: &[FsType] = &[FsType::Ext4];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatKey {
    /// The size of a block in bytes.
    BlockSize,
    /// The size of an inode in bytes.
    InodeSize,
    BytesPerInode,
    NumberOfInodes,
    Bigalloc,
    /// The size of a cluster in bytes.
    ClusterSize,
    Encryption,
}

impl FormatKey {
    /// All options, in the order in which they are checked.
    pub const ALL: [Self; 7] = [
        Self::BlockSize,
        Self::InodeSize,
        Self::BytesPerInode,
        Self::NumberOfInodes,
        Self::Bigalloc,
        Self::ClusterSize,
        Self::Encryption,
    ];

    /// Returns the key in lower case, as the reference driver writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BlockSize => "blocksize",
            Self::InodeSize => "inodesize",
            Self::BytesPerInode => "bytesperinode",
            Self::NumberOfInodes => "numberofinodes",
            Self::Bigalloc => "ext4bigalloc",
            Self::ClusterSize => "ext4clustersize",
            Self::Encryption => "ext4encryptionsupport",
        }
    }

    pub fn file_systems(self) -> &'static [FsType] {
        match self {
            Self::BlockSize | Self::InodeSize => EXT_AND_XFS,
            Self::BytesPerInode | Self::NumberOfInodes => EXT,
            Self::Bigalloc | Self::ClusterSize | Self::Encryption => EXT4,
        }
    }

    /// Returns the value for a volume context, or `None` when the option is not set.
    pub(crate) fn value(self, options: &FormatOptions) -> Option<&str> {
        let flag = |set: bool| set.then_some("true");
        match self {
            Self::BlockSize => options.block_size.as_ref().map(SizeWord::as_str),
            Self::InodeSize => options.inode_size.as_ref().map(SizeWord::as_str),
            Self::BytesPerInode => options.bytes_per_inode.as_ref().map(SizeWord::as_str),
            Self::NumberOfInodes => options.number_of_inodes.as_ref().map(SizeWord::as_str),
            Self::Bigalloc => flag(options.bigalloc),
            Self::ClusterSize => options.cluster_size.as_ref().map(SizeWord::as_str),
            Self::Encryption => flag(options.encryption),
        }
    }

    pub fn is_set(self, options: &FormatOptions) -> bool {
        self.value(options).is_some()
    }
}

impl fmt::Display for FormatKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The partition of the volume to use. Administrators set it by hand in the PersistentVolume; the driver never does.
const PARTITION: &str = "partition";
const FORMAT_BLANK_RESTORE: &str = "formatblankrestore";
const ATTACH_WHEN_INITIALIZED: &str = "blockattachuntilinitialized";

/// The settings from the StorageClass that a volume keeps for its lifetime.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeContext {
    /// The mkfs options. `legacy_xfs` is an option of the node and is not part of the context.
    pub format: FormatOptions,
    /// Whether a volume that was created from a snapshot or another volume may be formatted when it is proven blank.
    pub format_blank_restore: bool,
    /// Whether to attach the volume only after EC2 has loaded all its blocks from the snapshot.
    pub attach_when_initialized: bool,
}

impl VolumeContext {
    pub fn to_map(&self) -> Context {
        let options = FormatKey::ALL.into_iter().filter_map(|key| Some((key.as_str(), key.value(&self.format)?)));
        let flags = [
            (FORMAT_BLANK_RESTORE, self.format_blank_restore),
            (ATTACH_WHEN_INITIALIZED, self.attach_when_initialized),
        ];
        let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| (key, "true"));
        options.chain(flags).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    /// Parses the map for a volume that will have `fs_type`.
    pub fn parse(context: &Context, fs_type: FsType) -> Result<Self, ContextError> {
        let word = |key: FormatKey| {
            let Some(value) = context.get(key.as_str()) else { return Ok(None) };
            let word = SizeWord::parse(value);
            let word = word.map_err(|error| ContextError::Format { key, rule: error.to_string() })?;
            if !key.file_systems().contains(&fs_type) {
                let names: Vec<&str> = key.file_systems().iter().map(|fs| fs.as_str()).collect();
                let rule =
                    format!("{value:?} applies only to {}, but the request asks for {fs_type}", names.join(", "));
                return Err(ContextError::Format { key, rule });
            }
            Ok(word)
        };
        let is_true = |word: &Option<SizeWord>| word.as_ref().is_some_and(|word| word.as_str() == "true");
        let format = FormatOptions {
            block_size: word(FormatKey::BlockSize)?,
            inode_size: word(FormatKey::InodeSize)?,
            bytes_per_inode: word(FormatKey::BytesPerInode)?,
            number_of_inodes: word(FormatKey::NumberOfInodes)?,
            bigalloc: is_true(&word(FormatKey::Bigalloc)?),
            cluster_size: word(FormatKey::ClusterSize)?,
            encryption: is_true(&word(FormatKey::Encryption)?),
            legacy_xfs: false,
        };
        Ok(Self {
            format,
            format_blank_restore: flag(context, FORMAT_BLANK_RESTORE),
            attach_when_initialized: Self::attach_when_initialized(context),
        })
    }

    /// Returns whether to attach the volume only after its initialization. The controller reads only this value.
    pub fn attach_when_initialized(context: &Context) -> bool {
        flag(context, ATTACH_WHEN_INITIALIZED)
    }

    /// Returns whether the node may format a blank restored volume. A node without mkfs reads only this value.
    pub fn formats_blank_restores(context: &Context) -> bool {
        flag(context, FORMAT_BLANK_RESTORE)
    }

    /// Returns the partition, or `None` for 0 and the empty text.
    pub fn partition(context: &Context) -> Result<Option<Partition>, ContextError> {
        let named = context.get(PARTITION).filter(|text| !text.is_empty());
        let partition = named.map(|text| Partition::parse(text)).transpose()?;
        Ok(partition.flatten())
    }
}

fn flag(context: &Context, key: &str) -> bool {
    context.get(key).is_some_and(|value| value == "true")
}

type Context = HashMap<String, String>;

const BLANK: &str = "none";
const SNAPSHOT: &str = "snapshot";
const CLONE: &str = "clone";
const TRUE: &str = "true";

/// What a volume was created from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeOrigin {
    Blank,
    Snapshot,
    Clone,
    /// A source that this version does not know, sent by a later version of the controller.
    Other(String),
}

/// The controller's description of an attachment. An older controller and the reference driver send only the device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublishContext {
    /// The device name in EC2's block-device mapping, or `None` when the controller did not know the name.
    pub device: Option<PathBuf>,
    /// The volume behind a node-local handle, or `None` when the handle itself names the volume.
    pub local_volume: Option<VolumeId>,
    pub origin: Option<VolumeOrigin>,
    /// The size of the volume when it was attached. Volumes never shrink, so it is at least as large now.
    pub size: Option<Gib>,
    /// The time at which EC2 attached the volume.
    pub attach_time: Option<SystemTime>,
}

impl VolumeOrigin {
    fn parse(text: &str) -> Self {
        match text {
            BLANK => Self::Blank,
            SNAPSHOT => Self::Snapshot,
            CLONE => Self::Clone,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for VolumeOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Blank => BLANK,
            Self::Snapshot => SNAPSHOT,
            Self::Clone => CLONE,
            Self::Other(text) => text,
        })
    }
}

impl PublishContext {
    /// Converts the context into a map with the keys of `driver`. An unknown device becomes an empty value.
    pub fn to_map(&self, driver: &DriverName) -> Context {
        let device = self.device.as_ref().map_or_else(String::new, |path| path.display().to_string());
        let mut context = Context::from([(DriverName::DEVICE_PATH_KEY.to_owned(), device)]);
        let mut put = |key: String, value: Option<String>| {
            if let Some(value) = value {
                context.insert(key, value);
            }
        };
        put(DriverName::LOCAL_VOLUME_KEY.to_owned(), self.local_volume.as_ref().map(ToString::to_string));
        put(driver.source_key(), self.origin.as_ref().map(ToString::to_string));
        put(driver.size_key(), self.size.map(|size| size.0.to_string()));
        put(driver.attach_time_key(), self.attach_time.map(|time| humantime::format_rfc3339(time).to_string()));
        context
    }

    /// Parses the map of a request.
    pub fn parse(context: &Context, driver: &DriverName) -> Result<Self, ContextError> {
        let device = Self::device(context).ok_or(ContextError::Missing { key: DriverName::DEVICE_PATH_KEY })?;
        let size = read(context, driver.size_key(), "a number of GiB", |text| text.parse().map(Gib).ok())?;
        let time = read(context, driver.attach_time_key(), "a time such as 2030-12-31T23:59:59Z", |text| {
            humantime::parse_rfc3339(text).ok()
        })?;
        let local_volume = Self::local_volume(context)?;
        let origin = context.get(&driver.source_key()).map(|text| VolumeOrigin::parse(text));
        Ok(Self { device, local_volume, origin, size, attach_time: time })
    }

    /// Parses the device name. `None` means that the key is absent, `Some(None)` that the name is empty.
    pub fn device(context: &Context) -> Option<Option<PathBuf>> {
        context.get(DriverName::DEVICE_PATH_KEY).map(|path| (!path.is_empty()).then(|| PathBuf::from(path)))
    }

    /// Parses only the volume behind a node-local handle.
    pub fn local_volume(context: &Context) -> Result<Option<VolumeId>, ContextError> {
        let text = context.get(DriverName::LOCAL_VOLUME_KEY).filter(|text| !text.is_empty());
        text.map(|text| VolumeId::parse(text)).transpose().map_err(|_| {
            let (key, value) = (DriverName::LOCAL_VOLUME_KEY.to_owned(), text.cloned().unwrap_or_default());
            ContextError::PublishValue { key, value, wanted: "a volume id" }
        })
    }

    /// Records in a context that ControllerPublishVolume requested a read-only volume.
    pub fn set_read_only(context: &mut Context, driver: &DriverName) {
        context.insert(driver.read_only_key(), TRUE.to_owned());
    }

    /// Returns true when the node must enforce read-only access, which EBS attachments do not support.
    pub fn is_read_only(context: &Context, driver: &DriverName) -> bool {
        context.get(&driver.read_only_key()).is_some_and(|value| value == TRUE)
    }

    /// Returns what the volume was created from, or `None` when it was blank or its source is unknown.
    pub fn restored_from(&self) -> Option<&VolumeOrigin> {
        self.origin.as_ref().filter(|origin| **origin != VolumeOrigin::Blank)
    }
}

fn read<T>(
    context: &Context,
    key: String,
    wanted: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, ContextError> {
    let Some(text) = context.get(&key) else { return Ok(None) };
    match parse(text) {
        Some(value) => Ok(Some(value)),
        None => Err(ContextError::PublishValue { key, value: text.clone(), wanted }),
    }
}

#[cfg(test)]
mod tests;

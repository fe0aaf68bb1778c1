use std::collections::HashMap;

use ebs_mounter::{FormatOptions, FsType, Partition, SizeWord};

use super::{ContextError, FormatKey};

type Context = HashMap<String, String>;

/// The partition of the volume to use. Administrators set it by hand in the PersistentVolume; the driver never does.
pub(super) const PARTITION: &str = "partition";
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

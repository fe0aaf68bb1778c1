//! Which options for mkfs fit which capability (`controller.md` 6.4).

use ebs_mounter::{FormatOptions, FsType};

use super::ParameterError;
use crate::capability::Access;
use crate::contract::FormatKey;

/// Refuses options that a capability rules out.
///
/// # Errors
/// [`ParameterError::Formatting`] for the first option that does not fit, then
/// [`ParameterError::ClusterSizeWithoutBigalloc`].
pub fn check_format_options(options: &FormatOptions, accesses: &[Access]) -> Result<(), ParameterError> {
    for key in FormatKey::ALL.into_iter().filter(|key| key.is_set(options)) {
        for access in accesses {
            let with = match access {
                Access::Block => "a raw block volume".to_owned(),
                Access::Unset => "a capability that asks neither for a file system nor for a block volume".to_owned(),
                Access::Mount { fs_type } if !fits(key, fs_type) => format!("file system {fs_type}"),
                Access::Mount { .. } => continue,
            };
            return Err(ParameterError::Formatting { key: key.as_str(), with });
        }
    }
    if options.cluster_size.is_some() && !options.bigalloc {
        return Err(ParameterError::ClusterSizeWithoutBigalloc);
    }
    Ok(())
}

/// Whether a node could make a file system so named with the option. A name that Linux nodes do not know fits, but for
/// ntfs: they refuse the name itself, and say so better.
fn fits(key: FormatKey, fs_type: &str) -> bool {
    FsType::parse(fs_type).map_or(fs_type != "ntfs", |fs_type| key.file_systems().contains(&fs_type))
}

//! Checks that mkfs options fit the capability, and that mkfs accepts their values.

use std::ops::RangeInclusive;

use ebs_mounter::{FormatOptions, FsType};

use super::ParameterError;
use crate::capability::Access;
use crate::context::FormatKey;

/// The default size of a block in bytes.
const DEFAULT_BLOCK: u64 = 4096;

/// Refuses options that a capability excludes, and values that mkfs rejects. Ignores capabilities for raw block.
pub fn check_format_options(options: &FormatOptions, accesses: &[Access]) -> Result<(), ParameterError> {
    for key in FormatKey::ALL.into_iter().filter(|key| key.is_set(options)) {
        for access in accesses {
            let with = match access {
                Access::Unset => "a capability with neither a file system nor a block volume".to_owned(),
                Access::Mount { fs_type } if !fits(key, fs_type) => format!("file system {fs_type}"),
                Access::Mount { .. } | Access::Block => continue,
            };
            return Err(ParameterError::Formatting { key: key.as_str(), with });
        }
    }
    if options.cluster_size.is_some() && !options.bigalloc {
        return Err(ParameterError::ClusterSizeWithoutBigalloc);
    }
    for fs_type in accesses.iter().filter_map(Access::linux_file_system) {
        check_values(options, fs_type)?;
    }
    Ok(())
}

/// Returns whether a node could format a volume with this option. Another check refuses unknown file systems.
fn fits(key: FormatKey, fs_type: &str) -> bool {
    match FsType::parse(fs_type) {
        Ok(fs_type) => key.file_systems().contains(&fs_type),
        Err(_) => !fs_type.eq_ignore_ascii_case("ntfs"),
    }
}

struct Rule {
    key: FormatKey,
    range: RangeInclusive<u64>,
    is_power_of_2: bool,
    /// True if mkfs accepts a unit, such as `4k` for 4096.
    has_units: bool,
}

/// Returns the rules of mke2fs in e2fsprogs 1.47 and mkfs.xfs in xfsprogs 6.1 (with checksums), and of later versions.
fn rules(fs_type: FsType, block: u64) -> Vec<Rule> {
    let rule = |key, range, is_power_of_2, has_units| Rule { key, range, is_power_of_2, has_units };
    if fs_type == FsType::Xfs {
        return vec![
            rule(FormatKey::BlockSize, 1024..=65_536, true, true),
            rule(FormatKey::InodeSize, 512..=(block / 2).clamp(512, 2048), true, false),
        ];
    }
    vec![
        rule(FormatKey::BlockSize, 1024..=65_536, false, true),
        rule(FormatKey::InodeSize, 128..=block.clamp(1024, 4096), true, false),
        rule(FormatKey::BytesPerInode, 1024..=67_108_864, false, true),
        rule(FormatKey::NumberOfInodes, 0..=u64::from(u32::MAX), false, false),
        rule(FormatKey::ClusterSize, block.max(2048)..=536_870_912, false, true),
    ]
}

fn check_values(options: &FormatOptions, fs_type: FsType) -> Result<(), ParameterError> {
    for rule in rules(fs_type, block_size(options)) {
        let Some(value) = rule.key.value(options).filter(|value| !is_taken(value, &rule)) else { continue };
        let what = if rule.is_power_of_2 { "a power of 2" } else { "a number" };
        let wanted = format!("{what} from {} to {}", rule.range.start(), rule.range.end());
        return Err(ParameterError::FormatValue { key: rule.key.as_str(), value: value.to_owned(), fs_type, wanted });
    }
    Ok(())
}

/// Returns whether mkfs accepts the value. Does not check a unit that only one of the mkfs tools supports.
fn is_taken(value: &str, rule: &Rule) -> bool {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let Ok(number) = digits.parse::<u64>() else { return false };
    if digits.len() < value.len() {
        return rule.has_units && bytes(value).is_none_or(|bytes| fits_rule(bytes, rule));
    }
    fits_rule(number, rule)
}

fn fits_rule(number: u64, rule: &Rule) -> bool {
    // mke2fs treats an inode size of 0 as its default.
    let is_default = number == 0 && rule.key == FormatKey::InodeSize && *rule.range.start() == 128;
    is_default || (rule.range.contains(&number) && (!rule.is_power_of_2 || number.is_power_of_two()))
}

/// Returns the size of a block in bytes for a file system with these options.
pub fn block_size(options: &FormatOptions) -> u64 {
    options.block_size.as_ref().and_then(|word| bytes(word.as_str())).unwrap_or(DEFAULT_BLOCK)
}

/// Parses a value such as `4096` or `4k`. Returns `None` for any other unit.
fn bytes(word: &str) -> Option<u64> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &word[digits.len()..] {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

//! Pure functions that compare the disk and its mounts with the request, without I/O.
//!
//! Decision: `docs/dev/decisions/0016-compare-every-mount-with-the-request.md`.

use std::collections::BTreeSet;
use std::path::Path;

use ebs_mounter::{
    Attribute, Contents, DeviceNumber, FormatPermit, FormatRecord, FsType, MountEntry, MountOptions, PathKind,
    Superblock,
};

use super::error::NodeRefusal;
use crate::context::VolumeOrigin;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mounted {
    No,
    AsWanted,
}

/// Compares the topmost mount at the staging path with the request and with the device, which is proven to belong to
/// the volume.
pub(super) fn staged(
    entry: Option<&MountEntry>,
    device: DeviceNumber,
    fs_type: Option<FsType>,
    options: &MountOptions,
) -> Result<Mounted, NodeRefusal> {
    let Some(entry) = entry else { return Ok(Mounted::No) };
    if entry.device != device {
        return Err(NodeRefusal::OtherMount { found: describe(entry) });
    }
    let has = attributes(entry);
    let wants = distinguishing(options);
    let fs_fits = fs_type.is_none_or(|asked| asked.accepts_name(&entry.fs_type));
    if !fs_fits || has != wants {
        let named = |fs_type: &str, attributes| format!("{fs_type} {}", Attribute::words(attributes)).trim().to_owned();
        return Err(NodeRefusal::MountedDifferently {
            found: named(&entry.fs_type, &has),
            wanted: named(fs_type.map_or("", FsType::as_str), &wants),
        });
    }
    compare_words(entry, options).map(|()| Mounted::AsWanted)
}

/// Compares the options that affect data or secrecy with the mount table, which shows an SELinux label exactly when one
/// is set. Where the kernel ignores labels, `options` contains none.
fn compare_words(entry: &MountEntry, options: &MountOptions) -> Result<(), NodeRefusal> {
    const LABELS: [&str; 4] = ["context", "fscontext", "defcontext", "rootcontext"];
    // Each option with the default that applies when the table does not list it. `None` means an unknown default.
    const OTHERS: [(&str, Option<&str>); 2] = [("data", Some("ordered")), ("errors", None)];
    let find = |words: &[String], key: &str| {
        let mut values = words.iter().filter_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        values.next_back().map(|value| value.trim_matches('"').to_owned())
    };
    let (asked, has) = (|key| find(options.words(), key), |key| find(&entry.super_options, key));
    let differ = |key: &'static str, found: Option<String>, wanted: Option<String>| {
        let text = |value: Option<String>| value.map_or_else(|| format!("no {key}"), |value| format!("{key}={value}"));
        Err(NodeRefusal::MountedDifferently { found: text(found), wanted: text(wanted) })
    };
    for key in LABELS {
        let (found, wanted) = (has(key), asked(key));
        if found.as_deref().map(label) != wanted.as_deref().map(label) {
            return differ(key, found, wanted);
        }
    }
    for (key, default) in OTHERS {
        let Some(wanted) = asked(key) else { continue };
        match has(key).or_else(|| default.map(str::to_owned)) {
            Some(found) if found != wanted => return differ(key, Some(found), Some(wanted)),
            Some(_) | None => {}
        }
    }
    Ok(())
}

/// Splits the categories from an SELinux label. The kernel may show them in another order and as ranges.
fn label(text: &str) -> (&str, BTreeSet<u32>) {
    let number = |text: &str| text.strip_prefix('c')?.parse::<u32>().ok();
    let range = |text: &str| match text.split_once('.') {
        Some((first, last)) => Some(number(first)?..=number(last)?),
        None => number(text).map(|only| only..=only),
    };
    let split = || {
        let (rest, categories) = text.rsplit_once(':')?;
        let ranges: Option<Vec<_>> = categories.split(',').map(range).collect();
        // The kernel supports 1,024 categories.
        let known = ranges?.into_iter().flat_map(|range| *range.start()..=(*range.end()).min(1_023));
        Some((rest, known.collect()))
    };
    split().unwrap_or_else(|| (text, BTreeSet::new()))
}

/// Compares the request, and the topmost mount at the target, with the mount at the staging path.
pub(super) fn published(
    entry: Option<&MountEntry>,
    staged: &MountEntry,
    fs_type: Option<FsType>,
    options: &MountOptions,
) -> Result<Mounted, NodeRefusal> {
    if let Some(entry) = entry.filter(|entry| entry.device != staged.device) {
        return Err(NodeRefusal::OtherMount { found: describe(entry) });
    }
    if let Some(asked) = fs_type.filter(|asked| !asked.accepts_name(&staged.fs_type)) {
        return Err(NodeRefusal::MountedDifferently { found: staged.fs_type.clone(), wanted: asked.to_string() });
    }
    compare_words(staged, options)?;
    let Some(entry) = entry else { return Ok(Mounted::No) };
    let wants: BTreeSet<Attribute> = distinguishing(options).union(&attributes(staged)).copied().collect();
    compare_attributes(entry, &wants, entry.root == staged.root)
}

/// Compares the mount at the target with a raw device. `leads_to` is the number of the device node mounted there.
pub(super) fn published_block(
    entry: Option<&MountEntry>,
    leads_to: Option<DeviceNumber>,
    device: DeviceNumber,
    options: &MountOptions,
) -> Result<Mounted, NodeRefusal> {
    let Some(entry) = entry else { return Ok(Mounted::No) };
    if leads_to != Some(device) {
        return Err(NodeRefusal::OtherMount { found: describe(entry) });
    }
    // A device node inherits the mount options of /dev (nosuid, noexec), so only ro depends on the request.
    let is_read_only = attributes(entry).contains(&Attribute::ReadOnly);
    if is_read_only == options.is_read_only() {
        return Ok(Mounted::AsWanted);
    }
    let way = |read_only| if read_only { "ro" } else { "rw" }.to_owned();
    Err(NodeRefusal::MountedDifferently { found: way(is_read_only), wanted: way(options.is_read_only()) })
}

fn compare_attributes(
    entry: &MountEntry,
    wants: &BTreeSet<Attribute>,
    same_root: bool,
) -> Result<Mounted, NodeRefusal> {
    let has = attributes(entry);
    if same_root && has == *wants {
        return Ok(Mounted::AsWanted);
    }
    let root = |same: bool| if same { String::new() } else { format!(" of {}", entry.root.display()) };
    Err(NodeRefusal::MountedDifferently {
        found: format!("{}{}", Attribute::words(&has), root(same_root)),
        wanted: Attribute::words(wants),
    })
}

/// Accepts a path for a mount if it is missing or empty. The caller has checked that nothing is mounted there.
pub(super) fn check_mount_point(found: &PathKind, for_file: bool) -> Result<(), NodeRefusal> {
    match found {
        PathKind::Symlink => Err(NodeRefusal::Symlink),
        PathKind::Missing => Ok(()),
        PathKind::Directory { empty: true } if !for_file => Ok(()),
        PathKind::File { bytes: 0 } if for_file => Ok(()),
        other => Err(NodeRefusal::InTheWay { found: other.to_string() }),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    Mount(Superblock),
    Format(FormatPermit),
}

#[derive(Debug)]
pub(super) struct Evidence<'a> {
    pub(super) contents: &'a Contents,
    pub(super) partitions: &'a [u8],
    /// The file system that the request asks for, or `None` when it accepts any.
    pub(super) asked: Option<FsType>,
    /// The record that formatting this device would write.
    pub(super) record: &'a FormatRecord,
    /// The record of a previous, unfinished format.
    pub(super) left_behind: Option<&'a FormatRecord>,
    /// What the volume was created from, unless it was created blank.
    pub(super) restored_from: Option<&'a VolumeOrigin>,
    /// The request allows the driver to format a blank restored volume.
    pub(super) may_format_restored: bool,
    pub(super) read_only: bool,
}

/// Decides what to do with the device: mounts a complete file system of the right family, formats a device that is
/// proven blank or that this driver began to format, and refuses all other contents.
pub(super) fn contents(evidence: &Evidence<'_>) -> Result<Plan, NodeRefusal> {
    let may_write = || match evidence.restored_from {
        _ if evidence.read_only => Err(NodeRefusal::BlankReadOnly),
        Some(source) if !evidence.may_format_restored => Err(NodeRefusal::BlankRestore { origin: source.clone() }),
        _ => Ok(()),
    };
    match evidence.contents {
        Contents::Filesystem(superblock) if superblock.is_complete() => {
            let found = superblock.fs_type();
            match evidence.asked.filter(|asked| !asked.accepts(found)) {
                Some(asked) => Err(NodeRefusal::OtherFileSystem { found, asked }),
                None => Ok(Plan::Mount(superblock.clone())),
            }
        }
        Contents::Blank(proof) => may_write().map(|()| Plan::Format(FormatPermit::of_blank(proof))),
        other => {
            let left_behind = evidence.left_behind.and_then(|left| evidence.record.permit_redo(left, other));
            let permit = left_behind.ok_or_else(|| NodeRefusal::NotBlank {
                contents: other.to_string(),
                partitions: evidence.partitions.to_vec(),
            })?;
            may_write().map(|()| Plan::Format(permit))
        }
    }
}

pub(super) fn describe(entry: &MountEntry) -> String {
    format!("{} from {} (device {})", entry.fs_type, Path::new(&entry.source).display(), entry.device)
}

fn attributes(entry: &MountEntry) -> BTreeSet<Attribute> {
    Attribute::distinguishing(entry.options.iter().map(String::as_str))
}

/// Returns the requested attributes by which the mount table can distinguish two mounts of one file system.
fn distinguishing(options: &MountOptions) -> BTreeSet<Attribute> {
    let mut wanted = options.of_one_mount();
    wanted.retain(|attribute| !matches!(attribute, Attribute::RelAtime | Attribute::StrictAtime));
    wanted
}

#[cfg(test)]
mod tests;

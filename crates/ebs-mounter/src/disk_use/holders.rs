//! Who holds a disk: other mount namespaces, processes with an open descriptor, devices that the kernel built on it. Only
//! what this process may see: in a container without the host's process ids that is little.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::disk_directory;
use crate::device_number::DeviceNumber;
use crate::mounter::MounterConfig;
use crate::mountinfo::MountTable;
use crate::os;

/// So many are named; more help nobody.
const NAMED: usize = 4;

/// Who holds a disk, given the numbers of it and of its partitions, in words.
pub(super) fn of(config: &MounterConfig, numbers: &[DeviceNumber]) -> Vec<String> {
    let mut found = stacked(config, numbers);
    found.extend(in_other_namespaces(numbers));
    if found.is_empty() {
        found.extend(with_descriptors(numbers));
    }
    found.truncate(NAMED);
    found
}

/// Devices that the kernel built on it: device mapper, md, bcache.
fn stacked(config: &MounterConfig, numbers: &[DeviceNumber]) -> Vec<String> {
    let disk = numbers.first().and_then(|number| disk_directory(config, *number).ok().flatten());
    let entries = disk.and_then(|disk| fs::read_dir(disk.join("holders")).ok());
    let names = entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.file_name()));
    names.map(|name| format!("the device {}, which is built on it", name.display())).collect()
}

/// One process for each mount namespace that has a file system of the disk mounted.
fn in_other_namespaces(numbers: &[DeviceNumber]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for process in processes() {
        let Ok(namespace) = fs::read_link(process.join("ns/mnt")) else { continue };
        if !seen.insert(namespace) || found.len() >= NAMED {
            continue;
        }
        let Ok(text) = fs::read(process.join("mountinfo")) else { continue };
        let table = MountTable::parse(&text);
        let entry = table.entries().iter().find(|entry| numbers.contains(&entry.device));
        if let Some(entry) = entry {
            let at = entry.target.display();
            found.push(format!("{} has it mounted at {at} in its mount namespace", name(&process)));
        }
    }
    found
}

/// Processes that have the block device itself open.
fn with_descriptors(numbers: &[DeviceNumber]) -> Vec<String> {
    let has_it_open = |process: &std::path::PathBuf| {
        let Ok(descriptors) = fs::read_dir(process.join("fd")) else { return false };
        let mut leads = descriptors.flatten().filter_map(|link| {
            // Only what is named like a device is asked: a file elsewhere could hang.
            let to = fs::read_link(link.path()).ok()?;
            to.starts_with("/dev").then(|| os::block_device_number(&fs::metadata(link.path()).ok()?))?
        });
        leads.any(|number| numbers.contains(&number))
    };
    let found = processes().into_iter().filter(has_it_open).take(NAMED);
    found.map(|process| format!("{} has it open", name(&process))).collect()
}

fn processes() -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_process = |entry: &fs::DirEntry| entry.file_name().as_bytes().iter().all(u8::is_ascii_digit);
    entries.filter(is_process).map(|entry| entry.path()).collect()
}

fn name(process: &Path) -> String {
    let id = process.file_name().unwrap_or_default().display().to_string();
    let command = fs::read_to_string(process.join("comm")).unwrap_or_default();
    format!("process {id} ({})", command.trim())
}

//! Finds those holders of a disk that this process can see: few, in a container without the host's PID namespace.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags};

use crate::config::MounterConfig;
use crate::device_number::DeviceNumber;
use crate::disk_parts::{numbers_of, parts_of};
use crate::mountinfo::MountTable;
use crate::os;
use crate::tools::Program;

const NAMED: usize = 4;
const MAKERS: [Program; 2] = [Program::Mke2fs, Program::MkfsXfs];

pub(crate) fn of(config: &MounterConfig, numbers: &[DeviceNumber]) -> Vec<String> {
    let mut found = numbers.first().and_then(|number| stacked(config, *number).ok()).unwrap_or_default();
    found.extend(in_other_namespaces(numbers));
    found.extend(with_files(numbers));
    if found.is_empty() {
        found.extend(with_descriptors(numbers));
    }
    found.truncate(NAMED);
    found
}

pub(crate) fn stacked(config: &MounterConfig, number: DeviceNumber) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for part in parts_of(config, number)? {
        for entry in fs::read_dir(part.join("holders")).into_iter().flatten().flatten() {
            found.push(format!("device {}, which is built on it", entry.file_name().display()));
        }
    }
    Ok(found)
}

/// Returns one process for each mount namespace in which a file system of the disk is mounted.
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
            found.push(format!("{}, which has it mounted at {at} in its mount namespace", name(&process)));
        }
    }
    found
}

/// Returns the processes that have a file open on a mount of the disk whose mount point was removed.
fn with_files(numbers: &[DeviceNumber]) -> Vec<String> {
    let has_file = |process: &PathBuf| {
        let Ok(text) = fs::read(process.join("mountinfo")) else { return false };
        let mounts: BTreeSet<u64> = MountTable::parse(&text).entries().iter().map(|entry| entry.id).collect();
        descriptors(process).into_iter().any(|descriptor| {
            let is_gone = mount_of(process, &descriptor).is_some_and(|mount| !mounts.contains(&mount));
            is_gone && device_of(&descriptor).is_some_and(|number| numbers.contains(&number))
        })
    };
    let found = processes().into_iter().filter(has_file).take(NAMED);
    found.map(|process| format!("{}, which has a file open on it", name(&process))).collect()
}

fn mount_of(process: &Path, descriptor: &Path) -> Option<u64> {
    let text = fs::read_to_string(process.join("fdinfo").join(descriptor.file_name()?)).ok()?;
    text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
}

/// Returns the device of an open file's file system. Sends no request to a file server, which may hang.
fn device_of(descriptor: &Path) -> Option<DeviceNumber> {
    let found = rustix::fs::statx(CWD, descriptor, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE).ok()?;
    Some(DeviceNumber { major: found.stx_dev_major, minor: found.stx_dev_minor })
}

fn with_descriptors(numbers: &[DeviceNumber]) -> Vec<String> {
    let found = processes().into_iter().filter(|process| has_open(process, numbers)).take(NAMED);
    found.map(|process| format!("{}, which has it open", name(&process))).collect()
}

fn has_open(process: &Path, numbers: &[DeviceNumber]) -> bool {
    let mut leads = descriptors(process).into_iter().filter_map(|descriptor| {
        // Follow only names of devices: access to another file could hang.
        let to = fs::read_link(&descriptor).ok()?;
        to.starts_with("/dev").then(|| os::block_device_number(&fs::metadata(descriptor).ok()?))?
    });
    leads.any(|number| numbers.contains(&number))
}

/// True if a visible process that makes file systems has the disk or one of its partitions open.
pub(crate) fn is_being_made(config: &MounterConfig, number: DeviceNumber) -> bool {
    let Ok(numbers) = numbers_of(config, number) else { return false };
    let makes = |process: &PathBuf| {
        let command = fs::read_to_string(process.join("comm")).unwrap_or_default();
        MAKERS.iter().any(|maker| maker.name() == command.trim())
    };
    processes().into_iter().filter(makes).any(|process| has_open(&process, &numbers))
}

fn descriptors(process: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn processes() -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_process = |entry: &fs::DirEntry| entry.file_name().as_bytes().iter().all(u8::is_ascii_digit);
    entries.filter(is_process).map(|entry| entry.path()).collect()
}

fn name(process: &Path) -> String {
    let id = process.file_name().unwrap_or_default().display().to_string();
    let command = fs::read_to_string(process.join("comm")).unwrap_or_default();
    format!("process {id} ({})", command.trim())
}

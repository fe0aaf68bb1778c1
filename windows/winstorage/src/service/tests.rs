//! Tests of the operations on a machine in memory.

mod contents;
mod disks;
mod files;
mod guard;
mod mounts;
mod network;
mod paths;
mod proof;
mod read_only;
mod services;
mod traversal;
mod volumes;

use std::sync::Arc;

use crate::fake::{Description, FakeHost};
use crate::types::{DiskNumber, VolumeGuid, WinPath};
use crate::{Policy, Storage};

pub(super) const KUBELET: &str = r"C:\var\lib\kubelet";
pub(super) const SERIAL: &str = "vol0123456789abcdef0_00000001.";
pub(super) const GIB: u64 = 1 << 30;
pub(super) const MIB: u64 = 1 << 20;

/// Returns a machine with Windows on disk 0, an empty disk 1 of 10 GiB, and the kubelet's directory.
pub(super) fn machine() -> (FakeHost, Storage) {
    let host = FakeHost::new();
    host.add_disk(1, SERIAL, 10 * GIB, true);
    host.add_directory(&at("pods"));
    (host.clone(), storage(&host))
}

pub(super) fn storage(host: &FakeHost) -> Storage {
    Storage::new(Arc::new(host.clone()), policy())
}

pub(super) fn policy() -> Policy {
    Policy::new(vec![WinPath::normalise(KUBELET).unwrap()])
}

pub(super) fn described(json: &str) -> (FakeHost, Storage) {
    let mut description: Description = serde_json::from_str(json).unwrap();
    description.virtual_time = true;
    let host = FakeHost::from_description(&description).unwrap();
    host.add_directory(&at("pods"));
    (host.clone(), storage(&host))
}

pub(super) fn at(rest: &str) -> String {
    format!(r"{KUBELET}\{rest}")
}

pub(super) fn formatted(storage: &Storage) -> VolumeGuid {
    storage.partition_disk(DiskNumber(1)).unwrap();
    let volume = storage.list_volumes_on_disk(DiskNumber(1), None).unwrap().remove(0);
    storage.format_volume(&volume.to_string()).unwrap();
    volume
}

//! Tests of what Wine implements correctly. Links, mount points and disks need Windows: see the checklist in
//! `docs/dev/windows.md`.

use std::sync::Barrier;

use super::*;
use crate::host::{EntryKind, FsEntry, NativeHost, SpaceHost, SystemHost, code};
use crate::types::{ServiceName, WinPath};
use crate::wmi::{Namespace, Wmi, WmiError};

/// A directory for this test only. Dropping it removes the directory.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("winstorage-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn open(&self) -> Box<dyn FsEntry> {
        Win32.open(&WinPath::normalise(self.0.to_str().unwrap()).unwrap()).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let removed = std::fs::remove_dir_all(&self.0);
        assert!(removed.is_ok() || std::thread::panicking(), "{removed:?}");
    }
}

#[test]
fn directory_entries_are_handled_by_name_below_an_open_handle() {
    let scratch = Scratch::new("entries");
    let root = scratch.open();
    let made = root.create_directory("a").unwrap();
    assert_eq!(made.kind().unwrap(), EntryKind::Directory);
    std::fs::write(scratch.0.join("file"), b"x").unwrap();
    let mut names = root.children().unwrap();
    names.sort();
    assert_eq!(names, ["a", "file"]);
    assert_eq!(root.child("FILE").unwrap().unwrap().kind().unwrap(), EntryKind::File);
    assert!(root.child("none").unwrap().is_none());
    let taken = root.create_directory("a").map(drop).unwrap_err();
    assert!(taken.is_win32(code::ALREADY_EXISTS) || taken.is_win32(code::FILE_EXISTS), "{taken}");
    for odd in ["..", r"a\b", "a:b", ""] {
        assert!(!matches!(root.child(odd), Ok(Some(_))) || odd == "..", "{odd}");
    }
    made.create_directory("b").map(drop).unwrap();
    drop(made);
    let full = root.child("a").unwrap().unwrap().remove().unwrap_err();
    assert!(full.is_win32(code::DIR_NOT_EMPTY), "{full}");
    root.child("a").unwrap().unwrap().child("b").unwrap().unwrap().remove().unwrap();
    root.child("a").unwrap().unwrap().remove().unwrap();
    root.child("file").unwrap().unwrap().remove().unwrap();
    assert!(root.children().unwrap().is_empty());
}

#[test]
fn long_directory_listing_is_read_completely() {
    let scratch = Scratch::new("listing");
    for number in 0..2_000 {
        std::fs::write(scratch.0.join(format!("a-rather-long-name-of-a-file-{number:05}")), b"").unwrap();
    }
    let mut names = scratch.open().children().unwrap();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 2_000);
}

#[test]
fn windows_drive_has_a_volume_and_space() {
    let drive = Win32.system_drive().unwrap();
    assert_eq!(drive, 'C');
    Win32.volume_of_drive(drive).unwrap();
    let space = Win32.space(&WinPath::normalise(r"C:\").unwrap()).unwrap();
    assert!(space.total > 0 && space.available <= space.total, "{space:?}");
    assert!(Win32.path_valid(r"C:\windows").unwrap());
    assert!(!Win32.path_valid(r"C:\no such path\x").unwrap());
    let missing = Win32.open(&WinPath::normalise(r"C:\no such path").unwrap()).map(drop).unwrap_err();
    assert!(missing.is_missing(), "{missing}");
    // The server of Wine updates the tick count, on a busy machine with a delay.
    let (before, time) = (Win32.elapsed(), std::time::Duration::from_millis(20));
    assert!((0..500).any(|_| {
        Win32.pause(time);
        Win32.elapsed() - before >= time
    }));
}

#[test]
fn physical_drive_reports_its_device_number() {
    assert!(Win32.device_number(r"\\.\PhysicalDrive0").is_ok());
    assert!(Win32.device_number(r"\\.\PhysicalDrive77").is_err());
    let none = Win32.device_ids(r"\\.\PhysicalDrive77").unwrap_err();
    assert!(none.is_missing(), "{none}");
}

#[test]
fn wmi_queries_succeed_on_every_thread() {
    let host = windows_host(true);
    let name = ServiceName::parse("RpcSs").unwrap();
    // Run concurrent queries, each of a different class. Wine rebuilds the table of a class for each query without a
    // lock, so two queries of one class could find it empty or crash.
    let together = Barrier::new(3);
    let ask = |wql| {
        together.wait();
        let rows = ComWmi::new(true).query(Namespace::Cim, wql).unwrap();
        assert!(!rows.is_empty(), "{wql}");
    };
    std::thread::scope(|scope| {
        for wql in
            ["SELECT Name FROM Win32_Service", "SELECT Name FROM Win32_BIOS", "SELECT Name FROM Win32_OperatingSystem"]
        {
            let ask = &ask;
            scope.spawn(move || ask(wql));
        }
    });
    let row = host.service(&name).unwrap().unwrap();
    assert!(!row.display_name.is_empty() && !row.state.is_empty(), "{row:?}");
    assert!(host.service(&ServiceName::parse("no such service").unwrap()).unwrap().is_none());
    assert!(host.native().volume_of_drive('C').is_ok());
    let bad = ComWmi::new(true).query(Namespace::Cim, "SELECT FROM").unwrap_err();
    assert!(matches!(bad, WmiError::Com(_)), "{bad}");
}

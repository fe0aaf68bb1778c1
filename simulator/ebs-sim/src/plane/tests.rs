//! Tests with real loop devices. They need root. They change only what they have created below their temporary
//! directory.

mod broken;
mod copies;
mod devices;
mod sweeping;

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::path::PathBuf;

use ebs_ec2::GIB;

use crate::state::{Effect, Outcome, Source};

use super::by_id::ById;
use super::loop_plane::LoopPlane;
use super::losetup::Losetup;
use super::sysfs;

/// A data plane in its own directory, which is removed on drop.
struct Bench {
    plane: LoopPlane,
    dir: PathBuf,
    _temporary: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        assert!(
            rustix::process::geteuid().is_root(),
            "this test sets up loop devices: run it as root (sudo -E env \"PATH=$PATH\" cargo test -p ebs-sim)"
        );
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().canonicalize().unwrap();
        Self { plane: LoopPlane::open(&dir, &dir.join("by-id")).unwrap(), dir, _temporary: temporary }
    }

    fn done(&self, effect: &Effect) -> Option<String> {
        match self.plane.carry_out(effect) {
            Outcome::Done(device) => device,
            other => panic!("{effect:?} ended with {other:?}"),
        }
    }

    fn create(&self, volume: &str, gib: u32) {
        self.done(&Effect::CreateBacking { volume: volume.to_owned(), gib, source: Source::Blank });
    }

    fn connect(&self, volume: &str) -> PathBuf {
        PathBuf::from(self.done(&connect(volume)).unwrap())
    }

    /// Disconnects an unused volume. The device may briefly be busy: a child process that a concurrent test starts
    /// shares all open devices until it executes its own program.
    fn disconnect(&self, volume: &str) {
        let gone = || self.plane.carry_out(&disconnect(volume)) == Outcome::Done(None);
        assert!(soon(gone), "{volume} is busy although nobody uses it");
    }

    fn link(&self, volume: &str) -> PathBuf {
        self.dir.join("by-id").join(format!("nvme-Amazon_Elastic_Block_Store_{}", volume.replace('-', "")))
    }

    fn image(&self, volume: &str) -> PathBuf {
        self.dir.join("devices").join(format!("{volume}.img"))
    }
}

fn connect(volume: &str) -> Effect {
    Effect::Connect { volume: volume.to_owned(), instance: "i-1".to_owned(), linked: true, breakable: false }
}

fn disconnect(volume: &str) -> Effect {
    Effect::Disconnect { volume: volume.to_owned(), instance: "i-1".to_owned(), force: false }
}

fn open(device: &PathBuf) -> File {
    OpenOptions::new().read(true).write(true).open(device).unwrap()
}

/// Polls until the condition holds, for at most a minute.
fn soon(is_so: impl Fn() -> bool) -> bool {
    let end = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    while std::time::SystemTime::now() < end {
        if is_so() {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

fn open_exclusively(device: &PathBuf) -> rustix::fd::OwnedFd {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::open(device, OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

fn size(device: &PathBuf) -> u64 {
    use std::io::{Seek as _, SeekFrom};
    File::open(device).unwrap().seek(SeekFrom::End(0)).unwrap()
}

//! A loop device of exact size over a sparse file, for tests of disks. Dropping it detaches it and removes its
//! directory.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ebs_ec2::VolumeId;
use rustix::fs::SeekFrom;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::process::run_tool;
use crate::run_dir::OwnDir;

pub const LOSETUP: &str = "/usr/sbin/losetup";
const ADDPART: &str = "/usr/bin/addpart";
const BLOCKDEV: &str = "/usr/sbin/blockdev";
pub const TOOL_BOUND: Duration = Duration::from_secs(60);

const PAGE: u64 = 4096;
const PAGE_BYTES: usize = 4096;

/// How long to wait until other processes close a detached device.
const LET_GO: Duration = Duration::from_secs(20);

/// A loop device that exists as long as this value.
#[derive(Debug)]
pub struct LoopDevice {
    directory: OwnDir,
    backing: PathBuf,
    device: PathBuf,
}

impl LoopDevice {
    /// Creates a zeroed device of `bytes` bytes. Its backing file is `<volume>.img`, as in the simulator.
    pub fn new(volume: &VolumeId, bytes: u64) -> io::Result<Self> {
        Self::over(OwnDir::new("ebs-loop-")?, volume, bytes)
    }

    /// Creates a device like [`LoopDevice::new`], with the backing file's directory below `parent`.
    pub fn new_in(parent: &Path, volume: &VolumeId, bytes: u64) -> io::Result<Self> {
        Self::over(OwnDir::new_in(parent, "ebs-loop-")?, volume, bytes)
    }

    fn over(directory: OwnDir, volume: &VolumeId, bytes: u64) -> io::Result<Self> {
        Self::attached(directory, volume, bytes, &[])
    }

    fn attached(directory: OwnDir, volume: &VolumeId, bytes: u64, options: &[&str]) -> io::Result<Self> {
        refuse_unless_root("a loop device")?;
        if bytes == 0 || !bytes.is_multiple_of(512) {
            return Err(io::Error::other(format!("a loop device of {bytes} bytes: not a multiple of 512")));
        }
        // The kernel reports the backing file by its real path.
        let backing = directory.path().join(format!("{volume}.img"));
        OpenOptions::new().read(true).write(true).create_new(true).open(&backing)?.set_len(bytes)?;
        let device = attach(&backing, options)?;
        let disk = Self { directory, backing, device };
        clear_read_only(&disk.device)?;
        Ok(disk)
    }

    /// Creates a device like [`LoopDevice::new`], with a partition 1 from the second MiB to the end. The disk has no
    /// partition table: the partition exists only in the kernel, which removes it with the device.
    pub fn with_partition(volume: &VolumeId, bytes: u64) -> io::Result<Self> {
        let disk = Self::attached(OwnDir::new("ebs-loop-")?, volume, bytes, &["--partscan"])?;
        let (start, length) = (2048, bytes / 512 - 2048);
        run(ADDPART, &[&disk.device.to_string_lossy(), "1", &start.to_string(), &length.to_string()])?;
        Ok(disk)
    }

    pub fn partition(&self, number: u8) -> PathBuf {
        PathBuf::from(format!("{}p{number}", self.device.display()))
    }

    pub fn path(&self) -> &Path {
        &self.device
    }

    pub fn name(&self) -> &str {
        self.device.file_name().and_then(|name| name.to_str()).expect("losetup prints /dev/loopN")
    }

    /// Returns the directory that contains only the backing file. It can serve as `EBS_SIM_DEVICES_DIR`.
    pub fn directory(&self) -> &Path {
        self.backing.parent().expect("the backing file has a directory")
    }

    pub fn backing_file(&self) -> &Path {
        &self.backing
    }

    /// Enlarges the device while it is attached, as EC2 enlarges a volume.
    pub fn grow(&self, bytes: u64) -> io::Result<()> {
        File::options().write(true).open(&self.backing)?.set_len(bytes)?;
        run(LOSETUP, &["--set-capacity", &self.device.to_string_lossy()]).map(drop)
    }

    /// Writes through the device and syncs.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let device = File::options().write(true).open(&self.device)?;
        device.write_all_at(bytes, offset)?;
        device.sync_all()
    }

    pub fn read_at(&self, length: usize, offset: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        File::open(&self.device)?.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Returns a digest of every nonzero page and its position, which changes if any byte does. Does not read holes of
    /// the backing file, so a device of 16 TiB costs only as much time as its data.
    pub fn fingerprint(&self) -> io::Result<String> {
        File::open(&self.device)?.sync_all()?;
        let file = File::open(&self.backing)?;
        let mut digest = Sha256::new();
        let mut at = 0;
        // After the last data, the kernel returns ENXIO.
        while let Some(data) = unless_none(rustix::fs::seek(&file, SeekFrom::Data(at)))? {
            let hole = rustix::fs::seek(&file, SeekFrom::Hole(data))?;
            at = data / PAGE * PAGE;
            while at < hole {
                let mut page = [0; PAGE_BYTES];
                let length = file.read_at(&mut page, at)?;
                if page != [0; PAGE_BYTES] {
                    digest.update(at.to_le_bytes());
                    digest.update(&page[..length]);
                }
                at += PAGE;
            }
        }
        Ok(hex::encode(digest.finalize()))
    }

    /// Detaches the device while it is in use, as EC2 can do with a volume, and waits until it is gone. The backing
    /// file stays until this value is dropped.
    pub async fn vanish(&self) -> io::Result<VanishedDevice> {
        self.detach()?;
        // The last process to close the device may be one that scans all disks of the machine.
        let deadline = Instant::now() + LET_GO;
        while self.is_ours() {
            if Instant::now() > deadline {
                return Err(io::Error::other(format!("{} is still open in another process", self.device.display())));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let directory = Path::new("/sys/block").join(self.name());
        let sequence = std::fs::read_to_string(directory.join("diskseq"))
            .map_err(|e| io::Error::other(format!("{}: its disk sequence number: {e}", self.device.display())))?;
        Ok(VanishedDevice { sequence, directory })
    }

    /// Detaches the device and attaches its file again, as EC2 can do with a volume: the kernel sees a new disk with
    /// the same contents, perhaps under another name.
    pub async fn attach_again(&mut self) -> io::Result<()> {
        self.vanish().await?;
        self.device = attach(&self.backing, &[])?;
        Ok(())
    }

    fn detach(&self) -> io::Result<()> {
        run(LOSETUP, &["--detach", &self.device.to_string_lossy()]).map(drop)
    }

    fn is_ours(&self) -> bool {
        backing_of(&self.device).as_ref() == Some(&self.backing)
    }
}

impl AsRef<Path> for LoopDevice {
    fn as_ref(&self) -> &Path {
        self.path()
    }
}

/// The number of a detached loop device, which the kernel may assign to the next loop device.
#[derive(Debug)]
pub struct VanishedDevice {
    directory: PathBuf,
    sequence: String,
}

impl VanishedDevice {
    /// Returns whether a disk, of any process, has reused the device's number since the device vanished.
    pub fn number_was_reused(&self) -> bool {
        let same_sequence = std::fs::read_to_string(self.directory.join("diskseq")).is_ok_and(|n| n == self.sequence);
        !same_sequence || self.directory.join("loop/backing_file").exists()
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // After `vanish`, the device number may belong to another process.
        if self.is_ours()
            && let Err(error) = self.detach()
        {
            tracing::warn!(device = %self.device.display(), %error, "failed to remove the loop device of a test");
        }
        tracing::debug!(directory = %self.directory.path().display(), "removing the backing file");
    }
}

/// Returns an id that no other test or process uses, because device names are derived from it.
pub fn unused_volume_id() -> VolumeId {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    VolumeId::parse(&format!("vol-0{process:08x}{number:08x}")).expect("an id of hexadecimal digits")
}

/// Returns an error with a clear message if this process is not root.
pub(crate) fn refuse_unless_root(what: &str) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{what} requires root; run: sudo -E env \"PATH=$PATH\" cargo test, or use make shell"
    )))
}

fn unless_none(found: Result<u64, rustix::io::Errno>) -> io::Result<Option<u64>> {
    match found {
        Err(rustix::io::Errno::NXIO) => Ok(None),
        found => Ok(Some(found?)),
    }
}

/// Returns the backing file of a loop device, without the suffix that the kernel appends to a deleted file.
pub fn backing_of(device: &Path) -> Option<PathBuf> {
    let attribute = Path::new("/sys/block").join(device.file_name()?).join("loop/backing_file");
    let text = std::fs::read(attribute).ok()?;
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    let text = text.strip_suffix(b" (deleted)").unwrap_or(text);
    Some(PathBuf::from(OsStr::from_bytes(text)))
}

/// Attaches a file to a free loop device.
fn attach(backing: &Path, options: &[&str]) -> io::Result<PathBuf> {
    let backing = backing.to_string_lossy();
    let output = run(LOSETUP, &[options, &["--find", "--show", "--", backing.as_ref()]].concat())?;
    Ok(PathBuf::from(output.trim()))
}

fn run(program: &str, args: &[&str]) -> io::Result<String> {
    run_tool(program, args, TOOL_BOUND).map_err(io::Error::other)
}

/// Makes a loop device writable. The kernel keeps the read-only flag after the file is detached, so otherwise a killed
/// test would leave the flag to the next test.
pub fn clear_read_only(device: &Path) -> io::Result<()> {
    let mark = Path::new("/sys/block").join(device.file_name().unwrap_or_default()).join("ro");
    if std::fs::read_to_string(mark)?.trim() == "1" {
        run(BLOCKDEV, &["--setrw", &device.to_string_lossy()])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(name: &str) -> VolumeId {
        VolumeId::parse(name).unwrap()
    }

    #[test]
    fn disk_left_read_only_by_an_earlier_test_is_made_writable() {
        let before = LoopDevice::new(&volume("vol-0f1r"), 1 << 20).unwrap();
        run(BLOCKDEV, &["--setro", &before.path().to_string_lossy()]).unwrap();
        clear_read_only(before.path()).unwrap();
        before.write_at(b"x", 0).unwrap();
    }

    #[test]
    fn panic_removes_the_loop_device_and_its_file() {
        let device = LoopDevice::new(&volume("vol-0f2x"), 1 << 20).unwrap();
        let (name, backing) = (device.name().to_owned(), device.backing_file().to_owned());
        let outcome = std::thread::spawn(move || {
            let _device = device;
            panic!("on purpose");
        })
        .join();
        assert!(outcome.is_err());
        assert!(!backing.exists());
        assert_ne!(backing_of(Path::new(&name)), Some(backing));
    }
}

//! A loop device of exact size over a sparse file in a directory of its own, for tests of disks.
//!
//! Dropping it, also while a panic unwinds, detaches the device and removes the directory. What it did not create it
//! never touches.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ebs_types::VolumeId;
use rustix::fs::SeekFrom;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::run_dir::OwnDir;

/// Where `losetup` of util-linux may be.
const LOSETUP: [&str; 3] = ["/usr/sbin/losetup", "/sbin/losetup", "/usr/bin/losetup"];

/// Where `addpart` of util-linux may be.
const ADDPART: [&str; 2] = ["/usr/bin/addpart", "/usr/sbin/addpart"];

/// Where `blockdev` of util-linux may be.
const BLOCKDEV: [&str; 3] = ["/usr/sbin/blockdev", "/sbin/blockdev", "/usr/bin/blockdev"];

/// What a fingerprint compares at once.
const PAGE: u64 = 4096;
const PAGE_BYTES: usize = 4096;

/// How long others may keep a device open that is detached.
const LET_GO: Duration = Duration::from_secs(20);

/// A loop device that lives as long as this value.
#[derive(Debug)]
pub struct LoopDevice {
    directory: OwnDir,
    backing: PathBuf,
    device: PathBuf,
}

impl LoopDevice {
    /// A device of `bytes` zero bytes whose backing file is named `<volume>.img`, as the simulator names its own.
    ///
    /// # Errors
    /// Without root, without a free loop device, or when `bytes` is no multiple of 512.
    pub fn new(volume: &VolumeId, bytes: u64) -> io::Result<Self> {
        Self::over(OwnDir::new("ebs-loop-")?, volume, bytes)
    }

    /// As [`LoopDevice::new`], with the backing file's directory below `parent`.
    ///
    /// # Errors
    /// As [`LoopDevice::new`].
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
        // The kernel reports the backing file's real path.
        let backing = directory.path().join(format!("{volume}.img"));
        OpenOptions::new().read(true).write(true).create_new(true).open(&backing)?.set_len(bytes)?;
        let mut args: Vec<&std::ffi::OsStr> = options.iter().map(std::ffi::OsStr::new).collect();
        args.extend(["--find", "--show", "--"].map(std::ffi::OsStr::new));
        args.push(backing.as_ref());
        let output = losetup(&args)?;
        let device = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let disk = Self { directory, backing, device };
        clear_read_only(&disk.device)?;
        Ok(disk)
    }

    /// As [`LoopDevice::new`], with a partition 1 from the second MiB on to the end. The kernel knows it, and takes it away
    /// with the device; the disk has no partition table.
    ///
    /// # Errors
    /// As [`LoopDevice::new`], and where the kernel gives loop devices no partitions.
    pub fn with_partition(volume: &VolumeId, bytes: u64) -> io::Result<Self> {
        let disk = Self::attached(OwnDir::new("ebs-loop-")?, volume, bytes, &["--partscan"])?;
        let (start, length) = (2048, bytes / 512 - 2048);
        run(
            &ADDPART,
            &[disk.device.as_ref(), "1".as_ref(), format!("{start}").as_ref(), format!("{length}").as_ref()],
        )?;
        Ok(disk)
    }

    /// As [`LoopDevice::new`], for a partition table: what it says, the kernel knows once it is told to look.
    ///
    /// # Errors
    /// As [`LoopDevice::new`].
    pub fn with_partition_table(volume: &VolumeId, bytes: u64) -> io::Result<Self> {
        Self::attached(OwnDir::new("ebs-loop-")?, volume, bytes, &["--partscan"])
    }

    /// The device node of a partition.
    pub fn partition(&self, number: u8) -> PathBuf {
        PathBuf::from(format!("{}p{number}", self.device.display()))
    }

    /// The device, `/dev/loopN`.
    pub fn path(&self) -> &Path {
        &self.device
    }

    /// The name alone, `loopN`.
    pub fn name(&self) -> &str {
        self.device.file_name().and_then(|name| name.to_str()).expect("losetup prints /dev/loopN")
    }

    /// The directory that holds the backing file and nothing else: what `EBS_SIM_DEVICES_DIR` would be.
    pub fn directory(&self) -> &Path {
        self.backing.parent().expect("the backing file lies in a directory")
    }

    pub fn backing_file(&self) -> &Path {
        &self.backing
    }

    /// Makes the device larger, in place, as EC2 does to an attached volume.
    ///
    /// # Errors
    /// When the file cannot grow or the kernel refuses to look at it again.
    pub fn grow(&self, bytes: u64) -> io::Result<()> {
        File::options().write(true).open(&self.backing)?.set_len(bytes)?;
        losetup(&["--set-capacity".as_ref(), self.device.as_ref()]).map(drop)
    }

    /// Writes through the device and syncs.
    ///
    /// # Errors
    /// As the device's.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let device = File::options().write(true).open(&self.device)?;
        device.write_all_at(bytes, offset)?;
        device.sync_all()
    }

    /// Reads through the device.
    ///
    /// # Errors
    /// As the device's.
    pub fn read_at(&self, length: usize, offset: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        File::open(&self.device)?.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// A digest of all that is on the device: of every page that is not zero, with its place. Equal only when no byte has
    /// changed. Holes of the backing file are not read, so a device of 16 TiB costs no more than what is on it.
    ///
    /// # Errors
    /// As the device's and the backing file's.
    pub fn fingerprint(&self) -> io::Result<String> {
        File::open(&self.device)?.sync_all()?;
        let file = File::open(&self.backing)?;
        let mut digest = Sha256::new();
        let mut at = 0;
        // Where nothing more is written, the kernel answers ENXIO.
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

    /// Detaches the device, as EC2 does to a volume in use, and waits until it is gone; the backing file stays until the drop.
    ///
    /// # Errors
    /// When losetup refuses, or somebody keeps the device open.
    pub async fn vanish(&self) -> io::Result<VanishedDevice> {
        self.detach()?;
        // It goes when its last user does: whoever looks at all disks of the machine right now is one.
        let deadline = Instant::now() + LET_GO;
        while self.is_ours() {
            if Instant::now() > deadline {
                return Err(io::Error::other(format!("{} is kept open by somebody", self.device.display())));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let directory = Path::new("/sys/block").join(self.name());
        let sequence = std::fs::read_to_string(directory.join("diskseq"))
            .map_err(|e| io::Error::other(format!("{}: its disk sequence number: {e}", self.device.display())))?;
        Ok(VanishedDevice { sequence, directory })
    }

    /// Detaches the device and attaches its file again, as EC2 does to a volume that goes and comes back: the kernel sees
    /// another disk, perhaps under another name, with the same contents.
    ///
    /// # Errors
    /// As [`LoopDevice::vanish`].
    pub async fn attach_again(&mut self) -> io::Result<()> {
        self.vanish().await?;
        let output = losetup(&["--find".as_ref(), "--show".as_ref(), "--".as_ref(), self.backing.as_ref()])?;
        self.device = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        Ok(())
    }

    fn detach(&self) -> io::Result<()> {
        losetup(&["--detach".as_ref(), self.device.as_ref()]).map(drop)
    }

    fn is_ours(&self) -> bool {
        let attribute = Path::new("/sys/block").join(self.name()).join("loop/backing_file");
        std::fs::read_to_string(attribute).is_ok_and(|file| Path::new(file.trim_end()) == self.backing)
    }
}

impl AsRef<Path> for LoopDevice {
    fn as_ref(&self) -> &Path {
        self.path()
    }
}

/// The number of a loop device that has vanished. The kernel gives it to the next one who asks for a loop device.
#[derive(Debug)]
pub struct VanishedDevice {
    directory: PathBuf,
    sequence: String,
}

impl VanishedDevice {
    /// True when another disk, of whichever process, has or had the device's number since.
    pub fn number_was_reused(&self) -> bool {
        let same_sequence = std::fs::read_to_string(self.directory.join("diskseq")).is_ok_and(|n| n == self.sequence);
        !same_sequence || self.directory.join("loop/backing_file").exists()
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // After `vanish` the number may be somebody else's already.
        if self.is_ours()
            && let Err(error) = self.detach()
        {
            tracing::warn!(device = %self.device.display(), %error, "loop device of a test stays behind");
        }
        tracing::debug!(directory = %self.directory.path().display(), "removing the backing file");
    }
}

/// An id that no other test, nor another process, uses: names of devices are made of it.
pub fn unused_volume_id() -> VolumeId {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    VolumeId::parse(&format!("vol-0{process:08x}{number:08x}")).expect("an id of hexadecimal digits")
}

/// Fails with a clear message unless this process is root.
///
/// # Errors
/// When it is not root.
pub(crate) fn refuse_unless_root(what: &str) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(io::Error::other(format!("{what} needs root: run this test as root (sudo -E cargo test, or in a container)")))
}

fn unless_none(found: Result<u64, rustix::io::Errno>) -> io::Result<Option<u64>> {
    match found {
        Err(rustix::io::Errno::NXIO) => Ok(None),
        found => Ok(Some(found?)),
    }
}

fn losetup(args: &[&std::ffi::OsStr]) -> io::Result<Output> {
    run(&LOSETUP, args)
}

/// Makes a loop device writable. The kernel keeps the read-only mark on the device after its file has gone: a test that was
/// killed leaves it to the next.
///
/// # Errors
/// When the device is gone, or blockdev fails.
pub(crate) fn clear_read_only(device: &Path) -> io::Result<()> {
    let mark = Path::new("/sys/block").join(device.file_name().unwrap_or_default()).join("ro");
    if std::fs::read_to_string(mark)?.trim() == "1" {
        run(&BLOCKDEV, &["--setrw".as_ref(), device.as_ref()])?;
    }
    Ok(())
}

fn run(places: &[&str], args: &[&std::ffi::OsStr]) -> io::Result<Output> {
    let program = places
        .iter()
        .find(|path| Path::new(path).exists())
        .ok_or_else(|| io::Error::other(format!("{} is missing: install util-linux and mount", places[0])))?;
    #[expect(clippy::disallowed_methods, reason = "a fixture's own tool, by absolute path, with a cleared environment")]
    let output = Command::new(program).args(args).env_clear().env("LC_ALL", "C").stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(output);
    }
    Err(io::Error::other(format!("{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(name: &str) -> VolumeId {
        VolumeId::parse(name).unwrap()
    }

    /// A disk that an earlier test has left read-only is writable for the next one.
    #[test]
    fn a_disk_that_an_earlier_test_left_read_only_is_writable() {
        let before = LoopDevice::new(&volume("vol-0f1r"), 1 << 20).unwrap();
        run(&BLOCKDEV, &["--setro".as_ref(), before.path().as_ref()]).unwrap();
        clear_read_only(before.path()).unwrap();
        before.write_at(b"x", 0).unwrap();
    }

    #[test]
    fn a_loop_device_has_the_exact_size_and_grows_in_place() {
        let device = LoopDevice::new(&volume("vol-0f1x"), 3 * 512).unwrap();
        let sectors = || std::fs::read_to_string(format!("/sys/block/{}/size", device.name())).unwrap();
        assert_eq!(sectors().trim(), "3");
        device.grow(1 << 20).unwrap();
        assert_eq!(sectors().trim(), "2048");
    }

    /// Whoever takes the number of a device that has vanished is seen, also when it is gone again.
    #[tokio::test]
    async fn a_vanished_device_whose_number_another_one_got_is_told_from_one_that_is_only_gone() {
        let device = LoopDevice::new(&volume("vol-0f3x"), 1 << 20).unwrap();
        let gone = device.vanish().await.unwrap();
        // The kernel gives the lowest free number: sooner or later this one, to this test or to another process.
        let mut others = Vec::new();
        while !gone.number_was_reused() {
            assert!(others.len() < 64, "{} was free all the time", device.name());
            let other = LoopDevice::new(&volume("vol-0f4x"), 1 << 20).unwrap();
            let got_it = other.name() == device.name();
            others.push(other);
            assert!(!got_it || gone.number_was_reused(), "{} was taken unseen", device.name());
        }
        drop(others);
        assert!(gone.number_was_reused(), "it was another's in the meantime");
    }

    #[test]
    fn a_fingerprint_changes_with_any_byte_and_with_its_place() {
        let device = LoopDevice::new(&volume("vol-0f5x"), 1 << 40).unwrap();
        let blank = device.fingerprint().unwrap();
        let mut seen = vec![blank.clone()];
        for offset in [0, 4095, 4096, (1 << 39) + 7, (1 << 40) - 1] {
            device.write_at(&[1], offset).unwrap();
            let now = device.fingerprint().unwrap();
            assert!(!seen.contains(&now), "byte {offset} makes no difference");
            assert_eq!(now, device.fingerprint().unwrap());
            device.write_at(&[0], offset).unwrap();
            seen.push(now);
        }
        assert_eq!(device.fingerprint().unwrap(), blank, "a page of zeros is as good as a hole");
    }

    #[test]
    fn a_panic_leaves_neither_device_nor_file_behind() {
        let device = LoopDevice::new(&volume("vol-0f2x"), 1 << 20).unwrap();
        let (name, backing) = (device.name().to_owned(), device.backing_file().to_owned());
        let outcome = std::thread::spawn(move || {
            let _device = device;
            panic!("on purpose");
        })
        .join();
        assert!(outcome.is_err());
        assert!(!backing.exists());
        let now = std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).unwrap_or_default();
        assert_ne!(Path::new(now.trim_end()), backing);
    }
}

//! Disks that can lose their power: loop devices over files in the memory of a process of their own (FUSE), which keeps
//! what was flushed apart from what was only written. A cut leaves the disk as of its last flush plus a part, by a seed, of
//! what was written since; until the power is back every read and write fails.
//!
//! **Nothing outlives a killed run.** The server ends with the thread that started it, and when its control connection does.
//! With it ends the FUSE connection, so that no request waits for ever. The loop devices detach themselves when their last
//! user closes them (autoclear), and the file system of the files goes with its mount namespace. Only a device whose user is
//! killed before it could make it so stays; whoever starts the next server detaches it.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ebs_types::VolumeId;
use rustix::mount::{MountFlags, UnmountFlags};
use tokio::time::Instant;

use crate::frozen::thaw_device;
use crate::loop_device::clear_read_only;
use crate::process::{Process, ProcessSpec, run_tool, tool};

mod fuse;
mod server;
mod store;

pub use server::serve;
pub use store::Cut;

const LOSETUP: &str = "/usr/sbin/losetup";
const TOOL_BOUND: Duration = Duration::from_secs(60);
const START_BOUND: Duration = Duration::from_secs(60);
/// How long the last user of a detached device may take.
const LET_GO: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(2);

/// The server of disks and the way to it.
#[derive(Debug)]
pub struct CutDisks {
    server: Process,
    control: BufReader<UnixStream>,
    mount: PathBuf,
    /// The minor number of the mount: the kernel's name for the connection. None once it is unmounted: by then the number may be
    /// that of another server's mount.
    connection: Option<u32>,
}

/// A disk that is attached: its device, held open.
#[derive(Debug)]
pub struct Attached {
    device: PathBuf,
    backing: PathBuf,
    held: File,
}

impl CutDisks {
    /// Starts the server, `program` with the arguments `disks --parent P --mount M --socket S`, below a directory of the caller's. It
    /// mounts in the caller's mount namespace.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start(program: &Path, place: &Path) -> anyhow::Result<Self> {
        clear_lost_devices(&place.join("thawed"));
        let (mount, socket, log) = (place.join("disks"), place.join("disks.sock"), place.join("disks.log"));
        fs::create_dir(&mount).context("the directory of the disks")?;
        let mut args: Vec<std::ffi::OsString> = vec!["disks".into()];
        args.extend(["--parent".into(), std::process::id().to_string().into()]);
        args.extend(["--mount".into(), mount.clone().into(), "--socket".into(), socket.clone().into()]);
        let mut server = Process::spawn(ProcessSpec {
            name: "server of disks".to_owned(),
            program: program.to_owned(),
            args,
            env: std::collections::BTreeMap::new(),
            log,
        })?;
        let deadline = Instant::now() + START_BOUND;
        let control = loop {
            match UnixStream::connect(&socket) {
                Ok(control) => break control,
                Err(_) if server.ended()?.is_none() && Instant::now() < deadline => tokio::time::sleep(LOOK).await,
                Err(error) => bail!("the server of disks does not start: {error}\n{}", server.log_tail(20)),
            }
        };
        let device = fs::metadata(&mount).context("look at the disks' files")?.dev();
        Ok(Self { server, control: BufReader::new(control), mount, connection: Some(rustix::fs::minor(device)) })
    }

    fn ask(&mut self, command: &str) -> anyhow::Result<String> {
        self.control.get_mut().write_all(format!("{command}\n").as_bytes()).context("ask the server of disks")?;
        let mut line = String::new();
        self.control.read_line(&mut line).context("hear the server of disks")?;
        match line.trim_end().split_once(' ') {
            Some(("ok", answer)) => Ok(answer.to_owned()),
            _ if line.trim_end() == "ok" => Ok(String::new()),
            _ => bail!("the server of disks on {command:?}: {line}"),
        }
    }

    fn file(volume: &VolumeId) -> String {
        format!("{volume}.img")
    }

    /// The directory below which the disks of a node are.
    pub fn directory_of_node(&self, node: usize) -> PathBuf {
        self.mount.join(node.to_string())
    }

    /// A new blank disk, attached nowhere. `can_zero`: it writes zeros, and discards, without being sent any.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn add(&mut self, volume: &VolumeId, bytes: u64, can_zero: bool) -> anyhow::Result<()> {
        let can_zero = if can_zero { "zeros" } else { "plain" };
        self.ask(&format!("add {} {bytes} {can_zero}", Self::file(volume))).map(drop)
    }

    /// The power of the disk goes.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn cut(&mut self, volume: &VolumeId, seed: u64) -> anyhow::Result<Cut> {
        let answer = self.ask(&format!("cut {} {seed}", Self::file(volume)))?;
        cut_of(&answer).with_context(|| format!("not the answer to a cut: {answer}"))
    }

    /// The power of the disk goes in the middle of what is written to it, with the change after so many others.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn arm(&mut self, volume: &VolumeId, seed: u64, changes: u64) -> anyhow::Result<()> {
        self.ask(&format!("arm {} {seed} {changes}", Self::file(volume))).map(drop)
    }

    /// Takes that back; says what it did when it has come to pass.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn disarm(&mut self, volume: &VolumeId) -> anyhow::Result<Option<Cut>> {
        self.ask(&format!("disarm {}", Self::file(volume))).map(|answer| cut_of(&answer))
    }

    /// Whether the disk has power.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn has_power(&mut self, volume: &VolumeId) -> anyhow::Result<bool> {
        self.ask(&format!("has-power {}", Self::file(volume))).map(|answer| answer == "1")
    }

    /// The power comes back.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn power_on(&mut self, volume: &VolumeId) -> anyhow::Result<()> {
        self.ask(&format!("power {}", Self::file(volume))).map(drop)
    }

    /// What is written is safe from now on, as with a disk that was detached in order.
    ///
    /// # Errors
    /// When the server is gone or the disk has no power.
    pub fn flush(&mut self, volume: &VolumeId) -> anyhow::Result<()> {
        self.ask(&format!("flush {}", Self::file(volume))).map(drop)
    }

    /// Takes the disk out of its machine, as EC2 does when it detaches a volume: the disk keeps what was written to it. What
    /// the machine still has in memory reaches it no more.
    ///
    /// # Errors
    /// When the server is gone or the disk has no power.
    pub fn pull(&mut self, volume: &VolumeId) -> anyhow::Result<()> {
        self.ask(&format!("pull {}", Self::file(volume))).map(drop)
    }

    /// Lets a pulled disk answer again.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn plug(&mut self, volume: &VolumeId) -> anyhow::Result<()> {
        self.ask(&format!("plug {}", Self::file(volume))).map(drop)
    }

    /// Zeros everywhere.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn wipe(&mut self, volume: &VolumeId) -> anyhow::Result<()> {
        self.ask(&format!("wipe {}", Self::file(volume))).map(drop)
    }

    /// How often the disk was flushed, and how many pages are not.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn flushes(&mut self, volume: &VolumeId) -> anyhow::Result<(u64, u64)> {
        let answer = self.ask(&format!("flushes {}", Self::file(volume)))?;
        let (flushes, unflushed) = answer.split_once(' ').context("two numbers")?;
        Ok((flushes.parse()?, unflushed.parse()?))
    }

    /// Makes a disk larger, in place; the device that it is attached as looks again by [`Attached::look_again`].
    ///
    /// # Errors
    /// When the server is gone.
    pub fn resize(&mut self, volume: &VolumeId, bytes: u64) -> anyhow::Result<()> {
        self.ask(&format!("size {} {bytes}", Self::file(volume))).map(drop)
    }

    /// The file of a disk as a node sees it.
    pub fn backing(&self, volume: &VolumeId, node: usize) -> PathBuf {
        self.directory_of_node(node).join(Self::file(volume))
    }

    /// The process of the server.
    pub fn server(&self) -> &Process {
        &self.server
    }

    /// Ends the connection to the server: every request is answered with an error from now on.
    pub fn abort(&self) {
        if let Some(connection) = self.connection {
            abort(connection, &self.mount);
        }
    }

    /// Ends the server, and with it everything that waits for it. The file system of the files is unmounted. Once more it does
    /// nothing.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn end(&mut self) -> anyhow::Result<()> {
        if self.connection.is_none() {
            return Ok(());
        }
        self.abort();
        self.server.kill()?;
        self.connection = None;
        match rustix::mount::unmount(&self.mount, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(error).context("unmount the disks' files"),
        }
    }
}

impl Drop for CutDisks {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(mount = %self.mount.display(), %error, "the disks' files stay mounted");
        }
    }
}

fn cut_of(answer: &str) -> Option<Cut> {
    let numbers: Vec<u64> = answer.split(' ').filter_map(|number| number.parse().ok()).collect();
    let [kept, lost, torn] = numbers[..] else { return None };
    Some(Cut { kept, lost, torn })
}

/// Detaches the loop devices over files whose mount is gone and whose process is too: it was killed right after it had attached
/// them, or it had frozen their file systems. The id of a volume tells the process.
fn clear_lost_devices(place: &Path) {
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let file = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        let Some(process) = owner_of_lost(file.trim_end()) else { continue };
        if Path::new("/proc").join(process.to_string()).exists() {
            continue;
        }
        let device = Path::new("/dev").join(entry.file_name());
        if let Err(error) = thaw_device(&device, place) {
            tracing::debug!(device = %device.display(), %error, "not thawed");
        }
        match run_tool(LOSETUP, &["--detach", &device.to_string_lossy()], TOOL_BOUND) {
            Ok(_) => tracing::info!(device = %device.display(), "detached a disk of a run that was killed"),
            Err(error) => tracing::warn!(device = %device.display(), %error, "a disk of a run that was killed stays"),
        }
    }
}

/// The process in whose mount a backing file was that is seen without its mount: `/1/vol-0<process><number>.img`.
fn owner_of_lost(backing: &str) -> Option<u32> {
    let (node, file) = backing.strip_prefix('/')?.split_once('/')?;
    node.parse::<usize>().ok()?;
    let digits = file.strip_prefix("vol-0")?.strip_suffix(".img").filter(|digits| digits.len() == 16)?;
    u32::from_str_radix(digits.get(..8)?, 16).ok()
}

/// Ends a connection for the case that its server cannot: the kernel answers every request with an error from now on.
fn abort(connection: u32, mount: &Path) {
    let place = mount.with_file_name("connections");
    let aborted = with_connections(&place, || fs::write(place.join(connection.to_string()).join("abort"), "1"));
    if let Err(error) = aborted {
        tracing::debug!(connection, %error, "no connection to abort");
    }
}

/// Shows the kernel's list of FUSE connections at a place, for a moment: no distribution without systemd mounts it.
fn with_connections<T>(place: &Path, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    fs::create_dir_all(place)?;
    rustix::mount::mount("fusectl", place, "fusectl", MountFlags::empty(), None)?;
    let outcome = work();
    rustix::mount::unmount(place, UnmountFlags::DETACH)?;
    fs::remove_dir(place)?;
    outcome
}

impl Attached {
    /// Attaches a disk by its file, [`CutDisks::backing`].
    ///
    /// # Errors
    /// Without a free loop device.
    pub async fn new(backing: PathBuf) -> anyhow::Result<Self> {
        let output = tool(LOSETUP, &["--find", "--show", "--", &backing.to_string_lossy()], TOOL_BOUND).await?;
        let device = PathBuf::from(output.trim());
        let held = File::open(&device).with_context(|| format!("open {}", device.display()))?;
        clear_read_only(&device)?;
        // Of a device in use this makes one that goes with its last user: also when that is killed.
        tool(LOSETUP, &["--detach", &device.to_string_lossy()], TOOL_BOUND).await?;
        let attached = Self { device, backing, held };
        ensure!(attached.is_there(), "{} was detached although it is held open", attached.device.display());
        Ok(attached)
    }

    /// Lets the kernel see the disk's new size.
    ///
    /// # Errors
    /// When losetup fails.
    pub async fn look_again(&self) -> anyhow::Result<()> {
        tool(LOSETUP, &["--set-capacity", &self.device.to_string_lossy()], TOOL_BOUND).await.map(drop)
    }

    /// `/dev/loopN`.
    pub fn path(&self) -> &Path {
        &self.device
    }

    fn is_there(&self) -> bool {
        is_backed_by(&self.device, &self.backing)
    }

    /// Detaches the disk and waits until nobody has it open any more.
    ///
    /// # Errors
    /// When somebody keeps it.
    pub async fn detach(self) -> anyhow::Result<()> {
        let Self { device, backing, held } = self;
        drop(held);
        let deadline = Instant::now() + LET_GO;
        while is_backed_by(&device, &backing) {
            ensure!(Instant::now() < deadline, "{} is kept open by somebody", device.display());
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}

fn is_backed_by(device: &Path, backing: &Path) -> bool {
    let attribute = Path::new("/sys/block").join(device.file_name().unwrap_or_default()).join("loop/backing_file");
    fs::read_to_string(attribute).is_ok_and(|file| Path::new(file.trim_end()) == backing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_has_lost_its_mount_names_the_process_that_had_it() {
        assert_eq!(owner_of_lost("/1/vol-0000045fa00000001.img"), Some(0x45fa));
        for other in [
            "/tmp/x/disks/1/vol-0000045fa00000001.img",
            "/a/vol-0000045fa00000001.img",
            "/1/vol-0abc.img",
            "/1/vol-0000045fa00000001",
            "/1/é00045fa00000001.img",
            "",
        ] {
            assert_eq!(owner_of_lost(other), None, "{other}");
        }
    }
}

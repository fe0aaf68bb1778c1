//! Disks that can lose power: loop devices over FUSE files in the memory of a separate process. After a power cut, the
//! disk has its state of the last flush plus a part of the later writes, which a seed selects.
//!
//! Nothing outlives a killed run. The server, and with it the FUSE connection, ends with the thread that started it and
//! with its control connection. A loop device detaches itself after its last user closes it (autoclear). If a killed
//! user had not yet set autoclear, the next server detaches the device.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ebs_ec2::VolumeId;
use ebs_testkit::loop_device::{LOSETUP, TOOL_BOUND, backing_of, clear_read_only};
use ebs_testkit::process::{Process, ProcessSpec, run_tool, tool};
use rustix::mount::{MountFlags, UnmountFlags};
use tokio::time::Instant;

use crate::frozen::thaw_device;

mod server;
mod store;

pub use server::serve;
pub use store::Cut;

const START_BOUND: Duration = Duration::from_secs(60);
/// How long the last user of a detached device may take to close it.
const LET_GO: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(2);

/// The server process of the disks, and the control connection to it.
#[derive(Debug)]
pub struct CutDisks {
    server: Process,
    control: BufReader<UnixStream>,
    mount: PathBuf,
    /// The minor device number of the mount, by which the kernel names the FUSE connection. `None` after the unmount,
    /// because the number may then belong to another server's mount.
    connection: Option<u32>,
}

/// An attached disk, with an open descriptor of its loop device.
#[derive(Debug)]
pub struct Attached {
    device: PathBuf,
    backing: PathBuf,
    held: File,
}

impl CutDisks {
    /// Starts the server below the given directory: `program disks --parent P --mount M --socket S`. The server mounts
    /// its files in the caller's mount namespace.
    pub async fn start(program: &Path, place: &Path) -> anyhow::Result<Self> {
        clear_lost_devices(&place.join("thawed"));
        let (mount, socket, log) = (place.join("disks"), place.join("disks.sock"), place.join("disks.log"));
        fs::create_dir(&mount).context("create the directory of the disks")?;
        let mut args: Vec<std::ffi::OsString> = vec!["disks".into()];
        args.extend(["--parent".into(), std::process::id().to_string().into()]);
        args.extend(["--mount".into(), mount.clone().into(), "--socket".into(), socket.clone().into()]);
        let mut server = Process::spawn(ProcessSpec {
            name: "disk server".to_owned(),
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
                Err(error) => bail!("the disk server does not start: {error}\n{}", server.log_tail(20)),
            }
        };
        let device = fs::metadata(&mount).context("list the disks' files")?.dev();
        Ok(Self { server, control: BufReader::new(control), mount, connection: Some(rustix::fs::minor(device)) })
    }

    fn ask(&mut self, command: &str) -> anyhow::Result<String> {
        self.control
            .get_mut()
            .write_all(format!("{command}\n").as_bytes())
            .context("send a command to the disk server")?;
        let mut line = String::new();
        self.control.read_line(&mut line).context("read the disk server's reply")?;
        match line.trim_end().split_once(' ') {
            Some(("ok", answer)) => Ok(answer.to_owned()),
            _ if line.trim_end() == "ok" => Ok(String::new()),
            _ => bail!("disk server command {command:?}: {line}"),
        }
    }

    fn file(volume: &VolumeId) -> String {
        format!("{volume}.img")
    }

    pub fn directory_of_node(&self, node: usize) -> PathBuf {
        self.mount.join(node.to_string())
    }

    /// Creates a blank, detached disk. `can_zero` is whether it supports write-zeroes and discard.
    pub fn add(&mut self, volume: &VolumeId, bytes: u64, can_zero: bool) -> anyhow::Result<()> {
        let can_zero = if can_zero { "zeros" } else { "plain" };
        self.ask(&format!("add {} {bytes} {can_zero}", Self::file(volume))).map(drop)
    }

    pub fn cut(&mut self, volume: &VolumeId, seed: u64) -> anyhow::Result<Cut> {
        let answer = self.ask(&format!("cut {} {seed}", Self::file(volume)))?;
        cut_of(&answer).with_context(|| format!("invalid reply to a power cut: {answer}"))
    }

    /// Cuts the power of the disk in the middle of a write, after this number of changes.
    pub fn arm(&mut self, volume: &VolumeId, seed: u64, changes: u64) -> anyhow::Result<()> {
        self.ask(&format!("arm {} {seed} {changes}", Self::file(volume))).map(drop)
    }

    /// Cancels [`Self::arm`]. Returns the cut if it has already happened.
    pub fn disarm(&mut self, volume: &VolumeId) -> anyhow::Result<Option<Cut>> {
        self.ask(&format!("disarm {}", Self::file(volume))).map(|answer| cut_of(&answer))
    }

    pub fn has_power(&mut self, volume: &VolumeId) -> anyhow::Result<bool> {
        self.ask(&format!("has-power {}", Self::file(volume))).map(|answer| answer == "1")
    }

    pub fn power_on(&mut self, volume: &VolumeId) -> anyhow::Result<()> {
        self.ask(&format!("power {}", Self::file(volume))).map(drop)
    }

    /// Makes all writes durable, as in an orderly detach.
    pub fn flush(&mut self, volume: &VolumeId) -> anyhow::Result<()> {
        self.ask(&format!("flush {}", Self::file(volume))).map(drop)
    }

    /// Removes the disk from its machine, like EC2 when it detaches a volume. The disk keeps all data that was written
    /// to it; data that is still in the machine's memory is lost.
    pub fn pull(&mut self, volume: &VolumeId) -> anyhow::Result<()> {
        self.ask(&format!("pull {}", Self::file(volume))).map(drop)
    }

    /// Connects a removed disk again.
    pub fn plug(&mut self, volume: &VolumeId) -> anyhow::Result<()> {
        self.ask(&format!("plug {}", Self::file(volume))).map(drop)
    }

    pub fn wipe(&mut self, volume: &VolumeId) -> anyhow::Result<()> {
        self.ask(&format!("wipe {}", Self::file(volume))).map(drop)
    }

    /// Returns the number of flushes, and the number of unflushed pages.
    pub fn flushes(&mut self, volume: &VolumeId) -> anyhow::Result<(u64, u64)> {
        let answer = self.ask(&format!("flushes {}", Self::file(volume)))?;
        let (flushes, unflushed) = answer.split_once(' ').context("two numbers")?;
        Ok((flushes.parse()?, unflushed.parse()?))
    }

    /// Enlarges a disk. An attached loop device has the new size after [`Attached::look_again`].
    pub fn resize(&mut self, volume: &VolumeId, bytes: u64) -> anyhow::Result<()> {
        self.ask(&format!("size {} {bytes}", Self::file(volume))).map(drop)
    }

    /// Returns the path of a disk's file in the directory of a node.
    pub fn backing(&self, volume: &VolumeId, node: usize) -> PathBuf {
        self.directory_of_node(node).join(Self::file(volume))
    }

    pub fn server(&self) -> &Process {
        &self.server
    }

    /// Aborts the FUSE connection to the server, so that every request fails from now on.
    pub fn abort(&self) {
        if let Some(connection) = self.connection {
            abort(connection, &self.mount);
        }
    }

    /// Ends the server and all requests that wait for it, and unmounts the file system. A second call does nothing.
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
            tracing::warn!(mount = %self.mount.display(), %error, "failed to unmount the disks' files");
        }
    }
}

fn cut_of(answer: &str) -> Option<Cut> {
    let numbers: Vec<u64> = answer.split(' ').filter_map(|number| number.parse().ok()).collect();
    let [kept, lost, torn] = numbers[..] else { return None };
    Some(Cut { kept, lost, torn })
}

/// Detaches loop devices whose backing file has lost its mount and the process that owned it. That process was killed
/// right after it attached a device, or it had frozen the file system. The volume's id, which is the file's name,
/// contains the process id.
fn clear_lost_devices(place: &Path) {
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let Some(process) = backing_of(&entry.path()).and_then(|file| owner_of_lost(file.to_str()?)) else { continue };
        if Path::new("/proc").join(process.to_string()).exists() {
            continue;
        }
        let device = Path::new("/dev").join(entry.file_name());
        if let Err(error) = thaw_device(&device, place) {
            tracing::debug!(device = %device.display(), %error, "failed to thaw");
        }
        match run_tool(LOSETUP, &["--detach", &device.to_string_lossy()], TOOL_BOUND) {
            Ok(_) => tracing::info!(device = %device.display(), "detached a disk of a killed run"),
            Err(error) => tracing::warn!(device = %device.display(), %error, "failed to detach a disk of a killed run"),
        }
    }
}

/// Returns the process that owned a backing file whose mount is gone. The kernel shows such a file as
/// `/1/vol-0<process><number>.img`.
fn owner_of_lost(backing: &str) -> Option<u32> {
    let (node, file) = backing.strip_prefix('/')?.split_once('/')?;
    node.parse::<usize>().ok()?;
    let digits = file.strip_prefix("vol-0")?.strip_suffix(".img").filter(|digits| digits.len() == 16)?;
    u32::from_str_radix(digits.get(..8)?, 16).ok()
}

/// Aborts a FUSE connection that its server cannot end, so that the kernel fails every request from now on.
fn abort(connection: u32, mount: &Path) {
    let place = mount.with_file_name("connections");
    let aborted = with_connections(&place, || fs::write(place.join(connection.to_string()).join("abort"), "1"));
    if let Err(error) = aborted {
        tracing::debug!(connection, %error, "no connection to abort");
    }
}

/// Mounts the kernel's list of FUSE connections temporarily. Only distributions with systemd mount it permanently.
fn with_connections<T>(place: &Path, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    fs::create_dir_all(place)?;
    rustix::mount::mount("fusectl", place, "fusectl", MountFlags::empty(), None)?;
    let outcome = work();
    rustix::mount::unmount(place, UnmountFlags::DETACH)?;
    fs::remove_dir(place)?;
    outcome
}

impl Attached {
    /// Attaches the disk with this backing file, see [`CutDisks::backing`].
    pub async fn new(backing: PathBuf) -> anyhow::Result<Self> {
        let output = tool(LOSETUP, &["--find", "--show", "--", &backing.to_string_lossy()], TOOL_BOUND).await?;
        let device = PathBuf::from(output.trim());
        let held = File::open(&device).with_context(|| format!("open {}", device.display()))?;
        clear_read_only(&device)?;
        // For a device in use, `--detach` sets autoclear: the kernel detaches the device after its last user, even if
        // that user is killed.
        tool(LOSETUP, &["--detach", &device.to_string_lossy()], TOOL_BOUND).await?;
        let attached = Self { device, backing, held };
        let is_there = backing_of(&attached.device).as_ref() == Some(&attached.backing);
        ensure!(is_there, "{} was detached although it is open", attached.device.display());
        Ok(attached)
    }

    /// Makes the kernel read the new size of the disk.
    pub async fn look_again(&self) -> anyhow::Result<()> {
        tool(LOSETUP, &["--set-capacity", &self.device.to_string_lossy()], TOOL_BOUND).await.map(drop)
    }

    pub fn path(&self) -> &Path {
        &self.device
    }

    /// Detaches the disk and waits until no process has it open.
    pub async fn detach(self) -> anyhow::Result<()> {
        let Self { device, backing, held } = self;
        drop(held);
        let deadline = Instant::now() + LET_GO;
        while backing_of(&device).as_ref() == Some(&backing) {
            ensure!(Instant::now() < deadline, "{} is still open in another process", device.display());
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}

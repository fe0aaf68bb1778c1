//! A simulated machine: its service, which is killed and restarted, its state directory, and its boot id.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use csi_proto::csi;
use csi_proto::csi::node_client::NodeClient;
use ebs_ec2::VolumeId;
use ebs_mounter::{MountEntry, MountTable};
use ebs_testkit::csi_client::CsiClient;
use ebs_testkit::process::{Process, ProcessSpec};
use ebs_testkit::record::children_of;
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, PidfdFlags, Signal};
use tokio::time::Instant;
use tonic::transport::Channel;

/// How long the service may take to start.
const START: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(4);
/// How long unmounting a disk without power may take.
const UNMOUNT: Duration = Duration::from_secs(60);
const TOOLS: [&str; 6] = ["mke2fs", "mkfs.xfs", "e2fsck", "resize2fs", "xfs_growfs", "xfs_db"];

#[derive(Debug)]
pub(crate) struct Node {
    program: PathBuf,
    directory: PathBuf,
    /// The directory with the files of the disks that are attached to this node.
    devices: PathBuf,
    /// Whether the service may grow a mounted ext file system (CAP_SYS_RESOURCE).
    grows_mounted: bool,
    service: RefCell<Option<Process>>,
    client: RefCell<Option<CsiClient>>,
    /// Tools that killed services have left running.
    orphans: RefCell<Vec<OwnedFd>>,
    pub(crate) cuts: Cell<u64>,
    pub(crate) is_down: Cell<bool>,
    pub(crate) kills: Cell<u64>,
    pub(crate) tool_kills: Cell<u64>,
}

impl Node {
    pub(crate) fn new(
        program: &Path,
        directory: PathBuf,
        devices: PathBuf,
        grows_mounted: bool,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir(&directory).context("create the directory of a node")?;
        let node = Self {
            program: program.to_owned(),
            directory,
            devices,
            grows_mounted,
            service: RefCell::default(),
            client: RefCell::default(),
            orphans: RefCell::default(),
            cuts: Cell::new(0),
            is_down: Cell::new(false),
            kills: Cell::new(0),
            tool_kills: Cell::new(0),
        };
        node.name_this_boot()?;
        Ok(node)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.directory.join("state")
    }

    pub(crate) fn boot_id(&self) -> PathBuf {
        self.directory.join("boot_id")
    }

    fn name_this_boot(&self) -> anyhow::Result<()> {
        std::fs::write(self.boot_id(), format!("00000000-0000-4000-8000-{:012x}\n", self.cuts.get()))
            .context("write the boot id")
    }

    pub(crate) fn staging(&self, volume: &VolumeId) -> PathBuf {
        self.directory.join("staging").join(volume.as_str()).join("globalmount")
    }

    pub(crate) fn target(&self, volume: &VolumeId) -> PathBuf {
        self.directory.join("pods").join(volume.as_str()).join("mount")
    }

    pub(crate) fn raw_target(&self, volume: &VolumeId) -> PathBuf {
        self.directory.join("pods-raw").join(volume.as_str()).join("device")
    }

    fn log(&self) -> PathBuf {
        self.directory.join("service.log")
    }

    pub(crate) fn log_tail(&self) -> String {
        ebs_testkit::process::log_tail(&self.log(), 24)
    }

    /// Starts the service and waits until it answers.
    pub(crate) async fn start(&self) -> anyhow::Result<()> {
        let socket = self.directory.join("csi.sock");
        let mut args: Vec<std::ffi::OsString> = Vec::new();
        if !self.grows_mounted {
            args.extend(["--bounding-set", "-sys_resource", "--"].map(Into::into));
            args.push(self.program.clone().into());
        }
        args.extend(["serve".into(), "--parent".into(), std::process::id().to_string().into()]);
        for (name, path) in [
            ("--socket", socket.clone()),
            ("--state", self.state()),
            ("--devices", self.devices.clone()),
            ("--boot-id", self.boot_id()),
        ] {
            args.extend([name.into(), path.into()]);
        }
        let program = if self.grows_mounted { self.program.clone() } else { "/usr/bin/setpriv".into() };
        let spec = ProcessSpec {
            name: "node service".to_owned(),
            program,
            args,
            env: [("RUST_BACKTRACE".to_owned(), "0".to_owned())].into(),
            log: self.log(),
        };
        let mut service = Process::spawn(spec)?;
        let client = CsiClient::lazy(&socket);
        let deadline = Instant::now() + START;
        while client.node().node_get_capabilities(csi::NodeGetCapabilitiesRequest {}).await.is_err() {
            if service.ended()?.is_some() || Instant::now() > deadline {
                bail!("the service does not start:\n{}", self.log_tail());
            }
            tokio::time::sleep(LOOK).await;
        }
        self.service.replace(Some(service));
        self.client.replace(Some(client));
        Ok(())
    }

    /// Returns a client of the service, or `None` while no service is running.
    pub(crate) fn client(&self) -> Option<NodeClient<Channel>> {
        Some(self.client.borrow().as_ref()?.node())
    }

    fn tools(&self) -> Vec<OwnedFd> {
        let service = self.service.borrow().as_ref().map(Process::pid);
        let children = service.and_then(|service| children_of(service).ok()).unwrap_or_default();
        let tools = children.into_iter().filter(|(_, name)| TOOLS.contains(&name.as_str()));
        tools.filter_map(|(child, _)| hold(child)).collect()
    }

    /// Kills the service with `kill -9`, optionally with its tools. Returns the number of tools.
    pub(crate) fn kill(&self, with_tools: bool) -> anyhow::Result<usize> {
        // Find the tools before the kill, because orphans cannot be identified afterwards.
        let tools = self.tools();
        self.kills.set(self.kills.get() + 1);
        self.client.replace(None);
        if let Some(mut service) = self.service.take() {
            service.kill()?;
        }
        let count = tools.len();
        for tool in tools {
            if with_tools {
                send_kill(&tool);
            }
            self.orphans.borrow_mut().push(tool);
        }
        Ok(count)
    }

    /// Kills a running tool with `kill -9`. Returns false if no tool is running.
    pub(crate) fn kill_a_tool(&self) -> bool {
        let Some(tool) = self.tools().into_iter().next() else { return false };
        self.tool_kills.set(self.tool_kills.get() + 1);
        send_kill(&tool);
        true
    }

    /// Returns whether a tool of a killed service is still running.
    pub(crate) fn has_orphans(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut orphans = self.orphans.borrow_mut();
        // The pidfd of a process becomes readable when the process ends.
        orphans.retain(|orphan| {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut [PollFd::new(orphan, PollFlags::IN)], Some(&now)).is_ok_and(|ended| ended == 0)
        });
        !orphans.is_empty()
    }

    pub(crate) fn runs_a_tool(&self) -> bool {
        !self.tools().is_empty()
    }

    /// Stops the machine with all of its processes. Its disks have already lost power.
    pub(crate) fn stop(&self) -> anyhow::Result<()> {
        self.is_down.set(true);
        self.cuts.set(self.cuts.get() + 1);
        self.kill(true)?;
        for orphan in self.orphans.take() {
            send_kill(&orphan);
        }
        Ok(())
    }

    /// Unmounts everything that the stopped machine had mounted. The disks answer no request, so nothing is written to
    /// them.
    pub(crate) async fn forget_mounts(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + UNMOUNT;
        loop {
            let table = MountTable::read().await.context("read the mount table")?;
            let left = table.entries().iter().rev().find(|entry| entry.target.starts_with(&self.directory));
            let Some(left) = left.map(|entry| entry.target.clone()) else { return Ok(()) };
            let force = Instant::now() + LOOK > deadline;
            let flags = if force { UnmountFlags::DETACH } else { UnmountFlags::empty() } | UnmountFlags::NOFOLLOW;
            let at = left.clone();
            let unmounted = tokio::task::spawn_blocking(move || rustix::mount::unmount(at, flags));
            let unmounted = tokio::time::timeout(UNMOUNT, unmounted).await;
            match unmounted
                .with_context(|| format!("unmounting {} of a disk without power does not finish", left.display()))??
            {
                Ok(()) => {}
                // A process that was just killed may still exist.
                Err(rustix::io::Errno::BUSY) if !force => tokio::time::sleep(LOOK).await,
                Err(error) => return Err(error).with_context(|| format!("unmount {}", left.display())),
            }
        }
    }

    pub(crate) fn boot(&self) -> anyhow::Result<()> {
        self.is_down.set(false);
        self.name_this_boot()
    }

    /// Returns the mounts at one path, oldest first.
    pub(crate) async fn mounts_at(&self, path: &Path) -> anyhow::Result<Vec<MountEntry>> {
        let table = MountTable::read().await.context("read the mount table")?;
        Ok(table.entries().iter().filter(|entry| entry.target == path).cloned().collect())
    }

    pub(crate) async fn is_file_system_at(&self, path: &Path) -> anyhow::Result<bool> {
        Ok(self.mounts_at(path).await?.last().is_some_and(|entry| entry.device.major != 0))
    }
}

fn send_kill(process: &OwnedFd) {
    // The process may have ended on its own.
    let _ = rustix::process::pidfd_send_signal(process, Signal::KILL);
}

fn hold(child: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(child).ok()?)?;
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()
}

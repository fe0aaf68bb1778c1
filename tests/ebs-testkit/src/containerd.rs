//! A containerd for one test, with the node service as the chart's DaemonSet runs it: from an image, privileged, with a
//! read-only root, the kubelet's directory with bidirectional propagation, `/dev`, and the directory of its socket.
//!
//! containerd and its shims keep sockets and state in `/run`, whatever their settings, so the test's mount namespace
//! has a separate `/run`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use tokio::time::Instant;

use crate::csi_client::CsiClient;
use crate::node_pod::SharedDirectory;
use crate::process::{Process, ProcessSpec, run_tool, tool};
use crate::record::ProcessRecord;
use crate::run_dir::{OwnDir, RunDir};
use crate::world::{READY_BOUND, STOP_BOUND, World};

/// The variable with the directory of containerd's programs.
pub const PROGRAMS: &str = "EBS_TEST_CONTAINERD";

const BOUND: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(20);
/// The snapshotter copies the files of an image, because overlayfs does not work on every file system that may hold a
/// test's directory.
const SNAPSHOTTER: &str = "native";
/// Path of the socket's directory in the pod.
const PLUGIN: &str = "/csi";

/// A running containerd. Dropping it ends it.
#[derive(Debug)]
pub struct Containerd {
    // Ended before its directory is removed.
    daemon: Process,
    programs: PathBuf,
    socket: PathBuf,
    dir: OwnDir,
}

impl Containerd {
    /// Starts containerd in this thread's mount namespace, which must belong to the test alone.
    pub async fn start() -> anyhow::Result<Self> {
        let programs = PathBuf::from(std::env::var_os(PROGRAMS).with_context(|| {
            format!("{PROGRAMS} is not set to the directory of containerd; eval \"$(scripts/setup test)\" downloads it and sets the variable")
        })?);
        let dir = OwnDir::new("containerd-").context("a directory for containerd")?;
        let run = dir.path().join("run");
        std::fs::create_dir(&run).context("a /run of its own")?;
        mount_bind(&run, "/run").context("give containerd a /run of its own")?;
        let socket = PathBuf::from("/run/containerd.sock");
        let config = dir.path().join("config.toml");
        std::fs::write(&config, configuration(dir.path(), &socket)).context("write its configuration")?;
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", programs.display());
        let daemon = Process::spawn(ProcessSpec {
            name: "containerd".to_owned(),
            program: programs.join("containerd"),
            args: ["--config".into(), config.into_os_string()].into(),
            env: BTreeMap::from([("PATH".to_owned(), path)]),
            log: dir.path().join("log"),
        })?;
        let mut containerd = Self { daemon, programs, socket, dir };
        containerd.until_ready().await?;
        Ok(containerd)
    }

    async fn until_ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + BOUND;
        loop {
            let answer = self.ctr(&["version"]).await;
            let Err(error) = answer else { return Ok(()) };
            let ended = self.daemon.ended()?;
            if ended.is_some() || Instant::now() > deadline {
                bail!("containerd does not reply ({ended:?}): {error:#}\n{}", self.daemon.log_tail(20));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Imports the image of an archive and returns its name.
    pub async fn import(&self, archive: &Path) -> anyhow::Result<String> {
        let archive = archive.to_str().context("a path that is text")?;
        self.ctr(&["images", "import", "--snapshotter", SNAPSHOTTER, archive]).await.context("import the image")?;
        let names = self.ctr(&["images", "list", "--quiet"]).await?;
        let names: Vec<&str> = names.lines().collect();
        let [name] = names.as_slice() else { bail!("the archive has {names:?} instead of one image") };
        Ok((*name).to_owned())
    }

    async fn ctr(&self, args: &[&str]) -> anyhow::Result<String> {
        let socket = self.socket.to_str().context("a path that is text")?;
        let program = self.programs.join("ctr");
        let program = program.to_str().context("a path that is text")?;
        tool(program, &[&["--address", socket], args].concat(), BOUND).await
    }

    /// Runs `ctr` like [`Self::ctr`], for code without a runtime. Discards its output.
    fn ctr_blocking(&self, args: &[&str]) {
        let (Some(socket), Some(program)) =
            (self.socket.to_str(), self.programs.join("ctr").to_str().map(str::to_owned))
        else {
            return;
        };
        let _ = run_tool(&program, &[&["--address", socket], args].concat(), BOUND);
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.daemon.signal(rustix::process::Signal::TERM);
        let _ = self.daemon.wait_blocking(BOUND);
        // If this fails, the mount ends with the namespace.
        let _ = unmount("/run", UnmountFlags::DETACH);
    }
}

fn configuration(dir: &Path, socket: &Path) -> String {
    let (root, socket) = (dir.join("root"), socket.display());
    format!(
        "version = 2\nroot = \"{}\"\nstate = \"/run/state\"\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n\
         [grpc]\naddress = \"{socket}\"\n[ttrpc]\naddress = \"{socket}.ttrpc\"\n",
        root.display()
    )
}

/// The node service in a container of an image. Dropping it stops it and removes its mounts.
#[derive(Debug)]
pub struct ImagePod<'a> {
    containerd: &'a Containerd,
    /// The `ctr` process, which runs as long as the container and forwards signals.
    run: Process,
    id: String,
    client: CsiClient,
    _shared: SharedDirectory,
}

impl<'a> ImagePod<'a> {
    /// Starts the node service of `world`, whose controller runs outside of the container, and waits until it is ready.
    pub async fn start(containerd: &'a Containerd, image: &str, world: &World) -> anyhow::Result<Self> {
        let shared = SharedDirectory::new(world.kubelet_dir())?;
        let plugin = containerd.dir.path().join("plugin");
        std::fs::create_dir(&plugin).context("a directory for the socket")?;
        let id = format!("ebs-test-{}", std::process::id());
        let run = Process::spawn(ProcessSpec {
            name: "ctr".to_owned(),
            program: containerd.programs.join("ctr"),
            args: arguments(containerd, image, world, &plugin, &id)?,
            env: BTreeMap::new(),
            log: containerd.dir.path().join("node-log"),
        })?;
        let client = CsiClient::lazy(&plugin.join("csi.sock"));
        let mut pod = Self { containerd, run, id, client, _shared: shared };
        pod.client = CsiClient::ready(&plugin.join("csi.sock"), &mut pod.run, READY_BOUND).await?;
        pod.note().await?;
        Ok(pod)
    }

    pub fn client(&self) -> &CsiClient {
        &self.client
    }

    pub fn log_tail(&self) -> String {
        self.run.log_tail(40)
    }

    /// Sends the service a signal to end, and waits for the end.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.run.stop_cleanly(STOP_BOUND).await
    }

    /// Records the process inside and its shim, which outlive this program if it is killed.
    async fn note(&self) -> anyhow::Result<()> {
        let listed = self.containerd.ctr(&["tasks", "list"]).await?;
        let line = listed.lines().find(|line| line.starts_with(&self.id)).context("the container's task")?;
        let pid = line.split_whitespace().nth(1).and_then(|word| word.parse::<u32>().ok()).context("its process")?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).context("the container's process")?;
        let shim = status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse::<u32>().ok());
        let run = RunDir::current()?;
        run.record_process(&ProcessRecord::of("containerd's shim", shim.context("the container's shim")?)?)?;
        run.record_process(&ProcessRecord::of("node pod of an image", pid)?).context("record the container's process")
    }
}

impl Drop for ImagePod<'_> {
    fn drop(&mut self) {
        if !matches!(self.run.ended(), Ok(Some(_))) {
            self.containerd.ctr_blocking(&["tasks", "kill", "--signal", "SIGKILL", &self.id]);
            let _ = self.run.wait_blocking(BOUND);
            self.containerd.ctr_blocking(&["tasks", "delete", "--force", &self.id]);
            self.containerd.ctr_blocking(&["containers", "delete", &self.id]);
        }
    }
}

fn arguments(
    containerd: &Containerd,
    image: &str,
    world: &World,
    plugin: &Path,
    id: &str,
) -> anyhow::Result<Vec<OsString>> {
    let kubelet = world.kubelet_dir();
    let driver = world.driver_spec();
    let bind = |from: &Path, at: &Path, options: &str| {
        format!("type=bind,src={},dst={},options={options}", from.display(), at.display())
    };
    let mut mounts = vec![
        bind(Path::new("/dev"), Path::new("/dev"), "rbind:rw"),
        bind(plugin, Path::new(PLUGIN), "rbind:rw"),
        bind(&kubelet, &kubelet, "rbind:rshared:rw"),
    ];
    if let Some(devices) = driver.env.get("EBS_SIM_DEVICES_DIR") {
        mounts.push(bind(Path::new(devices), Path::new(devices), "rbind:ro"));
    }
    let socket = containerd.socket.to_str().context("a path that is text")?;
    let fixed = ["--address", socket, "run", "--rm", "--snapshotter", SNAPSHOTTER, "--privileged", "--read-only"];
    let mut args: Vec<String> = fixed.map(str::to_owned).into();
    args.extend(["--net-host", "--rootfs-propagation", "shared", "--cgroup"].map(str::to_owned));
    // Its own cgroup, which is removed with the container.
    args.push(format!("/{id}"));
    args.extend(mounts.into_iter().flat_map(|mount| ["--mount".to_owned(), mount]));
    args.extend(driver.env.iter().flat_map(|(name, value)| ["--env".to_owned(), format!("{name}={value}")]));
    args.extend([image, id, "/bin/aws-ebs-csi-driver", "node"].map(str::to_owned));
    args.extend([format!("--endpoint=unix:{PLUGIN}/csi.sock"), "--v=4".to_owned()]);
    Ok(args.into_iter().map(OsString::from).collect())
}

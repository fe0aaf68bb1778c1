//! The node service as its pod runs it: in a runc container with a read-only root that contains only the driver and
//! system tools. The container has this machine's devices, the kubelet's directory with mount propagation, and only the
//! rights that the test grants.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Context;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount};
use serde_json::{Value, json};

use crate::csi_client::CsiClient;
use crate::process::{Process, ProcessSpec, run_tool};
use crate::record::ProcessRecord;
use crate::run_dir::RunDir;
use crate::world::{READY_BOUND, STOP_BOUND, World};

const RUNC: &str = "/usr/sbin/runc";
const STRACE: &str = "/usr/bin/strace";
const TOOL_BOUND: Duration = Duration::from_secs(60);
/// The directory of the socket in the pod.
const PLUGIN: &str = "/csi";
const DRIVER: &str = "/bin/aws-ebs-csi-driver";

#[derive(Debug, Clone, Default)]
pub struct Rights {
    /// Capabilities by name, like `CAP_SYS_ADMIN`. The process and its children have no others.
    pub capabilities: Vec<String>,
    /// The seccomp filter in the format of the OCI runtime specification; `None` permits every call.
    pub seccomp: Option<Value>,
}

/// A container that serves the node service. Dropping it stops the container and removes its mounts.
#[derive(Debug)]
pub struct NodePod {
    container: Container,
    client: CsiClient,
    _shared: SharedDirectory,
}

/// The kubelet's directory. A container's mounts below it propagate to this mount namespace until drop.
#[derive(Debug)]
pub(crate) struct SharedDirectory(PathBuf);

impl SharedDirectory {
    pub(crate) fn new(directory: PathBuf) -> anyhow::Result<Self> {
        mount_bind(&directory, &directory).context("bind the kubelet's directory to itself")?;
        let bound = Self(directory);
        mount_change(&bound.0, MountPropagationFlags::SHARED).context("share the kubelet's directory")?;
        Ok(bound)
    }
}

impl Drop for SharedDirectory {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

impl NodePod {
    /// Starts the node service of `world`, whose controller runs outside of the container, and waits until it is ready.
    /// With `trace`, strace writes every system call to that file, which must be below the world's kubelet directory.
    pub async fn start(world: &World, rights: &Rights, trace: Option<&Path>) -> anyhow::Result<Self> {
        let shared = SharedDirectory::new(world.kubelet_dir())?;
        let endpoint = format!("--endpoint=unix:{PLUGIN}/csi.sock");
        let driver = [DRIVER, "node", &endpoint, "--v=4"].map(str::to_owned);
        let mut program = Vec::new();
        if let Some(file) = trace {
            // The reader of the file must decode descriptors, times and the like: strace does not.
            program.extend([STRACE, "-f", "-qq", "-v", "-o"].map(str::to_owned));
            program.push(file.display().to_string());
        }
        program.extend(driver);
        let mut container = Container::start(world, "node-pod", program, rights)?;
        let socket = container.plugin.join("csi.sock");
        let client = CsiClient::ready(&socket, &mut container.run, READY_BOUND).await?;
        container.note()?;
        Ok(Self { container, client, _shared: shared })
    }

    pub fn client(&self) -> &CsiClient {
        &self.client
    }

    /// Sends the service a signal to end, and waits until it has ended.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.container.run.stop_cleanly(STOP_BOUND).await
    }

    pub fn log_tail(&self) -> String {
        self.container.run.log_tail(40)
    }
}

/// Runs one program in a container like the node service's, and returns its status and output.
pub async fn run_in_pod(world: &World, program: &[&str], rights: &Rights) -> anyhow::Result<(ExitStatus, String)> {
    let program = program.iter().map(|&word| word.to_owned()).collect();
    let mut container = Container::start(world, "tool-pod", program, rights)?;
    let status = container.run.wait(TOOL_BOUND).await?;
    Ok((status, container.run.output().context("read the container's output")?))
}

#[derive(Debug)]
struct Container {
    run: Process,
    id: String,
    state: PathBuf,
    /// The directory on this machine that the pod sees at [`PLUGIN`].
    plugin: PathBuf,
}

impl Container {
    fn start(world: &World, name: &str, program: Vec<String>, rights: &Rights) -> anyhow::Result<Self> {
        let bundle = tempfile::Builder::new().prefix(name).tempdir_in(world.dir()).context("create a bundle")?.keep();
        let (root, state, plugin) = (bundle.join("rootfs"), bundle.join("state"), bundle.join("plugin"));
        for directory in [&root, &state, &plugin] {
            std::fs::create_dir(directory).with_context(|| format!("make {}", directory.display()))?;
        }
        let spec = specification(world, &plugin, program, rights)?;
        std::fs::write(bundle.join("config.json"), serde_json::to_vec(&spec)?).context("write config.json")?;
        let unique = bundle.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let id = format!("ebs-test-{}-{unique}", std::process::id());
        let args = ["--root".as_ref(), state.as_os_str(), "run".as_ref(), "--bundle".as_ref(), bundle.as_os_str()];
        let mut args: Vec<OsString> = args.into_iter().map(OsString::from).collect();
        args.push(id.clone().into());
        let log = bundle.join("log");
        let spec = ProcessSpec { name: name.to_owned(), program: PathBuf::from(RUNC), args, env: BTreeMap::new(), log };
        let run = Process::spawn(spec).context("start a container (Debian package runc)")?;
        Ok(Self { run, id, state, plugin })
    }

    /// Records the process in the container, which outlives a killed runc.
    fn note(&self) -> anyhow::Result<()> {
        let text = run_tool(RUNC, &["--root", &self.state.to_string_lossy(), "state", &self.id], TOOL_BOUND)?;
        let state: Value = serde_json::from_str(&text).context("state of the container from runc")?;
        let pid =
            state["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).context("find the container's process")?;
        RunDir::current()?
            .record_process(&ProcessRecord::of("node pod", pid)?)
            .context("record the container's process")
    }

    fn remove(&mut self) {
        if !matches!(self.run.ended(), Ok(Some(_))) {
            let state = self.state.to_string_lossy().into_owned();
            let _ = run_tool(RUNC, &["--root", &state, "delete", "--force", &self.id], TOOL_BOUND);
        }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Returns the container's specification (OCI runtime specification 1.1).
fn specification(world: &World, plugin: &Path, program: Vec<String>, rights: &Rights) -> anyhow::Result<Value> {
    let driver = world.driver_spec();
    let env: Vec<String> = driver.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let kubelet = world.kubelet_dir();
    let bind = |source: &Path, at: &Path, options: &[&str]| json!({ "source": source, "destination": at, "type": "none", "options": options });
    let seen = |path: &str, at: &str| bind(Path::new(path), Path::new(at), &["rbind", "ro"]);
    let mut mounts = vec![
        json!({ "destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"] }),
        json!({ "destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"] }),
        bind(Path::new("/dev"), Path::new("/dev"), &["rbind", "rprivate"]),
        seen("/usr", "/usr"),
        bind(&driver.program, Path::new(DRIVER), &["bind", "ro"]),
        bind(plugin, Path::new(PLUGIN), &["rbind", "rprivate"]),
        bind(&kubelet, &kubelet, &["rbind", "rshared"]),
    ];
    // On some machines these library directories are links into /usr.
    for library in ["lib", "lib64"] {
        let there = Path::new("/").join(library).canonicalize().context("resolve the system's libraries")?;
        mounts.push(bind(&there, &Path::new("/").join(library), &["rbind", "ro"]));
    }
    if let Some(devices) = driver.env.get("EBS_SIM_DEVICES_DIR") {
        mounts.push(seen(devices, devices));
    }
    let capabilities = &rights.capabilities;
    let mut linux = json!({
        "namespaces": [{ "type": "mount" }, { "type": "pid" }, { "type": "ipc" }, { "type": "uts" }],
        "resources": { "devices": [{ "allow": true, "access": "rwm" }] },
        "rootfsPropagation": "slave",
    });
    if let Some(filter) = &rights.seccomp {
        linux["seccomp"] = filter.clone();
    }
    Ok(json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": { "uid": 0, "gid": 0 },
            "args": program,
            "env": env,
            "cwd": "/",
            "noNewPrivileges": true,
            "capabilities": { "bounding": capabilities, "effective": capabilities, "permitted": capabilities },
        },
        "root": { "path": "rootfs", "readonly": true },
        "mounts": mounts,
        "linux": linux,
    }))
}

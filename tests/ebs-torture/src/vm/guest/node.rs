//! The node service in the guest, and its volumes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use csi_proto::csi;
use ebs_sim::{Server, ServerConfig};
use ebs_testkit::csi_client::{Access, CsiClient, GIB, refused};
use ebs_testkit::loop_device::unused_volume_id;
use ebs_testkit::on_node::VolumeOnNode;
use ebs_testkit::process::{Process, ProcessSpec};

use tokio::time::Instant;

use super::Suite;
use crate::vm::line::{Line, Said};

pub(super) const KUBELET: &str = "/var/lib/kubelet";
const DRIVER: &str = "/usr/bin/aws-ebs-csi-driver";
const PROFILE: &str = "ebs-csi-node";
const STARTS: usize = 5;
const READY: Duration = Duration::from_secs(120);
pub(super) const LOOK: Duration = Duration::from_millis(200);
/// Time limit of a wait, long enough for an emulated processor.
pub(super) const LEVEL: Duration = Duration::from_secs(90);

/// The driver and its environment: a metadata service, and the disks that the program outside provides.
pub(in crate::vm) struct Node {
    line: Mutex<Line>,
    driver: Process,
    client: CsiClient,
    id: String,
    /// The simulator, only for its metadata service: the guest has no EC2.
    _sim: Server,
}

impl Node {
    /// Starts the driver under the AppArmor profile or, for label tests, under SELinux in enforcing mode with the test
    /// policy.
    pub(super) async fn start(line: Line, suite: Suite) -> Result<Self, (Line, anyhow::Error)> {
        match Self::serve(suite).await {
            Ok((driver, client, id, sim)) => Ok(Self { line: Mutex::new(line), driver, client, id, _sim: sim }),
            Err(error) => Err((line, error)),
        }
    }

    async fn serve(suite: Suite) -> anyhow::Result<(Process, CsiClient, String, Server)> {
        for directory in ["/csi", KUBELET] {
            std::fs::create_dir_all(directory).with_context(|| format!("make {directory}"))?;
        }
        let sim =
            Server::start(ServerConfig::new(PathBuf::from("/tmp/sim"))).await.context("start the metadata service")?;
        let mut env: BTreeMap<String, String> = sim.env();
        // The guest has no simulated disks.
        env.retain(|name, _| !name.starts_with("EBS_SIM"));
        let words = ["node", "--endpoint=unix:/csi/csi.sock", "--v=4"].map(Into::into);
        let (program, args) = match suite {
            Suite::Labels => (DRIVER, words.into()),
            Suite::Everything | Suite::Kernel => {
                ("/usr/bin/aa-exec", ["-p", PROFILE, "--", DRIVER].map(Into::into).into_iter().chain(words).collect())
            }
        };
        let spec = ProcessSpec {
            name: "driver".to_owned(),
            program: program.into(),
            args,
            env,
            log: "/tmp/driver.log".into(),
        };
        let (driver, client) = started(&spec).await?;
        let id = client.node_info().await.map_err(refused).context("NodeGetInfo")?.node_id;
        Ok((driver, client, id, sim))
    }

    pub(super) fn say(&self, said: &Said) -> anyhow::Result<()> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner).say(said)
    }

    /// Sends a request to the program outside, and waits until the program has executed the request.
    pub(super) fn ask(&self, said: &Said) -> anyhow::Result<()> {
        tokio::task::block_in_place(|| self.line.lock().unwrap_or_else(PoisonError::into_inner).ask(said))
    }

    pub(super) fn log_tail(&self) -> String {
        self.driver.log_tail(25)
    }

    pub(super) fn driver(&self) -> u32 {
        self.driver.pid()
    }

    pub(super) fn client(&self) -> &CsiClient {
        &self.client
    }

    /// Returns an attached volume of 1 GiB as the controller would report it. Its disk is not plugged in yet.
    pub(super) fn volume(&self, access: &Access) -> anyhow::Result<Disk<'_>> {
        self.volume_of(unused_volume_id().as_str(), access)
    }

    /// Returns a volume of an earlier boot, like [`Node::volume`].
    pub(super) fn volume_of(&self, id: &str, access: &Access) -> anyhow::Result<Disk<'_>> {
        let volume = csi::Volume { volume_id: id.to_owned(), capacity_bytes: GIB, ..Default::default() };
        let mut volume = VolumeOnNode::new(&self.client, volume, access, &self.id, Path::new(KUBELET))?;
        volume.publish_context = [
            ("devicePath", "/dev/xvdba"),
            ("ebs.csi.aws.com/source", "none"),
            ("ebs.csi.aws.com/size-gib", "1"),
            ("ebs.csi.aws.com/attach-time", "2026-01-02T03:04:05Z"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        Ok(Disk { node: self, serial: id.replace('-', ""), volume })
    }
}

/// Waits until the driver serves requests. If it ends because of a timeout, starts it again, like the kubelet.
async fn started(spec: &ProcessSpec) -> anyhow::Result<(Process, CsiClient)> {
    let mut last = None;
    for _ in 0..STARTS {
        let mut driver = Process::spawn(spec.clone())?;
        match CsiClient::ready(Path::new("/csi/csi.sock"), &mut driver, READY).await {
            Ok(client) => return Ok((driver, client)),
            Err(error) => last = Some(error),
        }
    }
    Err(last.context("no start")?)
}

pub(super) struct Disk<'a> {
    node: &'a Node,
    pub(super) serial: String,
    pub(super) volume: VolumeOnNode,
}

impl Disk<'_> {
    pub(super) fn node(&self) -> &Node {
        self.node
    }

    pub(super) fn plug(&self) -> anyhow::Result<()> {
        self.plug_size(1)
    }

    pub(super) fn plug_size(&self, gib: u64) -> anyhow::Result<()> {
        self.node.ask(&Said::Plug { serial: self.serial.clone(), gib, hangs: false })
    }

    pub(super) fn fail_writes(&self) -> anyhow::Result<()> {
        self.node.ask(&Said::FailWrites { serial: self.serial.clone() })
    }

    pub(super) fn heal(&self) -> anyhow::Result<()> {
        self.node.ask(&Said::Heal { serial: self.serial.clone() })
    }

    pub(super) fn unplug(&self) -> anyhow::Result<()> {
        self.node.ask(&Said::Unplug { serial: self.serial.clone() })
    }

    pub(super) async fn stage(&self) -> anyhow::Result<()> {
        self.volume.stage().await.map_err(refused).context("stage")
    }

    pub(super) async fn publish(&self) -> anyhow::Result<()> {
        self.volume.publish().await.map_err(refused).context("publish")
    }

    pub(super) async fn bring_up(&self) -> anyhow::Result<()> {
        self.stage().await?;
        self.publish().await
    }

    pub(super) async fn take_down(&self) -> anyhow::Result<()> {
        self.volume.unpublish().await.map_err(refused).context("unpublish")?;
        self.volume.unstage().await.map_err(refused).context("unstage")
    }

    /// Returns status and reason from NodeGetVolumeHealth for the target; `None` if healthy.
    pub(super) async fn health(&self) -> anyhow::Result<Option<(csi::VolumeHealthErrorType, String)>> {
        let request = csi::NodeGetVolumeHealthRequest {
            volume_id: self.volume.id().to_owned(),
            volume_publish_path: self.volume.target.to_string_lossy().into_owned(),
            ..Default::default()
        };
        let answer = self.node.client().node().node_get_volume_health(request).await.map_err(refused)?.into_inner();
        let health = answer.volume_health.context("read the volume health")?;
        let entry = health.health_statuses.into_iter().next();
        Ok(entry.map(|entry| (entry.status(), entry.reason)))
    }

    /// Returns the sysfs directory of the disk's controller, if it exists.
    pub(super) fn controller(&self) -> anyhow::Result<Option<PathBuf>> {
        for entry in std::fs::read_dir("/sys/class/nvme").context("list the NVMe controllers")? {
            let path = entry?.path();
            // The controller may vanish during the read.
            let serial = std::fs::read_to_string(path.join("serial")).unwrap_or_default();
            if serial.trim() == self.serial {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    pub(super) fn name(&self) -> anyhow::Result<String> {
        let controller = self.controller()?.context("find the controller of a plugged disk")?;
        let name =
            controller.file_name().and_then(|name| name.to_str()).context("read the controller's name")?.to_owned();
        let names = std::fs::read_dir("/sys/block").context("list the disks")?;
        let mut names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.find(|disk| disk.starts_with(&format!("{name}n"))).context("find a disk of the controller")
    }

    pub(super) async fn is_plugged(&self) -> anyhow::Result<()> {
        until("the disk is plugged", || Ok(self.name().is_ok())).await
    }
}

pub(super) async fn until(what: &str, mut is_so: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let deadline = Instant::now() + LEVEL;
    while !is_so()? {
        ensure!(Instant::now() < deadline, "condition not met within {LEVEL:?}: {what}");
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

pub(super) fn kernel() -> anyhow::Result<(u32, u32)> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").context("read the kernel's release")?;
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse().ok());
    numbers.next().zip(numbers.next()).with_context(|| format!("a release: {release:?}"))
}

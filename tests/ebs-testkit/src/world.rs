//! The environment of one test: a directory, a simulator in this process, the driver as a child process, and a CSI
//! client.
//!
//! [`World::finish`] checks that nothing is left in EC2 or on the machine, and that the driver made only permitted
//! calls. Without this call, dropping the world prints the end of the driver's log and cleans up.

mod builder;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_sim::Server;
use ebs_sim::api::{Call, CreateTags, Tag};
use ebs_sim::iam::LeastRights;
use rustix::process::Signal;

use crate::control::{Control, Ledger, State};
use crate::csi_client::CsiClient;
use crate::leftovers::Leftovers;
use crate::mount_namespace::in_mount_namespace;
use crate::on_node::VolumeOnNode;
use crate::process::{Ending, Process, ProcessSpec, log_tail};
use crate::run_dir::OwnDir;

pub use builder::WorldBuilder;
pub use ebs_sim::iam::Shipped;

/// Time limit for the driver's start, on a busy machine.
pub const READY_BOUND: Duration = Duration::from_secs(120);
/// Time limit for the driver to drain and end. Its own limit is 20 s, but the machine may be busy.
pub const STOP_BOUND: Duration = Duration::from_secs(120);

/// Access key id of calls that the test itself makes instead of the driver: `Credential=EBSTESTSOWNCALLS0001/…`. They
/// need no permissions. A call with any other key, or without one, counts as the driver's.
pub const TESTS_OWN_KEY: &str = "EBSTESTSOWNCALLS0001";

/// Runs a test with real devices and mounts: as root, in a private mount namespace.
///
/// # Panics
/// If the test fails (the message has its error and the causes), or this process is not root.
pub fn with_mounts<F, T>(test: F)
where
    F: FnOnce() -> T + Send + 'static,
    T: Future<Output = anyhow::Result<()>>,
{
    in_mount_namespace(|| async {
        if let Err(error) = test().await {
            panic!("{error:?}");
        }
    });
}

#[derive(Debug)]
pub struct World {
    driver: Option<Process>,
    client: CsiClient,
    control: Control,
    spec: ProcessSpec,
    baseline: Baseline,
    least_rights: LeastRights,
    sim: Option<Server>,
    dir: OwnDir,
    path: PathBuf,
    finished: bool,
}

/// The volumes and snapshots that exist in EC2 before the test, such as the root volumes of the instances.
#[derive(Debug)]
struct Baseline {
    volumes: BTreeSet<String>,
    snapshots: BTreeSet<String>,
}

impl World {
    /// Returns the builder of a world for the driver at `binary`, which is `env!("CARGO_BIN_EXE_aws-ebs-csi-driver")`
    /// in a test.
    pub fn builder(binary: impl Into<PathBuf>) -> WorldBuilder {
        WorldBuilder::new(binary.into())
    }

    /// Returns the world's directory, as a real path.
    pub fn dir(&self) -> &Path {
        &self.path
    }

    /// Returns the directory that serves as the kubelet's.
    pub fn kubelet_dir(&self) -> PathBuf {
        self.path.join("kubelet")
    }

    pub fn socket(&self) -> &Path {
        self.client.socket()
    }

    /// Returns the client, which keeps working after restarts of the driver.
    pub fn client(&self) -> &CsiClient {
        &self.client
    }

    pub fn control(&self) -> &Control {
        &self.control
    }

    pub fn driver_spec(&self) -> &ProcessSpec {
        &self.spec
    }

    /// Returns the environment of the next driver that this world starts.
    pub fn driver_env(&mut self) -> &mut BTreeMap<String, String> {
        &mut self.spec.env
    }

    pub fn driver(&mut self) -> anyhow::Result<&mut Process> {
        self.driver.as_mut().context("the driver is not running")
    }

    pub fn signal_driver(&self, signal: Signal) -> anyhow::Result<()> {
        self.driver.as_ref().context("the driver is not running")?.signal(signal)
    }

    pub fn spawn_driver(&mut self) -> anyhow::Result<&mut Process> {
        Ok(self.driver.insert(Process::spawn(self.spec.clone())?))
    }

    pub async fn start_driver(&mut self) -> anyhow::Result<()> {
        let socket = self.socket().to_owned();
        self.client = CsiClient::ready(&socket, self.spawn_driver()?, READY_BOUND).await?;
        Ok(())
    }

    /// Kills the driver with SIGKILL, like a crash.
    pub fn kill_driver(&mut self) -> anyhow::Result<()> {
        self.driver()?.kill()
    }

    /// Stops the driver and returns how it ended.
    pub async fn stop_driver(&mut self) -> anyhow::Result<Ending> {
        let ending = self.driver()?.stop(STOP_BOUND).await?;
        self.driver = None;
        Ok(ending)
    }

    /// Waits until the driver ends on its own. Returns its exit code and its output.
    pub async fn driver_ended(&mut self, bound: Duration) -> anyhow::Result<(Option<i32>, String)> {
        let driver = self.driver()?;
        let status = driver.wait(bound).await?;
        let output = driver.output().context("read the driver's output")?;
        self.driver = None;
        Ok((status.code(), output))
    }

    /// Returns a volume for this machine's node that is neither attached nor staged yet.
    pub async fn on_node(
        &self,
        volume: csi_proto::csi::Volume,
        access: &crate::csi_client::Access,
    ) -> anyhow::Result<VolumeOnNode> {
        let node = self.client.node_info().await.context("NodeGetInfo")?.node_id;
        VolumeOnNode::new(&self.client, volume, access, &node, &self.kubelet_dir())
            .context("create the kubelet's directories")
    }

    /// Waits until `wanted` returns true for the log, which all drivers of this world share.
    pub async fn until_logged(&self, what: &str, wanted: impl Fn(&str) -> bool) -> anyhow::Result<()> {
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        let seen = async {
            loop {
                tick.tick().await;
                let log = std::fs::read(&self.spec.log).context("read the driver's log")?;
                if wanted(&String::from_utf8_lossy(&log)) {
                    return anyhow::Ok(());
                }
            }
        };
        let seen = tokio::time::timeout(READY_BOUND, seen).await;
        seen.with_context(|| {
            format!("{what}: not found in the driver's log; its last lines:\n{}", log_tail(&self.spec.log, 30))
        })?
    }

    /// Returns the EC2 calls since a position of the ledger.
    pub async fn calls_since(&self, position: u64) -> anyhow::Result<Ledger> {
        self.control.ledger(position).await
    }

    /// Tags all instances, as the program that launched them would.
    pub async fn tag_instances(&self, key: &str, value: &str) -> anyhow::Result<()> {
        let engine = self.sim.as_ref().context("the simulator has stopped")?.engine();
        let resources = engine.snapshot_of_state().await.instances.into_iter().map(|instance| instance.id).collect();
        let tags = vec![Tag { key: key.to_owned(), value: value.to_owned() }];
        engine.call(Call::CreateTags(CreateTags { resources, tags, dry_run: false })).await?;
        Ok(())
    }

    /// Returns the objects that the test has created in EC2 and not removed.
    pub async fn left_in_ec2(&self) -> anyhow::Result<Vec<String>> {
        Ok(self.baseline.new_in(&self.control.state().await?))
    }

    /// Checks that nothing is left in EC2 or on the machine, stops the driver (exit code 0) and the simulator, and
    /// checks that the policies allow every call that the driver made.
    pub async fn finish(mut self) -> anyhow::Result<()> {
        let in_ec2 = self.left_in_ec2().await?;
        ensure!(in_ec2.is_empty(), "left in EC2: {}", in_ec2.join(", "));
        let on_machine = Leftovers::below(&self.path)?;
        ensure!(on_machine.is_empty(), "left on the machine: {on_machine}");
        if let Some(driver) = &mut self.driver {
            driver.stop_cleanly(STOP_BOUND).await?;
        }
        if let Some(sim) = self.sim.take() {
            sim.shutdown().await.context("stop the simulator")?;
        }
        let after = Leftovers::below(&self.path)?;
        ensure!(after.is_empty(), "left on the machine by the simulator: {after}");
        self.finished = true;
        self.least_rights.check().map_err(anyhow::Error::msg)
    }
}

impl Baseline {
    fn new_in(&self, state: &State) -> Vec<String> {
        let volumes = state.live_volumes().into_iter().filter(|volume| !self.volumes.contains(&volume.id));
        let volumes = volumes.map(|volume| format!("{} ({})", volume.id, volume.state));
        let snapshots = state.snapshots.iter().filter(|snapshot| !self.snapshots.contains(&snapshot.id));
        volumes.chain(snapshots.map(|snapshot| format!("{} ({})", snapshot.id, snapshot.state))).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !self.finished {
            let tail = log_tail(&self.spec.log, 60);
            let _ = writeln!(
                std::io::stderr(),
                "--- last lines of the driver's log ({}):\n{tail}\n---",
                self.spec.log.display()
            );
        }
        self.driver = None;
        if let Err(error) = Leftovers::release_below(&self.path) {
            let _ = writeln!(std::io::stderr(), "{}: {error:#}", self.dir.path().display());
        }
        if !self.finished
            && !std::thread::panicking()
            && let Err(told) = self.least_rights.check()
        {
            panic!("{told}");
        }
    }
}

#[cfg(test)]
mod tests;

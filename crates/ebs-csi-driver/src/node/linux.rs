use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use ebs_driver::node::{NodeOptions, NodeService};
use ebs_ec2::VolumeId;
use ebs_metadata::NodeMetadata;
use ebs_mounter::{Mounter, MounterConfig};
use ebs_telemetry::{Metrics, NotGrownVolume, UnhealthyVolume};
use tokio::task::JoinSet;

use super::NodeParts;
use crate::cli::NodeSettings;
use crate::disks::NodeDisks;
use crate::environment::environment;

/// Bit of CAP_SYS_ADMIN in the kernel's capability sets.
const CAP_SYS_ADMIN: u64 = 1 << 21;

/// The machine below the node service. On Linux, it is always the one that the program runs on.
#[derive(Debug, Clone, Copy)]
pub struct System(());

impl System {
    /// Returns the machine that the program runs on.
    #[must_use]
    pub const fn this_machine() -> Self {
        Self(())
    }
}

pub(crate) type Service = NodeService;

/// How long shutdown waits until the volume register is written. The next NodeStageVolume call restores a lost entry.
const LAST_NOTES: Duration = Duration::from_secs(2);

pub(crate) async fn finish(node: &Service) {
    if !node.register_written(LAST_NOTES).await {
        tracing::warn!("failed to write the volume register: the state directory does not respond");
    }
}

/// Builds the node service and starts to watch its volumes.
pub(crate) async fn build(
    settings: &NodeSettings,
    parts: NodeParts,
    background: &mut JoinSet<()>,
    _system: System,
) -> anyhow::Result<NodeService> {
    if !may_mount() {
        tracing::warn!(
            "process lacks CAP_SYS_ADMIN: volumes cannot be staged or published; run it as root in a privileged container"
        );
    }
    let NodeParts { driver, machine, operations, metrics } = parts;
    let metadata = machine.metadata();
    let config = mounter_config(settings, &metadata)?;
    // Use a blocking thread: `Mounter::new` reads the state directory, which may be hung.
    let mounter = tokio::task::spawn_blocking(move || Mounter::new(config)).await.context("inspect this machine")?;
    let mounter = mounter.context("start the node service")?;
    let (instance_id, mounts_below) = (metadata.node.to_string(), settings.mounts_below.clone());
    metrics.set_disks(NodeDisks { mounter: mounter.clone(), instance_id, mounts_below });
    let options = NodeOptions { driver, machine, limits: settings.limits, legacy_xfs: settings.legacy_xfs };
    let node = NodeService::new(options, mounter, operations);
    show_volumes(&node, &metrics);
    background.spawn(node.clone().watch_health());
    Ok(node)
}

/// Returns whether the process has CAP_SYS_ADMIN, or true if the kernel does not report capabilities.
fn may_mount() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    effective.is_none_or(|set| set & CAP_SYS_ADMIN != 0)
}

fn mounter_config(node: &NodeSettings, metadata: &NodeMetadata) -> anyhow::Result<MounterConfig> {
    let state_dir = node.state_dir.as_ref().context("find the state directory: --state-dir is not set; set it")?;
    Ok(MounterConfig {
        simulated_devices: environment("EBS_SIM_DEVICES_DIR").map(PathBuf::from),
        xen: ebs_ec2::is_xen(&metadata.instance_type),
        ..MounterConfig::new(state_dir)
    })
}

fn show_volumes(node: &NodeService, metrics: &Metrics) {
    let (unhealthy, not_grown) = (node.clone(), node.clone());
    let ill =
        |(volume, status, reason): (VolumeId, _, _)| UnhealthyVolume { volume_id: volume.to_string(), status, reason };
    let behind = |(volume, missing): (VolumeId, _)| NotGrownVolume { volume_id: volume.to_string(), missing };
    metrics.set_volumes(
        move || unhealthy.unhealthy_volumes().into_iter().map(ill).collect(),
        move || not_grown.volumes_not_grown().into_iter().map(behind).collect(),
    );
}

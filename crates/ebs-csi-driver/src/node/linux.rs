//! The node service over this machine's disks and mounts.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context;
use ebs_driver::node::{NodeOptions, NodeService};
use ebs_metadata::NodeMetadata;
use ebs_mounter::{Mounter, MounterConfig};
use ebs_telemetry::{Disks, NotGrownVolume, UnhealthyVolume, UnhealthyVolumes};
use tokio::task::JoinSet;

use super::NodeParts;
use crate::cli::NodeSettings;
use crate::disks::NodeDisks;
use crate::environment::environment;

/// Bit of CAP_SYS_ADMIN in the kernel's capability sets.
const CAP_SYS_ADMIN: u64 = 1 << 21;

/// This machine, the only one on Linux.
#[derive(Debug, Clone, Copy)]
pub struct System(());

impl System {
    /// Returns the machine that the program runs on.
    #[must_use]
    pub const fn this_machine() -> Self {
        Self(())
    }
}

/// The node service of this platform.
pub(crate) type Service = NodeService;

/// How long shutdown waits, after the drain, until the register of volumes is written. The next stage of a volume
/// restores an entry that was not written in time.
const LAST_NOTES: Duration = Duration::from_secs(2);

/// Waits, with a timeout, for background work of the node service.
pub(crate) async fn finish(node: &Service) {
    if !node.register_written(LAST_NOTES).await {
        tracing::warn!("register of volumes not written: the state directory does not respond");
    }
}

/// Sources of a node that the metrics read. Empty until the node service exists.
#[derive(Default)]
pub(crate) struct NodeMetrics {
    volumes: Arc<NodeVolumes>,
    disks: Arc<NodeDisks>,
}

impl NodeMetrics {
    pub(crate) fn volumes(&self) -> Option<Arc<dyn UnhealthyVolumes>> {
        Some(Arc::clone(&self.volumes) as _)
    }

    pub(crate) fn disks(&self) -> Option<Arc<dyn Disks>> {
        Some(Arc::clone(&self.disks) as _)
    }
}

/// Builds the node service and starts to watch its volumes.
///
/// # Errors
/// This machine lacks something that the node service needs.
pub(crate) async fn build(
    settings: &NodeSettings,
    parts: NodeParts,
    metrics: &NodeMetrics,
    background: &mut JoinSet<()>,
    _system: System,
) -> anyhow::Result<NodeService> {
    if !may_mount() {
        tracing::warn!(
            "process lacks CAP_SYS_ADMIN: volumes cannot be staged or published; run it as root in a privileged container"
        );
    }
    let NodeParts { driver, machine, operations } = parts;
    let metadata = machine.metadata();
    let config = mounter_config(settings, &metadata)?;
    // It reads the state directory, which may hang.
    let mounter = tokio::task::spawn_blocking(move || Mounter::new(config)).await.context("inspect this machine")?;
    let mounter = mounter.context("start the node service")?;
    metrics.disks.set_node(&mounter, metadata.node.to_string(), settings.mounts_below.clone());
    let options = NodeOptions { driver, machine, limits: settings.limits, legacy_xfs: settings.legacy_xfs };
    let node = NodeService::new(options, mounter, operations);
    metrics.volumes.set_node(&node);
    background.spawn(node.clone().watch_health());
    Ok(node)
}

/// Returns true also where the kernel does not report capabilities.
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
        xen: ebs_types::is_xen(&metadata.instance_type),
        ..MounterConfig::new(state_dir)
    })
}

/// The volumes of this node. Empty until the node service exists.
#[derive(Default)]
struct NodeVolumes(OnceLock<NodeService>);

impl std::fmt::Debug for NodeVolumes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeVolumes").finish_non_exhaustive()
    }
}

impl NodeVolumes {
    fn set_node(&self, node: &NodeService) {
        self.0.get_or_init(|| node.clone());
    }
}

impl UnhealthyVolumes for NodeVolumes {
    fn unhealthy(&self) -> Vec<UnhealthyVolume> {
        let unhealthy = self.0.get().map(NodeService::unhealthy_volumes).unwrap_or_default();
        let volume = |ebs_driver::node::UnhealthyVolume { volume, status, reason }| UnhealthyVolume {
            volume_id: volume.to_string(),
            status,
            reason,
        };
        unhealthy.into_iter().map(volume).collect()
    }

    fn not_grown(&self) -> Vec<NotGrownVolume> {
        let not_grown = self.0.get().map(NodeService::volumes_not_grown).unwrap_or_default();
        let volume = |ebs_driver::node::NotGrownVolume { volume, missing }| NotGrownVolume {
            volume_id: volume.to_string(),
            missing,
        };
        not_grown.into_iter().map(volume).collect()
    }
}

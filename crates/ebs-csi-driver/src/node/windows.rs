//! The node service over the storage of a Windows machine: its own, or, for a process in a container, that of the node's csi-proxy.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use csi_proxy_proto::pipes;
use ebs_telemetry::{Disks, UnhealthyVolumes};
use ebs_windows_node::{NodeOptions, NodeStorage, OverProxy, Unproven, WindowsNode};
use tokio::task::JoinSet;
use winstorage::host::Host;
use winstorage::types::WinPath;
use winstorage::{Policy, Storage};

use super::Here;
use crate::cli::NodeSettings;

/// Where the kubelet keeps staged and published volumes (`windows.md` 2.1).
const KUBELET: &str = r"C:\var\lib\kubelet";

/// The machine below the node service. Programs of tests have one in memory.
#[derive(Debug, Clone, Copy)]
pub struct System {
    make: fn() -> Result<Arc<dyn Host>, String>,
}

impl System {
    /// The machine that the program runs on.
    #[must_use]
    pub const fn this_machine() -> Self {
        Self { make: || Ok(Arc::new(winstorage::real::windows_host(true))) }
    }

    /// Another one, made when the node service starts; an error in words ends the program.
    #[must_use]
    pub const fn made_by(make: fn() -> Result<Arc<dyn Host>, String>) -> Self {
        Self { make }
    }
}

/// What the metrics read of a node: disks of Windows tell no figures of EBS, and nothing tells of a file system that is ill.
#[derive(Default)]
pub(crate) struct Shown;

#[expect(clippy::unused_self, reason = "that of Linux has something to show")]
impl Shown {
    pub(crate) fn volumes(&self) -> Option<Arc<dyn UnhealthyVolumes>> {
        None
    }

    pub(crate) fn disks(&self) -> Option<Arc<dyn Disks>> {
        None
    }
}

/// Puts it together.
///
/// # Errors
/// The machine's storage cannot be reached.
pub(crate) async fn build(
    settings: &NodeSettings,
    here: Here,
    _shown: &Shown,
    _background: &mut JoinSet<()>,
    system: System,
) -> anyhow::Result<WindowsNode> {
    let Here { driver, machine, operations } = here;
    let host = (system.make)().map_err(|reason| anyhow!(reason)).context("this machine's storage cannot be used")?;
    let storage: Arc<dyn NodeStorage> = if settings.host_process {
        tracing::info!("storage: this machine's own, as a process of the host");
        Arc::new(Storage::new(host, policy(settings)?))
    } else {
        let unproven = if settings.format_over_proxy { Unproven::Format } else { Unproven::Refuse };
        let proxy = OverProxy::connect(&pipes(), host, unproven).await;
        let proxy = proxy.context("without --windows-host-process=true the node service works over csi-proxy")?;
        tracing::info!("storage: over csi-proxy");
        Arc::new(proxy)
    };
    let options = NodeOptions { driver, machine, limits: settings.limits };
    Ok(WindowsNode::new(options, storage, operations))
}

/// Paths lie in the kubelet's directory, or where `--csi-mount-point-prefix` says that volumes are mounted.
fn policy(settings: &NodeSettings) -> anyhow::Result<Policy> {
    let others = settings.mounts_below.iter().map(|path| path.display().to_string());
    let directories = std::iter::once(KUBELET.to_owned()).chain(others).map(|text| {
        WinPath::normalise(&text).with_context(|| format!("{text} is no directory that volumes can be mounted in"))
    });
    Ok(Policy { letters_are_nobodys: true, ..Policy::new(directories.collect::<anyhow::Result<_>>()?) })
}

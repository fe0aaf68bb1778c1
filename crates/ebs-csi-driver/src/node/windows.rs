//! The node service for the storage of a Windows machine. A process in a container reaches this storage over csi-proxy.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use csi_proto::csi_proxy::pipes;
use ebs_driver::csi_node::CsiNode;
use ebs_windows_node::{NodeOptions, NodeStorage, OverProxy, Unproven, WindowsNode};
use tokio::task::JoinSet;
use winstorage::host::{Host, SpaceHost};
use winstorage::real::{Win32, windows_host};
use winstorage::types::WinPath;
use winstorage::{Policy, Storage};

use super::NodeParts;
use crate::cli::NodeSettings;

/// The directory in which the kubelet keeps staged and published volumes.
const KUBELET: &str = r"C:\var\lib\kubelet";

/// The machine below the node service. Test programs use a simulated one in memory.
#[derive(Debug, Clone, Copy)]
pub struct System {
    host: Made<dyn Host>,
    own: Made<dyn SpaceHost>,
}

/// Creates a part of the machine when the driver needs it. If this fails, the program ends with the returned text.
type Made<T> = fn() -> Result<Arc<T>, String>;

impl System {
    /// Returns the machine that the program runs on.
    #[must_use]
    pub const fn this_machine() -> Self {
        Self { host: || Ok(Arc::new(windows_host(true))), own: || Ok(Arc::new(Win32)) }
    }

    /// Returns a test program's machine. A host process uses `host`, and a container that calls csi-proxy uses `own`.
    #[must_use]
    pub const fn made_by(host: Made<dyn Host>, own: Made<dyn SpaceHost>) -> Self {
        Self { host, own }
    }
}

pub(crate) type Service = CsiNode<WindowsNode>;

pub(crate) async fn finish(_node: &Service) {}

/// Builds the node service without metrics: Windows reports neither EBS statistics nor damaged file systems.
pub(crate) async fn build(
    settings: &NodeSettings,
    parts: NodeParts,
    _background: &mut JoinSet<()>,
    system: System,
) -> anyhow::Result<CsiNode<WindowsNode>> {
    let NodeParts { driver, machine, operations, metrics: _ } = parts;
    let unusable = "open the storage of this machine";
    let storage: Arc<dyn NodeStorage> = if settings.host_process {
        let host = (system.host)().map_err(|reason| anyhow!(reason)).context(unusable)?;
        tracing::info!("running as a host process: using this machine's storage directly");
        Arc::new(Storage::new(host, policy(settings)?))
    } else {
        let unproven = if settings.format_over_proxy { Unproven::Format } else { Unproven::Refuse };
        let own = (system.own)().map_err(|reason| anyhow!(reason)).context(unusable)?;
        let proxy = OverProxy::connect(&pipes(), own, unproven).await;
        let proxy = proxy.context("connect to csi-proxy, which is required without --windows-host-process=true")?;
        tracing::info!("using storage over csi-proxy");
        Arc::new(proxy)
    };
    let options = NodeOptions { driver, machine, limits: settings.limits };
    Ok(WindowsNode::new(options, storage, operations))
}

/// Allows paths in the kubelet's directory and below `--csi-mount-point-prefix`.
fn policy(settings: &NodeSettings) -> anyhow::Result<Policy> {
    let others = settings.mounts_below.iter().map(|path| path.display().to_string());
    let directories = std::iter::once(KUBELET.to_owned())
        .chain(others)
        .map(|text| WinPath::normalise(&text).with_context(|| format!("allow volumes to be mounted in {text}")));
    Ok(Policy::new(directories.collect::<anyhow::Result<_>>()?))
}

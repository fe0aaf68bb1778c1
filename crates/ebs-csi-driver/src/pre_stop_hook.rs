//! Mode `pre-stop-hook`: waits until this node's volumes are detached. It has no CSI service and no socket.

use anyhow::{Context, bail};
use component_base::signals::Signals;
use ebs_kubernetes::PreStop;

use crate::cli::HookSettings;
use crate::environment::environment;
use crate::kubernetes;

/// Waits until no volume of the driver is attached to this node, if Kubernetes is draining the node.
pub(crate) async fn run(settings: &HookSettings, mut signals: Signals) -> anyhow::Result<()> {
    let cluster = match kubernetes::connect(settings.kubeconfig.as_ref()).await {
        Ok(cluster) => cluster,
        Err(reason) => {
            tracing::warn!(reason, "no Kubernetes client: exiting without waiting for detachments");
            return Ok(());
        }
    };
    let node = environment("CSI_NODE_NAME")
        .context("identify this node: CSI_NODE_NAME is not set; set it to the name of the Node")?;
    let hook = PreStop::new(cluster, &node, settings.driver.clone());
    tokio::select! {
        released = hook.wait() => released.map(drop).context("wait for the detachment of volumes"),
        signal = signals.next() => bail!("wait for the detachment of volumes: interrupted by {signal}"),
    }
}

//! The connection to Kubernetes, and the node's background tasks that use it.

use std::path::PathBuf;

use ebs_driver::config::Mode;
use ebs_driver::status::chain;
use ebs_ec2::DriverName;
use ebs_kubernetes::{Cluster, ClusterOptions, InCluster, TaintRemoval};
use tokio::task::JoinSet;

use crate::environment::environment;
use crate::version::VERSION;

/// Returns a connection, or the reason why it cannot be made. Sends nothing yet.
pub(crate) async fn connect(kubeconfig: Option<&PathBuf>) -> Result<Cluster, String> {
    let in_cluster = InCluster {
        host: environment("KUBERNETES_SERVICE_HOST"),
        port: environment("KUBERNETES_SERVICE_PORT"),
        sandbox: environment("CONTAINER_SANDBOX_MOUNT_POINT").map(PathBuf::from),
        ..InCluster::default()
    };
    let options = ClusterOptions {
        kubeconfig: kubeconfig.cloned(),
        in_cluster,
        user_agent: format!("aws-ebs-csi-driver/{VERSION}"),
    };
    Cluster::connect(&options).await.map_err(|error| chain(&error))
}

/// Logs the cluster in use. Without a cluster, logs which features are off, with a warning if the user gave a
/// kubeconfig. Without a kubeconfig, a controller logs nothing, because its search for the region reports the failure.
pub(crate) fn log_connection(cluster: &Result<Cluster, String>, is_asked_for: bool, mode: Mode) {
    const OFF: &str = "no Kubernetes client: not removing start-up taints, not reading Node metadata";
    match cluster {
        Ok(cluster) => tracing::info!(server = cluster.server(), "Kubernetes client created"),
        Err(reason) if is_asked_for => tracing::warn!(reason, "{OFF}"),
        Err(_) if mode == Mode::Controller => {}
        Err(reason) => tracing::info!(reason, "{OFF}"),
    }
}

/// Removes the start-up taint from this node's Node object in the background, unless the environment disables it.
pub(crate) fn remove_taints(cluster: &Cluster, driver: &DriverName, background: &mut JoinSet<()>) {
    if environment("DISABLE_TAINT_WATCHER").is_some() {
        tracing::info!("DISABLE_TAINT_WATCHER is set: not removing the start-up taint of this node");
        return;
    }
    let Some(node) = environment("CSI_NODE_NAME") else {
        tracing::warn!("CSI_NODE_NAME is not set: not removing the start-up taint of this node");
        return;
    };
    background.spawn(TaintRemoval::new(cluster.clone(), &node, driver.clone()).run());
}

//! The connection to Kubernetes, by what the environment and the flag say.

use std::path::PathBuf;

use ebs_driver::status::chain;
use ebs_kubernetes::{Cluster, ClusterOptions, InCluster};

use crate::compose::environment;
use crate::version::VERSION;

/// A connection, or why there is none. Nothing is sent yet.
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

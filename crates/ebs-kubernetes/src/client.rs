//! The connection to the API server: how the driver finds it, and the limits on every call.

mod config;
mod guard;
mod pace;

use std::path::PathBuf;
use std::time::Duration;

use kube::client::ClientBuilder;

use guard::GuardLayer;

/// The time limit for setting up a connection. Only the credential program of a kubeconfig file takes long.
const SETUP_BOUND: Duration = Duration::from_secs(30);

/// How to find the API server and identify this process to it.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// The path of a kubeconfig file, or `None` to use the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// The cluster as the pod's environment describes it.
    pub in_cluster: InCluster,
    /// The name and version of this program, for the API server's audit log.
    pub user_agent: String,
}

/// The cluster as a pod sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InCluster {
    /// `KUBERNETES_SERVICE_HOST`.
    pub host: Option<String>,
    /// `KUBERNETES_SERVICE_PORT`.
    pub port: Option<String>,
    /// `CONTAINER_SANDBOX_MOUNT_POINT`, below which a Windows host process finds the files of its pod.
    pub sandbox: Option<PathBuf>,
    /// The directory with the service account's token, certificate authority and namespace.
    pub account: PathBuf,
}

impl InCluster {
    /// Where the kubelet mounts the files of the service account.
    pub const ACCOUNT: &'static str = "/var/run/secrets/kubernetes.io/serviceaccount";
}

impl Default for InCluster {
    fn default() -> Self {
        Self { host: None, port: None, sandbox: None, account: PathBuf::from(Self::ACCOUNT) }
    }
}

/// Why the driver could not connect: the process runs outside Kubernetes, or its configuration is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("connect to Kubernetes: {0} is not set; run the driver in a pod or set --kubeconfig")]
    NoCluster(&'static str),
    #[error("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT form the invalid API server address {0:?}")]
    Address(String),
    #[error(
        "find {0}: file not found; in a Windows host process, set CONTAINER_SANDBOX_MOUNT_POINT to the root of the container"
    )]
    NoToken(PathBuf),
    #[error("read {path} of the pod's service account")]
    Account { path: PathBuf, source: std::io::Error },
    #[error("load the kubeconfig file {path}")]
    Kubeconfig { path: PathBuf, source: kube::config::KubeconfigError },
    #[error("set up the connection to the API server {server}")]
    Setup { server: String, source: Box<kube::Error> },
    #[error(
        "set up the connection to the API server {server}: the credential program did not end within {SETUP_BOUND:?}"
    )]
    SetupTime { server: String },
}

/// A connection to the API server. All its clones together make at most 5 calls a second, with bursts of 10. Calls wait
/// when the server requests it, and fail if they hang.
#[derive(Clone)]
pub struct Cluster {
    client: kube::Client,
    server: String,
}

impl Cluster {
    /// Sets up the connection without sending a request. Each call reads the token file, which may have been replaced.
    ///
    /// Cancellation: dropping the future may leave a credential program running.
    pub async fn connect(options: &ClusterOptions) -> Result<Self, ConnectError> {
        let found = config::find(options).await?;
        let server = found.config.cluster_url.to_string();
        let namespace = found.config.default_namespace.clone();
        let layer = GuardLayer { token: found.token };
        // The setup may run a program and wait for it, which would block the runtime.
        let build = tokio::task::spawn_blocking(move || ClientBuilder::try_from(found.config));
        let built = match tokio::time::timeout(SETUP_BOUND, build).await {
            Ok(Ok(built)) => built,
            Ok(Err(_)) | Err(_) => return Err(ConnectError::SetupTime { server }),
        };
        let builder =
            built.map_err(|source| ConnectError::Setup { server: server.clone(), source: Box::new(source) })?;
        let client = builder.with_layer(&layer).build();
        tracing::debug!(server, namespace, "Kubernetes");
        Ok(Self { client, server })
    }

    /// Returns the client.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Returns the namespace of the pod or of the kubeconfig's context, or `default` if neither has one.
    pub fn namespace(&self) -> &str {
        self.client.default_namespace()
    }

    /// Returns the API server's address.
    pub fn server(&self) -> &str {
        &self.server
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("server", &self.server).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

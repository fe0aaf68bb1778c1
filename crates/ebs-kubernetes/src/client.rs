//! The connection to the API server: how it is found, and what every call keeps to.

mod config;
mod guard;
mod pace;

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use kube::client::{Body, ClientBuilder};
use tower::{BoxError, Service};

use guard::GuardLayer;

/// How long setting up the connection may take. Only a kubeconfig file that runs a program for its credentials takes long.
const SETUP_BOUND: Duration = Duration::from_secs(30);

/// How the API server is to be found.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// A kubeconfig file; `None`: the pod's own account.
    pub kubeconfig: Option<PathBuf>,
    /// What the pod's environment says.
    pub in_cluster: InCluster,
    /// Name and version of this program, as the API server's audit log shows it.
    pub user_agent: String,
}

/// What a pod knows of its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InCluster {
    /// `KUBERNETES_SERVICE_HOST`.
    pub host: Option<String>,
    /// `KUBERNETES_SERVICE_PORT`.
    pub port: Option<String>,
    /// `CONTAINER_SANDBOX_MOUNT_POINT`: where a Windows host process finds the files of its pod.
    pub sandbox: Option<PathBuf>,
    /// Directory of the account's token, authority and namespace.
    pub account: PathBuf,
}

impl InCluster {
    /// Where the kubelet puts the account's files.
    pub const ACCOUNT: &'static str = "/var/run/secrets/kubernetes.io/serviceaccount";
}

impl Default for InCluster {
    /// No pod: nothing is known.
    fn default() -> Self {
        Self { host: None, port: None, sandbox: None, account: PathBuf::from(Self::ACCOUNT) }
    }
}

/// There is no client: the process runs without Kubernetes, or its configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nothing says where the API server is.
    #[error("this is no pod of a cluster: {0} is not set, and --kubeconfig names no file")]
    NoCluster(&'static str),
    /// `KUBERNETES_SERVICE_HOST` and `_PORT` are no address.
    #[error("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT name {0:?}, which is no address of an API server")]
    Address(String),
    /// The account has no token at the usual place, nor below the mount point of a Windows host process.
    #[error("{0} is missing, and CONTAINER_SANDBOX_MOUNT_POINT, below which a Windows host process has it, is not set")]
    NoToken(PathBuf),
    /// A file of the account cannot be read.
    #[error("cannot read {path} of the pod's service account")]
    Account {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The kubeconfig file cannot be used.
    #[error("cannot use the kubeconfig file {path}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: kube::config::KubeconfigError,
    },
    /// Certificates, keys or credentials are not valid.
    #[error("cannot set up the connection to the API server {server}")]
    Setup {
        /// Its address.
        server: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// The program that gives the credentials of a kubeconfig file did not end.
    #[error("setting up the connection to the API server {server} took longer than {SETUP_BOUND:?}")]
    SetupTime {
        /// Its address.
        server: String,
    },
}

/// A connection to the API server. Calls are at most 5 a second with bursts of 10, wait when the server asks for it, and
/// fail when it hangs. Clones share all that.
#[derive(Clone)]
pub struct Cluster {
    client: kube::Client,
    server: String,
}

impl Cluster {
    /// Sets up the connection; nothing is sent yet. The token of an account or of a `tokenFile` is read anew for each call,
    /// so its rotation is never missed.
    ///
    /// # Errors
    /// When nothing says where the API server is, or its files cannot be used.
    ///
    /// Cancellation: dropping the future leaves nothing but perhaps a program that gives credentials.
    pub async fn connect(options: &ClusterOptions) -> Result<Self, ConnectError> {
        let found = config::find(options).await?;
        let server = found.config.cluster_url.to_string();
        let namespace = found.config.default_namespace.clone();
        let layer = GuardLayer { token: found.token };
        // It may run a program and wait for it.
        let build = tokio::task::spawn_blocking(move || ClientBuilder::try_from(found.config));
        let built = match tokio::time::timeout(SETUP_BOUND, build).await {
            Ok(Ok(built)) => built,
            // Both the time and a panic of the setting up mean that there is no client.
            Ok(Err(_)) | Err(_) => return Err(ConnectError::SetupTime { server }),
        };
        let builder =
            built.map_err(|source| ConnectError::Setup { server: server.clone(), source: Box::new(source) })?;
        let client = builder.with_layer(&layer).build();
        tracing::debug!(server, namespace, "Kubernetes");
        Ok(Self { client, server })
    }

    /// A connection over any service that answers like an API server, with the limits of a real one.
    pub fn over<S, B>(service: S, namespace: &str) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let builder = ClientBuilder::new(service, namespace).with_layer(&GuardLayer { token: None });
        Self { client: builder.build(), server: "in this process".to_owned() }
    }

    /// The client, for calls.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// The namespace of the pod, or that of the kubeconfig's context; `default` where neither says.
    pub fn namespace(&self) -> &str {
        self.client.default_namespace()
    }

    /// The API server's address.
    pub fn server(&self) -> &str {
        &self.server
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("server", &self.server).finish_non_exhaustive()
    }
}

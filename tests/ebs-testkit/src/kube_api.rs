//! A real Kubernetes API server with its etcd, for one test or for the tests of a suite. It has RBAC and service
//! account tokens, but no nodes, pods or controllers: tests create all objects.
//!
//! [`API_SERVER`] and [`ETCD`] name the two programs, which `scripts/setup test` builds.

mod pki;
mod rest;
mod shared;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::process::{Ending, Process, ProcessSpec, program};
use crate::run_dir::OwnDir;
use pki::Pki;
use rest::Rest;

pub use rest::Answer;
pub use shared::SharedKubeApi;

/// The environment variable with the path of the API server program.
pub const API_SERVER: &str = "EBS_TEST_KUBE_APISERVER";
/// The environment variable with the path of the etcd program.
pub const ETCD: &str = "EBS_TEST_ETCD";

/// Time limit for the start of both servers, on a busy machine.
const READY_BOUND: Duration = Duration::from_secs(180);
const STOP_GRACE: Duration = Duration::from_secs(30);
/// A made-up secret that only this server accepts.
const ADMIN_TOKEN: &str = "made-up-token-of-the-administrator";

/// The API groups that tests need. All others are disabled, so that the server needs less time and memory to start.
const GROUPS: [&str; 13] = [
    "api/all=false",
    "v1=true",
    "admissionregistration.k8s.io/v1=true",
    "apiextensions.k8s.io/v1=true",
    "apiregistration.k8s.io/v1=true",
    "apps/v1=true",
    "authentication.k8s.io/v1=true",
    "coordination.k8s.io/v1=true",
    "discovery.k8s.io/v1=true",
    "networking.k8s.io/v1=true",
    "policy/v1=true",
    "rbac.authorization.k8s.io/v1=true",
    "storage.k8s.io/v1=true",
];

/// Admission plugins that change or reject test objects, or require objects that no test creates.
const NO_ADMISSION: [&str; 10] = [
    "DefaultStorageClass",
    "DefaultTolerationSeconds",
    "LimitRanger",
    "MutatingAdmissionWebhook",
    "PersistentVolumeClaimResize",
    "PodSecurity",
    "Priority",
    "ResourceQuota",
    "RuntimeClass",
    "TaintNodesByCondition",
];

/// The identity in a kubeconfig file.
#[derive(Debug, Clone, Copy)]
pub enum Who<'a> {
    /// The administrator, with all rights.
    Admin,
    /// The user with this name, who has only the rights that were granted to the name.
    User(&'a str),
    /// The owner of this token.
    Token(&'a str),
    /// The owner of the token in this file.
    TokenFile(&'a Path),
}

/// An API server and its etcd. Dropping this value ends both servers and removes their files.
#[derive(Debug)]
pub struct KubeApi {
    server: Option<Process>,
    _etcd: Process,
    spec: ProcessSpec,
    pki: Pki,
    address: SocketAddr,
    rest: Rest,
    files: AtomicU32,
    dir: OwnDir,
}

impl KubeApi {
    /// Returns the server that the tests of this process share. The first call starts it.
    pub async fn shared() -> anyhow::Result<Arc<SharedKubeApi>> {
        SharedKubeApi::current().await
    }

    /// Starts a separate server, for tests that disturb it. The processes end with the calling thread.
    pub async fn start() -> anyhow::Result<Self> {
        let (server, etcd) = (program(API_SERVER)?, program(ETCD)?);
        let dir = OwnDir::new("kube-api-").context("create a directory for the API server")?;
        let [address, store, peer] = free_ports(own_address())?;
        let store = format!("http://{store}");
        let etcd = start_etcd(etcd, dir.path(), &store, &format!("http://{peer}"))?;
        let pki = Pki::make(dir.path(), address.ip())?;
        let tokens = format!("{ADMIN_TOKEN},admin,1,system:masters\n");
        std::fs::write(dir.path().join("users.csv"), tokens).context("write the administrator's token")?;
        let spec = server_spec(server, dir.path(), &pki, (address, &store));
        let rest = Rest::new(address, pki.ca_der.clone(), ADMIN_TOKEN)?;
        let files = AtomicU32::new(0);
        let mut new = Self { server: None, _etcd: etcd, spec, pki, address, rest, files, dir };
        new.restart().await?;
        Ok(new)
    }

    /// Returns `https://ADDRESS:PORT`, which does not change with a restart.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the path of the API server's CA certificate in PEM.
    pub fn ca_file(&self) -> &Path {
        &self.pki.ca
    }

    /// Returns the process id of the API server, for measurements.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Process::pid)
    }

    /// Writes a kubeconfig file, which is removed when this value is dropped.
    pub fn kubeconfig(&self, who: Who<'_>) -> anyhow::Result<PathBuf> {
        let user = match who {
            Who::Admin => json!({ "token": ADMIN_TOKEN }),
            Who::User(name) => json!({ "token": ADMIN_TOKEN, "as": name }),
            Who::Token(token) => json!({ "token": token }),
            Who::TokenFile(path) => json!({ "tokenFile": path }),
        };
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "it", "cluster": { "server": self.url(), "certificate-authority": self.pki.ca } }],
            "users": [{ "name": "me", "user": user }],
            "contexts": [{ "name": "here", "context": { "cluster": "it", "user": "me" } }],
            "current-context": "here",
        });
        let n = self.files.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.path().join(format!("kubeconfig-{n}.yaml"));
        // JSON is also valid YAML.
        std::fs::write(&path, serde_json::to_vec(&config)?).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// Sends one request as the administrator. `body` has the type `application/json`. Returns every response as `Ok`,
    /// even if its status is an error.
    pub async fn call(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Answer> {
        let body = body.map(|body| ("application/json", body.to_string().into_bytes()));
        self.rest.call(method, path, body).await
    }

    /// Creates an object and returns it as stored. `path` is the path of its kind, such as `/api/v1/nodes`.
    pub async fn create(&self, path: &str, object: &Value) -> anyhow::Result<Value> {
        self.call("POST", path, Some(object)).await?.granted()
    }

    /// Returns an object, or `None` if it does not exist.
    pub async fn get(&self, path: &str) -> anyhow::Result<Option<Value>> {
        let answer = self.call("GET", path, None).await?;
        if answer.status == 404 { Ok(None) } else { answer.granted().map(Some) }
    }

    /// Merges a patch into an object (RFC 7386).
    pub async fn merge(&self, path: &str, patch: &Value) -> anyhow::Result<Value> {
        let patch = patch.to_string().into_bytes();
        self.rest.call("PATCH", path, Some(("application/merge-patch+json", patch))).await?.granted()
    }

    /// Applies the objects of a manifest like `kubectl apply --server-side`. May be repeated.
    pub async fn apply(&self, manifest: &str) -> anyhow::Result<()> {
        for object in manifest.split("\n---\n").filter(|object| object.contains("\nkind: ")) {
            let path = path_of(object)?;
            let body = Some(("application/apply-patch+yaml", object.as_bytes().to_vec()));
            let answer = self.rest.call("PATCH", &format!("{path}?fieldManager=tests&force=true"), body).await?;
            answer.granted().with_context(|| format!("apply {path}"))?;
        }
        Ok(())
    }

    /// Deletes an object immediately. Succeeds if it does not exist.
    pub async fn delete(&self, path: &str) -> anyhow::Result<()> {
        let now = json!({ "gracePeriodSeconds": 0 });
        let answer = self.call("DELETE", path, Some(&now)).await?;
        if answer.status == 404 { Ok(()) } else { answer.granted().map(drop) }
    }

    /// Kills the API server (SIGKILL). etcd keeps its objects.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let killed = self.server.as_mut().context("the API server is not running")?.kill();
        self.server = None;
        killed
    }

    /// Stops the API server and waits until it has ended.
    pub async fn stop(&mut self) -> anyhow::Result<Ending> {
        let ending = self.server.as_mut().context("the API server is not running")?.stop(STOP_GRACE).await;
        self.server = None;
        ending
    }

    /// Starts the API server again, with the same address and keys, and waits until it is ready.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.server = None;
        let server = self.server.insert(Process::spawn(self.spec.clone())?);
        let ready = async {
            let mut tick = tokio::time::interval(Duration::from_millis(50));
            loop {
                tick.tick().await;
                if let Some(status) = server.ended()? {
                    bail!("it exited with {status}");
                }
                if let Ok(answer) = self.rest.call("GET", "/readyz", None).await
                    && answer.status == 200
                {
                    return Ok(());
                }
            }
        };
        let ready = tokio::time::timeout(READY_BOUND, ready).await.context("timed out").flatten();
        ready.with_context(|| format!("kube-apiserver is not ready; last lines of its log:\n{}", server.log_tail(30)))
    }

    /// Suspends the API server's process (SIGSTOP): connections stay open but get no response.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.server.as_ref().context("the API server is not running")?.signal(Signal::STOP)
    }

    pub fn resume(&self) -> anyhow::Result<()> {
        self.server.as_ref().context("the API server is not running")?.signal(Signal::CONT)
    }
}

impl Drop for KubeApi {
    fn drop(&mut self) {
        // Kill it: it has no state to save, and its orderly end takes seconds.
        if let Some(server) = &mut self.server {
            let _ = server.kill();
        }
    }
}

/// Creates a CA that has signed nothing, and returns its certificate in PEM.
pub fn authority() -> anyhow::Result<String> {
    Ok(pki::authority()?.0.pem())
}

fn path_of(object: &str) -> anyhow::Result<String> {
    let field = |prefix: &str| object.lines().find_map(|line| line.strip_prefix(prefix)).map(str::trim);
    let version = field("apiVersion: ").context("the object has no version")?;
    let kind = field("kind: ").context("the object has no kind")?;
    let name = field("  name: ").context("the object has no name")?;
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let namespace = field("  namespace: ").map(|name| format!("/namespaces/{name}"));
    let (plural, is_namespaced) = match kind {
        "ServiceAccount" => ("serviceaccounts", true),
        "Role" => ("roles", true),
        "RoleBinding" => ("rolebindings", true),
        "ClusterRole" => ("clusterroles", false),
        "ClusterRoleBinding" => ("clusterrolebindings", false),
        "ValidatingAdmissionPolicy" => ("validatingadmissionpolicies", false),
        "ValidatingAdmissionPolicyBinding" => ("validatingadmissionpolicybindings", false),
        other => bail!("unsupported kind {other}"),
    };
    let namespace = namespace.filter(|_| is_namespaced).unwrap_or_default();
    Ok(format!("{root}{namespace}/{plural}/{name}"))
}

/// Returns an address that is derived from the process id, so no other process of this machine uses it.
fn own_address() -> Ipv4Addr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 64 | high, middle, low)
}

/// Returns free ports of the address, which no other process uses.
fn free_ports<const N: usize>(ip: Ipv4Addr) -> anyhow::Result<[SocketAddr; N]> {
    let mut listeners = Vec::new();
    for _ in 0..N {
        // Keep each listener until all ports are found, so that no port is found twice.
        listeners.push(TcpListener::bind((ip, 0)).with_context(|| format!("find a free port of {ip}"))?);
    }
    let addresses: Result<Vec<_>, _> = listeners.iter().map(TcpListener::local_addr).collect();
    let addresses = addresses.context("read the addresses of the ports")?;
    addresses.try_into().map_err(|_| anyhow::anyhow!("fewer ports are free than requested"))
}

fn start_etcd(program: PathBuf, dir: &Path, client: &str, peer: &str) -> anyhow::Result<Process> {
    let mut args: Vec<OsString> = vec!["--data-dir".into(), dir.join("etcd").into()];
    let cluster = format!("default={peer}");
    let flags = [
        // No data needs to survive a crash of the machine, because the test would be lost too.
        "--unsafe-no-fsync",
        "--listen-client-urls",
        client,
        "--advertise-client-urls",
        client,
        "--listen-peer-urls",
        peer,
        "--initial-advertise-peer-urls",
        peer,
        "--initial-cluster",
        &cluster,
        "--log-level",
        "warn",
    ];
    args.extend(flags.map(OsString::from));
    let log = dir.join("etcd.log");
    Process::spawn(ProcessSpec { name: "etcd".to_owned(), program, args, env: BTreeMap::new(), log })
}

fn server_spec(program: PathBuf, dir: &Path, pki: &Pki, (address, store): (SocketAddr, &str)) -> ProcessSpec {
    let mut args: Vec<OsString> = [
        format!("--etcd-servers={store}"),
        format!("--bind-address={}", address.ip()),
        format!("--advertise-address={}", address.ip()),
        format!("--secure-port={}", address.port()),
        format!("--runtime-config={}", GROUPS.join(",")),
        format!("--disable-admission-plugins={}", NO_ADMISSION.join(",")),
        "--authorization-mode=RBAC".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        "--enable-priority-and-fairness=false".to_owned(),
        "--profiling=false".to_owned(),
        "--shutdown-delay-duration=0s".to_owned(),
    ]
    .map(OsString::from)
    .into();
    let file = |flag: &str, path: &Path| {
        let mut arg = OsString::from(format!("--{flag}="));
        arg.push(path);
        arg
    };
    args.extend([
        file("cert-dir", dir),
        file("tls-cert-file", &pki.certificate),
        file("tls-private-key-file", &pki.key),
        file("service-account-key-file", &pki.signing_public_key),
        file("service-account-signing-key-file", &pki.signing_key),
        file("token-auth-file", &dir.join("users.csv")),
    ]);
    let log = dir.join("kube-apiserver.log");
    ProcessSpec { name: "kube-apiserver".to_owned(), program, args, env: BTreeMap::new(), log }
}

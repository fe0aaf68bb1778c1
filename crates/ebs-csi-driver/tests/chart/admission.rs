//! Tests which pods the sample admission policy for Windows nodes rejects and accepts, on a real API server.

use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::kube_api::{Answer, KubeApi};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::chart;
use crate::on_a_cluster::{make_namespaces, path};

/// How long an API server may take to enforce a policy that it has accepted.
const HEEDED: Duration = Duration::from_secs(60);
const LEADS_TO_PIPES: &str = "a hostPath leads to the pipes of csi-proxy";
const IS_HOST_PROCESS: &str = "host processes are for these accounts";
/// The namespace and service account that the sample permits to use csi-proxy's pipes and host processes.
const ALLOWED: (&str, &str) = ("kube-system", "ebs-csi-node-sa");

/// Paths that Windows resolves to a pipe of csi-proxy, or to a parent directory of one.
const REFUSED: [&str; 22] = [
    r"\\.\pipe\csi-proxy-disk-v1",
    r"\\.\pipe\csi-proxy-filesystem-v2alpha1",
    r"\\.\PIPE\CSI-Proxy-Volume-v1",
    r"\\.\pipe\csi-proxy",
    r"\\.\pipe\\csi-proxy-disk-v1",
    r"\\.\\pipe\\csi-proxy-disk-v1",
    r"\\.\pipe\.\csi-proxy-disk-v1",
    r"\\.\pipe\",
    r"\\.\pipe",
    r"\\.\",
    r"\\?\pipe\csi-proxy-smb-v1",
    r"\\?\pipe",
    r"\\?\",
    "//./pipe/csi-proxy-disk-v1",
    "//?/Pipe/csi-proxy-disk-v1",
    "//./pipe",
    r"\\./pipe\csi-proxy-disk-v1",
    r"\\?\GLOBALROOT\Device\NamedPipe\csi-proxy-disk-v1",
    r"\\?\GLOBALROOT\Device\NamedPipe",
    r"\\localhost\pipe\csi-proxy-disk-v1",
    r"\\127.0.0.1\pipe",
    r"\\.\pip",
];

/// Paths that lead neither to a pipe of csi-proxy nor to a parent directory of one.
const TAKEN: [&str; 10] = [
    r"\\.\pipe\containerd-containerd",
    r"\\.\pipe\docker_engine",
    r"\\.\pipe\my-csi-proxy",
    r"\\.\PhysicalDrive1",
    r"\\fileserver\share",
    r"C:\var\lib\kubelet",
    r"C:\pipe\csi-proxy-disk-v1",
    "/var/lib/kubelet/plugins",
    "/dev",
    r"c:\",
];

/// Returns a pod that runs under the service account and has these fields in its spec.
fn pod(account: (&str, &str), with: &Value) -> Value {
    let mut spec = json!({ "serviceAccountName": account.1, "nodeSelector": { "kubernetes.io/os": "windows" },
                           "containers": [{ "name": "c", "image": "x" }] });
    for (key, value) in with.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({ "apiVersion": "v1", "kind": "Pod", "spec": spec, "metadata": { "name": "p", "namespace": account.0 } })
}

fn with_path(path: &str) -> Value {
    json!({ "volumes": [{ "name": "plain", "emptyDir": {} }, { "name": "v", "hostPath": { "path": path } }] })
}

async fn ask(api: &KubeApi, pod: &Value) -> anyhow::Result<Answer> {
    let pods = path(pod)?.context("pods are known")?;
    api.call("POST", &format!("{pods}?dryRun=All"), Some(pod)).await
}

async fn is_refused(api: &KubeApi, pod: &Value, why: &str) -> anyhow::Result<()> {
    let answer = ask(api, pod).await?;
    let said = answer.body["message"].as_str().unwrap_or_default();
    ensure!(answer.status == 403 && said.contains(why), "it was not refused: {answer:?}");
    Ok(())
}

async fn is_taken(api: &KubeApi, pod: &Value) -> anyhow::Result<()> {
    ask(api, pod).await?.granted().map(drop)
}

/// Starts an API server with the sample policy as shipped, and waits until the server enforces it.
async fn with_the_sample() -> anyhow::Result<KubeApi> {
    let api = KubeApi::start().await?;
    make_namespaces(&api).await?;
    for (namespace, name) in [ALLOWED, ("default", ALLOWED.1), ("kube-system", "other")] {
        let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name } });
        api.create(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &account).await?;
    }
    let sample = std::fs::read_to_string(chart().join("../../deploy/windows/admission/policy.yaml"))?;
    for object in serde_saphyr::from_multiple::<Value>(&sample)? {
        api.create(&path(&object)?.context("a known kind")?, &object).await?;
    }
    let (refused, end) = (pod(("default", "default"), &with_path(REFUSED[0])), Instant::now() + HEEDED);
    while let Err(error) = is_refused(&api, &refused, LEADS_TO_PIPES).await {
        ensure!(Instant::now() < end, "the policy is not heeded: {error:#}");
        sleep(Duration::from_millis(200)).await;
    }
    Ok(api)
}

/// The sample policy rejects mounts of csi-proxy's pipes and of their parent directories, in any spelling of the path.
/// It also rejects host processes in each kind of container. The listed accounts may use both, but accounts of the same
/// name in other namespaces may not. Other paths are allowed.
#[tokio::test]
async fn admission_sample_rejects_csi_proxy_pipes_and_host_processes() -> anyhow::Result<()> {
    let api = with_the_sample().await?;
    let others = [("default", "default"), ("default", ALLOWED.1), ("kube-system", "other")];
    for path in REFUSED {
        for account in others {
            let pod = pod(account, &with_path(path));
            is_refused(&api, &pod, LEADS_TO_PIPES).await.with_context(|| format!("{path} for {account:?}"))?;
        }
        is_taken(&api, &pod(ALLOWED, &with_path(path))).await.with_context(|| format!("{path} for {ALLOWED:?}"))?;
    }
    for path in TAKEN {
        for account in others {
            is_taken(&api, &pod(account, &with_path(path))).await.with_context(|| format!("{path} for {account:?}"))?;
        }
    }
    let windows = json!({ "windowsOptions": { "hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM" } });
    let container = json!({ "name": "h", "image": "x", "securityContext": windows });
    let of_pod = json!({ "hostNetwork": true, "securityContext": windows });
    // Make every container a host process and set `hostNetwork`: otherwise the API server itself rejects the pod.
    let of_containers = json!({ "hostNetwork": true, "containers": [container], "initContainers": [{ "name": "i", "image": "x", "securityContext": windows }] });
    for with in [of_pod, of_containers] {
        for account in others {
            let pod = pod(account, &with);
            is_refused(&api, &pod, IS_HOST_PROCESS).await.with_context(|| format!("{with} for {account:?}"))?;
        }
        is_taken(&api, &pod(ALLOWED, &with)).await.with_context(|| with.to_string())?;
    }
    is_taken(&api, &pod(("default", "default"), &json!({}))).await
}

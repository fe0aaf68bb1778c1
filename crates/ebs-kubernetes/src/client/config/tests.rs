use std::fs;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;
use crate::Cluster;

fn pod(dir: &Path) -> InCluster {
    InCluster {
        host: Some("10.96.0.1".to_owned()),
        port: Some("443".to_owned()),
        sandbox: None,
        account: dir.join("account"),
    }
}

fn write_account(account: &Path) {
    fs::create_dir_all(account).unwrap();
    fs::write(account.join("token"), "made-up-token").unwrap();
    fs::write(account.join("ca.crt"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    fs::write(account.join("namespace"), "storage\n").unwrap();
}

#[test]
fn pod_finds_api_server_by_environment_and_service_account() {
    let dir = tempfile::tempdir().unwrap();
    let pod = pod(dir.path());
    write_account(&pod.account);
    let found = from_pod(&pod).unwrap();
    assert_eq!(found.config.cluster_url.to_string(), "https://10.96.0.1:443/");
    assert_eq!(found.config.default_namespace, "storage");
    assert_eq!(found.config.root_cert_file, Some(pod.account.join("ca.crt")));
    assert!(found.token.is_some());

    for (host, url) in [("fd00::1", "https://[fd00::1]:443/"), ("[fd00::1]", "https://[fd00::1]:443/")] {
        let pod = InCluster { host: Some(host.to_owned()), ..pod.clone() };
        assert_eq!(from_pod(&pod).unwrap().config.cluster_url.to_string(), url);
    }
}

/// If the account has no token at its usual path and no mount point is set, the driver reports an error.
#[test]
fn windows_host_process_reads_account_below_mount_point() {
    let dir = tempfile::tempdir().unwrap();
    let mut pod = pod(dir.path());
    let below = dir.path().join("sandbox").join(pod.account.strip_prefix("/").unwrap());
    write_account(&below);
    let error = from_pod(&pod).err().unwrap().to_string();
    assert!(error.contains("CONTAINER_SANDBOX_MOUNT_POINT") && error.contains("account/token"), "{error}");
    pod.sandbox = Some(dir.path().join("sandbox"));
    assert_eq!(from_pod(&pod).unwrap().config.root_cert_file, Some(below.join("ca.crt")));
}

#[test]
fn missing_or_invalid_pod_configuration_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let pod = pod(dir.path());
    write_account(&pod.account);
    let says = |pod: &InCluster, words: &str| {
        let error = from_pod(pod).err().unwrap().to_string();
        assert!(error.contains(words), "{error}");
    };
    says(&InCluster { host: None, ..pod.clone() }, "KUBERNETES_SERVICE_HOST is not set");
    says(&InCluster { port: None, ..pod.clone() }, "KUBERNETES_SERVICE_PORT is not set");
    for (host, port) in [("", "443"), ("a b", "443"), ("10.0.0.1", "https"), ("10.0.0.1", "65536")] {
        let broken = InCluster { host: Some(host.to_owned()), port: Some(port.to_owned()), ..pod.clone() };
        says(&broken, "invalid API server address");
    }
    fs::write(pod.account.join("ca.crt"), "not a certificate").unwrap();
    says(&pod, "ca.crt");
    fs::remove_file(pod.account.join("ca.crt")).unwrap();
    says(&pod, "ca.crt");
}

/// A token in the kubeconfig file takes precedence over its token file.
#[tokio::test]
async fn relative_token_file_is_read_unless_kubeconfig_has_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    for (user, has_file) in [("tokenFile: token", true), ("tokenFile: token, token: abc", false), ("token: abc", false)]
    {
        let text = format!(
            "{{apiVersion: v1, kind: Config, clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:1'}}}}], \
             users: [{{name: u, user: {{{user}}}}}], contexts: [{{name: x, context: {{cluster: c, user: u}}}}], current-context: x}}"
        );
        fs::write(&path, text).unwrap();
        let found = from_file(&path).await.unwrap();
        assert_eq!(found.token.is_some(), has_file, "{user}");
        assert!(found.config.auth_info.token_file.is_none());
    }
    fs::write(&path, "no kubeconfig").unwrap();
    let error = from_file(&path).await.err().unwrap().to_string();
    assert!(error.contains(path.to_str().unwrap()), "{error}");
}

#[tokio::test]
async fn call_carries_user_agent_and_token() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let mut requests = JoinSet::new();
    requests.spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            let mut part = [0; 1024];
            let read = stream.read(&mut part).await.unwrap();
            request.extend_from_slice(&part[..read]);
        }
        stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        String::from_utf8(request).unwrap().to_lowercase()
    });
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    fs::write(dir.path().join("token"), "made-up").unwrap();
    let text = format!(
        "{{clusters: [{{name: c, cluster: {{server: '{server}'}}}}], users: [{{name: u, user: {{tokenFile: token}}}}], \
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}], current-context: x}}"
    );
    fs::write(&path, text).unwrap();
    let user_agent = "aws-ebs-csi-driver/v1.2.3".to_owned();
    let options = ClusterOptions { kubeconfig: Some(path), in_cluster: InCluster::default(), user_agent };
    let nodes: Api<Node> = Api::all(Cluster::connect(&options).await.unwrap().client());
    assert!(nodes.get("a").await.is_err());
    let request = tokio::time::timeout(Duration::from_secs(60), requests.join_next()).await.unwrap().unwrap().unwrap();
    assert!(request.contains("user-agent: aws-ebs-csi-driver/v1.2.3"), "{request}");
    assert!(request.contains("authorization: bearer made-up"), "{request}");
}

//! Finds the API server and the credentials: in a kubeconfig file, or from the pod's service account.

use std::path::{Path, PathBuf};

use http::header::{HeaderValue, USER_AGENT};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::guard::TokenFile;
use super::{ClusterOptions, ConnectError, InCluster};

/// The connection settings that [`find`] returns. Calls carry the token unless the settings have other credentials.
pub(super) struct Found {
    pub(super) config: Config,
    pub(super) token: Option<TokenFile>,
}

pub(super) async fn find(options: &ClusterOptions) -> Result<Found, ConnectError> {
    let mut found = match &options.kubeconfig {
        Some(path) => from_file(path).await?,
        None => from_pod(&options.in_cluster)?,
    };
    // The caller decides how long to retry. A retry inside the client would bypass the rate limit.
    found.config.default_retry = false;
    if let Ok(user_agent) = HeaderValue::from_str(&options.user_agent) {
        found.config.headers.push((USER_AGENT, user_agent));
    }
    Ok(found)
}

async fn from_file(path: &Path) -> Result<Found, ConnectError> {
    let refused = |source| ConnectError::Kubeconfig { path: path.to_owned(), source };
    let kubeconfig = Kubeconfig::read_from(path).map_err(refused)?;
    let clusters = kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref());
    let names_proxy = clusters.filter_map(|cluster| cluster.proxy_url.as_ref()).any(|url| !url.is_empty());
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(refused)?;
    // By default, the client would use HTTPS_PROXY. The driver calls API servers directly, as from a pod.
    if !names_proxy {
        config.proxy_url = None;
    }
    let has_other = config.auth_info.token.is_some();
    let file = config.auth_info.token_file.take().filter(|file| !has_other && !file.is_empty());
    // A relative path is relative to the kubeconfig file.
    let token = file.map(|file| TokenFile::new(path.parent().unwrap_or(Path::new("")).join(file)));
    Ok(Found { config, token })
}

fn from_pod(pod: &InCluster) -> Result<Found, ConnectError> {
    let host = pod.host.as_deref().ok_or(ConnectError::NoCluster("KUBERNETES_SERVICE_HOST"))?;
    let port = pod.port.as_deref().ok_or(ConnectError::NoCluster("KUBERNETES_SERVICE_PORT"))?;
    let account = account(pod)?;
    let read = |name: &str| {
        let path = account.join(name);
        std::fs::read(&path).map_err(|source| ConnectError::Account { path, source })
    };
    read("token")?;
    let authority = read("ca.crt")?;
    let namespace = read("namespace").ok().and_then(|bytes| String::from_utf8(bytes).ok());

    let url = address(host, port).ok_or_else(|| ConnectError::Address(format!("{host}:{port}")))?;
    let mut config = Config::new(url);
    if let Some(namespace) = namespace.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()) {
        config.default_namespace = namespace;
    }
    let path = account.join("ca.crt");
    if !authority.windows(10).any(|bytes| bytes == b"-----BEGIN") {
        let source = std::io::Error::other("the file contains no certificate");
        return Err(ConnectError::Account { path, source });
    }
    // The client reads the file again from time to time, because certificate authorities are also rotated.
    config.root_cert_file = Some(path);
    Ok(Found { config, token: Some(TokenFile::new(account.join("token"))) })
}

/// Returns the service account's directory: the usual path or, for a Windows host process, one below its mount point.
fn account(pod: &InCluster) -> Result<PathBuf, ConnectError> {
    let token = pod.account.join("token");
    if token.exists() {
        return Ok(pod.account.clone());
    }
    let sandbox = pod.sandbox.as_ref().ok_or(ConnectError::NoToken(token))?;
    let below = pod.account.strip_prefix("/").unwrap_or(&pod.account);
    Ok(sandbox.join(below))
}

fn address(host: &str, port: &str) -> Option<http::Uri> {
    let port: u16 = port.parse().ok()?;
    // An IPv6 address in a URL needs brackets.
    let host = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
    let uri: http::Uri = format!("https://{host}:{port}").parse().ok()?;
    uri.host().filter(|host| !host.is_empty())?;
    Some(uri)
}

#[cfg(test)]
mod tests;

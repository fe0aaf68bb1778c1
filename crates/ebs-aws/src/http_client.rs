//! The SDK's HTTP client: TLS by aws-lc, with the environment's proxies and CA bundle.

use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore, rustls_provider::CryptoMode};
use aws_smithy_http_client::{Builder, Connector};
use aws_smithy_runtime_api::client::http::SharedHttpClient;

use crate::ConfigError;

/// The variable with the path of a PEM file that replaces the system's root certificates.
const CA_BUNDLE: &str = "AWS_CA_BUNDLE";

/// Builds the client. It uses `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, unless the endpoint is on this machine.
pub(crate) fn build(loopback: bool) -> Result<SharedHttpClient, ConfigError> {
    let tls = tls_context(std::env::var(CA_BUNDLE).ok().filter(|path| !path.is_empty()))?;
    let proxy = if loopback { ProxyConfig::disabled() } else { ProxyConfig::from_env() };
    Ok(Builder::new().build_with_connector_fn(move |settings, components| {
        let mut builder = Connector::builder().proxy_config(proxy.clone());
        builder.set_connector_settings(settings.cloned());
        builder.set_sleep_impl(components.and_then(|c| c.sleep_impl()));
        builder.tls_provider(Provider::Rustls(CryptoMode::AwsLc)).tls_context(tls.clone()).build()
    }))
}

fn tls_context(bundle: Option<String>) -> Result<TlsContext, ConfigError> {
    let Some(path) = bundle else { return Ok(TlsContext::default()) };
    let refuse = |reason: String| ConfigError::CaBundle { path: path.clone(), reason };
    let pem = std::fs::read(&path).map_err(|e| refuse(e.to_string()))?;
    if !pem.windows(27).any(|w| w == b"-----BEGIN CERTIFICATE-----") {
        return Err(refuse("the file contains no PEM certificate".to_owned()));
    }
    TlsContext::builder()
        .with_trust_store(TrustStore::empty().with_pem_certificate(pem))
        .build()
        .map_err(|e| refuse(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_ca_bundle_is_rejected_with_its_file() {
        let absent = tls_context(Some("/nonexistent/bundle.pem".into())).unwrap_err();
        assert!(absent.to_string().contains("AWS_CA_BUNDLE=\"/nonexistent/bundle.pem\""), "{absent}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "not a certificate").unwrap();
        let empty = tls_context(Some(file.path().display().to_string())).unwrap_err();
        assert!(empty.to_string().contains("no PEM certificate"), "{empty}");
    }
}

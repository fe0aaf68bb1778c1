//! Builds the client from the region, endpoint, user agent, timeouts and retries.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_types::timeout::TimeoutConfig;
use aws_types::SdkConfig;
use aws_types::region::Region;
use ebs_ec2::Observer;

use crate::cluster_nodes::Cluster;
use crate::endpoint::{self, Endpoint};
use crate::service::Service;
use crate::transport::Transport;
use crate::user_agent::ExecutionEnvironment;
use crate::{ec2, http_client};

/// The timeout for one attempt, from its start to the last byte of the reply.
const ATTEMPT: Duration = Duration::from_secs(30);
/// The timeout for a call with all its attempts (only describes are retried), including the time to load credentials.
const OPERATION: Duration = Duration::from_secs(60);

/// The configuration of the client. The remaining settings (credentials, CA bundle, FIPS, `AWS_ENDPOINT_URL_EC2` …)
/// come from the environment, as for every AWS tool.
#[derive(Debug, Clone)]
pub struct AwsConfig {
    pub region: String,
    /// The value of `AWS_EC2_ENDPOINT`, which replaces the endpoint that the SDK would choose. Empty means not set.
    pub ec2_endpoint: Option<String>,
    /// The value of `AWS_SAGEMAKER_ENDPOINT`, with the same rules. Used only for HyperPod nodes.
    pub sagemaker_endpoint: Option<String>,
    /// The value of `--user-agent-extra`. Empty means not set.
    pub user_agent_extra: Option<String>,
    /// The driver's version, such as `v1.2.3`.
    pub version: String,
    /// The value of `--aws-sdk-debug-log`: log each request and reply (except STS's) without its secret headers.
    pub log_bodies: bool,
}

/// Optional settings of a client.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The source of the credentials. `None` means the SDK's default chain.
    pub credentials: Option<SharedCredentialsProvider>,
    /// The transport for the requests. `None` means the network.
    pub transport: Option<Transport>,
    /// The endpoint of STS. If `None`, the SDK chooses it.
    pub sts_endpoint: Option<String>,
}

impl Settings {
    /// Returns the settings with this access key instead of the SDK's default chain.
    #[must_use]
    pub fn with_access_key(self, id: &str, secret: &str) -> Self {
        let key = aws_credential_types::Credentials::new(id, secret, None, None, "given");
        Self { credentials: Some(SharedCredentialsProvider::new(key)), ..self }
    }
}

/// Why no client can be built from a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error(
        "{variable}={url:?} is not a valid endpoint: {reason}; use a URL such as https://ec2.us-west-2.amazonaws.com"
    )]
    Endpoint { variable: &'static str, url: String, reason: String },
    #[error("region {0:?} is invalid: set AWS_REGION to the name of a region, such as us-west-2")]
    Region(String),
    #[error("{variable} and {setting}=true are mutually exclusive; unset one of them")]
    Contradiction { variable: &'static str, setting: &'static str },
    #[error("load AWS_CA_BUNDLE={path:?}: {reason}")]
    CaBundle { path: String, reason: String },
}

/// The EC2 client, which uses the SDK's runtime. It is cheap to clone.
#[derive(Clone)]
pub struct AwsEc2 {
    pub(crate) service: Arc<Service>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) log_bodies: bool,
}

impl AwsEc2 {
    /// Builds the client without making a call. The first call loads the credentials.
    pub async fn connect(config: &AwsConfig, observer: Arc<dyn Observer>) -> Result<Self, ConfigError> {
        Self::connect_with(config, Settings::default(), observer).await
    }

    /// Builds the client like [`AwsEc2::connect`], with other credentials or another transport.
    pub async fn connect_with(
        config: &AwsConfig,
        settings: Settings,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, ConfigError> {
        check_region(&config.region)?;
        let lookup = |name: &'static str| std::env::var(name).ok();
        let endpoint = endpoint::resolve(&endpoint::EC2, config.ec2_endpoint.as_deref(), lookup)?;
        let for_nodes = endpoint::resolve(&endpoint::SAGEMAKER, config.sagemaker_endpoint.as_deref(), lookup)?;
        let shared = load(config, &settings, &endpoint).await?;
        endpoint::check_with(&endpoint::EC2, &endpoint, &shared)?;
        endpoint::check_with(&endpoint::SAGEMAKER, &for_nodes, &shared)?;
        let agent = ExecutionEnvironment::new(&config.version, config.user_agent_extra.as_deref());
        let http = shared.http_client().map_or_else(|| transport(&settings, &endpoint), Ok)?;
        let is_shared = for_nodes.loopback == endpoint.loopback;
        let nodes_http = if is_shared { http.clone() } else { transport(&settings, &for_nodes)? };
        let cluster = Cluster::new(&shared, for_nodes.explicit, nodes_http, &agent, settings.sts_endpoint);
        Ok(Self {
            service: Arc::new(ec2::service(&shared, endpoint.explicit, http, agent)),
            observer,
            cluster: Arc::new(cluster),
            log_bodies: config.log_bodies,
        })
    }
}

async fn load(config: &AwsConfig, settings: &Settings, endpoint: &Endpoint) -> Result<SdkConfig, ConfigError> {
    let mut shared = aws_config::from_env()
        .region(Region::new(config.region.clone()))
        .http_client(transport(settings, endpoint)?)
        .timeout_config(limits());
    if let Some(provider) = settings.credentials.clone() {
        shared = shared.credentials_provider(provider);
    }
    Ok(shared.load().await)
}

fn transport(settings: &Settings, endpoint: &Endpoint) -> Result<SharedHttpClient, ConfigError> {
    match &settings.transport {
        Some(transport) => Ok(transport.client()),
        None => http_client::build(endpoint.loopback),
    }
}

impl fmt::Debug for AwsEc2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsEc2").finish_non_exhaustive()
    }
}

fn limits() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(5))
        .operation_attempt_timeout(ATTEMPT)
        .operation_timeout(OPERATION)
        .build()
}

fn check_region(region: &str) -> Result<(), ConfigError> {
    let fits = (1..=63).contains(&region.len())
        && region.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !region.starts_with('-')
        && !region.ends_with('-');
    if fits { Ok(()) } else { Err(ConfigError::Region(region.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_region_is_rejected() {
        for good in ["us-west-2", "eu-central-1", "us-gov-east-1", "mars1"] {
            assert_eq!(check_region(good), Ok(()));
        }
        for bad in ["", "us west 2", "us-west-2.evil.example", "US-WEST-2", "-", "a/b"] {
            assert_eq!(check_region(bad), Err(ConfigError::Region(bad.to_owned())));
        }
    }
}

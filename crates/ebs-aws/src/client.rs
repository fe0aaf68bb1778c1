//! Building the client: region, endpoint, user agent, time limits, retries.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_ec2::Client;
use aws_sdk_ec2::config::Region;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use ebs_ec2::Observer;

use crate::user_agent::ExecutionEnvironment;
use crate::{endpoint, http_client};

/// What the client is built from; everything else (credentials, CA bundle, FIPS, `AWS_ENDPOINT_URL_EC2` …) is read
/// from the environment as every AWS tool does.
#[derive(Debug, Clone)]
pub struct AwsConfig {
    /// The region.
    pub region: String,
    /// `AWS_EC2_ENDPOINT`; wins over the SDK's own resolution. Empty means none.
    pub ec2_endpoint: Option<String>,
    /// `--user-agent-extra`; empty means none.
    pub user_agent_extra: Option<String>,
    /// The driver's version, `v1.2.3`.
    pub version: String,
}

/// How long to wait for EC2.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// For one attempt, from its start to the last byte of the reply.
    pub attempt: Duration,
    /// For a call with its retries (describes only) and the credentials.
    pub operation: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), attempt: Duration::from_secs(30), operation: Duration::from_secs(60) }
    }
}

/// What a client can be given besides its configuration.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// How long to wait.
    pub timeouts: Timeouts,
    /// Where credentials come from; `None`: the usual places (environment, web identity, pod identity, profile,
    /// instance role).
    pub credentials: Option<SharedCredentialsProvider>,
}

/// A configuration that no client can be built from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The endpoint is no URL that can be called.
    #[error("{variable}={url:?} is no endpoint: {reason}; expected something like https://ec2.us-west-2.amazonaws.com")]
    Endpoint {
        /// The environment variable it came from.
        variable: &'static str,
        /// Its value.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The region is empty or cannot be one.
    #[error("region {0:?} cannot be one; set AWS_REGION to something like us-west-2")]
    Region(String),
    /// The file of certificates cannot be used.
    #[error("AWS_CA_BUNDLE={path:?} cannot be used: {reason}")]
    CaBundle {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// EC2 through the SDK. Cheap to clone.
#[derive(Clone)]
pub struct AwsEc2 {
    pub(crate) client: Client,
    pub(crate) observer: Arc<dyn Observer>,
}

impl AwsEc2 {
    /// Builds the client; contacts nothing. Credentials are sought at the first call.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub async fn connect(config: &AwsConfig, observer: Arc<dyn Observer>) -> Result<Self, ConfigError> {
        Self::connect_with(config, Settings::default(), observer).await
    }

    /// Like [`AwsEc2::connect`], with other time limits or credentials.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub async fn connect_with(
        config: &AwsConfig,
        settings: Settings,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, ConfigError> {
        check_region(&config.region)?;
        let endpoint = endpoint::resolve(config.ec2_endpoint.as_deref(), |name| std::env::var(name).ok())?;
        let mut shared = aws_config::from_env()
            .region(Region::new(config.region.clone()))
            .http_client(http_client::build(endpoint.loopback)?)
            .timeout_config(limits(settings.timeouts));
        if let Some(provider) = settings.credentials {
            shared = shared.credentials_provider(provider);
        }
        let shared = shared.load().await;
        // One attempt is the rule of the client; describes ask for more, each for itself (see `call`).
        let mut ec2 = aws_sdk_ec2::config::Builder::from(&shared)
            .retry_config(RetryConfig::disabled())
            .interceptor(ExecutionEnvironment::new(&config.version, config.user_agent_extra.as_deref()));
        if let Some(url) = endpoint.explicit {
            ec2 = ec2.endpoint_url(url);
        }
        Ok(Self { client: Client::from_conf(ec2.build()), observer })
    }
}

impl fmt::Debug for AwsEc2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsEc2").finish_non_exhaustive()
    }
}

fn limits(timeouts: Timeouts) -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(timeouts.connect)
        .operation_attempt_timeout(timeouts.attempt)
        .operation_timeout(timeouts.operation)
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
    fn a_region_that_cannot_be_one_is_refused() {
        for good in ["us-west-2", "eu-central-1", "us-gov-east-1", "mars1"] {
            assert_eq!(check_region(good), Ok(()));
        }
        for bad in ["", "us west 2", "us-west-2.evil.example", "US-WEST-2", "-", "a/b"] {
            assert_eq!(check_region(bad), Err(ConfigError::Region(bad.to_owned())));
        }
    }
}

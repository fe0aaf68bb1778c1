//! Building the client: region, endpoint, user agent, time limits.

use std::sync::Arc;
use std::time::Duration;

use ebs_ec2::Observer;

/// What the client is built from; everything else (credentials, CA bundle, FIPS, `AWS_ENDPOINT_URL_EC2` …) the SDK
/// reads from the environment itself.
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
        Self {
            connect: Duration::from_secs(5),
            attempt: Duration::from_secs(30),
            operation: Duration::from_secs(60),
        }
    }
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
}

/// EC2 through the SDK. Cheap to clone.
#[derive(Clone)]
pub struct AwsEc2 {
    observer: Arc<dyn Observer>,
}

impl AwsEc2 {
    /// Builds the client; contacts nothing. Credentials are sought at the first call.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub async fn connect(config: &AwsConfig, observer: Arc<dyn Observer>) -> Result<Self, ConfigError> {
        Self::connect_with(config, Timeouts::default(), observer).await
    }

    /// Like [`AwsEc2::connect`], with other time limits.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub async fn connect_with(
        _config: &AwsConfig,
        _timeouts: Timeouts,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, ConfigError> {
        Ok(Self { observer })
    }
}

//! The client of the instance metadata service.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use aws_config::imds::Client;
use aws_config::imds::client::error::{ImdsError, TokenError};
use aws_config::provider_config::ProviderConfig;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::{Builder, Connector};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use ebs_ec2::{NodeId, OutpostArn};
use tokio::sync::Mutex;

use crate::document::{ebs_entries, identity, mac_addresses};
use crate::plain::PlainClient;
use crate::{BlockDevices, Field, MetadataError, NodeMetadata};

const DEFAULT_ENDPOINT: &str = "http://169.254.169.254";
const IPV6_ENDPOINT: &str = "http://[fd00:ec2::254]";
/// Prefix of the Node name of a machine in a SageMaker HyperPod cluster.
const HYPERPOD_PREFIX: &str = "hyperpod-";

const CONNECT_WITHIN: Duration = Duration::from_millis(250);
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
const OPERATION_WITHIN: Duration = Duration::from_secs(5);
const ATTEMPTS: u32 = 3;
const TOKEN_TTL: Duration = Duration::from_secs(300);
/// How many times one request tries to get a token from a service that requires one but is slow to return it.
const TOKEN_ROUNDS: u32 = 5;
/// The time limit for one field, including all attempts to renew the token. A read fetches four fields.
const FIELD_WITHIN: Duration = Duration::from_millis(6_500);
/// The maximum factor by which the time limits are raised. Each read that was too slow doubles them.
const MOST_PATIENCE: u32 = 8;

/// How to reach the service, from the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImdsOptions {
    pub endpoint: Option<String>,
    pub ipv6: bool,
    /// True if `AWS_EC2_METADATA_DISABLED` is `true`, ignoring case.
    pub disabled: bool,
    /// True if `AWS_EC2_METADATA_V1_DISABLED` is `true`, ignoring case: the client then sends no requests without a
    /// session token.
    pub v1_disabled: bool,
    /// `AWS_REGION`, which overrides the region that the metadata service reports.
    pub region: Option<String>,
    /// `CSI_NODE_NAME` is the name of a HyperPod node, whose metadata service describes an instance of another account.
    pub hyperpod: bool,
}

impl ImdsOptions {
    pub fn from_env() -> Self {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let text = |name| lookup(name).filter(|value| !value.is_empty());
        let flag = |name| lookup(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let mode = text("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
        Self {
            endpoint: text("AWS_EC2_METADATA_SERVICE_ENDPOINT"),
            ipv6: mode.is_some_and(|mode| mode.eq_ignore_ascii_case("ipv6")),
            disabled: flag("AWS_EC2_METADATA_DISABLED"),
            v1_disabled: flag("AWS_EC2_METADATA_V1_DISABLED"),
            region: text("AWS_REGION"),
            hyperpod: text("CSI_NODE_NAME").is_some_and(|name| name.starts_with(HYPERPOD_PREFIX)),
        }
    }
}

#[derive(Debug)]
pub struct Imds {
    endpoint: String,
    region: Option<String>,
    /// The client that holds the session token; replaced when the service no longer accepts the token.
    tokens: Mutex<Client>,
    plain: Option<PlainClient>,
    /// True while the service issues no tokens, so that the client sends requests without one.
    without_token: AtomicBool,
    patience: AtomicU32,
}

impl Imds {
    /// Creates a client from the environment. Sends no request yet.
    pub fn connect() -> Result<Self, MetadataError> {
        Self::with(ImdsOptions::from_env())
    }

    pub fn with(options: ImdsOptions) -> Result<Self, MetadataError> {
        if options.disabled {
            return Err(MetadataError::Disabled);
        }
        if options.hyperpod {
            return Err(MetadataError::HyperPod);
        }
        let usual = if options.ipv6 { IPV6_ENDPOINT } else { DEFAULT_ENDPOINT };
        let endpoint = options.endpoint.unwrap_or_else(|| usual.to_owned()).trim_end_matches('/').to_owned();
        let plain =
            PlainClient::new(&endpoint).ok_or_else(|| MetadataError::BadEndpoint { given: endpoint.clone() })?;
        Ok(Self {
            tokens: Mutex::new(client(&endpoint, 1)?),
            plain: (!options.v1_disabled).then_some(plain),
            without_token: AtomicBool::new(false),
            patience: AtomicU32::new(1),
            region: options.region,
            endpoint,
        })
    }

    /// Reads all metadata. Takes at most 26 s. If the service was too slow, the time limits of the next read double.
    pub async fn read(&self) -> Result<NodeMetadata, MetadataError> {
        let read = self.read_all().await;
        match &read {
            Ok(_) => self.set_patience(1).await,
            Err(error) if error.may_pass() => {
                self.set_patience((self.patience() * 2).min(MOST_PATIENCE)).await;
            }
            Err(_) => {}
        }
        read
    }

    fn patience(&self) -> u32 {
        self.patience.load(Ordering::Relaxed)
    }

    async fn set_patience(&self, patience: u32) {
        if self.patience.swap(patience, Ordering::Relaxed) != patience
            && let Ok(client) = client(&self.endpoint, patience)
        {
            *self.tokens.lock().await = client;
        }
    }

    async fn read_all(&self) -> Result<NodeMetadata, MetadataError> {
        let document = self.get("/latest/dynamic/instance-identity/document", Field::Document).await?;
        let identity = identity(&document)?;
        let mapping = self.get("/latest/meta-data/block-device-mapping", Field::BlockDevices).await?;
        Ok(NodeMetadata {
            node: NodeId::Instance(identity.instance),
            instance_type: identity.instance_type,
            region: self.region.clone().unwrap_or(identity.region),
            zone: identity.zone,
            outpost: self.outpost().await?,
            network_interfaces: self.refresh_interfaces().await?,
            block_devices: BlockDevices::AtBoot(ebs_entries(&mapping)),
        })
    }

    /// Reads the Outpost's ARN. An unknown format counts as missing, because the service may be newer than the driver.
    async fn outpost(&self) -> Result<Option<OutpostArn>, MetadataError> {
        let text = match self.get("/latest/meta-data/outpost-arn", Field::Outpost).await {
            Ok(text) => text,
            Err(MetadataError::Status { status: 404, .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let arn = OutpostArn::parse(text.trim());
        if let Err(error) = &arn {
            tracing::warn!(
                %error,
                "ignoring the invalid Outpost ARN from IMDS and assuming that the node is not on an Outpost"
            );
        }
        Ok(arn.ok())
    }

    /// Reads how many network interfaces are attached now. The service keeps no other item up to date.
    pub async fn refresh_interfaces(&self) -> Result<u32, MetadataError> {
        let listing = self.get("/latest/meta-data/network/interfaces/macs", Field::NetworkInterfaces).await?;
        Ok(mac_addresses(&listing))
    }

    async fn get(&self, path: &str, field: Field) -> Result<String, MetadataError> {
        let within = FIELD_WITHIN * self.patience();
        let answer = tokio::time::timeout(within, self.get_in_rounds(path, field)).await;
        answer.unwrap_or_else(|elapsed| Err(self.no_answer(field, elapsed)))
    }

    async fn get_in_rounds(&self, path: &str, field: Field) -> Result<String, MetadataError> {
        if let Some(plain) = self.plain.as_ref().filter(|_| self.without_token.load(Ordering::Relaxed)) {
            match self.get_plain(plain, path, field).await {
                // The service now requires tokens.
                Err(MetadataError::Status { status: 401, .. }) => self.without_token.store(false, Ordering::Relaxed),
                other => return other,
            }
        }
        let mut rounds = 1;
        loop {
            let error = match self.get_with_token(path).await {
                Ok(text) => return Ok(text),
                Err(ImdsError::FailedToLoadToken(error)) => ImdsError::FailedToLoadToken(error),
                Err(ImdsError::ErrorResponse(response)) => {
                    let status = response.response().status().as_u16();
                    return Err(MetadataError::Status { field, endpoint: self.endpoint.clone(), status });
                }
                Err(error) => return Err(self.no_answer(field, error)),
            };
            let verdict = token_verdict(&error);
            let Some(plain) = self.plain.as_ref().filter(|_| verdict != TokenVerdict::Final) else {
                return Err(self.no_answer(Field::Token, error));
            };
            tracing::debug!(?verdict, "no session token, reading IMDS without one");
            match self.get_plain(plain, path, field).await {
                // The service requires a token, so the token response was only late.
                Err(MetadataError::Status { status: 401, .. })
                    if verdict != TokenVerdict::NoTokensHere && rounds < TOKEN_ROUNDS =>
                {
                    rounds += 1;
                }
                // The service requires a token but returned none in any round: report the token error.
                Err(MetadataError::Status { status: 401, .. }) if verdict == TokenVerdict::NoAnswer => {
                    return Err(self.no_answer(Field::Token, error));
                }
                other => {
                    let does_without = other.is_ok() && verdict != TokenVerdict::Once;
                    self.without_token.store(does_without, Ordering::Relaxed);
                    return other;
                }
            }
        }
    }

    /// Sends one request. If the service rejects the token, for example after a restart, repeats the request with a new
    /// token.
    async fn get_with_token(&self, path: &str) -> Result<String, ImdsError> {
        let current = self.tokens.lock().await.clone();
        match current.get(path).await {
            Ok(text) => Ok(text.into()),
            Err(ImdsError::ErrorResponse(response)) if response.response().status().as_u16() == 401 => {
                let Ok(fresh) = client(&self.endpoint, self.patience()) else {
                    return Err(ImdsError::ErrorResponse(response));
                };
                *self.tokens.lock().await = fresh.clone();
                fresh.get(path).await.map(String::from)
            }
            Err(error) => Err(error),
        }
    }

    async fn get_plain(&self, plain: &PlainClient, path: &str, field: Field) -> Result<String, MetadataError> {
        let within = (ANSWER_WITHIN + CONNECT_WITHIN) * self.patience();
        match tokio::time::timeout(within, plain.get(path)).await {
            Ok(Ok((200, text))) => Ok(text),
            Ok(Ok((status, _))) => Err(MetadataError::Status { field, endpoint: self.endpoint.clone(), status }),
            Ok(Err(error)) => Err(self.no_answer(field, error)),
            Err(elapsed) => Err(self.no_answer(field, elapsed)),
        }
    }

    fn no_answer(&self, field: Field, error: impl Into<Box<dyn Error + Send + Sync>>) -> MetadataError {
        let source = error.into();
        let may_pass = may_pass(&*source);
        MetadataError::NoAnswer { field, endpoint: self.endpoint.clone(), may_pass, source: Some(source) }
    }
}

/// False if the operating system reports that the service is unreachable, or if the service rejected the request.
fn may_pass(error: &(dyn Error + 'static)) -> bool {
    use std::io::ErrorKind::{AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable};
    let nobody = [AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable];
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<std::io::Error>().is_some_and(|error| nobody.contains(&error.kind())) {
            return false;
        }
        if let Some(SdkError::ServiceError(refused)) = error.downcast_ref::<SdkError<TokenError, HttpResponse>>() {
            let status = refused.raw().status().as_u16();
            return status == 429 || status >= 500;
        }
        cause = error.source();
    }
    true
}

fn client(endpoint: &str, patience: u32) -> Result<Client, MetadataError> {
    let builder = Client::builder()
        .configure(&ProviderConfig::default().with_http_client(without_tls()))
        .endpoint(endpoint)
        .map_err(|_| MetadataError::BadEndpoint { given: endpoint.to_owned() })?
        .connect_timeout(CONNECT_WITHIN * patience)
        .read_timeout(ANSWER_WITHIN * patience)
        .operation_timeout(OPERATION_WITHIN * patience)
        .operation_attempt_timeout(OPERATION_WITHIN * patience)
        .max_attempts(ATTEMPTS)
        .token_ttl(TOKEN_TTL);
    Ok(builder.build())
}

/// Returns a client without root certificates or proxy: the service runs on this machine and speaks plain HTTP.
fn without_tls() -> SharedHttpClient {
    Builder::new().build_with_connector_fn(|settings, components| {
        let mut builder = Connector::builder().proxy_config(ProxyConfig::disabled());
        builder.set_connector_settings(settings.cloned());
        builder.set_sleep_impl(components.and_then(|components| components.sleep_impl()));
        builder.build_http()
    })
}

/// Whether to send requests without a token, depending on why the client got none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenVerdict {
    /// The service rejected the request itself, so a request without a token would fail too.
    Final,
    /// The service issues no tokens. The client stops requesting them as long as requests without a token succeed.
    NoTokensHere,
    /// No token response arrived, perhaps because of the hop limit, or because the service requires one but was slow.
    NoAnswer,
    Once,
}

fn token_verdict(error: &ImdsError) -> TokenVerdict {
    match error.source().and_then(|source| source.downcast_ref::<SdkError<TokenError, HttpResponse>>()) {
        Some(SdkError::ServiceError(refused)) => match refused.raw().status().as_u16() {
            400 => TokenVerdict::Final,
            403..=405 => TokenVerdict::NoTokensHere,
            _ => TokenVerdict::Once,
        },
        Some(SdkError::DispatchFailure(_) | SdkError::TimeoutError(_)) => TokenVerdict::NoAnswer,
        _ => TokenVerdict::Once,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_sets_the_endpoint_and_disables_imds() {
        let options = ImdsOptions::from_lookup(|name| {
            Some(match name {
                "AWS_EC2_METADATA_SERVICE_ENDPOINT" => "http://127.0.0.1:1/".to_owned(),
                "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE" => "IPv6".to_owned(),
                "AWS_EC2_METADATA_DISABLED" => "TRUE".to_owned(),
                "AWS_REGION" => "eu-north-1".to_owned(),
                _ => String::new(),
            })
        });
        assert_eq!(options.endpoint.as_deref(), Some("http://127.0.0.1:1/"));
        assert!(options.ipv6 && options.disabled && !options.v1_disabled);
        assert_eq!(options.region.as_deref(), Some("eu-north-1"));
        assert_eq!(ImdsOptions::from_lookup(|_| Some(String::new())), ImdsOptions::default());
        assert!(matches!(Imds::with(options), Err(MetadataError::Disabled)));
    }

    #[test]
    fn imds_is_not_used_when_disabled_or_on_hyperpod_nodes() {
        for (name, value, switched_off) in [
            ("AWS_EC2_METADATA_DISABLED", "true", true),
            ("AWS_EC2_METADATA_DISABLED", "True", true),
            ("AWS_EC2_METADATA_DISABLED", "1", false),
            ("AWS_EC2_METADATA_DISABLED", "", false),
            ("CSI_NODE_NAME", "hyperpod-i-0abc", true),
            ("CSI_NODE_NAME", "ip-10-0-0-1", false),
            ("CSI_NODE_NAME", "a-hyperpod-1", false),
        ] {
            let options = ImdsOptions::from_lookup(|asked| (asked == name).then(|| value.to_owned()));
            let refused = Imds::with(options).err();
            assert_eq!(refused.is_some(), switched_off, "{name}={value}: {refused:?}");
        }
    }

    #[test]
    fn endpoint_without_http_url_is_rejected() {
        for bad in ["127.0.0.1", "ftp://127.0.0.1", "http://", "not a url"] {
            let options = ImdsOptions { endpoint: Some(bad.to_owned()), ..ImdsOptions::default() };
            assert!(matches!(Imds::with(options), Err(MetadataError::BadEndpoint { .. })), "{bad:?} was accepted");
        }
    }
}

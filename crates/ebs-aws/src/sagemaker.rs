//! Calls of SageMaker, written by hand: JSON over the SDK's runtime, which signs them and keeps time limits.

use std::error::Error;

use aws_runtime::auth::SigV4OperationSigningConfig;
use aws_runtime::auth::sigv4::{SCHEME_ID, SigV4AuthScheme};
use aws_runtime::user_agent::{ApiMetadata, UserAgentInterceptor};
use aws_sdk_ec2::config::{BehaviorVersion, SharedHttpClient};
use aws_sdk_ec2::operation::RequestId;
use aws_smithy_runtime::client::orchestrator::operation::{Operation, OperationBuilder};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::auth::AuthSchemeOptionResolverParams;
use aws_smithy_runtime_api::client::auth::static_resolver::StaticAuthSchemeOptionResolver;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse, OrchestratorError};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;
use aws_smithy_runtime_api::client::runtime_plugin::StaticRuntimePlugin;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::Layer;
use aws_smithy_types::error::metadata::{ErrorMetadata, ProvideErrorMetadata};
use aws_types::SdkConfig;
use aws_types::SigningName;
use aws_types::region::{Region, SigningRegion};
use ebs_ec2::Action;
use serde::Deserialize;

use crate::call_monitor::CallMonitor;
use crate::user_agent::ExecutionEnvironment;
use crate::{endpoint, partition};

/// The API that is spoken.
const API_VERSION: &str = "2017-07-24";
const CONTENT_TYPE: &str = "application/x-amz-json-1.1";

/// Where SageMaker is and how it is spoken to.
pub(crate) struct SageMaker {
    shared: SdkConfig,
    http: SharedHttpClient,
    agent: ExecutionEnvironment,
    region: Region,
    /// Its URL, or why there is none.
    url: Result<String, &'static str>,
}

/// What SageMaker answers to both calls; the time and state in it are EC2's to tell.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    #[serde(rename = "VolumeId")]
    pub(crate) volume_id: Option<String>,
    #[serde(rename = "NodeId")]
    pub(crate) node_id: Option<String>,
    #[serde(rename = "DeviceName")]
    pub(crate) device_name: Option<String>,
    #[serde(skip)]
    request_id: Option<String>,
}

impl RequestId for Answer {
    fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }
}

/// An error answer, or one that cannot be read: then it has no code.
#[derive(Debug, thiserror::Error)]
#[error("{}", .meta.message().unwrap_or("no message"))]
pub(crate) struct SageMakerError {
    meta: ErrorMetadata,
    #[source]
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl ProvideErrorMetadata for SageMakerError {
    fn meta(&self) -> &ErrorMetadata {
        &self.meta
    }
}

impl SageMaker {
    /// An explicit endpoint wins over the SDK's variables and profile, those over AWS's own host names.
    pub(crate) fn new(
        shared: &SdkConfig,
        explicit: Option<String>,
        http: SharedHttpClient,
        agent: ExecutionEnvironment,
    ) -> Self {
        let region = shared.region().cloned().unwrap_or(Region::from_static(""));
        let (fips, dual_stack) = (shared.use_fips() == Some(true), shared.use_dual_stack() == Some(true));
        let url = match explicit.or_else(|| endpoint::configured(&endpoint::SAGEMAKER, shared)) {
            Some(url) => Ok(url),
            None => own_url(region.as_ref(), fips, dual_stack),
        };
        Self { shared: shared.clone(), http, agent, region, url }
    }

    pub(crate) fn region(&self) -> &str {
        self.region.as_ref()
    }

    /// One call, with the text of its body as input; sent once.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub(crate) fn operation(
        &self,
        monitor: &CallMonitor,
    ) -> Result<Operation<String, Answer, SageMakerError>, &'static str> {
        let url = self.url.as_deref().map_err(|reason| *reason)?;
        let action = monitor.action;
        let builder = Operation::builder()
            .service_name("SageMaker")
            .operation_name(action.as_str())
            .behavior_version(self.shared.behavior_version().unwrap_or_else(BehaviorVersion::latest))
            .http_client(self.http.clone())
            .endpoint_url(url)
            .no_retry()
            .interceptor(self.agent.clone())
            .interceptor(UserAgentInterceptor::new())
            .interceptor(monitor.clone())
            .runtime_plugin(self.signing())
            .serializer(move |body: String| request(action, body))
            .deserializer(answer);
        Ok(self.on_the_clock(builder).build())
    }

    fn on_the_clock<I, O, E>(&self, mut builder: OperationBuilder<I, O, E>) -> OperationBuilder<I, O, E> {
        if let Some(limits) = self.shared.timeout_config() {
            builder = builder.timeout_config(limits.clone());
        }
        if let Some(sleep) = self.shared.sleep_impl() {
            builder = builder.sleep_impl(sleep);
        }
        if let Some(time) = self.shared.time_source() {
            builder = builder.time_source(time);
        }
        builder
    }

    /// Who signs, and for what.
    fn signing(&self) -> StaticRuntimePlugin {
        let mut layer = Layer::new("SageMaker");
        layer.store_put(ApiMetadata::new("sagemaker", API_VERSION));
        layer.store_put(AuthSchemeOptionResolverParams::new(()));
        layer.store_put(SigV4OperationSigningConfig {
            region: Some(SigningRegion::from(self.region.clone())),
            name: Some(SigningName::from_static("sagemaker")),
            ..SigV4OperationSigningConfig::default()
        });
        let mut components = RuntimeComponentsBuilder::new("SageMaker");
        components.push_auth_scheme(SigV4AuthScheme::new());
        components.set_auth_scheme_option_resolver(Some(StaticAuthSchemeOptionResolver::new(vec![SCHEME_ID])));
        components.set_identity_cache(self.shared.identity_cache());
        if let Some(credentials) = self.shared.credentials_provider() {
            components.set_identity_resolver(SCHEME_ID, credentials);
        }
        StaticRuntimePlugin::new().with_config(layer.freeze()).with_runtime_components(components)
    }
}

/// The host that AWS itself gives SageMaker in a region.
fn own_url(region: &str, fips: bool, dual_stack: bool) -> Result<String, &'static str> {
    let partition = partition::of(region);
    let suffix = match dual_stack {
        false => partition.suffix,
        true => partition.dual_stack_suffix.ok_or("SageMaker has no dual-stack endpoint in this partition")?,
    };
    let service = match (fips, dual_stack, partition.name) {
        (false, ..) => "api.sagemaker",
        // Two partitions spell it so, and only without dual stack.
        (true, false, "aws" | "aws-us-gov") => "api-fips.sagemaker",
        (true, ..) => "api.sagemaker-fips",
    };
    Ok(format!("https://{service}.{region}.{suffix}"))
}

fn request(action: Action, body: String) -> Result<HttpRequest, BoxError> {
    let mut request = HttpRequest::new(SdkBody::from(body));
    request.set_method("POST")?;
    request.set_uri("/")?;
    request.headers_mut().insert("content-type", CONTENT_TYPE);
    request.headers_mut().insert("x-amz-target", format!("SageMaker.{action}"));
    Ok(request)
}

fn answer(response: &HttpResponse) -> Result<Answer, OrchestratorError<SageMakerError>> {
    let failed = |meta: ErrorMetadata, source| OrchestratorError::operation(SageMakerError { meta, source });
    let body = response.body().bytes().unwrap_or_default();
    if !response.status().is_success() {
        let (code, message) = code_and_message(response);
        let mut meta = ErrorMetadata::builder();
        if let Some(code) = code {
            meta = meta.code(code);
        }
        if let Some(message) = message {
            meta = meta.message(message);
        }
        return Err(failed(meta.build(), None));
    }
    let unreadable = |e: serde_json::Error| {
        failed(ErrorMetadata::builder().message("the answer is not the JSON that was expected").build(), Some(e.into()))
    };
    let answer: Answer = serde_json::from_slice(body).map_err(unreadable)?;
    Ok(Answer { request_id: response.headers().request_id().map(str::to_owned), ..answer })
}

/// Code and message of an error answer: the code is in a header or in the body, with a name space before it or a URL
/// behind it in some.
pub(crate) fn code_and_message(response: &HttpResponse) -> (Option<String>, Option<String>) {
    #[derive(Default, Deserialize)]
    struct Body {
        #[serde(rename = "__type", alias = "code")]
        code: Option<String>,
        #[serde(alias = "Message")]
        message: Option<String>,
    }
    let body: Body = serde_json::from_slice(response.body().bytes().unwrap_or_default()).unwrap_or_default();
    let header = response.headers().get("x-amzn-errortype").map(str::to_owned);
    let bare = |code: String| {
        let code = code.split_once(':').map_or(code.as_str(), |(code, _)| code);
        code.rsplit('#').next().unwrap_or(code).trim().to_owned()
    };
    (header.or(body.code).map(bare).filter(|code| !code.is_empty()), body.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SageMaker's own host follows partition, FIPS and dual stack.
    ///
    /// Rule: ebs-cloud.md 1, E14
    #[test]
    fn sagemakers_host_follows_partition_fips_and_dual_stack() {
        for (region, fips, dual, host) in [
            ("us-west-2", false, false, "api.sagemaker.us-west-2.amazonaws.com"),
            ("us-west-2", true, false, "api-fips.sagemaker.us-west-2.amazonaws.com"),
            ("us-west-2", false, true, "api.sagemaker.us-west-2.api.aws"),
            ("us-west-2", true, true, "api.sagemaker-fips.us-west-2.api.aws"),
            ("us-gov-west-1", true, false, "api-fips.sagemaker.us-gov-west-1.amazonaws.com"),
            ("cn-north-1", false, false, "api.sagemaker.cn-north-1.amazonaws.com.cn"),
            ("cn-north-1", true, false, "api.sagemaker-fips.cn-north-1.amazonaws.com.cn"),
            ("cn-north-1", false, true, "api.sagemaker.cn-north-1.api.amazonwebservices.com.cn"),
            ("us-iso-east-1", false, false, "api.sagemaker.us-iso-east-1.c2s.ic.gov"),
        ] {
            assert_eq!(own_url(region, fips, dual), Ok(format!("https://{host}")));
        }
        own_url("us-iso-east-1", false, true).unwrap_err();
    }

    #[test]
    fn the_code_of_an_error_is_found_wherever_it_stands() {
        let found = |header: Option<&'static str>, body: &'static str| {
            let mut response = HttpResponse::new(400.try_into().unwrap(), SdkBody::from(body));
            if let Some(header) = header {
                response.headers_mut().insert("x-amzn-errortype", header);
            }
            code_and_message(&response)
        };
        let wanted = (Some("ValidationException".to_owned()), Some("m".to_owned()));
        assert_eq!(found(None, r#"{"__type":"ValidationException","message":"m"}"#), wanted);
        assert_eq!(found(None, r#"{"__type":"com.amazon.coral#ValidationException","Message":"m"}"#), wanted);
        assert_eq!(found(Some("ValidationException:http://x/"), r#"{"message":"m"}"#), wanted);
        assert_eq!(found(None, r#"{"code":"ValidationException","message":"m","more":[1]}"#), wanted);
        assert_eq!(found(None, "<html>"), (None, None));
        assert_eq!(found(None, r#"{"__type":""}"#), (None, None));
    }
}

//! Calls a service over the SDK's runtime, which loads credentials, signs, sends, enforces timeouts and retries.

use std::time::Duration;

use aws_runtime::auth::SigV4OperationSigningConfig;
use aws_runtime::auth::sigv4::{SCHEME_ID, SigV4AuthScheme};
use aws_runtime::invocation_id::InvocationIdInterceptor;
use aws_runtime::recursion_detection::RecursionDetectionInterceptor;
use aws_runtime::request_info::RequestInfoInterceptor;
use aws_runtime::retries::classifiers::AwsErrorCodeClassifier;
use aws_runtime::service_clock_skew::{
    DisableClockSkewCorrection, ServiceClockSkewClassifier, ServiceClockSkewInterceptor,
};
use aws_runtime::user_agent::{ApiMetadata, UserAgentInterceptor};
use aws_smithy_runtime::client::orchestrator::operation::{Operation, OperationBuilder};
use aws_smithy_runtime::client::retries::classifiers::{HttpStatusCodeClassifier, TransientErrorClassifier};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::auth::AuthSchemeOptionResolverParams;
use aws_smithy_runtime_api::client::auth::static_resolver::StaticAuthSchemeOptionResolver;
use aws_smithy_runtime_api::client::behavior_version::BehaviorVersion;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse, OrchestratorError};
use aws_smithy_runtime_api::client::retries::classifiers::{ClassifyRetry, RetryAction, RetryClassifierPriority};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;
use aws_smithy_runtime_api::client::runtime_plugin::{SharedRuntimePlugin, StaticRuntimePlugin};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::Layer;
use aws_smithy_types::retry::RetryConfig;
use aws_types::region::{Region, SigningRegion};
use aws_types::{SdkConfig, SigningName};

use crate::call_monitor::CallMonitor;
use crate::classify::THROTTLES;
use crate::refused::{self, Refused};
use crate::user_agent::ExecutionEnvironment;

pub(crate) struct Names {
    /// The name in traces and metrics.
    pub(crate) service: &'static str,
    /// The name in signatures and in the user agent.
    pub(crate) signing: &'static str,
    pub(crate) api_version: &'static str,
}

/// The endpoint of a service. `client` has the state that an SDK client keeps between calls: the cached credentials,
/// and the skew between the service's clock and this machine's.
pub(crate) struct Service {
    names: Names,
    shared: SdkConfig,
    http: SharedHttpClient,
    region: Region,
    client: SharedRuntimePlugin,
    url: String,
}

impl Service {
    pub(crate) fn new(
        names: Names,
        shared: &SdkConfig,
        url: String,
        http: SharedHttpClient,
        agent: ExecutionEnvironment,
    ) -> Self {
        let region = shared.region().cloned().unwrap_or(Region::from_static(""));
        let client = SharedRuntimePlugin::new(client(&names, shared, &region, agent));
        Self { names, shared: shared.clone(), http, region, client, url }
    }

    pub(crate) fn region(&self) -> &str {
        self.region.as_ref()
    }

    /// Returns the operation for one call. Its monitor determines whether the runtime can retry the call.
    pub(crate) fn operation<I, O>(
        &self,
        monitor: &CallMonitor,
        serialize: impl Fn(I) -> Result<HttpRequest, BoxError> + Send + Sync + 'static,
        deserialize: impl Fn(&HttpResponse) -> Result<O, OrchestratorError<Refused>> + Send + Sync + 'static,
    ) -> Operation<I, O, Refused>
    where
        I: std::fmt::Debug + Send + Sync + 'static,
        O: std::fmt::Debug + Send + Sync + 'static,
    {
        let builder = Operation::builder()
            .service_name(self.names.service)
            .operation_name(monitor.action.as_str())
            .behavior_version(self.shared.behavior_version().unwrap_or_else(BehaviorVersion::latest))
            .http_client(self.http.clone())
            .endpoint_url(&self.url)
            .with_connection_poisoning()
            .interceptor(monitor.clone())
            .runtime_plugin(self.client.clone())
            .serializer(serialize)
            .deserializer(deserialize);
        let builder = if monitor.is_repeatable() { repeatable(builder) } else { builder.no_retry() };
        self.on_the_clock(builder).build()
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
}

/// Allows a few quick attempts after errors that the SDK treats as transient, but not after a throttle.
fn repeatable<I, O>(builder: OperationBuilder<I, O, Refused>) -> OperationBuilder<I, O, Refused> {
    builder
        .standard_retry(&of_describes())
        .retry_classifier(ThrottlesGoToTheCaller)
        .retry_classifier(TransientErrorClassifier::<Refused>::new())
        .retry_classifier(AwsErrorCodeClassifier::<Refused>::new())
        .retry_classifier(ServiceClockSkewClassifier::<Refused>::new())
        .retry_classifier(HttpStatusCodeClassifier::default())
}

/// Returns the parts that all calls of a service share: the signing configuration, and the state learned from replies.
fn client(names: &Names, shared: &SdkConfig, region: &Region, agent: ExecutionEnvironment) -> StaticRuntimePlugin {
    let mut layer = Layer::new(names.service);
    layer.store_put(ApiMetadata::new(names.signing, names.api_version));
    layer.store_put(AuthSchemeOptionResolverParams::new(()));
    layer.store_put(SigV4OperationSigningConfig {
        region: Some(SigningRegion::from(region.clone())),
        name: Some(SigningName::from_static(names.signing)),
        ..SigV4OperationSigningConfig::default()
    });
    if let Some(app) = shared.app_name() {
        layer.store_put(app.clone());
    }
    if let Some(disabled) = shared.disable_clock_skew_correction() {
        layer.store_put(DisableClockSkewCorrection::from(disabled));
    }
    let mut components = RuntimeComponentsBuilder::new(names.service);
    components.push_auth_scheme(SigV4AuthScheme::new());
    components.set_auth_scheme_option_resolver(Some(StaticAuthSchemeOptionResolver::new(vec![SCHEME_ID])));
    components.set_identity_cache(shared.identity_cache());
    if let Some(credentials) = shared.credentials_provider() {
        components.set_identity_resolver(SCHEME_ID, credentials);
    }
    // This interceptor remembers the clock skew: a mutating call is sent only once, so its time must be right.
    components.push_interceptor(ServiceClockSkewInterceptor::new());
    components.push_interceptor(agent);
    components.push_interceptor(RequestInfoInterceptor::new());
    components.push_interceptor(UserAgentInterceptor::new());
    components.push_interceptor(InvocationIdInterceptor::new());
    components.push_interceptor(RecursionDetectionInterceptor::new());
    StaticRuntimePlugin::new().with_config(layer.freeze()).with_runtime_components(components)
}

/// Returns a request to `/`, the only path that EC2 and SageMaker use.
pub(crate) fn post(content_type: &'static str, body: String) -> Result<HttpRequest, BoxError> {
    let mut request = HttpRequest::new(SdkBody::from(body));
    request.set_method("POST")?;
    request.set_uri("/")?;
    request.headers_mut().insert("content-type", content_type);
    Ok(request)
}

/// Returns the retry configuration of describes: three quick attempts after transient errors.
pub(crate) fn of_describes() -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(3)
        .with_initial_backoff(Duration::from_millis(100))
        .with_max_backoff(Duration::from_secs(1))
}

/// Keeps the runtime from retrying throttles: the caller manages the rate limit and must see each throttle.
#[derive(Debug)]
pub(crate) struct ThrottlesGoToTheCaller;

impl ClassifyRetry for ThrottlesGoToTheCaller {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let error = context.output_or_error().and_then(Result::err);
        match error.and_then(refused::code_of) {
            Some(code) if THROTTLES.contains(&code) => RetryAction::RetryForbidden,
            _ => RetryAction::NoActionIndicated,
        }
    }

    fn name(&self) -> &'static str {
        "ThrottlesGoToTheCaller"
    }

    fn priority(&self) -> RetryClassifierPriority {
        RetryClassifierPriority::run_before(RetryClassifierPriority::http_status_code_classifier())
    }
}

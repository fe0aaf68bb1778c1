//! One call: its span, its observer, its error.

use std::error::Error;
use std::sync::{Arc, OnceLock};

use aws_sdk_ec2::client::customize::CustomizableOperation;
use aws_sdk_ec2::config::interceptors::{
    AfterDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_ec2::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ec2::operation::RequestId;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use ebs_ec2::{Action, Ec2Error, Observation, Result};
use tokio::time::Instant;
use tracing::Instrument;

use crate::convert::Incomplete;
use crate::{AwsEc2, failure, retry};

/// Watches one call: whether a request was handed to the connection (what fails before that did nothing), and
/// whether what came back is an answer of EC2. The SDK does not look into the replies of calls that return nothing,
/// so that any page of a proxy with status 200 would pass for a deletion.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    action: Action,
    dry_run: bool,
    /// The endpoint that a request was handed to; empty until then.
    endpoint: Arc<OnceLock<String>>,
}

#[dyn_dispatch_hint]
impl Intercept for Sent {
    fn name(&self) -> &'static str {
        "Sent"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _cfg: &mut ConfigBag,
    ) -> std::result::Result<(), BoxError> {
        self.endpoint.get_or_init(|| context.request().uri().trim_end_matches('/').to_owned());
        Ok(())
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _cfg: &mut ConfigBag,
    ) -> std::result::Result<(), BoxError> {
        if context.output_or_error().is_err() {
            return Ok(());
        }
        let body = String::from_utf8_lossy(context.response().body().bytes().unwrap_or_default());
        let root = format!("<{}Response", self.action);
        if body.contains(&root) { Ok(()) } else { Err(format!("the reply lacks {root}>").into()) }
    }
}

impl Sent {
    /// For one call of this action.
    pub(crate) fn of(action: Action) -> Self {
        Self { action, dry_run: false, endpoint: Arc::default() }
    }

    /// The call only asks whether it would work.
    pub(crate) fn as_dry_run(self, dry_run: bool) -> Self {
        Self { dry_run, ..self }
    }

    /// Attaches this to an operation that changes something: one attempt, never more.
    pub(crate) fn once<T, E, B>(&self, operation: CustomizableOperation<T, E, B>) -> CustomizableOperation<T, E, B> {
        operation.interceptor(self.clone())
    }

    /// Attaches this to a describe, which may be repeated on transient errors.
    pub(crate) fn repeatable<T, E, B>(
        &self,
        operation: CustomizableOperation<T, E, B>,
    ) -> CustomizableOperation<T, E, B> {
        operation.config_override(retry::of_describes()).interceptor(self.clone())
    }
}

impl AwsEc2 {
    /// Sends one call, reads its reply and reports it.
    pub(crate) async fn call<T, U, E>(
        &self,
        sent: Sent,
        send: impl Future<Output = std::result::Result<T, SdkError<E, HttpResponse>>> + Send,
        read: impl FnOnce(T) -> std::result::Result<U, Incomplete> + Send,
    ) -> Result<U>
    where
        T: RequestId + Send,
        U: Send,
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        let (action, dry_run) = (sent.action, sent.dry_run);
        let answer = async {
            match Box::pin(send).await {
                Ok(output) => {
                    let id = output.request_id().map(str::to_owned);
                    read(output).map_err(|e| failure::incomplete(action, &e.to_string(), id.as_deref()))
                }
                Err(error) => Err(failure::translate(action, error, sent.endpoint.get().map(String::as_str))),
            }
        };
        self.observed(action, dry_run, answer).await
    }

    /// Runs one call in its span and reports it, once.
    pub(crate) async fn observed<U>(
        &self,
        action: Action,
        dry_run: bool,
        answer: impl Future<Output = Result<U>> + Send,
    ) -> Result<U> {
        let span = tracing::debug_span!("ec2", action = action.as_str());
        async {
            let start = Instant::now();
            let answer = answer.await;
            let took = start.elapsed();
            let error = answer.as_ref().err();
            self.observer.observe(&Observation { action, took, dry_run, error });
            log(took, error);
            answer
        }
        .instrument(span)
        .await
    }
}

fn log(took: std::time::Duration, error: Option<&Ec2Error>) {
    match error {
        None => tracing::debug!(?took, "done"),
        Some(error) => tracing::debug!(?took, class = ?error.class, code = error.code, id = error.request_id, "failed"),
    }
}

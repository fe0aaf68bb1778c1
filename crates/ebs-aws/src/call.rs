//! Makes one call, with its span, its report to the observer and its error.

use std::error::Error;
use std::time::Duration;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use aws_types::request_id::RequestId;
use ebs_ec2::{Action, Ec2Error, Observation, Result};
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use crate::call_monitor::CallMonitor;
use crate::classify::THROTTLES;
use crate::reply::Incomplete;
use crate::{AwsEc2, failure};

impl AwsEc2 {
    pub(crate) async fn call<T, U, E>(
        &self,
        monitor: CallMonitor,
        send: impl Future<Output = std::result::Result<T, SdkError<E, HttpResponse>>> + Send,
        read: impl FnOnce(T) -> std::result::Result<U, Incomplete> + Send,
    ) -> Result<U>
    where
        T: RequestId + Send,
        U: Send,
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        let (action, dry_run) = (monitor.action, monitor.dry_run);
        let answer = async {
            let sent = Box::pin(send).await;
            Span::current().record("aws.attempts", monitor.attempts());
            match sent {
                Ok(output) => {
                    let id = output.request_id().map(str::to_owned);
                    Span::current().record("aws.request_id", id.as_deref());
                    read(output).map_err(|e| failure::incomplete(action, &e.to_string(), id.as_deref()))
                }
                Err(error) => Err(failure::translate(action, error, monitor.endpoint())),
            }
        };
        async {
            let start = Instant::now();
            let answer = answer.await;
            let took = start.elapsed();
            let error = answer.as_ref().err();
            self.observer.observe(&Observation { action, took, dry_run, error });
            log(took, dry_run, error);
            answer
        }
        .instrument(span(action))
        .await
    }
}

/// Creates the span of one call. Fields with OpenTelemetry's dotted names appear only in traces, never in log lines.
fn span(action: Action) -> Span {
    let service = match action {
        Action::AttachClusterNodeVolume | Action::DetachClusterNodeVolume => "SageMaker",
        Action::GetCallerIdentity => "STS",
        _ => "EC2",
    };
    tracing::info_span!(
        "ec2",
        action = action.as_str(),
        otel.kind = "client",
        otel.name = format_args!("{service}.{action}"),
        rpc.system = "aws-api",
        rpc.service = service,
        rpc.method = action.as_str(),
        aws.attempts = Empty,
        aws.request_id = Empty,
        "error.type" = Empty,
        otel.status_description = Empty,
    )
}

/// Logs EC2's errors at verbosity 3, throttles at 4, and missing answers always.
fn log(took: Duration, dry_run: bool, error: Option<&Ec2Error>) {
    let Some(error) = error else { return tracing::debug!(?took, "done") };
    let (class, code, id) = (error.class, error.code.as_deref(), error.request_id.as_deref());
    let span = Span::current();
    span.record("aws.request_id", id);
    // A successful dry run also ends with an error.
    if dry_run && code == Some("DryRunOperation") {
        return tracing::debug!(?took, "done");
    }
    // A trace contains only the kind of the error. The error that the request returns has AWS's message.
    let kind = code.map_or_else(|| format!("{class:?}"), str::to_owned);
    span.record("error.type", kind.as_str()).record("otel.status_description", kind.as_str());
    match code {
        Some(throttle) if THROTTLES.contains(&throttle) => {
            tracing::debug!(?took, ?class, code, id, "call throttled by EC2");
        }
        Some(_) => tracing::info!(name: "v3", ?took, ?class, code, id, "failed"),
        None => tracing::warn!(?took, ?class, id, error = error.message, "no readable reply from EC2"),
    }
}

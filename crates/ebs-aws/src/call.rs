//! One call: its span, its observer, its error.

use std::error::Error;

use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ec2::operation::RequestId;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use ebs_ec2::{Action, Ec2Error, Observation, Result};
use tokio::time::Instant;
use tracing::Instrument;

use crate::call_monitor::CallMonitor;
use crate::convert::Incomplete;
use crate::{AwsEc2, failure};

impl AwsEc2 {
    /// Sends one call, reads its reply and reports it.
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
            match Box::pin(send).await {
                Ok(output) => {
                    let id = output.request_id().map(str::to_owned);
                    read(output).map_err(|e| failure::incomplete(action, &e.to_string(), id.as_deref()))
                }
                Err(error) => Err(failure::translate(action, error, monitor.endpoint())),
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

//! Which failed describes the SDK's runtime may repeat by itself.

use std::time::Duration;

use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use aws_smithy_runtime_api::client::retries::classifiers::{ClassifyRetry, RetryAction, RetryClassifierPriority};
use aws_smithy_types::retry::RetryConfig;

use crate::classify::THROTTLES;
use crate::reply;

/// Describes: three quick attempts on transient errors.
pub(crate) fn of_describes() -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(3)
        .with_initial_backoff(Duration::from_millis(100))
        .with_max_backoff(Duration::from_secs(1))
}

/// A throttle is never repeated down here: the caller keeps the budget and must learn of it (`decisions.md` D-22).
#[derive(Debug)]
pub(crate) struct ThrottlesGoToTheCaller;

impl ClassifyRetry for ThrottlesGoToTheCaller {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let Some(response) = context.response().filter(|response| !response.status().is_success()) else {
            return RetryAction::NoActionIndicated;
        };
        match reply::code_and_message(response.body().bytes().unwrap_or_default()).ok().and_then(|(code, _)| code) {
            Some(code) if THROTTLES.contains(&code.as_str()) => RetryAction::RetryForbidden,
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

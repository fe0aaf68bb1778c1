//! Decides which failed describes the SDK's runtime repeats.

use std::time::Duration;

use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use aws_smithy_runtime_api::client::retries::classifiers::{ClassifyRetry, RetryAction, RetryClassifierPriority};
use aws_smithy_types::retry::RetryConfig;

use crate::classify::THROTTLES;
use crate::refused;

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

//! Which failed describes the SDK may repeat by itself.

use std::time::Duration;

use aws_sdk_ec2::config;
use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use aws_smithy_runtime_api::client::retries::classifiers::{ClassifyRetry, RetryAction, RetryClassifierPriority};
use aws_smithy_types::retry::RetryConfig;

use crate::call_monitor::code_in_xml;
use crate::classify::THROTTLES;

/// The configuration of a describe: three quick attempts on transient errors.
pub(crate) fn of_describes() -> config::Builder {
    config::Config::builder()
        .retry_config(
            RetryConfig::standard()
                .with_max_attempts(3)
                .with_initial_backoff(Duration::from_millis(100))
                .with_max_backoff(Duration::from_secs(1)),
        )
        .retry_classifier(ThrottlesGoToTheCaller)
}

/// A throttle is never repeated down here: the caller keeps the budget and must learn of it (`decisions.md` D-22).
#[derive(Debug)]
struct ThrottlesGoToTheCaller;

impl ClassifyRetry for ThrottlesGoToTheCaller {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let body = context.response().and_then(|response| response.body().bytes()).unwrap_or_default();
        let code = code_in_xml(body);
        match code {
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

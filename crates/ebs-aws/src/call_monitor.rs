//! Monitors one call while the SDK's runtime executes it.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::{
    AfterDeserializationInterceptorContextRef, BeforeDeserializationInterceptorContextMut,
    BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef,
};
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::ConfigBag;
use aws_smithy_types::date_time::{DateTime, Format};
use ebs_ec2::{Action, Attempt, AttemptOutcome, Observer};
use http_body_util::Limited;
use tokio::time::Instant;

use crate::classify::THROTTLES;
use crate::{AwsEc2, refused, reply};

/// The largest accepted reply in bytes. EC2's largest page (1,000 volumes with 50 tags each) is less than half of it.
pub(crate) const MAX_REPLY: usize = 32 << 20;

/// The `content-length` of a reply that is larger than [`MAX_REPLY`].
#[derive(Debug, thiserror::Error)]
#[error("the reply has {0} bytes")]
pub(crate) struct TooLarge(u64);

/// Monitors one call. It records whether the SDK handed a request to the connection (a call that fails earlier did
/// nothing), whether the reply is complete and not too large, and the outcome of each attempt.
#[derive(Clone)]
pub(crate) struct CallMonitor {
    pub(crate) action: Action,
    pub(crate) dry_run: bool,
    log_bodies: bool,
    observer: Arc<dyn Observer>,
    /// The endpoint of the first request that the SDK handed to the connection.
    endpoint: Arc<OnceLock<String>>,
    /// When the SDK handed the current attempt to the connection.
    started: Arc<Mutex<Option<Instant>>>,
    attempts: Arc<AtomicU32>,
    date: Arc<Mutex<Option<SystemTime>>>,
}

impl fmt::Debug for CallMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallMonitor")
            .field("action", &self.action)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

#[dyn_dispatch_hint]
impl Intercept for CallMonitor {
    fn name(&self) -> &'static str {
        "CallMonitor"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.endpoint.get_or_init(|| context.request().uri().trim_end_matches('/').to_owned());
        *self.started.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.attempts.fetch_add(1, Ordering::Relaxed);
        if self.log_bodies {
            let body = String::from_utf8_lossy(context.request().body().bytes().unwrap_or_default());
            tracing::info!(action = self.action.as_str(), %body, "request to AWS");
        }
        Ok(())
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _components: &RuntimeComponents,
        _cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let response = context.response_mut();
        *self.date.lock().unwrap_or_else(PoisonError::into_inner) =
            response.headers().get("date").and_then(time_of_day);
        let length = response.headers().get("content-length").and_then(|n| n.parse::<u64>().ok());
        if let Some(length) = length.filter(|n| usize::try_from(*n).map_or(true, |n| n > MAX_REPLY)) {
            *response.body_mut() = SdkBody::taken();
            return Err(TooLarge(length).into());
        }
        let body = std::mem::replace(response.body_mut(), SdkBody::taken());
        *response.body_mut() = SdkBody::from_body_1_x(Limited::new(body, MAX_REPLY));
        Ok(())
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        // The SDK's STS client accepts incomplete replies, so check them here. `reply` checks the replies of EC2.
        if context.output_or_error().is_ok() && self.action == Action::GetCallerIdentity {
            reply::read(context.response().body().bytes().unwrap_or_default(), self.action, |_| ())?;
        }
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(started) = self.started.lock().unwrap_or_else(PoisonError::into_inner).take() else { return Ok(()) };
        if let Some(response) = context.response().filter(|_| self.log_bodies) {
            let body = String::from_utf8_lossy(response.body().bytes().unwrap_or_default());
            tracing::info!(action = self.action.as_str(), status = response.status().as_u16(), %body, "reply from AWS");
        }
        let outcome = match context.output_or_error() {
            Some(Ok(_)) => AttemptOutcome::Succeeded,
            Some(Err(error)) => match refused::code_of(error) {
                Some(code) if THROTTLES.contains(&code) => AttemptOutcome::Throttled,
                Some(code) => AttemptOutcome::Refused(code),
                None => AttemptOutcome::Unanswered,
            },
            None => AttemptOutcome::Unanswered,
        };
        let (action, dry_run, took) = (self.action, self.dry_run, started.elapsed());
        self.observer.attempted(&Attempt { action, dry_run, took, outcome });
        Ok(())
    }
}

impl CallMonitor {
    /// Returns true if the runtime can repeat the call after a transient error: it only reads and is not a dry run.
    pub(crate) fn is_repeatable(&self) -> bool {
        !self.action.mutates() && !self.dry_run
    }

    /// Returns the `Date` of the last reply, which is the time by AWS's clock, if that reply had one.
    pub(crate) fn date(&self) -> Option<SystemTime> {
        *self.date.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn attempts(&self) -> u32 {
        self.attempts.load(Ordering::Relaxed)
    }

    pub(crate) fn endpoint(&self) -> Option<&str> {
        self.endpoint.get().map(String::as_str)
    }
}

fn time_of_day(header: &str) -> Option<SystemTime> {
    SystemTime::try_from(DateTime::from_str(header, Format::HttpDate).ok()?).ok()
}

impl AwsEc2 {
    pub(crate) fn monitor(&self, action: Action) -> CallMonitor {
        CallMonitor {
            action,
            dry_run: false,
            // STS's reply identifies the caller, so its body is never logged.
            log_bodies: self.log_bodies && action != Action::GetCallerIdentity,
            observer: Arc::clone(&self.observer),
            endpoint: Arc::default(),
            started: Arc::default(),
            attempts: Arc::default(),
            date: Arc::default(),
        }
    }
}

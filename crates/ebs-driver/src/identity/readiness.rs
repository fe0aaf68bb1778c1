//! Whether the driver has ever been able to work (`decisions.md` D-18).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ebs_cloud::CloudError;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::status::chain;

/// After a failed check this long passes until the next one: sidecars ask every second, several at once.
const PAUSE: Duration = Duration::from_secs(1);
/// A check that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(10);

/// Finds out whether the driver's back end can be used.
pub trait HealthCheck: Send + Sync + 'static {
    /// False while the driver does not know its back end yet: a check would say nothing, and the driver is not ready.
    fn is_known(&self) -> bool {
        true
    }

    /// One check.
    fn check(&self) -> impl Future<Output = Result<(), CloudError>> + Send;
}

/// Needs no back end: the node service.
#[derive(Debug, Clone, Copy)]
pub struct AlwaysHealthy;

impl HealthCheck for AlwaysHealthy {
    async fn check(&self) -> Result<(), CloudError> {
        Ok(())
    }
}

impl<E: ebs_cloud::Ec2> HealthCheck for Arc<ebs_cloud::Cloud<E>> {
    async fn check(&self) -> Result<(), CloudError> {
        self.check_access().await
    }
}

/// False until the first successful check, true from then on: a restart would not help against a later outage.
///
/// No task of its own: a check runs when somebody asks, and one at a time. Clones share the answer.
pub struct Readiness<H> {
    check: Arc<H>,
    ready: Arc<AtomicBool>,
    last_failure: Arc<Mutex<Option<Instant>>>,
}

impl<H> Clone for Readiness<H> {
    fn clone(&self) -> Self {
        Self {
            check: Arc::clone(&self.check),
            ready: Arc::clone(&self.ready),
            last_failure: Arc::clone(&self.last_failure),
        }
    }
}

impl<H> fmt::Debug for Readiness<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readiness").field("ready", &self.is_ready()).finish_non_exhaustive()
    }
}

impl<H> Readiness<H> {
    /// What is known now, without asking.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }
}

impl<H: HealthCheck> Readiness<H> {
    /// Not known yet.
    pub fn new(check: H) -> Self {
        Self { check: Arc::new(check), ready: Arc::default(), last_failure: Arc::default() }
    }

    /// What is known, or else what a check says.
    pub async fn ask(&self) -> bool {
        if self.is_ready() || !self.check.is_known() {
            return self.is_ready();
        }
        let mut last_failure = self.last_failure.lock().await;
        if self.is_ready() || last_failure.is_some_and(|at| at.elapsed() < PAUSE) {
            return self.is_ready();
        }
        match tokio::time::timeout(LIMIT, self.check.check()).await {
            Ok(Ok(())) => {
                tracing::info!("the first health check has succeeded: ready");
                self.ready.store(true, Ordering::Release);
            }
            Ok(Err(error)) => {
                tracing::warn!(error = chain(&error), "not ready: the health check failed");
                *last_failure = Some(Instant::now());
            }
            Err(_elapsed) => {
                tracing::warn!("not ready: the health check had no answer within {LIMIT:?}");
                *last_failure = Some(Instant::now());
            }
        }
        self.is_ready()
    }
}

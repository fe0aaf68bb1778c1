//! Keeps `/readyz`, the metrics and the log up to date with the health of EC2. Probe does not depend on EC2's health.
//!
//! Decision: `docs/dev/decisions/0024-keep-probe-independent-of-ec2.md`.

use std::sync::Arc;
use std::time::Duration;

use ebs_cloud::{Cloud, CloudError, CloudErrorKind, Ec2};
use ebs_driver::status::chain;
use ebs_telemetry::{HealthFailure, Pages};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

/// Interval of the health check (an EC2 dry run) while EC2 is healthy.
const CALM: Duration = Duration::from_secs(300);
/// Interval while EC2 is unhealthy, and the minimum interval between checks that failed calls trigger.
const TROUBLE: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) trait HealthCheck: Send + Sync + 'static {
    fn check(&self) -> impl Future<Output = Result<(), CloudError>> + Send;
}

impl<E: Ec2> HealthCheck for Arc<Cloud<E>> {
    async fn check(&self) -> Result<(), CloudError> {
        self.check_access().await
    }
}

/// Checks EC2 at once and then periodically until dropped, and publishes the results on `pages`. A notification of
/// `in_doubt` triggers an early check, but no sooner than 10 s after the previous one.
pub(crate) async fn watch(check: impl HealthCheck, pages: Pages, in_doubt: Arc<Notify>) {
    pages.readiness.set_not_ready("EC2 has not answered the first health check yet");
    let mut before = None;
    loop {
        let asked = Instant::now();
        let answer = match timeout(PATIENCE, check.check()).await {
            Ok(answer) => answer.map_err(|error| (failure(&error.kind), chain(&error))),
            Err(_elapsed) => Err((
                HealthFailure::DeadlineExceeded,
                format!("EC2 could not be reached, or did not respond, within {PATIENCE:?}"),
            )),
        };
        let now = publish(&pages, answer, before);
        let due = asked + if now.is_ok() { CALM } else { TROUBLE };
        before = Some(now);
        tokio::select! {
            () = sleep_until(due) => {}
            () = in_doubt.notified() => sleep_until(asked + TROUBLE).await,
        }
    }
}

type Outcome = Result<(), HealthFailure>;

/// Publishes a result. Logs it if it differs from the previous one, `before`.
fn publish(pages: &Pages, answer: Result<(), (HealthFailure, String)>, before: Option<Outcome>) -> Outcome {
    let now = answer.as_ref().copied().map_err(|(failure, _)| *failure);
    pages.metrics.note_health_check(now);
    match now {
        Ok(()) => pages.readiness.set_ready(),
        Err(failure) => pages.readiness.set_not_ready(reason(failure)),
    }
    if before == Some(now) {
        return now;
    }
    match answer {
        Ok(()) if before.is_none() => tracing::info!("first health check of EC2 succeeded"),
        Ok(()) => tracing::info!("health check of EC2 succeeded again"),
        Err((_, error)) => {
            tracing::error!(error, "health check of EC2 failed: volumes cannot be changed until it succeeds")
        }
    }
    now
}

/// Returns the reason that `/readyz` shows to any client.
fn reason(failure: HealthFailure) -> &'static str {
    match failure {
        HealthFailure::Unavailable => "EC2 or the source of AWS credentials is unavailable; see the log",
        HealthFailure::DeadlineExceeded => "EC2 does not respond; see the log",
        HealthFailure::Unauthenticated => "EC2 rejects the credentials; see the log",
        HealthFailure::PermissionDenied => "EC2 denies the driver a permission; see the log",
        HealthFailure::Internal => "EC2 returns an error; see the log",
    }
}

fn failure(kind: &CloudErrorKind) -> HealthFailure {
    match kind {
        CloudErrorKind::Unauthenticated => HealthFailure::Unauthenticated,
        CloudErrorKind::Unauthorized => HealthFailure::PermissionDenied,
        CloudErrorKind::Unavailable => HealthFailure::Unavailable,
        _ => HealthFailure::Internal,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use ebs_telemetry::{Metrics, MetricsConfig};
    use tokio::task::JoinSet;
    use tokio::time::sleep;

    use super::*;

    /// A simulated EC2: it responds while the flag is set. Otherwise it rejects calls with the text, or hangs if there
    /// is no text.
    struct Switch(Arc<AtomicBool>, Option<&'static str>);

    impl HealthCheck for Switch {
        async fn check(&self) -> Result<(), CloudError> {
            match self.1 {
                _ if self.0.load(Ordering::SeqCst) => Ok(()),
                Some(words) => Err(CloudErrorKind::Unauthorized.error(words)),
                None => std::future::pending().await,
            }
        }
    }

    /// A running health watch of a fake EC2 that the test can switch on and off.
    struct Watched {
        works: Arc<AtomicBool>,
        pages: Pages,
        in_doubt: Arc<Notify>,
        _task: JoinSet<()>,
    }

    impl Watched {
        fn over(works: bool) -> Self {
            Self::refusing(works, None)
        }

        fn refusing(works: bool, words: Option<&'static str>) -> Self {
            let works = Arc::new(AtomicBool::new(works));
            let pages = Pages {
                readiness: ebs_telemetry::Readiness::starting("starting"),
                metrics: Arc::new(Metrics::new(MetricsConfig { checks_health: true, ..MetricsConfig::default() })),
            };
            let in_doubt = Arc::new(Notify::new());
            let mut task = JoinSet::new();
            let check = Switch(Arc::clone(&works), words);
            task.spawn(watch(check, pages.clone(), Arc::clone(&in_doubt)));
            Self { works, pages, in_doubt, _task: task }
        }

        /// Waits until both `/readyz` and the metric report the given health.
        async fn until(&self, well: bool) {
            let line = format!("aws_ebs_csi_ec2_health_check_success {}\n", u8::from(well));
            let level = async {
                while self.pages.readiness.get().is_ok() != well || !self.pages.metrics.page().contains(&line) {
                    sleep(Duration::from_secs(1)).await;
                }
            };
            timeout(CALM * 3, level).await.expect("readyz and metric must follow EC2");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn readyz_and_metric_follow_health_of_ec2() {
        let watched = Watched::over(false);
        watched.until(false).await;
        watched.works.store(true, Ordering::SeqCst);
        watched.until(true).await;
        watched.works.store(false, Ordering::SeqCst);
        watched.until(false).await;
        watched.works.store(true, Ordering::SeqCst);
        watched.until(true).await;
    }

    /// A failed call triggers a check if EC2 is unreachable or rejects the driver. The driver checks EC2 at most once
    /// every 10 s, however many calls fail.
    #[tokio::test(start_paused = true)]
    async fn failed_calls_trigger_at_most_one_ec2_check_every_10_s() {
        let watched = Watched::over(true);
        watched.until(true).await;
        watched.works.store(false, Ordering::SeqCst);
        let began = Instant::now();
        watched.in_doubt.notify_one();
        watched.until(false).await;
        assert!(began.elapsed() <= TROUBLE + PATIENCE + Duration::from_secs(2), "{:?}", began.elapsed());
        let failed = || {
            let page = watched.pages.metrics.page();
            let line = page.lines().find(|line| line.starts_with("aws_ebs_csi_ec2_health_check_failures_total"));
            let count = line.and_then(|line| line.rsplit(' ').next()?.parse::<u32>().ok());
            count.unwrap_or(0)
        };
        let before = failed();
        for _ in 0..100 {
            watched.in_doubt.notify_one();
            sleep(Duration::from_secs(1)).await;
        }
        assert!((1..=10).contains(&(failed() - before)), "{} checks in 100 s", failed() - before);
    }

    /// Any client in the cluster can read `/readyz`. The page names the kind of failure, but contains no part of EC2's
    /// message, which describes the account.
    #[tokio::test(start_paused = true)]
    async fn readyz_reveals_nothing_about_the_account() {
        let words = "User: arn:aws:sts::123456789012:assumed-role/Driver/17 is not authorized to perform: \
                     ec2:DescribeAvailabilityZones. Encoded authorization failure message: Zk3yAA (request id 0f1e2d3c)";
        let watched = Watched::refusing(true, Some(words));
        watched.until(true).await;
        watched.works.store(false, Ordering::SeqCst);
        watched.until(false).await;
        let reason = watched.pages.readiness.get().expect_err("not ready");
        for secret in ["arn:", "123456789012", "assumed-role", "Zk3yAA", "request id", "0f1e2d3c", "User"] {
            assert!(!reason.contains(secret), "{secret} in {reason}");
        }
        assert!(reason.contains("denies") && reason.contains("log"), "{reason}");
    }
}

//! Keeps `/readyz` and the log up to date with what EC2 says; never restarts anything (`decisions.md` D-18).

use std::time::Duration;

use ebs_cloud::CloudError;
use ebs_driver::identity::{HealthCheck, Readiness};
use ebs_driver::status::chain;

/// How often EC2 is asked while all is well. The call is a dry run.
const CALM: Duration = Duration::from_secs(300);
/// How often while it is not.
const TROUBLE: Duration = Duration::from_secs(10);
/// When no answer is a bad answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks until dropped, and shows the answer in `shown`. Probe's own readiness (`probe`) is asked first, so that the
/// two agree: Probe says ready once and for all, `shown` follows every change.
pub(crate) async fn watch<H, P>(check: H, probe: Readiness<P>, shown: ebs_telemetry::Readiness)
where
    H: HealthCheck,
    P: HealthCheck,
{
    while !probe.ask().await {
        shown.set_not_ready("EC2 has not answered a health check yet; the log says why");
        tokio::time::sleep(TROUBLE).await;
    }
    shown.set_ready();
    let mut well = true;
    loop {
        tokio::time::sleep(if well { CALM } else { TROUBLE }).await;
        let now = tokio::time::timeout(PATIENCE, check.check()).await;
        well = show(now.map_err(|_elapsed| ()), well, &shown);
    }
}

fn show(now: Result<Result<(), CloudError>, ()>, was_well: bool, shown: &ebs_telemetry::Readiness) -> bool {
    let reason = match now {
        Ok(Ok(())) => {
            if !was_well {
                tracing::info!("EC2 answers again");
            }
            shown.set_ready();
            return true;
        }
        Ok(Err(error)) => chain(&error),
        Err(()) => format!("EC2 did not answer within {PATIENCE:?}"),
    };
    if was_well {
        tracing::error!(error = reason, "the health check of EC2 failed: volumes cannot be changed until it succeeds");
    }
    shown.set_not_ready(reason);
    false
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::task::JoinSet;

    use super::*;

    struct Switch(Arc<AtomicBool>);

    impl HealthCheck for Switch {
        async fn check(&self) -> Result<(), CloudError> {
            if self.0.load(Ordering::SeqCst) { Ok(()) } else { std::future::pending().await }
        }
    }

    async fn until(shown: &ebs_telemetry::Readiness, well: bool) {
        let level = async {
            while shown.get().is_ok() != well {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::time::timeout(CALM * 3, level).await.expect("readyz must follow EC2");
    }

    /// `/readyz` follows what EC2 says, both ways, while Probe stays ready once it was.
    ///
    /// Rule: D-18; ebs-cloud.md 11
    #[tokio::test(start_paused = true)]
    async fn readyz_follows_ec2_both_ways_while_probe_stays_ready() {
        let works = Arc::new(AtomicBool::new(false));
        let probe = Readiness::new(Switch(Arc::clone(&works)));
        let shown = ebs_telemetry::Readiness::starting("starting");
        let mut tasks = JoinSet::new();
        tasks.spawn(watch(Switch(Arc::clone(&works)), probe.clone(), shown.clone()));
        until(&shown, false).await;
        assert!(!probe.is_ready());
        works.store(true, Ordering::SeqCst);
        until(&shown, true).await;
        works.store(false, Ordering::SeqCst);
        until(&shown, false).await;
        assert!(probe.is_ready());
        works.store(true, Ordering::SeqCst);
        until(&shown, true).await;
    }
}

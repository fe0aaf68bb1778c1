//! Checks, before a change, whether a caller still waits for an operation.

use std::time::Duration;

use ebs_ec2::Waiters;

use super::error::Cause;
use crate::timeouts::{NEXT_NODE_CALL, WORK_WORTH_KEEPING};

/// Returns an error when no caller waits for the change.
pub(super) fn ensure_wanted(waiters: &Waiters, before: &'static str) -> Result<(), Cause> {
    if waiters.any() { Ok(()) } else { Err(Cause::Abandoned { before }) }
}

/// Returns an error when no caller waits for the change. After long work, such as proving that a slow disk is blank,
/// first waits for the orchestrator's next call, so that the work is not lost. A superseding operation ends this wait.
pub(super) async fn ensure_wanted_after(waiters: &Waiters, took: Duration, before: &'static str) -> Result<(), Cause> {
    if !waiters.any() && took >= WORK_WORTH_KEEPING {
        tokio::select! {
            () = waiters.awaited() => {}
            () = waiters.superseded() => {}
            () = tokio::time::sleep(NEXT_NODE_CALL) => {}
        }
    }
    ensure_wanted(waiters, before)
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn long_work_without_a_caller_waits_for_the_next_call() {
        let waiters = Waiters::default();
        let began = Instant::now();
        let call = async {
            tokio::time::sleep(Duration::from_secs(122)).await;
            waiters.join()
        };
        let (wanted, _call) = tokio::join!(ensure_wanted_after(&waiters, WORK_WORTH_KEEPING, "formatting"), call);
        assert!(wanted.is_ok() && began.elapsed() == Duration::from_secs(122), "{wanted:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn long_work_is_abandoned_if_no_call_follows_or_if_superseded() {
        let (waiters, began) = (Waiters::default(), Instant::now());
        let left = ensure_wanted_after(&waiters, WORK_WORTH_KEEPING, "formatting").await;
        assert!(matches!(left, Err(Cause::Abandoned { .. })) && began.elapsed() == NEXT_NODE_CALL);
        let _successor = waiters.supersede();
        ensure_wanted_after(&waiters, WORK_WORTH_KEEPING, "formatting").await.unwrap_err();
        assert_eq!(began.elapsed(), NEXT_NODE_CALL);
    }

    #[tokio::test(start_paused = true)]
    async fn short_work_without_a_caller_is_abandoned_at_once() {
        let (waiters, began) = (Waiters::default(), Instant::now());
        ensure_wanted_after(&waiters, Duration::from_secs(1), "formatting").await.unwrap_err();
        let _waiter = waiters.join();
        ensure_wanted_after(&waiters, Duration::from_secs(1), "formatting").await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}

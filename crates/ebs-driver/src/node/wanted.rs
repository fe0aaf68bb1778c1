//! Decides, after long work, whether a caller still waits for an operation.

use std::time::Duration;

use ebs_types::Waiters;

use super::error::Cause;

/// The next call repeats shorter work.
const WORTH_KEEPING: Duration = Duration::from_secs(15);
/// The kubelet's longest pause between two calls is 2 min 2 s.
const LONGEST_PAUSE: Duration = Duration::from_secs(150);

/// Continues when a caller waits. Long work, such as the proof that a slow disk is blank, would be lost if it ended
/// while the orchestrator pauses between two calls. So the function waits for the next call, unless another operation
/// is to run instead.
///
/// # Errors
/// `Cause::Abandoned`, when no caller waits.
pub(super) async fn after_work(waiters: &Waiters, took: Duration, before: &'static str) -> Result<(), Cause> {
    if !waiters.any() && took >= WORTH_KEEPING {
        tokio::select! {
            () = waiters.awaited() => {}
            () = waiters.superseded() => {}
            () = tokio::time::sleep(LONGEST_PAUSE) => {}
        }
    }
    if waiters.any() { Ok(()) } else { Err(Cause::Abandoned { before }) }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn long_work_waits_for_the_next_call() {
        let waiters = Waiters::default();
        let began = Instant::now();
        let call = async {
            tokio::time::sleep(Duration::from_secs(122)).await;
            waiters.join()
        };
        let (wanted, _call) = tokio::join!(after_work(&waiters, WORTH_KEEPING, "formatting"), call);
        assert!(wanted.is_ok() && began.elapsed() == Duration::from_secs(122), "{wanted:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn long_work_ends_without_next_call_or_for_another_operation() {
        let (waiters, began) = (Waiters::default(), Instant::now());
        let left = after_work(&waiters, WORTH_KEEPING, "formatting").await;
        assert!(matches!(left, Err(Cause::Abandoned { .. })) && began.elapsed() == LONGEST_PAUSE);
        let _successor = waiters.supersede();
        after_work(&waiters, WORTH_KEEPING, "formatting").await.unwrap_err();
        assert_eq!(began.elapsed(), LONGEST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn short_work_without_caller_ends_at_once() {
        let (waiters, began) = (Waiters::default(), Instant::now());
        after_work(&waiters, Duration::from_secs(1), "formatting").await.unwrap_err();
        let _waiter = waiters.join();
        after_work(&waiters, Duration::from_secs(1), "formatting").await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}

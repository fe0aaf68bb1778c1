//! Whether anybody still waits for an operation, after work that takes long.

use std::time::Duration;

use ebs_types::Waiters;

use super::error::Cause;

/// Work that took less is done again by the next call.
const WORTH_KEEPING: Duration = Duration::from_secs(15);
/// The kubelet's longest pause between two calls is 2 min 2 s.
const LONGEST_PAUSE: Duration = Duration::from_secs(150);

/// Goes on when a caller waits. What took long, as the proof that a slow disk is blank, would be lost whenever it ends while
/// the orchestrator pauses between two calls; so the next one is waited for, unless another operation is to run instead.
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
    async fn long_work_ends_when_no_call_comes_or_another_is_to_run() {
        let (waiters, began) = (Waiters::default(), Instant::now());
        let left = after_work(&waiters, WORTH_KEEPING, "formatting").await;
        assert!(matches!(left, Err(Cause::Abandoned { .. })) && began.elapsed() == LONGEST_PAUSE);
        let _successor = waiters.supersede();
        after_work(&waiters, WORTH_KEEPING, "formatting").await.unwrap_err();
        assert_eq!(began.elapsed(), LONGEST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn short_work_ends_at_once_when_nobody_waits() {
        let (waiters, began) = (Waiters::default(), Instant::now());
        after_work(&waiters, Duration::from_secs(1), "formatting").await.unwrap_err();
        let _waiter = waiters.join();
        after_work(&waiters, Duration::from_secs(1), "formatting").await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}

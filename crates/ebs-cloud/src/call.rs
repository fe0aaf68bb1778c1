//! Single calls with retries. After a throttle, which means that EC2 did nothing, the call waits and is sent again
//! until the deadline of the operation.
//!
//! Decision: `docs/decisions/0009-share-one-budget-for-ec2-calls.md`.

use std::time::Duration;

use ebs_calls::Ec2Handle;
use ebs_ec2::{Ec2Error, ErrorClass};
use tokio::time::{Instant, sleep};

use crate::CloudError;
use crate::op::Op;
use crate::refused::refused;

/// A read without an answer is sent again, at most this often and after this delay.
const MAX_AMBIGUOUS_READS: u32 = 3;
const AMBIGUOUS_READ_DELAY: Duration = Duration::from_millis(400);

/// Sends a mutating call. Sends it again only after a throttle, as soon as the rate limiter allows, while a client
/// waits and the deadline is not reached. All tries use one handle, which keeps their position in the queue.
///
/// # Errors
/// The outer error is `CloudErrorKind::Abandoned`. The inner one is EC2's answer, which is a throttle only at the
/// deadline.
pub(crate) async fn mutate<T, F>(
    op: &Op<'_>,
    mut call: impl FnMut() -> F + Send,
) -> Result<Result<T, Ec2Error>, CloudError>
where
    T: Send,
    F: Future<Output = Result<T, Ec2Error>> + Send,
{
    loop {
        op.still_wanted()?;
        op.mutates();
        match call().await {
            // EC2 did nothing. The rate limiter has recorded the throttle and delays the next token.
            Err(e) if e.class == ErrorClass::Throttled && Instant::now() < op.deadline => {}
            outcome => return Ok(outcome),
        }
    }
}

/// Sends a read through the handle. Sends it again after a throttle, and a few times after a lost answer, until the
/// handle's deadline.
///
/// # Errors
/// The error of EC2, mapped by `refused`.
pub(crate) async fn read<T, F, E>(
    ec2: &Ec2Handle<E>,
    step: &str,
    mut call: impl FnMut() -> F + Send,
) -> Result<T, CloudError>
where
    T: Send,
    E: Send + Sync,
    F: Future<Output = Result<T, Ec2Error>> + Send,
{
    let mut ambiguous = 0;
    loop {
        let error = match call().await {
            Ok(value) => return Ok(value),
            Err(e) => e,
        };
        ambiguous += u32::from(error.class == ErrorClass::Ambiguous);
        let again = match error.class {
            ErrorClass::Throttled => Instant::now() < ec2.deadline(),
            ErrorClass::Ambiguous => {
                ambiguous < MAX_AMBIGUOUS_READS && Instant::now() + AMBIGUOUS_READ_DELAY < ec2.deadline()
            }
            _ => false,
        };
        if !again {
            return Err(refused(step, error));
        }
        if error.class == ErrorClass::Ambiguous {
            sleep(AMBIGUOUS_READ_DELAY).await;
        }
    }
}

//! Single calls, with patience for what is no answer: a throttle says that nothing was done, so the call waits and is
//! made again until the bound of the operation ends.
//!
//! Decision: `docs/decisions/0009-share-one-budget-for-ec2-calls.md`.

use std::time::Duration;

use ebs_calls::Ec2Handle;
use ebs_ec2::{Ec2Error, ErrorClass};
use tokio::time::{Instant, sleep};

use crate::CloudError;
use crate::op::Op;
use crate::refused::refused;

/// A read whose answer was lost is simply made again, this often and after this time.
const MAX_AMBIGUOUS_READS: u32 = 3;
const AMBIGUOUS_READ_DELAY: Duration = Duration::from_millis(400);

/// Makes a mutating call, once, unless EC2 throttles it: then again as soon as the rate limiter allows, while somebody
/// waits and time is left. The call goes through one handle for this mutation, which keeps its
/// position in the queue.
///
/// # Errors
/// The outer error is `CloudErrorKind::Abandoned`; the inner one is EC2's answer, a throttle only at the end of the bound.
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
            // Nothing was done. The next token comes later: the rate limiter knows of the throttle.
            Err(e) if e.class == ErrorClass::Throttled && Instant::now() < op.deadline => {}
            outcome => return Ok(outcome),
        }
    }
}

/// Makes a read through that handle, again while EC2 throttles it and a few times when its answer is lost, until the
/// handle's deadline.
///
/// # Errors
/// What EC2 says.
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

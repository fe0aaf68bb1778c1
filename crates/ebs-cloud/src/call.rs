//! Single calls, with patience for what is no answer: a throttle says that nothing was done, so the call waits and is
//! made again until the bound of the operation ends (`decisions.md` D-14, D-22).

use std::time::Duration;

use ebs_ec2::{Ec2Error, ErrorClass};
use tokio::time::{Instant, sleep};

use crate::error::refused;
use crate::op::Op;
use crate::{CloudError, bounds};

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// A read whose answer was lost is simply made again, this often.
const UNCLEAR_READS: u32 = 3;

/// Makes a mutating call, once, unless EC2 throttles it: then again, while somebody waits and time is left.
///
/// # Errors
/// The outer error is [`CloudError::Abandoned`]; the inner one is EC2's answer, a throttle only at the end of the bound.
pub(crate) async fn mutate<T, F>(
    op: &Op<'_>,
    mut call: impl FnMut() -> F + Send,
) -> Result<Result<T, Ec2Error>, CloudError>
where
    T: Send,
    F: Future<Output = Result<T, Ec2Error>> + Send,
{
    let mut pause = FIRST_PAUSE;
    loop {
        op.still_wanted()?;
        op.mutates();
        match call().await {
            Err(e) if e.class == ErrorClass::Throttled && Instant::now() + pause < op.deadline => {
                tracing::debug!(step = %op.what, ?pause, "throttled");
            }
            outcome => return Ok(outcome),
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Makes a read, again while EC2 throttles it and a few times when its answer is lost, within [`bounds::LOOK`].
///
/// # Errors
/// What EC2 says, as [`read_refused`] puts it.
pub(crate) async fn read<T, F>(step: &str, mut call: impl FnMut() -> F + Send) -> Result<T, CloudError>
where
    T: Send,
    F: Future<Output = Result<T, Ec2Error>> + Send,
{
    let deadline = Instant::now() + bounds::LOOK;
    let mut pause = FIRST_PAUSE;
    let mut unclear = 0;
    loop {
        let error = match call().await {
            Ok(value) => return Ok(value),
            Err(e) => e,
        };
        unclear += u32::from(error.class == ErrorClass::Ambiguous);
        let again = matches!(error.class, ErrorClass::Throttled | ErrorClass::Ambiguous) && unclear < UNCLEAR_READS;
        if !again || Instant::now() + pause >= deadline {
            return Err(read_refused(step, error));
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// What a read that failed means: no clear answer to a question leaves nothing behind, it is only no answer.
pub(crate) fn read_refused(step: &str, error: Ec2Error) -> CloudError {
    if error.class == ErrorClass::Ambiguous {
        let message = format!("{step}: EC2 gave no clear answer to a question");
        return CloudError::Unavailable { message, cause: Some(Box::new(error)) };
    }
    refused(step, error)
}

//! Single calls with retries. A throttle means that EC2 did nothing, so the call is repeated until the deadline.

use std::time::Duration;

use ebs_ec2::{Ec2Error, ErrorClass};
use tokio::time::{Instant, sleep};

use crate::Result;
use crate::error_map::map_error;
use crate::op_context::OpContext;
use crate::traffic::Ec2Handle;

const MAX_AMBIGUOUS_READS: u32 = 3;
const AMBIGUOUS_READ_DELAY: Duration = Duration::from_millis(400);

/// Sends a mutating call. Repeats it only after a throttle, while a client waits, until the deadline. The outer error
/// is `CloudErrorKind::Abandoned`. The inner error is EC2's answer, which is a throttle only at the deadline.
pub(crate) async fn mutate<T, F>(op: &OpContext<'_>, mut call: impl FnMut() -> F + Send) -> Result<Result<T, Ec2Error>>
where
    T: Send,
    F: Future<Output = Result<T, Ec2Error>> + Send,
{
    loop {
        op.ensure_wanted()?;
        op.mark_mutated();
        match call().await {
            // EC2 did nothing. The rate limiter has recorded the throttle and delays the next token.
            Err(e) if e.class == ErrorClass::Throttled && Instant::now() < op.deadline => {}
            outcome => return Ok(outcome),
        }
    }
}

/// Sends a read, and repeats it after throttles and a few lost answers, until the handle's deadline.
pub(crate) async fn read<T, F, E>(ec2: &Ec2Handle<E>, step: &str, mut call: impl FnMut() -> F + Send) -> Result<T>
where
    T: Send,
    E: Send + Sync,
    F: Future<Output = Result<T, Ec2Error>> + Send,
{
    let mut retries = ReadRetries::default();
    loop {
        let error = match call().await {
            Ok(value) => return Ok(value),
            Err(e) => e,
        };
        let is_lost = error.class == ErrorClass::Ambiguous;
        let delay = if is_lost { AMBIGUOUS_READ_DELAY } else { Duration::ZERO };
        if !retries.permits(error.class) || Instant::now() + delay >= ec2.deadline() {
            return Err(map_error(step, error));
        }
        if is_lost {
            sleep(delay).await;
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct ReadRetries {
    ambiguous: u32,
}

impl ReadRetries {
    pub(crate) fn permits(&mut self, class: ErrorClass) -> bool {
        self.ambiguous += u32::from(class == ErrorClass::Ambiguous);
        match class {
            ErrorClass::Throttled => true,
            ErrorClass::Ambiguous => self.ambiguous < MAX_AMBIGUOUS_READS,
            _ => false,
        }
    }
}

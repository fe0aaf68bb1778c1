//! One call with one fault, and what its answer means.

use std::future::Future;

use tonic::Status;

use crate::faults::{self, Fault};
use crate::planted::Keeper;
use crate::world::World;

/// Why a call was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A rule forbids it as things are (FailedPrecondition).
    Rule,
    /// A step of it failed (Internal).
    Failed,
    /// The request cannot be granted (InvalidArgument, NotFound, AlreadyExists).
    Request,
}

/// What is known after a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It was done.
    Done,
    /// It was refused, or failed by itself.
    Refused(Refusal, String),
    /// Nobody knows.
    Unknown(String),
}

impl Answer {
    fn of<T>(outcome: Result<T, Status>) -> Self {
        let status = match outcome {
            Ok(_) => return Self::Done,
            Err(status) => status,
        };
        let text = status.message().to_owned();
        // The numbers of gRPC.
        match i32::from(status.code()) {
            9 => Self::Refused(Refusal::Rule, text),
            13 => Self::Refused(Refusal::Failed, text),
            3 | 5 | 6 => Self::Refused(Refusal::Request, text),
            _ => Self::Unknown(format!("{:?}: {text}", status.code())),
        }
    }
}

/// Makes a call and lets the fault happen in the middle of it, unless it has ended before. A service that was killed is
/// started again. `keeper` looks on.
pub(crate) async fn call<T>(
    world: &mut World,
    fault: Fault,
    keeper: &mut Keeper,
    request: impl Future<Output = Result<T, Status>>,
) -> anyhow::Result<Answer> {
    let state = world.state();
    let watch = async {
        loop {
            keeper.look();
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    let answer = tokio::select! {
        biased;
        outcome = request => Some(Answer::of(outcome)),
        () = fault.moment(&state) => None,
        () = watch => None,
    };
    keeper.look();
    if let Some(answer) = answer {
        return Ok(answer);
    }
    match fault {
        Fault::None | Fault::Leave(_) => Ok(Answer::Unknown("the client left".to_owned())),
        Fault::Kill(_, with_children) | Fault::KillInFormat(_, with_children) => {
            let children = faults::kill(world, with_children)?;
            world.start().await?;
            Ok(Answer::Unknown(format!("the service was killed, and {children} of its children")))
        }
    }
}

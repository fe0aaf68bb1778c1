//! One call, and the meaning of its response.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use ebs_testkit::kubelet::is_final;
use tonic::Status;

use crate::planted::Keeper;

const LOOK: Duration = Duration::from_millis(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A rule forbids the call in the current state (FailedPrecondition).
    Rule,
    Failed,
    /// The request is invalid (InvalidArgument, NotFound, AlreadyExists, OutOfRange and the like).
    Request,
}

/// The outcome of a call, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    /// The call failed with a code that the kubelet treats as final: after NodeStageVolume, it assumes that nothing is
    /// mounted.
    Refused(Refusal, String),
    Unknown(String),
}

impl Answer {
    fn of<T>(outcome: Result<T, Status>) -> Self {
        let status = match outcome {
            Ok(_) => return Self::Done,
            Err(status) => status,
        };
        let text = status.message().to_owned();
        let code = status.code();
        // gRPC status numbers.
        match i32::from(code) {
            // Unknown is the code that a client gets when its service is killed in the middle of a call.
            2 => Self::Unknown(format!("{code:?}: {text}")),
            number if !is_final(number) => Self::Unknown(format!("{code:?}: {text}")),
            // FailedPrecondition and Internal.
            9 => Self::Refused(Refusal::Rule, text),
            13 => Self::Refused(Refusal::Failed, text),
            _ => Self::Refused(Refusal::Request, text),
        }
    }
}

/// Makes a call. With `leave`, the client disconnects after that time. `keeper` watches the record of the volume's
/// format.
pub(crate) async fn call<T>(
    leave: Option<Duration>,
    keeper: &mut Keeper,
    record: &Path,
    request: impl Future<Output = Result<T, Status>>,
) -> Answer {
    let left = async {
        match leave {
            Some(after) => tokio::time::sleep(after).await,
            None => std::future::pending().await,
        }
    };
    let watch = async {
        loop {
            keeper.look(record);
            tokio::time::sleep(LOOK).await;
        }
    };
    let answer = tokio::select! {
        biased;
        outcome = request => Answer::of(outcome),
        () = left => Answer::Unknown("the client left".to_owned()),
        () = watch => Answer::Unknown("never".to_owned()),
    };
    keeper.look(record);
    answer
}

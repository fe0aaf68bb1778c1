//! Waits while a volume's modification is in state `modifying`, in which EC2 refuses to attach the volume.

use ebs_ec2::{Ec2, Ec2Error, Modification, ModificationState};
use tokio::time::Instant;

use super::PairOperation;
use super::attach_call::AfterRefusal;
use crate::describe::{FirstPoll, Verdict};
use crate::{CloudErrorKind, Result, timeouts};

pub(super) async fn await_modified<E: Ec2>(on: &PairOperation<'_, E>, refusal: Ec2Error) -> Result<AfterRefusal> {
    let &PairOperation { service, op, pair } = on;
    let shown_from = Instant::now() + timeouts::SETTLE;
    let mut in_the_way: Option<Modification> = None;
    let decide = |seen: Option<Modification>, sent: Instant| match seen {
        Some(m) if matches!(m.state, ModificationState::Modifying | ModificationState::Other(_)) => {
            in_the_way = Some(m);
            Verdict::Waiting
        }
        // An earlier describe may be too stale to show the modification.
        _ if in_the_way.is_some() || sent >= shown_from => Verdict::Done(AfterRefusal::Retry),
        _ => Verdict::Waiting,
    };
    let ended = service.context.describer.await_modification(op, FirstPoll::Now, &pair.volume, decide).await;
    ended.map_err(|error| match error.kind {
        CloudErrorKind::InProgress => {
            let message = format!("{error}; {}", description(in_the_way.as_ref()));
            CloudErrorKind::InProgress.error(message).caused_by(refusal)
        }
        _ => error,
    })
}
fn description(modification: Option<&Modification>) -> String {
    let target = modification.and_then(|m| m.target_size).map(|size| format!(" to {} GiB", size.0)).unwrap_or_default();
    let started = modification.and_then(|m| m.started).map(humantime::format_rfc3339_seconds);
    let since = started.map(|at| format!(" (started at {at})")).unwrap_or_default();
    format!(
        "EC2 does not attach a volume in modification state \"modifying\"; wait until the modification{target}{since} \
         is in state \"optimizing\""
    )
}

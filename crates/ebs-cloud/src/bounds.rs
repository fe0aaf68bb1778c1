//! How long the operations may take, and the times that EC2 is known to need.
//!
//! Decision: `docs/decisions/0006-assume-stale-reads-and-a-previous-leader.md`.

use std::time::Duration;

use ebs_calls::DESCRIBE_TIMEOUT;
use tokio::time::Instant;

/// EC2's reads may lag this far behind its writes: what is not seen within it may exist all the same.
pub(crate) const SETTLE: Duration = Duration::from_secs(15);

/// CreateVolume: its calls, describes and the wait for `available` together.
pub(crate) const CREATE: Duration = Duration::from_secs(120);
/// DeleteVolume and DeleteSnapshot.
pub(crate) const DELETE: Duration = Duration::from_secs(60);
/// Attach, the wait for `attached` included. Longer than an attachment may be stuck.
pub(crate) const ATTACH: Duration = Duration::from_secs(180);
/// Detach, the wait for its end included.
pub(crate) const DETACH: Duration = Duration::from_secs(300);
/// Expand, the wait for an earlier and for its own modification included.
pub(crate) const EXPAND: Duration = Duration::from_secs(300);
/// CreateSnapshot, not the wait for `completed`: that is the orchestrator's.
pub(crate) const SNAPSHOT: Duration = Duration::from_secs(90);
/// The wait for a volume to be initialised: it can take hours, the orchestrator asks again.
pub(crate) const INITIALIZED: Duration = Duration::from_secs(150);

/// A volume attached to another instance: for how long the one who uses it may still detach it.
pub(crate) const ATTACHED_ELSEWHERE: Duration = Duration::from_secs(10);
/// A volume detaching from another instance: for how long its end is awaited.
pub(crate) const DETACHING_ELSEWHERE: Duration = Duration::from_secs(60);
/// An attachment that is still `attaching` after this long will not come: it is detached and begun anew.
pub(crate) const STUCK_ATTACHING: Duration = Duration::from_secs(90);
/// And it must have been watched for this long, so that a wrong clock of ours breaks off no sound attachment and no
/// describe shows an earlier one.
pub(crate) const STUCK_WATCHED: Duration = Duration::from_secs(16);
/// How often an object is looked for that this process knows and a look does not show yet.
pub(crate) const UNSEEN_INTERVAL: Duration = Duration::from_secs(1);
/// How long the probe for IOPS limits may hold up the request that needs it.
pub(crate) const PROBE: Duration = Duration::from_secs(5);

/// For how long an operation that gave up while it queued keeps its place for the next one like it: the chart's sidecars pause for
/// half an hour at most (`--retry-interval-max`).
pub(crate) const KEPT_PLACE: Duration = Duration::from_mins(35);

/// A describe may take this long even after the end of its operation: an operation that is about to end looks once
/// more.
const LAST_DESCRIBE: Duration = Duration::from_secs(5);

/// Until when an operation with that deadline waits for the answer to a single describe that begins now.
pub(crate) fn describe_until(now: Instant, deadline: Instant) -> Instant {
    deadline.clamp(now + LAST_DESCRIBE, now + DESCRIBE_TIMEOUT)
}

//! The time limits of operations, and the times that EC2 needs.
//!
//! Decision: `docs/decisions/0006-assume-stale-reads-and-a-previous-leader.md`.

use std::time::Duration;

use tokio::time::Instant;

/// The staleness of EC2's reads after a write. An object that is not listed within this time may still exist.
pub(crate) const SETTLE: Duration = Duration::from_secs(15);

/// CreateVolume, including its describes and the wait for `available`.
pub(crate) const CREATE: Duration = Duration::from_secs(120);
pub(crate) const DELETE: Duration = Duration::from_secs(60);
/// Attach, including the wait for `attached`. Longer than `STUCK_ATTACHING`.
pub(crate) const ATTACH: Duration = Duration::from_secs(180);
pub(crate) const DETACH: Duration = Duration::from_secs(300);
/// Expand, including the waits for an earlier modification and its own.
pub(crate) const EXPAND: Duration = Duration::from_secs(300);
/// CreateSnapshot, without the wait for `completed`, for which the orchestrator polls.
pub(crate) const SNAPSHOT: Duration = Duration::from_secs(90);
/// The wait for the initialization of a volume. It can take hours, and the orchestrator tries again.
pub(crate) const INITIALIZED: Duration = Duration::from_secs(150);

/// How long to wait for a detach of a volume that is attached to another instance.
pub(crate) const ATTACHED_ELSEWHERE: Duration = Duration::from_secs(10);
/// How long to wait for the end of a detach from another instance.
pub(crate) const DETACHING_ELSEWHERE: Duration = Duration::from_secs(60);
/// An attachment that is still `attaching` after this time is detached, and the next attempt starts again.
pub(crate) const STUCK_ATTACHING: Duration = Duration::from_secs(90);
/// The least time for which this process must have seen the attachment as `attaching`. It protects a working attachment
/// from a wrong clock of ours, and from describes of an earlier attachment.
pub(crate) const STUCK_WATCHED: Duration = Duration::from_secs(16);
/// How often to describe an object that this process knows and EC2 does not list yet.
pub(crate) const UNSEEN_INTERVAL: Duration = Duration::from_secs(1);
/// How long the probe for IOPS limits may delay the request that needs it.
pub(crate) const PROBE: Duration = Duration::from_secs(5);

/// How long an operation that ended in the queue keeps its place for the next equal one. The sidecars of the chart
/// pause for at most half an hour (`--retry-interval-max`).
pub(crate) const KEPT_PLACE: Duration = Duration::from_mins(35);

/// The longest time of a single describe, including throttles. It limits the wait for a token, a call with all its
/// pages, and a lookup.
pub(crate) const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(20);
/// The time for a last describe, even after the deadline of its operation.
const LAST_DESCRIBE: Duration = Duration::from_secs(5);

/// Returns the time limit of a describe that begins now, for an operation with that deadline.
pub(crate) fn describe_until(now: Instant, deadline: Instant) -> Instant {
    deadline.clamp(now + LAST_DESCRIBE, now + DESCRIBE_TIMEOUT)
}

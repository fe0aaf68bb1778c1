//! The time limits of operations, and how long EC2's reads may be stale.

use std::time::Duration;

use tokio::time::Instant;

/// How long EC2's reads may be stale after a write. An object that EC2 does not list within this time may still exist.
pub(crate) const SETTLE: Duration = Duration::from_secs(15);

/// The limit for CreateVolume, including its describes and the wait for `available`.
pub(crate) const CREATE: Duration = Duration::from_secs(120);
/// The limit for DeleteVolume and DeleteSnapshot.
pub(crate) const DELETE: Duration = Duration::from_secs(60);
/// The limit for an attach, including the wait for `attached`. It is longer than `STUCK_ATTACHING`.
pub(crate) const ATTACH: Duration = Duration::from_secs(180);
/// The limit for a detach, including the wait for its end.
pub(crate) const DETACH: Duration = Duration::from_secs(300);
/// The limit for an expansion, including the waits for an earlier modification and for its own.
pub(crate) const EXPAND: Duration = Duration::from_secs(300);
/// The limit for CreateSnapshot. It excludes the wait for `completed`, because the orchestrator polls for that.
pub(crate) const SNAPSHOT: Duration = Duration::from_secs(90);
/// The limit for one wait for the initialization of a volume, which can take hours. The orchestrator tries again.
pub(crate) const INITIALIZED: Duration = Duration::from_secs(150);

/// How long to wait until a volume that is attached to another instance is detached.
pub(crate) const ATTACHED_ELSEWHERE: Duration = Duration::from_secs(10);
/// How long to wait for the end of a detach from another instance.
pub(crate) const DETACHING_ELSEWHERE: Duration = Duration::from_secs(60);
/// The driver detaches an attachment that is still `attaching` after this time, and the next attempt starts over.
pub(crate) const STUCK_ATTACHING: Duration = Duration::from_secs(90);
/// How long this process itself must have seen `attaching` before it detaches, in case our clock is wrong or describes
/// are stale.
pub(crate) const STUCK_WATCHED: Duration = Duration::from_secs(16);
/// The interval between describes of an object that this process knows and EC2 does not list yet.
pub(crate) const UNSEEN_INTERVAL: Duration = Duration::from_secs(1);
/// How long the probe for IOPS limits may delay the request that needs it.
pub(crate) const PROBE: Duration = Duration::from_secs(5);

/// How long the queue keeps the place of an operation whose clients left. The chart's sidecars pause for at most half
/// an hour (`--retry-interval-max`).
pub(crate) const KEPT_PLACE: Duration = Duration::from_mins(35);

/// The limit for a describe with its retries, a wait for a token, a call with all its pages, or a lookup.
pub(crate) const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(20);
/// The shortest limit for a describe, even near or after its operation's deadline.
const LAST_DESCRIBE: Duration = Duration::from_secs(5);

pub(crate) fn describe_until(now: Instant, deadline: Instant) -> Instant {
    deadline.clamp(now + LAST_DESCRIBE, now + DESCRIBE_TIMEOUT)
}

//! What looks prove, and when.
//!
//! A description shows each object as it was at some time in the last 15 s ([`SETTLE`]), and of two descriptions the
//! later one may show the earlier time. Mutating calls act on what is. For one volume and one node this follows:
//!
//! 1. *"Nothing listed" may be the time before the attachment.* It proves that the attachment is over only in a look
//!    that was sent 15 s or more after an instant at which the attachment existed. Nobody makes another one meanwhile:
//!    an orchestrator does not publish what it is unpublishing.
//! 2. *Known instants*: when EC2 accepted our AttachVolume, when a look showed the attachment, and when EC2 accepted our
//!    DetachVolume. An attachment that this process made more than 15 s ago is therefore over at the first look that
//!    lists nothing. The answer to DetachVolume carries the attach time, which tells *which* attachment it was, so
//!    that a memory of an earlier one (another driver may have attached anew) proves nothing about this one.
//! 3. *An attach time that our clock puts 15 s and [`CLOCK_ERROR`] into the past* is such an instant too, after a restart
//!    for example. EC2 refuses requests whose signature is 5 min off, so a clock that works is less wrong than that.
//! 4. *Having seen `detaching` proves nothing more*: the next look may show the time before the attachment.
//! 5. *Refusals are about what is.* `InvalidAttachment.NotFound`, `IncorrectState` of a volume that EC2 calls `'available'`,
//!    and a missing volume or instance say that there is no attachment; one look that lists none confirms it
//!    (`ebs-cloud.md` E12). Any other `IncorrectState` may mean that the volume is `detaching`: then rule 6 holds.
//! 6. *Otherwise* 15 s after the answer to DetachVolume every look shows a time after it.
//! 7. An AttachVolume without answer may still be carried out: it is given its 15 s before the DetachVolume is sent,
//!    so that it cannot come after it (`decisions.md` D-10).
//! 8. *"Attached" may be an earlier attachment.* Ours is the one whose attach time EC2 gave us. After an answer without
//!    attach time, what looks sent 15 s later show is true.
//!
//! Attach times are compared in whole seconds: descriptions are no finer.

use std::time::{Duration, SystemTime};

use ebs_ec2::{Attachment, Ec2Error, ErrorClass};
use tokio::time::Instant;

use crate::bounds::SETTLE;

/// EC2 refuses requests that are dated further off than this.
pub(crate) const CLOCK_ERROR: Duration = Duration::from_secs(300);

/// An attachment that is known to have existed at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Existed {
    /// Which one.
    pub(crate) attach_time: Option<SystemTime>,
    /// When.
    pub(crate) at: Instant,
}

/// Which attachment is waited for, and from when on looks must show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    /// The attach time that EC2 gave it.
    pub(crate) attach_time: Option<SystemTime>,
    /// Looks sent from this instant on show what is: 15 s after the answer.
    pub(crate) settled: Instant,
    /// EC2's answer was clear: there was such an attachment.
    pub(crate) certain: bool,
}

impl Expected {
    /// EC2 took the call just now.
    pub(crate) fn accepted(attach_time: Option<SystemTime>) -> Self {
        Self { attach_time, settled: Instant::now() + SETTLE, certain: true }
    }

    /// The answer was lost just now.
    pub(crate) fn unclear() -> Self {
        Self { attach_time: None, settled: Instant::now() + SETTLE, certain: false }
    }

    /// True when a look sent at that instant that lists this attachment proves that it is there now.
    pub(crate) fn is_shown_by(&self, listed: &Attachment, sent: Instant) -> bool {
        sent >= self.settled || is_same(self.attach_time, listed.attach_time)
    }
}

/// True when both are known and of the same second.
pub(crate) fn is_same(one: Option<SystemTime>, other: Option<SystemTime>) -> bool {
    let second = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    one.is_some_and(|one| other.is_some_and(|other| second(one) == second(other)))
}

/// From when on looks that list nothing prove the end of an attachment that EC2 has just agreed to detach: `detached`
/// is when it did so and `attach_time` what it said, `known` is what this process remembers and `now` its time of day.
pub(crate) fn end_is_believed_from(
    detached: Instant,
    attach_time: Option<SystemTime>,
    known: Option<Existed>,
    now: SystemTime,
) -> Instant {
    let at_the_latest = detached + SETTLE;
    let Some(time) = attach_time else { return at_the_latest };
    if now.duration_since(time).is_ok_and(|age| age >= SETTLE + CLOCK_ERROR) {
        return detached;
    }
    match known {
        Some(known) if is_same(known.attach_time, attach_time) => (known.at + SETTLE).min(at_the_latest),
        _ => at_the_latest,
    }
}

/// True when a refused DetachVolume says that there is no such attachment.
pub(crate) fn says_not_attached(refusal: &Ec2Error) -> bool {
    match refusal.class {
        ErrorClass::AttachmentNotFound
        | ErrorClass::VolumeNotFound
        | ErrorClass::InstanceNotFound
        | ErrorClass::MalformedId => true,
        ErrorClass::IncorrectState => refusal.message.contains("'available'"),
        _ => false,
    }
}

/// True for answers to DetachVolume that say that nothing is attached now, and leave it open that something will be.
pub(crate) fn is_attachable(refusal: &Ec2Error) -> bool {
    let nothing_to_attach =
        matches!(refusal.class, ErrorClass::VolumeNotFound | ErrorClass::InstanceNotFound | ErrorClass::MalformedId);
    says_not_attached(refusal) && !nothing_to_attach
}

#[cfg(test)]
mod tests {
    use ebs_ec2::Action;

    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_is_believed_fifteen_seconds_after_an_instant_at_which_the_attachment_existed() {
        let today = SystemTime::UNIX_EPOCH + seconds(1_000_000);
        let start = Instant::now();
        let detached = start + seconds(100);
        let known = |attach_time, at| Some(Existed { attach_time: Some(attach_time), at: start + seconds(at) });
        let young = today - seconds(60);
        for (what, attach_time, known, believed_from) in [
            ("made by us a minute ago", Some(young), known(young, 40), 55),
            ("made by us just now", Some(young), known(young, 98), 113),
            ("made by us, and anew by another", Some(young), known(today - seconds(90), 10), 115),
            ("made by another", Some(young), None, 115),
            ("made by another long ago", Some(today - seconds(315)), None, 100),
            ("made nearly so long ago", Some(today - seconds(314)), None, 115),
            ("made in the future, by a wrong clock", Some(today + seconds(9)), None, 115),
            ("without attach time", None, known(young, 1), 115),
        ] {
            let from = end_is_believed_from(detached, attach_time, known, today);
            assert_eq!((from - start).as_secs(), believed_from, "{what}");
        }
    }

    #[test]
    fn only_refusals_about_what_is_say_that_nothing_is_attached() {
        let refusal = |class, message: &str| Ec2Error::new(Action::DetachVolume, class, message);
        let available = "Volume 'vol-1' is in the 'available' state.";
        let detaching = "Volume 'vol-1' is in the 'detaching' state.";
        assert!(says_not_attached(&refusal(ErrorClass::IncorrectState, available)));
        assert!(says_not_attached(&refusal(ErrorClass::AttachmentNotFound, "")));
        assert!(says_not_attached(&refusal(ErrorClass::VolumeNotFound, "")));
        assert!(says_not_attached(&refusal(ErrorClass::InstanceNotFound, "")));
        assert!(!says_not_attached(&refusal(ErrorClass::IncorrectState, detaching)));
        assert!(!says_not_attached(&refusal(ErrorClass::Ambiguous, available)));
    }

    #[test]
    fn attach_times_are_the_same_in_the_same_second_only() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(5_100);
        assert!(is_same(Some(time), Some(time + Duration::from_millis(800))));
        assert!(!is_same(Some(time), Some(time + seconds(1))));
        assert!(!is_same(None, None));
        assert!(!is_same(Some(time), None));
    }
}

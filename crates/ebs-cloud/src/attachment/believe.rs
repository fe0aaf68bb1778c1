//! The rules by which EC2's describes and errors prove that a volume is attached or detached.
//!
//! A describe shows each object as it was at some time in the last 15 s ([`SETTLE`]). The error of a mutating call may
//! be as stale. A later describe may show an earlier state. The rules assume two things (decision 0006):
//! *mutating calls on one volume never go back in time*, and a state that the error of such a call names is the current
//! state. For one volume and one node, these rules apply:
//!
//! 1. *"Nothing listed" may show the time before the attachment*, and so may `NotFound`. Either proves the detachment
//!    only if the request was sent at least 15 s after an instant at which the attachment existed. No new attachment
//!    starts in between, because an orchestrator does not publish a volume that it is unpublishing.
//! 2. *Known instants* are when EC2 accepted our AttachVolume, when a describe showed the attachment, and when EC2
//!    accepted our DetachVolume. So if this process made the attachment more than 15 s ago, the first describe that
//!    lists nothing proves its end. The answer to DetachVolume has the attach time, which identifies the attachment. If
//!    another driver made it, this process's memory of an earlier attachment proves nothing about it.
//! 3. *The attach time is a known instant*, by AWS's own clock: the `Date` of the reply shows the age of the attachment
//!    to a second. Without a date, the driver uses its own clock, minus [`wall_clock::CLOCK_ERROR`]: EC2 refuses
//!    requests whose signature is 5 min off, so the error of a working clock is smaller. SageMaker's answer to a detach
//!    names no attachment, so the describes after it must show the attach time.
//! 4. *A describe that shows `detaching` proves nothing more*: the next one may show the time before the attachment.
//! 5. *`IncorrectState` of a volume "in the 'available' state" names the current state*: nothing is attached. Any other
//!    `IncorrectState` may mean that the volume is `detaching`, and rule 7 applies.
//! 6. *An extra DetachVolume can find out the state.* The driver sends it if EC2 has accepted a DetachVolume, a
//!    describe lists nothing, and such a describe will not be a proof for at least another 0.5 s. A refusal with
//!    `'available'` proves the detachment, and any other refusal proves nothing. The call needs a token that no other
//!    call needs ([`super::detach_call`]).
//! 7. *Otherwise*, a describe that lists nothing is a proof if sent at least 15 s after the answer to DetachVolume.
//! 8. *EC2 may still carry out an AttachVolume that got no answer.* The driver waits 15 s for it before it sends
//!    DetachVolume, so that the attach cannot follow the detach. The same applies to an AttachVolume of another
//!    process, which may have been the leader until a moment ago. If this process did not make the attachment, the
//!    proof needs another DetachVolume, sent after the attacher has called only this process for 15 s.
//! 9. *"Attached" may show an earlier attachment.* Ours has the attach time that EC2 returned. With SageMaker, ours is
//!    the attachment that began when SageMaker answered. After a call without an answer, describes sent 15 s later show
//!    the outcome. An attachment that existed before our call counts at once if this process knows it, or if it began
//!    at least 15 s ago. There are two exceptions: this process sent a DetachVolume for it within the last 15 s, or
//!    this process does not know it and has been the only leader for less than 15 s. Any other attachment counts 15 s
//!    after this process first saw it, even in an earlier attempt.
//!
//! Attach times that differ by 2 s or less are equal: descriptions are not more precise, and AWS does not document how
//! EC2 rounds.
//!
//! Decision: `docs/dev/decisions/0007-report-detached-only-with-proof.md`.

use std::time::{Duration, SystemTime};

use ebs_ec2::{Attachment, Ec2Error, ErrorClass};
use tokio::time::Instant;

use super::memory::{Event, KnownAttachment};
use crate::timeouts::SETTLE;
use crate::wall_clock;

/// The largest difference between two attach times that EC2 may report for one attachment.
const SAME: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Describes sent at this instant (15 s after EC2's answer) or later show the current state.
    pub(crate) settled: Instant,
    identity: Identity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Identity {
    /// The attach time that EC2 returned, if any, and how far a listed attach time may differ from it.
    AttachTime(Option<SystemTime>, Duration),
    /// The call got no answer, so nothing identifies its attachment in a describe.
    Unknown,
    /// The attachment existed before our call.
    Existing(ExistingAttachment),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ExistingAttachment {
    known: Option<KnownAttachment>,
    /// DescribeVolumes calls sent at this instant or later show the effects of this process's calls.
    shows_ours: Option<Instant>,
    /// Describes sent at this instant or later also show the effects of another process's earlier calls.
    shows_all: Instant,
}

impl Expected {
    /// Expects the attachment of a call that EC2 has just accepted.
    pub(crate) fn accepted(attach_time: Option<SystemTime>) -> Self {
        Self { settled: Instant::now() + SETTLE, identity: Identity::AttachTime(attach_time, SAME) }
    }

    /// Expects the attachment that began during a SageMaker call. The call took `took` and was just accepted.
    pub(crate) fn begun(said_at: Option<SystemTime>, took: Duration) -> Self {
        Self { identity: Identity::AttachTime(said_at, SAME + took), ..Self::accepted(said_at) }
    }

    /// Expects the attachment of a call that has just ended without an answer.
    pub(crate) fn unclear() -> Self {
        Self::unclear_until(Instant::now() + SETTLE)
    }

    /// Expects the attachment of an attach call that got no answer. EC2 may carry out the call until `settled`.
    pub(crate) fn unclear_until(settled: Instant) -> Self {
        Self { settled, identity: Identity::Unknown }
    }

    /// Expects an attachment that already existed when EC2 refused the call. The attacher has called only this process
    /// since `alone_since`. EC2 answered the last DetachVolume of this process at `detached`.
    pub(crate) fn existing(known: Option<KnownAttachment>, alone_since: Instant, detached: Option<Instant>) -> Self {
        let shows_ours = detached.map(|detached| detached + SETTLE);
        let shows_all = shows_ours.unwrap_or(alone_since).max(alone_since + SETTLE);
        let identity = Identity::Existing(ExistingAttachment { known, shows_ours, shows_all });
        Self { identity, ..Self::accepted(None) }
    }

    pub(crate) fn event(&self) -> Event {
        match self.identity {
            Identity::AttachTime(attach_time, _) => Event::Attached { attach_time },
            Identity::Existing(_) => Event::Attached { attach_time: None },
            Identity::Unknown => Event::AttachUnclear { until: self.settled },
        }
    }

    /// Returns true if EC2's answer showed that the attachment existed.
    pub(crate) fn is_certain(&self) -> bool {
        self.identity != Identity::Unknown
    }

    /// Returns true if EC2 returned the attach time of the listed attachment when it accepted our call.
    pub(crate) fn has_attach_time_of(&self, listed: &Attachment) -> bool {
        matches!(self.identity, Identity::AttachTime(expected, within) if is_near(expected, listed.attach_time, within))
    }

    /// Returns why a describe sent at `sent` proves that the listed attachment exists now, or `None` without a proof.
    pub(crate) fn proof(&self, listed: &Attachment, sent: Instant, now: SystemTime) -> Option<Proof> {
        let (is_identified, at_settled) = match self.identity {
            Identity::AttachTime(Some(_), _) => (self.has_attach_time_of(listed), Proof::TimeInstead),
            Identity::Existing(existing) => (existing.is_shown_by(listed, sent, now), Proof::Time),
            Identity::AttachTime(None, _) | Identity::Unknown => (false, Proof::Time),
        };
        if is_identified {
            return Some(Proof::Identity);
        }
        (sent >= self.settled).then_some(at_settled)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The listed attachment is the expected one, as far as this process knows.
    Identity,
    /// The describe is late enough to show the current state, and this process had no attach time to compare.
    Time,
    /// The describe is late enough to show the current state, although it lists another attach time than EC2 returned
    /// for our call.
    TimeInstead,
}

impl ExistingAttachment {
    fn is_shown_by(&self, listed: &Attachment, sent: Instant, now: SystemTime) -> bool {
        if self.shows_ours.is_some_and(|from| sent < from) {
            return false;
        }
        let is_known = |known: KnownAttachment| {
            is_same(known.attach_time, listed.attach_time) && (known.is_sure || sent >= known.at + SETTLE)
        };
        let is_old = age(listed, now).is_some_and(|age| age >= SETTLE);
        self.known.is_some_and(is_known) || (is_old && sent >= self.shows_all)
    }
}

/// Returns the minimum age of the attachment when EC2 replied. `now` is our time of day, for replies without a date.
pub(crate) fn age(said: &Attachment, now: SystemTime) -> Option<Duration> {
    wall_clock::age(said.attach_time, said.said_at, now)
}

/// Returns true if both times are known and differ by at most [`SAME`].
pub(crate) fn is_same(one: Option<SystemTime>, other: Option<SystemTime>) -> bool {
    is_near(one, other, SAME)
}

fn is_near(one: Option<SystemTime>, other: Option<SystemTime>, within: Duration) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return false };
    one.duration_since(other).unwrap_or_else(|earlier| earlier.duration()) <= within
}

/// Returns the instant from which an empty describe proves that the attachment ended. EC2 accepted the detach at
/// `detached` and answered `said`.
pub(crate) fn end_is_believed_from(
    detached: Instant,
    said: &Attachment,
    known: Option<KnownAttachment>,
    now: SystemTime,
) -> Instant {
    let by_age = believed_by_age(detached, said, now);
    let by_memory = known.filter(|known| is_same(known.attach_time, said.attach_time)).map(|known| known.at + SETTLE);
    let at_the_latest = detached + SETTLE;
    at_the_latest.min(by_age.unwrap_or(at_the_latest)).min(by_memory.unwrap_or(at_the_latest))
}

/// Returns the instant from which an empty describe proves the detachment, by the attachment's age. EC2 reported `said`
/// at `at`.
pub(crate) fn believed_by_age(at: Instant, said: &Attachment, now: SystemTime) -> Option<Instant> {
    Some(at + SETTLE.saturating_sub(age(said, now)?))
}

pub(crate) fn reports_not_attached(refusal: &Ec2Error) -> bool {
    match refusal.class {
        ErrorClass::AttachmentNotFound
        | ErrorClass::VolumeNotFound
        | ErrorClass::InstanceNotFound
        | ErrorClass::MalformedId => true,
        _ => reports_available(refusal),
    }
}

/// Returns true if EC2 refused a DetachVolume because the volume is `available`, so nothing is attached.
pub(crate) fn reports_available(refusal: &Ec2Error) -> bool {
    // EC2 also writes "vol-1 is not 'available'", which means the opposite.
    refusal.class == ErrorClass::IncorrectState && refusal.message.contains("in the 'available' state")
}

/// Returns true if EC2 refused a DetachVolume because nothing is attached, but a later AttachVolume could succeed.
pub(crate) fn reports_attachable(refusal: &Ec2Error) -> bool {
    let nothing_to_attach =
        matches!(refusal.class, ErrorClass::VolumeNotFound | ErrorClass::InstanceNotFound | ErrorClass::MalformedId);
    reports_not_attached(refusal) && !nothing_to_attach
}

#[cfg(test)]
mod tests {
    use ebs_ec2::Action;

    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn said(attach_time: Option<SystemTime>, said_at: Option<SystemTime>) -> Attachment {
        Attachment {
            volume: ebs_ec2::VolumeId::parse("vol-1").unwrap(),
            instance: None,
            associated_resource: None,
            device: None,
            state: ebs_ec2::AttachmentState::Detaching,
            card: None,
            attach_time,
            said_at,
        }
    }

    /// If a reply has no date, the driver allows for a clock error of 5 min.
    #[tokio::test(start_paused = true)]
    async fn detachment_is_proven_15_s_after_a_known_attachment() {
        let today = SystemTime::UNIX_EPOCH + seconds(1_000_000);
        let start = Instant::now();
        let detached = start + seconds(100);
        let known = |attach_time, at| {
            Some(KnownAttachment { attach_time: Some(attach_time), at: start + seconds(at), is_sure: true })
        };
        let young = today - seconds(60);
        for (what, attach_time, known, believed_from) in [
            ("made by us a minute ago", Some(young), known(young, 40), 55),
            ("made by us just now", Some(young), known(young, 98), 113),
            ("made by us, and again by another process", Some(young), known(today - seconds(90), 10), 115),
            ("made by another", Some(young), None, 115),
            ("made by another long ago", Some(today - seconds(315)), None, 100),
            ("made nearly so long ago", Some(today - seconds(314)), None, 101),
            ("made in the future, by a wrong clock", Some(today + seconds(9)), None, 115),
            ("without attach time", None, known(young, 1), 115),
        ] {
            let from = end_is_believed_from(detached, &said(attach_time, None), known, today);
            assert_eq!((from - start).as_secs(), believed_from, "{what}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn attachment_age_uses_the_date_of_the_reply() {
        let theirs = SystemTime::UNIX_EPOCH + seconds(1_000_000);
        let detached = Instant::now();
        for ours in [theirs, theirs - seconds(86_400), theirs + seconds(86_400)] {
            for (age, believed_after) in [(0, 15), (1, 15), (5, 11), (15, 1), (16, 0), (400, 0)] {
                let said = said(Some(theirs - seconds(age)), Some(theirs));
                let from = end_is_believed_from(detached, &said, None, ours);
                assert_eq!((from - detached).as_secs(), believed_after, "{age} s old");
            }
        }
    }

    /// `IncorrectState` does not prove the detachment: the volume may still be detaching.
    #[test]
    fn only_not_attached_errors_prove_detachment() {
        let refusal = |class, message: &str| Ec2Error::new(Action::DetachVolume, class, message);
        let available = "Volume 'vol-1' is in the 'available' state.";
        let detaching = "Volume 'vol-1' is in the 'detaching' state.";
        assert!(reports_not_attached(&refusal(ErrorClass::IncorrectState, available)));
        let older = "Volume 'vol-1'is in the 'available' state.";
        assert!(reports_not_attached(&refusal(ErrorClass::IncorrectState, older)));
        for other in ["vol-1 is not 'available'.", "Unable to detach root volume 'vol-1' from instance 'i-1'"] {
            assert!(!reports_not_attached(&refusal(ErrorClass::IncorrectState, other)), "{other}");
        }
        assert!(reports_not_attached(&refusal(ErrorClass::AttachmentNotFound, "")));
        assert!(reports_not_attached(&refusal(ErrorClass::VolumeNotFound, "")));
        assert!(reports_not_attached(&refusal(ErrorClass::InstanceNotFound, "")));
        assert!(!reports_not_attached(&refusal(ErrorClass::IncorrectState, detaching)));
        assert!(!reports_not_attached(&refusal(ErrorClass::Ambiguous, available)));
    }

    #[test]
    fn attach_times_within_2_s_are_equal() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(5_100);
        for (apart, same) in [(0, true), (1_999, true), (2_000, true), (2_001, false), (9_000, false)] {
            let other = time + Duration::from_millis(apart);
            assert_eq!(
                (is_same(Some(time), Some(other)), is_same(Some(other), Some(time))),
                (same, same),
                "{apart} ms"
            );
        }
        assert!(!is_same(None, None));
        assert!(!is_same(Some(time), None));
    }
}

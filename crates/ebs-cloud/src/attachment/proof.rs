//! What describes and refusals prove, and when.
//!
//! A description shows each object as it was at some time in the last 15 s ([`SETTLE`]), and of two descriptions the
//! later one may show the earlier time. EC2's guide says the same of the errors of mutating calls. What is assumed
//! (`docs/troubleshooting.md`, "What EC2 is taken to promise"): *mutating calls on one volume never go back in time*, and a state that
//! such a call names is the state. For one volume and one node this follows:
//!
//! 1. *"Nothing listed" may be the time before the attachment*, and so may `NotFound`. Either proves that the attachment
//!    is over only when it was asked 15 s or more after an instant at which the attachment existed. Nobody makes another
//!    one meanwhile: an orchestrator does not publish what it is unpublishing.
//! 2. *Known instants*: when EC2 accepted our AttachVolume, when a describe showed the attachment, when EC2 accepted
//!    our DetachVolume. An attachment that this process made more than 15 s ago is therefore over at the first describe
//!    that lists nothing. The answer to DetachVolume carries the attach time, which tells *which* attachment it was, so
//!    that a memory of an earlier one (another driver may have attached anew) proves nothing about this one.
//! 3. *The attach time is such an instant*, by AWS's own clock: the `Date` of the reply that names it tells how long ago it
//!    was, to a second. Only where a reply has no date does our clock count, and less by [`wall_clock::CLOCK_ERROR`]: EC2 refuses
//!    requests whose signature is 5 min off, so a clock that works is less wrong than that. SageMaker's answer to a
//!    detach names no attachment: there the describes after it tell the attach time.
//! 4. *Having seen `detaching` proves nothing more*: the next describe may show the time before the attachment.
//! 5. *`IncorrectState` of a volume "in the 'available' state" is the state itself*: nothing is attached. Any other
//!    `IncorrectState` may mean that the volume is `detaching`: then rule 7 holds.
//! 6. *One more DetachVolume asks for the state itself* where EC2 has accepted one, a describe lists nothing and that
//!    would prove nothing for more than 2 s: `'available'` is the end, any other refusal proves nothing. It is sent
//!    only with a token that nobody needs ([`super::detach_call`]).
//! 7. *Otherwise* 15 s after the answer to DetachVolume every describe shows a time after it.
//! 8. An AttachVolume without answer may still be carried out: it is given its 15 s before the DetachVolume is sent,
//!    so that it cannot come after it. The same holds for one of another process, which may have
//!    led until a moment ago: the end of an attachment that this process did not make is believed only when the attacher has
//!    asked it alone for 15 s, and EC2 is asked once more then.
//! 9. *"Attached" may be an earlier attachment.* Ours is the one whose attach time EC2 gave us (SageMaker: the one that began
//!    when it answered). After an answer without, what describes sent 15 s later show is true. Of an attachment that
//!    was there before we asked: one that this process knows, or that began 15 s ago or more, is believed at once,
//!    unless the process has itself sent a DetachVolume for it within 15 s or, not knowing it, has alone been asked for less; others
//!    once 15 s have passed since this process first saw them, over all attempts.
//!
//! Attach times that differ by 2 s or less are the same: descriptions are no finer, and nobody says how EC2 rounds.
//!
//! Decision: `docs/decisions/0007-report-detached-only-with-proof.md`.

use std::time::{Duration, SystemTime};

use ebs_ec2::{Attachment, Ec2Error, ErrorClass};
use tokio::time::Instant;

use crate::bounds::SETTLE;
use crate::wall_clock;

/// Attach times that differ by no more are those of one attachment.
const SAME: Duration = Duration::from_secs(2);

/// An attachment that is known to have existed at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Existed {
    pub(crate) attach_time: Option<SystemTime>,
    pub(crate) at: Instant,
    /// EC2 said so to our call, or describes have proven that it was there then. Otherwise a describe has listed it.
    pub(crate) is_sure: bool,
}

/// Which attachment is waited for, and from when on describes must show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    /// The attach time that EC2 gave it.
    pub(crate) attach_time: Option<SystemTime>,
    /// By how much the attach time that EC2 lists may differ.
    within: Duration,
    /// Describes sent from this instant on show what is: 15 s after the answer.
    pub(crate) settled: Instant,
    /// EC2's answer was clear: there was such an attachment.
    pub(crate) certain: bool,
    /// It was there before we asked.
    found: Option<Found>,
}

/// What is known of an attachment that was there before we asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    known: Option<Existed>,
    /// Describes sent from this instant on show what this process has done to it.
    shows_ours: Option<Instant>,
    /// Describes sent from this instant on show what another process has done before, too.
    shows_all: Instant,
}

impl Expected {
    /// EC2 took the call just now.
    pub(crate) fn accepted(attach_time: Option<SystemTime>) -> Self {
        Self { attach_time, within: SAME, settled: Instant::now() + SETTLE, certain: true, found: None }
    }

    /// SageMaker took the call: the attachment began while it did, which took so long until now.
    pub(crate) fn begun(said_at: Option<SystemTime>, took: Duration) -> Self {
        Self { within: SAME + took, ..Self::accepted(said_at) }
    }

    /// The answer was lost just now.
    pub(crate) fn unclear() -> Self {
        Self::unclear_until(Instant::now() + SETTLE)
    }

    /// The answer was lost; until then the call may still be carried out.
    pub(crate) fn unclear_until(settled: Instant) -> Self {
        Self { attach_time: None, within: SAME, settled, certain: false, found: None }
    }

    /// EC2 says that there is an attachment already. `alone_since`: when the attacher began to ask this process alone;
    /// `detached`: its last DetachVolume.
    pub(crate) fn found(known: Option<Existed>, alone_since: Instant, detached: Option<Instant>) -> Self {
        let shows_ours = detached.map(|detached| detached + SETTLE);
        let shows_all = shows_ours.unwrap_or(alone_since).max(alone_since + SETTLE);
        Self { found: Some(Found { known, shows_ours, shows_all }), ..Self::accepted(None) }
    }

    /// True for the attachment that EC2 gave us, by its attach time.
    pub(crate) fn is(&self, listed: &Attachment) -> bool {
        is_near(self.attach_time, listed.attach_time, self.within)
    }

    /// Whether a describe sent at that instant that lists this attachment proves that it is there now; `now` is our
    /// time of day.
    pub(crate) fn proof(&self, listed: &Attachment, sent: Instant, now: SystemTime) -> Option<Proof> {
        if self.is(listed) || self.found.as_ref().is_some_and(|found| found.is_shown_by(listed, sent, now)) {
            return Some(Proof::Identity);
        }
        let expected = self.attach_time.is_some();
        (sent >= self.settled).then_some(if expected { Proof::TimeInstead } else { Proof::Time })
    }
}

/// What a listed attachment is believed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// It is the one, by what is known of it.
    Identity,
    /// Describes show what is by now; nothing else was expected to tell.
    Time,
    /// Describes show what is by now, and it is not the one that EC2 gave us.
    TimeInstead,
}

impl Found {
    fn is_shown_by(&self, listed: &Attachment, sent: Instant, now: SystemTime) -> bool {
        if self.shows_ours.is_some_and(|from| sent < from) {
            return false;
        }
        let is_known = |known: Existed| {
            is_same(known.attach_time, listed.attach_time) && (known.is_sure || sent >= known.at + SETTLE)
        };
        let is_old = age(listed, now).is_some_and(|age| age >= SETTLE);
        self.known.is_some_and(is_known) || (is_old && sent >= self.shows_all)
    }
}

/// How long the attachment had lasted at least when EC2 spoke of it; `now` is our time of day, for replies without a date.
pub(crate) fn age(said: &Attachment, now: SystemTime) -> Option<Duration> {
    wall_clock::age(said.attach_time, said.said_at, now)
}

/// True when both are known and the same.
pub(crate) fn is_same(one: Option<SystemTime>, other: Option<SystemTime>) -> bool {
    is_near(one, other, SAME)
}

fn is_near(one: Option<SystemTime>, other: Option<SystemTime>, within: Duration) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return false };
    one.duration_since(other).unwrap_or_else(|earlier| earlier.duration()) <= within
}

/// From when on describes that list nothing prove the end of an attachment that EC2 has just agreed to detach:
/// `detached` is when it did so and `said` what it said, `known` is what this process remembers and `now` its time of
/// day.
pub(crate) fn end_is_believed_from(
    detached: Instant,
    said: &Attachment,
    known: Option<Existed>,
    now: SystemTime,
) -> Instant {
    let by_age = believed_by_age(detached, said, now);
    let by_memory = known.filter(|known| is_same(known.attach_time, said.attach_time)).map(|known| known.at + SETTLE);
    let at_the_latest = detached + SETTLE;
    at_the_latest.min(by_age.unwrap_or(at_the_latest)).min(by_memory.unwrap_or(at_the_latest))
}

/// The same by the age of what EC2 said at that instant.
pub(crate) fn believed_by_age(at: Instant, said: &Attachment, now: SystemTime) -> Option<Instant> {
    Some(at + SETTLE.saturating_sub(age(said, now)?))
}

/// True when a refused DetachVolume says that there is no such attachment.
pub(crate) fn says_not_attached(refusal: &Ec2Error) -> bool {
    match refusal.class {
        ErrorClass::AttachmentNotFound
        | ErrorClass::VolumeNotFound
        | ErrorClass::InstanceNotFound
        | ErrorClass::MalformedId => true,
        _ => is_available(refusal),
    }
}

/// True when a refused DetachVolume names the state itself: nothing is attached.
pub(crate) fn is_available(refusal: &Ec2Error) -> bool {
    // "vol-1 is not 'available'" says the opposite.
    refusal.class == ErrorClass::IncorrectState && refusal.message.contains("in the 'available' state")
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

    fn said(attach_time: Option<SystemTime>, said_at: Option<SystemTime>) -> Attachment {
        Attachment {
            volume: ebs_types::VolumeId::parse("vol-1").unwrap(),
            instance: None,
            associated_resource: None,
            device: None,
            state: ebs_ec2::AttachmentState::Detaching,
            card: None,
            attach_time,
            said_at,
        }
    }

    /// From when on an empty listing proves the end follows from what is known of the attachment, clock errors of 5 min
    /// included where a reply has no date.
    #[tokio::test(start_paused = true)]
    async fn an_end_is_believed_fifteen_seconds_after_an_instant_at_which_the_attachment_existed() {
        let today = SystemTime::UNIX_EPOCH + seconds(1_000_000);
        let start = Instant::now();
        let detached = start + seconds(100);
        let known =
            |attach_time, at| Some(Existed { attach_time: Some(attach_time), at: start + seconds(at), is_sure: true });
        let young = today - seconds(60);
        for (what, attach_time, known, believed_from) in [
            ("made by us a minute ago", Some(young), known(young, 40), 55),
            ("made by us just now", Some(young), known(young, 98), 113),
            ("made by us, and anew by another", Some(young), known(today - seconds(90), 10), 115),
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

    /// Ages come from the `Date` of AWS's reply against the attach time in it, whatever our clock says.
    #[tokio::test(start_paused = true)]
    async fn ages_are_told_by_awss_clock_whatever_ours_says() {
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

    /// Only refusals about what is say that nothing is attached; `IncorrectState` of a detaching volume does not.
    #[test]
    fn only_refusals_about_what_is_say_that_nothing_is_attached() {
        let refusal = |class, message: &str| Ec2Error::new(Action::DetachVolume, class, message);
        let available = "Volume 'vol-1' is in the 'available' state.";
        let detaching = "Volume 'vol-1' is in the 'detaching' state.";
        assert!(says_not_attached(&refusal(ErrorClass::IncorrectState, available)));
        let older = "Volume 'vol-1'is in the 'available' state.";
        assert!(says_not_attached(&refusal(ErrorClass::IncorrectState, older)));
        for other in ["vol-1 is not 'available'.", "Unable to detach root volume 'vol-1' from instance 'i-1'"] {
            assert!(!says_not_attached(&refusal(ErrorClass::IncorrectState, other)), "{other}");
        }
        assert!(says_not_attached(&refusal(ErrorClass::AttachmentNotFound, "")));
        assert!(says_not_attached(&refusal(ErrorClass::VolumeNotFound, "")));
        assert!(says_not_attached(&refusal(ErrorClass::InstanceNotFound, "")));
        assert!(!says_not_attached(&refusal(ErrorClass::IncorrectState, detaching)));
        assert!(!says_not_attached(&refusal(ErrorClass::Ambiguous, available)));
    }

    /// Attach times within 2 s are one attachment; a wait that time ended although another attach time was expected is
    /// logged and counted.
    #[test]
    fn attach_times_are_the_same_within_two_seconds() {
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

//! What this process knows about a volume's attachment to a node, as a state machine: the results of calls and
//! describes are events that change the state. A new process has to prove the same state with describes, which takes up
//! to 15 s.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use ebs_ec2::{NodeId, VolumeId};
use tokio::time::Instant;

use super::believe::is_same;
use crate::timeouts::SETTLE;
use crate::traffic::sweep;

const KNOWN_LIFETIME: Duration = Duration::from_secs(24 * 3600);
const UNFINISHED_LIFETIME: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pair {
    pub(crate) volume: VolumeId,
    pub(crate) node: NodeId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownAttachment {
    pub(crate) attach_time: Option<SystemTime>,
    /// The earliest instant at which the attachment is known to have existed.
    pub(crate) at: Instant,
    /// True if EC2 accepted our AttachVolume or describes have proven the attachment, not only listed it.
    pub(crate) is_sure: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Unfinished {
    #[default]
    Nothing,
    /// An AttachVolume call got no answer. EC2 may carry out the call until `until`.
    Attach { sent: Instant, until: Instant },
    /// EC2 may have accepted a DetachVolume, and this process has seen neither its end nor a later attachment.
    Detach { since: Instant },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AttachmentState {
    pub(crate) unfinished: Unfinished,
    /// The last attachment that this process knows, and when the memory recorded it.
    known: Option<(KnownAttachment, Instant)>,
    /// When EC2 answered the last DetachVolume. For [`SETTLE`] after that, describes may not show the detachment yet.
    pub(crate) detach_answered: Option<Instant>,
    /// Until when EC2 may still carry out an unanswered DetachVolume, even on a new attachment.
    pub(crate) late_detach_until: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// EC2 accepted an AttachVolume, or describes have proven that the attachment exists now.
    Attached {
        attach_time: Option<SystemTime>,
    },
    /// An AttachVolume call got no answer. EC2 may carry out the call until `until`.
    AttachUnclear {
        until: Instant,
    },
    /// A describe sent at `sent` listed the attachment. The attachment existed then, and may have ended since.
    Listed {
        attach_time: Option<SystemTime>,
        sent: Instant,
    },
    DetachAnswered,
    DetachUnclear,
    /// EC2 accepted a DetachVolume, or may have accepted it.
    Detaching,
    Ended,
}

impl AttachmentState {
    pub(crate) fn known(&self) -> Option<KnownAttachment> {
        self.known.map(|(known, _)| known)
    }

    /// Returns the state after an event at `now`. An event changes only the fields that it concerns.
    fn after(self, event: Event, now: Instant) -> Self {
        match event {
            Event::Attached { attach_time } => {
                let earlier = self.known().filter(|known| is_same(known.attach_time, attach_time));
                let at = earlier.map_or(now, |known| known.at);
                let known = KnownAttachment { attach_time, at, is_sure: true };
                Self { unfinished: Unfinished::Nothing, known: Some((known, now)), ..self }
            }
            Event::AttachUnclear { until } => Self { unfinished: Unfinished::Attach { sent: now, until }, ..self },
            Event::Listed { attach_time, sent } => match self.known() {
                Some(known) if is_same(known.attach_time, attach_time) => self,
                // A describe may still list an earlier attachment. Such a describe does not change the memory of a
                // later attachment.
                Some(known) if known.attach_time > attach_time => self,
                _ => Self { known: Some((KnownAttachment { attach_time, at: sent, is_sure: false }, now)), ..self },
            },
            Event::DetachAnswered => Self { detach_answered: Some(now), ..self },
            Event::DetachUnclear => Self { late_detach_until: Some(now + SETTLE), ..self },
            Event::Detaching => Self { unfinished: Unfinished::Detach { since: now }, ..self },
            Event::Ended => Self { unfinished: Unfinished::Nothing, known: None, ..self },
        }
    }

    fn at(self, now: Instant) -> Self {
        let is_kept = match self.unfinished {
            Unfinished::Nothing => false,
            Unfinished::Attach { sent: since, .. } | Unfinished::Detach { since } => now < since + UNFINISHED_LIFETIME,
        };
        Self {
            unfinished: if is_kept { self.unfinished } else { Unfinished::Nothing },
            known: self.known.filter(|(_, recorded)| now < *recorded + KNOWN_LIFETIME),
            detach_answered: self.detach_answered.filter(|answered| now < *answered + SETTLE),
            late_detach_until: self.late_detach_until.filter(|until| now < *until),
        }
    }
}

/// The states of all pairs. They outlive an attempt, so a retry can use what an earlier attempt has proven.
#[derive(Debug, Default)]
pub(crate) struct PairMemory(Mutex<HashMap<Pair, AttachmentState>>);

impl PairMemory {
    pub(crate) fn state(&self, pair: &Pair) -> AttachmentState {
        let states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        states.get(pair).copied().unwrap_or_default().at(Instant::now())
    }

    pub(crate) fn record(&self, pair: &Pair, event: Event) {
        let now = Instant::now();
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if states.len() == states.capacity() {
            sweep(&mut states, |state| state.at(now) != AttachmentState::default());
        }
        let state = states.entry(pair.clone()).or_default();
        *state = state.at(now).after(event, now);
    }

    /// Records that a describe sent at `sent` listed the attachment. Returns what this process knows about it.
    pub(crate) fn record_listed(&self, pair: &Pair, attach_time: Option<SystemTime>, sent: Instant) -> KnownAttachment {
        let known = self.state(pair).known().filter(|known| is_same(known.attach_time, attach_time));
        self.record(pair, Event::Listed { attach_time, sent });
        known.unwrap_or(KnownAttachment { attach_time, at: sent, is_sure: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(seconds: u64) -> Option<SystemTime> {
        Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
    }

    #[tokio::test(start_paused = true)]
    async fn unfinished_call_follows_the_transition_table() {
        let (then, until) = (Instant::now(), Instant::now() + SETTLE);
        let now = then + Duration::from_secs(5);
        let (nothing, attach, detach) =
            (Unfinished::Nothing, Unfinished::Attach { sent: then, until }, Unfinished::Detach { since: then });
        let attach_now = Unfinished::Attach { sent: now, until: now + SETTLE };
        let detach_now = Unfinished::Detach { since: now };
        let listed = Event::Listed { attach_time: time(1), sent: then };
        for (event, after) in [
            // Each row has the expected results for a pair that was in state `nothing`, `attach` or `detach`.
            (Event::Attached { attach_time: time(1) }, [nothing, nothing, nothing]),
            (Event::AttachUnclear { until: now + SETTLE }, [attach_now, attach_now, attach_now]),
            (listed, [nothing, attach, detach]),
            (Event::DetachAnswered, [nothing, attach, detach]),
            (Event::DetachUnclear, [nothing, attach, detach]),
            (Event::Detaching, [detach_now, detach_now, detach_now]),
            (Event::Ended, [nothing, nothing, nothing]),
        ] {
            for (before, after) in [nothing, attach, detach].into_iter().zip(after) {
                let state = AttachmentState { unfinished: before, ..AttachmentState::default() };
                assert_eq!(state.after(event, now).unfinished, after, "{before:?}, {event:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn known_attachment_follows_the_transition_table() {
        let (then, sent) = (Instant::now(), Instant::now() + Duration::from_secs(3));
        let now = then + Duration::from_secs(5);
        let known = |attach_time, at, is_sure| Some(KnownAttachment { attach_time, at, is_sure });
        let attached = |seconds| Event::Attached { attach_time: time(seconds) };
        let listed = |attach_time| Event::Listed { attach_time, sent };
        let (sure, seen) = (known(time(100), then, true), known(time(100), then, false));
        for (before, event, after) in [
            (None, attached(100), known(time(100), now, true)),
            (sure, attached(102), known(time(102), then, true)),
            (seen, attached(100), sure),
            (sure, attached(103), known(time(103), now, true)),
            (None, listed(time(100)), known(time(100), sent, false)),
            (sure, listed(time(98)), sure),
            (seen, listed(time(102)), seen),
            (sure, listed(time(97)), sure),
            (sure, listed(time(103)), known(time(103), sent, false)),
            (sure, listed(None), sure),
            (known(None, then, true), listed(None), known(None, sent, false)),
            (sure, Event::AttachUnclear { until: now }, sure),
            (sure, Event::DetachAnswered, sure),
            (sure, Event::DetachUnclear, sure),
            (sure, Event::Detaching, sure),
            (sure, Event::Ended, None),
        ] {
            let state = AttachmentState { known: before.map(|known| (known, then)), ..AttachmentState::default() };
            assert_eq!(state.after(event, now).known(), after, "{before:?}, {event:?}");
        }
    }

    /// After an attachment has ended, describes may still be stale, and EC2 may still carry out an unanswered call.
    #[tokio::test(start_paused = true)]
    async fn detach_is_remembered_for_15_s_after_its_end() {
        let (memory, began) = (PairMemory::default(), Instant::now());
        let pair = Pair { volume: VolumeId::parse("vol-1").unwrap(), node: NodeId::parse("i-1").unwrap() };
        memory.record(&pair, Event::DetachAnswered);
        memory.record(&pair, Event::DetachUnclear);
        for event in [Event::Detaching, Event::Ended, Event::Attached { attach_time: time(1) }] {
            memory.record(&pair, event);
            let state = memory.state(&pair);
            assert_eq!((state.detach_answered, state.late_detach_until), (Some(began), Some(began + SETTLE)));
        }
        tokio::time::advance(SETTLE).await;
        let state = memory.state(&pair);
        assert_eq!((state.detach_answered, state.late_detach_until), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn volume_node_pair_states_expire() {
        let memory = PairMemory::default();
        let pair = Pair { volume: VolumeId::parse("vol-1").unwrap(), node: NodeId::parse("i-1").unwrap() };
        memory.record(&pair, Event::Attached { attach_time: time(1) });
        memory.record(&pair, Event::Detaching);
        let second = Duration::from_secs(1);
        for (passed, is_detaching, is_known) in [
            (UNFINISHED_LIFETIME - second, true, true),
            (second, false, true),
            (KNOWN_LIFETIME - UNFINISHED_LIFETIME - second, false, true),
            (second, false, false),
        ] {
            tokio::time::advance(passed).await;
            let state = memory.state(&pair);
            let states = (state.unfinished != Unfinished::Nothing, state.known().is_some());
            assert_eq!(states, (is_detaching, is_known), "after another {passed:?}");
        }
    }
}

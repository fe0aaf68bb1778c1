//! For how long this process has been the only one that a sidecar asks.
//!
//! A sidecar asks the driver of its own pod, while it holds its lease. A process that is new, or that stood by until now,
//! must reckon with what another one did for the sidecar a moment ago: describes may not show it yet, and EC2 may carry
//! out calls of it that are under way.
//!
//! Decision: `docs/decisions/0006-assume-stale-reads-and-a-previous-leader.md`.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ebs_calls::Expiring;
use ebs_types::ConnectionId;
use tokio::time::Instant;

use crate::bounds::SETTLE;

/// For how long a connection over which nothing comes is remembered.
const CONNECTION_MEMORY: Duration = Duration::from_secs(7 * 24 * 3600);

/// Which requests a lease brings to a process: those of one sidecar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sidecar {
    /// CreateVolume and DeleteVolume.
    Provisioner,
    /// ControllerPublishVolume and ControllerUnpublishVolume.
    Attacher,
    /// CreateSnapshot and DeleteSnapshot.
    Snapshotter,
    /// ControllerExpandVolume and ControllerModifyVolume.
    Resizer,
    /// ModifyVolumeProperties of the volume modifier, which has a lease of its own beside the resizer's.
    VolumeModifier,
}

/// A time in which a sidecar can have asked no other process: it has kept its connection, or has asked again and again.
#[derive(Debug, Clone, Copy)]
struct LeaseTerm {
    began: Instant,
    last_asked: Instant,
    is_connected: bool,
}

/// The present term of each sidecar.
#[derive(Debug, Default)]
pub(crate) struct LeaseTerms {
    current: Mutex<[Option<LeaseTerm>; 5]>,
    /// When the term began in which a connection was first used.
    connections: Expiring<(Sidecar, ConnectionId), Instant>,
}

impl LeaseTerms {
    /// A mutating request of the sidecar has come, or is served until now. After a pause in which the lease may have been
    /// another process's, a new term begins, unless the request comes over a connection that was open all the time.
    pub(crate) fn note_request(&self, sidecar: Sidecar, connection: Option<ConnectionId>) {
        let now = Instant::now();
        let kept = connection.and_then(|connection| self.connections.get(&(sidecar, connection)));
        let mut terms = self.current();
        let term = &mut terms[sidecar as usize];
        // A term that began over another connection since then says that the lease has moved.
        let kept = kept.map(|began| term.map_or(began, |term| began.max(term.began)));
        // Without a connection an operation says that it is still wanted, whoever has asked for it.
        let goes_on = |term: &LeaseTerm| now < term.last_asked + SETTLE || (term.is_connected && connection.is_none());
        let current = term.filter(goes_on);
        let began = kept.or(current.map(|term| term.began)).unwrap_or(now);
        let is_connected = connection.is_some() || current.is_some_and(|term| term.is_connected);
        *term = Some(LeaseTerm { began, last_asked: now, is_connected });
        drop(terms);
        if let Some(connection) = connection {
            self.connections.insert((sidecar, connection), began, CONNECTION_MEMORY);
        }
    }

    /// When the present term began.
    pub(crate) fn began(&self, sidecar: Sidecar) -> Instant {
        self.current()[sidecar as usize].map_or_else(Instant::now, |term| term.began)
    }

    /// From when on everything shows that another process has done for the sidecar, and nothing of it is under way.
    pub(crate) fn sole_from(&self, sidecar: Sidecar) -> Instant {
        self.began(sidecar) + SETTLE
    }

    /// The same of several sidecars that do the same to a volume, as far as they have asked this process at all.
    pub(crate) fn all_sole_from(&self, sidecars: &[Sidecar]) -> Instant {
        let current = self.current();
        let began = sidecars.iter().filter_map(|sidecar| current[*sidecar as usize]).map(|term| term.began);
        began.max().unwrap_or_else(Instant::now) + SETTLE
    }

    fn current(&self) -> MutexGuard<'_, [Option<LeaseTerm>; 5]> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn pass(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_ends_with_a_pause_in_which_another_process_may_have_been_asked() {
        let terms = LeaseTerms::default();
        pass(1000).await;
        terms.note_request(Sidecar::Provisioner, None);
        let began = Instant::now();
        for _ in 0..5 {
            pass(14).await;
            terms.note_request(Sidecar::Provisioner, None);
            assert_eq!(terms.began(Sidecar::Provisioner), began);
        }
        pass(15).await;
        terms.note_request(Sidecar::Provisioner, None);
        assert_eq!(terms.sole_from(Sidecar::Provisioner), Instant::now() + SETTLE, "its age proves nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn the_requests_of_one_sidecar_say_nothing_about_another() {
        let terms = LeaseTerms::default();
        terms.note_request(Sidecar::Provisioner, None);
        pass(14).await;
        terms.note_request(Sidecar::Snapshotter, None);
        assert_eq!(terms.began(Sidecar::Snapshotter), Instant::now());
        assert!(terms.began(Sidecar::Provisioner) < Instant::now());
    }

    /// A sidecar that keeps its connection asks no other process: the proof lasts as long as the connection, and a
    /// request over another connection, after a pause, begins anew.
    #[tokio::test(start_paused = true)]
    async fn a_term_lasts_as_long_as_the_connection_over_which_it_began() {
        let terms = LeaseTerms::default();
        let (kept, new) = (ConnectionId::unique(), ConnectionId::unique());
        terms.note_request(Sidecar::Attacher, Some(kept));
        let began = Instant::now();
        pass(24 * 3600).await;
        terms.note_request(Sidecar::Attacher, Some(kept));
        assert_eq!(terms.began(Sidecar::Attacher), began);
        pass(60).await;
        terms.note_request(Sidecar::Attacher, None);
        assert_eq!(terms.began(Sidecar::Attacher), began, "an operation that took so long");
        pass(15).await;
        terms.note_request(Sidecar::Attacher, Some(new));
        assert_eq!(terms.began(Sidecar::Attacher), Instant::now(), "a sidecar that lost its lease began anew");
        terms.note_request(Sidecar::Provisioner, Some(kept));
        assert_eq!(terms.began(Sidecar::Provisioner), Instant::now(), "each sidecar has a lease of its own");
    }

    /// An older connection proves nothing of the time before a term that began over another one.
    #[tokio::test(start_paused = true)]
    async fn a_term_never_begins_earlier_than_it_was_known_to() {
        let terms = LeaseTerms::default();
        let (old, new) = (ConnectionId::unique(), ConnectionId::unique());
        terms.note_request(Sidecar::Snapshotter, Some(old));
        pass(600).await;
        terms.note_request(Sidecar::Snapshotter, Some(new));
        let began = Instant::now();
        for seconds in [1, 600] {
            pass(seconds).await;
            terms.note_request(Sidecar::Snapshotter, Some(old));
            assert_eq!(terms.began(Sidecar::Snapshotter), began, "after {seconds} s");
        }
    }
}

//! Tracks how long a sidecar has called only this process.
//! A sidecar calls the driver of its own pod while it holds its lease. A new leader must expect recent changes of the
//! previous leader: describe calls may not show them yet, and EC2 may still carry out calls in flight.
//! Decision: `docs/dev/decisions/0006-assume-stale-reads-and-a-previous-leader.md`.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ebs_ec2::{ConnectionId, Waiters};
use tokio::time::Instant;

use crate::timeouts::SETTLE;
use crate::traffic::Expiring;

const CONNECTION_MEMORY: Duration = Duration::from_secs(7 * 24 * 3600);

/// A sidecar that calls only the process of the pod that holds its lease.
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
    /// ModifyVolumeProperties, from the volume modifier sidecar, which has its own lease.
    VolumeModifier,
}

/// A period in which a sidecar cannot have called another process: it kept its connection or, if its connections are
/// unknown, paused only briefly.
#[derive(Debug, Clone, Copy)]
struct LeaseTerm {
    began: Instant,
    last_asked: Instant,
    is_connected: bool,
}

#[derive(Debug, Default)]
pub(crate) struct LeaseTerms {
    current: Mutex<[Option<LeaseTerm>; 5]>,
    /// The start of the term in which each connection was first used.
    connections: Expiring<(Sidecar, ConnectionId), Instant>,
}

impl LeaseTerms {
    /// Records a mutating request of the sidecar, at the request's start or end. A new connection begins a new term: a
    /// sidecar that loses its lease closes its connection, so another process may have held the lease in between.
    pub(crate) fn record_request(&self, sidecar: Sidecar, connection: Option<ConnectionId>) {
        let now = Instant::now();
        let kept = connection.and_then(|connection| self.connections.get(&(sidecar, connection)));
        let mut terms = self.current();
        let term = &mut terms[sidecar as usize];
        // If a later term began over another connection, the lease has moved since this connection was first used.
        let kept = kept.map(|began| term.map_or(began, |term| began.max(term.began)));
        // A request recorded without a connection comes from an operation that some client still waits for.
        let goes_on = |term: &LeaseTerm| connection.is_none() && (term.is_connected || now < term.last_asked + SETTLE);
        let current = term.filter(goes_on);
        let began = kept.or(current.map(|term| term.began)).unwrap_or(now);
        let is_connected = connection.is_some() || current.is_some_and(|term| term.is_connected);
        *term = Some(LeaseTerm { began, last_asked: now, is_connected });
        drop(terms);
        if let Some(connection) = connection {
            self.connections.insert((sidecar, connection), began, CONNECTION_MEMORY);
        }
    }

    /// Runs an operation and records the sidecars' request: at the start, and at the end if a client still waits.
    pub(crate) async fn serve<F: Future>(&self, sidecars: &[Sidecar], waiters: &Waiters, operation: F) -> F::Output {
        sidecars.iter().for_each(|sidecar| self.record_request(*sidecar, None));
        let outcome = operation.await;
        if waiters.any() {
            sidecars.iter().for_each(|sidecar| self.record_request(*sidecar, None));
        }
        outcome
    }

    pub(crate) fn began(&self, sidecar: Sidecar) -> Instant {
        self.current()[sidecar as usize].map_or_else(Instant::now, |term| term.began)
    }

    /// Returns when all calls of other processes for the sidecar have ended and describes show their effects.
    pub(crate) fn sole_from(&self, sidecar: Sidecar) -> Instant {
        self.began(sidecar) + SETTLE
    }

    /// Returns the latest [`Self::sole_from`] of the sidecars that modify volumes and have called this process.
    pub(crate) fn modifiers_sole_from(&self) -> Instant {
        let current = self.current();
        let modifiers = [Sidecar::Resizer, Sidecar::VolumeModifier];
        let began = modifiers.iter().filter_map(|sidecar| current[*sidecar as usize]).map(|term| term.began);
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
    async fn lease_term_ends_after_15_s_without_requests() {
        let terms = LeaseTerms::default();
        pass(1000).await;
        terms.record_request(Sidecar::Provisioner, None);
        let began = Instant::now();
        for _ in 0..5 {
            pass(14).await;
            terms.record_request(Sidecar::Provisioner, None);
            assert_eq!(terms.began(Sidecar::Provisioner), began);
        }
        pass(15).await;
        terms.record_request(Sidecar::Provisioner, None);
        assert_eq!(terms.sole_from(Sidecar::Provisioner), Instant::now() + SETTLE, "its age proves nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn lease_terms_of_sidecars_are_independent() {
        let terms = LeaseTerms::default();
        terms.record_request(Sidecar::Provisioner, None);
        pass(14).await;
        terms.record_request(Sidecar::Snapshotter, None);
        assert_eq!(terms.began(Sidecar::Snapshotter), Instant::now());
        assert!(terms.began(Sidecar::Provisioner) < Instant::now());
    }

    /// While a sidecar keeps its connection, it calls no other controller process. A request over another connection
    /// begins a new term.
    #[tokio::test(start_paused = true)]
    async fn lease_term_lasts_as_long_as_its_connection() {
        let terms = LeaseTerms::default();
        let (kept, new) = (ConnectionId::unique(), ConnectionId::unique());
        terms.record_request(Sidecar::Attacher, Some(kept));
        let began = Instant::now();
        pass(24 * 3600).await;
        terms.record_request(Sidecar::Attacher, Some(kept));
        assert_eq!(terms.began(Sidecar::Attacher), began);
        pass(60).await;
        terms.record_request(Sidecar::Attacher, None);
        assert_eq!(terms.began(Sidecar::Attacher), began, "an operation that took so long");
        pass(15).await;
        terms.record_request(Sidecar::Attacher, Some(new));
        assert_eq!(terms.began(Sidecar::Attacher), Instant::now(), "a sidecar that lost its lease begins a new term");
        terms.record_request(Sidecar::Provisioner, Some(kept));
        assert_eq!(terms.began(Sidecar::Provisioner), Instant::now(), "each sidecar has its own lease");
    }

    /// A connection that a sidecar used before a lease change proves nothing about the time before the current term.
    #[tokio::test(start_paused = true)]
    async fn older_connection_does_not_extend_a_lease_term() {
        let terms = LeaseTerms::default();
        let (old, new) = (ConnectionId::unique(), ConnectionId::unique());
        terms.record_request(Sidecar::Snapshotter, Some(old));
        pass(600).await;
        terms.record_request(Sidecar::Snapshotter, Some(new));
        let began = Instant::now();
        for seconds in [1, 600] {
            pass(seconds).await;
            terms.record_request(Sidecar::Snapshotter, Some(old));
            assert_eq!(terms.began(Sidecar::Snapshotter), began, "after {seconds} s");
        }
    }

    /// The lease can move to another process and back within 15 s. The sidecar closes its connection when it loses the
    /// lease, so its next connection is new.
    #[tokio::test(start_paused = true)]
    async fn new_connection_begins_a_new_lease_term_at_once() {
        let terms = LeaseTerms::default();
        terms.record_request(Sidecar::Attacher, Some(ConnectionId::unique()));
        pass(11).await;
        let new = ConnectionId::unique();
        terms.record_request(Sidecar::Attacher, Some(new));
        let began = Instant::now();
        assert_eq!(terms.began(Sidecar::Attacher), began);
        pass(11).await;
        terms.record_request(Sidecar::Attacher, None);
        terms.record_request(Sidecar::Attacher, Some(new));
        assert_eq!(terms.began(Sidecar::Attacher), began);
    }
}

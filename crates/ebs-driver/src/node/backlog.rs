//! File systems that are smaller than their disks, as far as this process knows.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ebs_ec2::VolumeId;
use tokio::time::Instant;

use crate::timeouts::{GROWTH_DUE, LONG_GROWTH, LONG_GROWTH_PAUSE};

const NOT_TRIED: &str =
    "no growth was attempted; NodeExpandVolume or the next NodeStageVolume call grows the file system";

#[derive(Debug)]
pub(super) struct Failure {
    pub(super) missing: u64,
    pub(super) message: String,
    /// True if an earlier message about the volume explains the failure better.
    pub(super) explains_less: bool,
}

#[derive(Debug)]
struct Behind {
    missing: u64,
    since: Instant,
    failure: Option<String>,
}

impl Behind {
    fn new(missing: u64) -> Self {
        Self { missing, since: Instant::now(), failure: None }
    }

    fn why(&self) -> Option<&str> {
        let is_late = || self.since.elapsed() >= GROWTH_DUE;
        self.failure.as_deref().or_else(|| is_late().then_some(NOT_TRIED))
    }
}

/// The last failed attempt to grow a volume's file system before its mount.
#[derive(Debug)]
struct Attempt {
    /// The size in bytes before the attempt, and the wanted size.
    sizes: (u64, u64),
    ended: Instant,
    took: Duration,
}

#[derive(Debug, Default)]
struct Volumes {
    behind: BTreeMap<VolumeId, Behind>,
    attempts: BTreeMap<VolumeId, Attempt>,
}

/// The volumes whose growth has not succeeded. The lock is never held during I/O.
#[derive(Debug, Default)]
pub(super) struct Backlog(Mutex<Volumes>);

impl Backlog {
    fn volumes(&self) -> MutexGuard<'_, Volumes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record_failure(&self, volume: &VolumeId, failure: Failure) {
        let mut volumes = self.volumes();
        let behind = volumes.behind.entry(volume.clone()).or_insert_with(|| Behind::new(failure.missing));
        behind.missing = failure.missing;
        if !failure.explains_less || behind.failure.is_none() {
            behind.failure = Some(failure.message);
        }
    }

    /// Records that a file system is smaller than its disk. Returns the reason once it is time to report it.
    pub(super) fn record_seen(&self, volume: &VolumeId, missing: u64) -> Option<String> {
        let mut volumes = self.volumes();
        let behind = volumes.behind.entry(volume.clone()).or_insert_with(|| Behind::new(missing));
        behind.missing = missing;
        behind.why().map(str::to_owned)
    }

    pub(super) fn record_grown(&self, volume: &VolumeId) {
        let mut volumes = self.volumes();
        volumes.behind.remove(volume);
        volumes.attempts.remove(volume);
    }

    /// Forgets the volumes that are no longer on this node. Failed attempts before a mount stay recorded.
    pub(super) fn retain(&self, is_here: impl Fn(&VolumeId) -> bool) {
        self.volumes().behind.retain(|volume, _| is_here(volume));
    }

    /// Returns the volumes to report, each with the unused bytes of its disk.
    pub(super) fn reported(&self) -> Vec<(VolumeId, u64)> {
        let volumes = self.volumes();
        let reported = volumes.behind.iter().filter(|(_, behind)| behind.why().is_some());
        reported.map(|(volume, behind)| (volume.clone(), behind.missing)).collect()
    }

    /// Records an attempt before the mount that began at `start` and failed. `sizes`: the old and wanted size in bytes.
    pub(super) fn record_attempt(&self, volume: &VolumeId, sizes: (u64, u64), start: Instant) {
        let ended = Instant::now();
        let attempt = Attempt { sizes, ended, took: ended - start };
        let mut volumes = self.volumes();
        volumes.attempts.retain(|_, attempt| attempt.ended.elapsed() < LONG_GROWTH_PAUSE);
        volumes.attempts.insert(volume.clone(), attempt);
    }

    /// Returns true unless the last attempt before the mount, with the same sizes, took long and failed recently.
    pub(super) fn is_due(&self, volume: &VolumeId, sizes: (u64, u64)) -> bool {
        self.volumes().attempts.get(volume).is_none_or(|attempt| {
            attempt.sizes != sizes || attempt.took < LONG_GROWTH || attempt.ended.elapsed() >= LONG_GROWTH_PAUSE
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(number: u32) -> VolumeId {
        VolumeId::parse(&format!("vol-{number:017x}")).unwrap()
    }

    fn failure(message: &str, explains_less: bool) -> Failure {
        Failure { missing: 7, message: message.to_owned(), explains_less }
    }

    /// A file system may be smaller than its disk for a while, because the orchestrator calls NodeExpandVolume some
    /// time after the disk has grown.
    #[tokio::test(start_paused = true)]
    async fn ungrown_volume_is_reported_early_only_after_a_failed_growth() {
        let backlog = Backlog::default();
        assert_eq!(backlog.record_seen(&volume(1), 5), None);
        assert_eq!(backlog.reported(), []);
        tokio::time::advance(GROWTH_DUE - Duration::from_secs(1)).await;
        assert_eq!(backlog.record_seen(&volume(1), 6), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(backlog.record_seen(&volume(1), 6).as_deref(), Some(NOT_TRIED));
        backlog.record_failure(&volume(2), failure("broken", false));
        assert_eq!(backlog.record_seen(&volume(2), 7).as_deref(), Some("broken"));
        assert_eq!(backlog.reported(), [(volume(1), 6), (volume(2), 7)]);
        backlog.record_grown(&volume(1));
        assert_eq!(backlog.reported(), [(volume(2), 7)]);
        backlog.retain(|at| *at == volume(1));
        assert_eq!(backlog.reported(), []);
    }

    #[test]
    fn less_helpful_failure_does_not_replace_an_earlier_one() {
        let backlog = Backlog::default();
        let message = || backlog.record_seen(&volume(1), 7).unwrap();
        backlog.record_failure(&volume(1), failure("a right is missing", true));
        assert_eq!(message(), "a right is missing");
        backlog.record_failure(&volume(1), failure("the tool is broken", false));
        backlog.record_failure(&volume(1), failure("a right is missing", true));
        assert_eq!(message(), "the tool is broken");
        backlog.record_failure(&volume(1), failure("the disk is broken", false));
        assert_eq!(message(), "the disk is broken");
    }

    /// The check of a large file system takes hours, and blocks the volume each time.
    #[tokio::test(start_paused = true)]
    async fn failed_growth_that_took_long_is_not_repeated_for_a_day() {
        let (backlog, sizes) = (Backlog::default(), (1, 2));
        assert!(backlog.is_due(&volume(1), sizes));
        let start = Instant::now();
        tokio::time::advance(LONG_GROWTH - Duration::from_secs(1)).await;
        backlog.record_attempt(&volume(1), sizes, start);
        assert!(backlog.is_due(&volume(1), sizes), "it took less than a minute");
        tokio::time::advance(Duration::from_secs(1)).await;
        backlog.record_attempt(&volume(1), sizes, start);
        assert!(!backlog.is_due(&volume(1), sizes));
        assert!(backlog.is_due(&volume(1), (1, 3)), "the disk has grown again");
        assert!(backlog.is_due(&volume(2), sizes), "another volume");
        // The attempt stays recorded after the volume has left the node.
        backlog.retain(|_| false);
        assert!(!backlog.is_due(&volume(1), sizes));
        tokio::time::advance(LONG_GROWTH_PAUSE).await;
        assert!(backlog.is_due(&volume(1), sizes));
        backlog.record_attempt(&volume(2), sizes, start);
        assert_eq!(backlog.volumes().attempts.len(), 1, "what is too old is forgotten");
        backlog.record_grown(&volume(2));
        assert!(backlog.is_due(&volume(2), sizes));
    }
}

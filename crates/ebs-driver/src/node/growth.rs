//! Grows file systems to the size of their disks. A failed growth never makes a volume unusable: NodeStageVolume mounts
//! the file system as it is, and the driver reports the volume as degraded. NodeExpandVolume returns the error. The
//! backlog lists the file systems that this process knows to be smaller than their disks.
//!
//! Decision: `docs/dev/decisions/0020-never-let-growth-decide-access.md`.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ebs_ec2::{VolumeId, Waiters};
use ebs_mounter::{CheckError, Contents, Device, FsType, GrowError, Growth, Headroom, MountEntry, Superblock};
use tokio::time::Instant;

use super::error::{Cause, NodeRefusal};
use super::request::Stage;
use super::wanted::ensure_wanted;
use super::{LinuxNode, in_use};
use crate::status::chain;
use crate::timeouts::{GROWTH_DUE, LONG_GROWTH, LONG_GROWTH_PAUSE};

/// Grows an ext file system before its mount, if the kernel would not permit this process to grow it later. Records a
/// failure. Returns an error only for damage that e2fsck does not repair by itself, or when no caller waits.
pub(super) async fn before_mount(
    node: &LinuxNode,
    plan: &Stage,
    device: &Device,
    superblock: &Superblock,
    waiters: &Waiters,
) -> Result<(), Cause> {
    let Superblock::Ext(ext) = superblock else { return Ok(()) };
    if node.mounter.can_grow_mounted(superblock.fs_type()) {
        return Ok(());
    }
    // If the size cannot be read, the attempt after the mount reads it again and reports the error.
    let Ok(headroom) = node.mounter.headroom_of_unmounted(device, superblock).await else { return Ok(()) };
    let Some(growth) = headroom.growth.filter(|growth| may_try(node, &plan.volume, growth)) else { return Ok(()) };
    ensure_wanted(waiters, "growing")?;
    let start = Instant::now();
    match node.mounter.grow_unmounted_ext(device, ext, growth).await {
        Ok(()) => {
            tracing::info!(volume = %plan.volume, %growth, "file system grown before its mount");
            Ok(())
        }
        // A damaged file system must not be mounted, even if the check ran only because of the growth.
        Err(GrowError::Check(damage @ CheckError::Uncorrected(_))) => Err(damage.into()),
        Err(error) => {
            node.backlog.record_attempt(&plan.volume, (growth.from, growth.to), start);
            failed(node, &plan.volume, Some(&headroom), &error.into());
            check_again(node, device, waiters).await
        }
    }
}

/// Returns false if this growth was tried before the volume's last mount, took long and failed recently.
fn may_try(node: &LinuxNode, volume: &VolumeId, growth: &Growth) -> bool {
    let is_due = node.backlog.is_due(volume, (growth.from, growth.to));
    if !is_due {
        tracing::warn!(%volume, %growth, "skipping growth before the mount: the last attempt took a long time and failed");
    }
    is_due
}

/// Checks the file system before the mount if an interrupted growth has marked the superblock.
async fn check_again(node: &LinuxNode, device: &Device, waiters: &Waiters) -> Result<(), Cause> {
    if let Contents::Filesystem(superblock) = node.mounter.probe(device).await? {
        ensure_wanted(waiters, "checking the file system")?;
        node.mounter.check_if_needed(device, &superblock).await?;
    }
    Ok(())
}

/// Grows the staged file system, if it is mounted for writing and the driver supports its type. Records a failure, and
/// returns an error only when no caller is waiting.
pub(super) async fn after_mount(
    node: &LinuxNode,
    plan: &Stage,
    device: &Device,
    fs_type: &str,
    waiters: &Waiters,
) -> Result<(), Cause> {
    let Ok(fs_type) = FsType::parse(fs_type) else { return Ok(()) };
    if plan.options.is_read_only() {
        return Ok(());
    }
    match in_place(node, device, plan.staging.as_path(), fs_type, waiters).await {
        Err(abandoned @ Cause::Abandoned { .. }) => Err(abandoned),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Grows a mounted file system, and records whether it is still smaller than its disk. `at` must be a writable mount.
pub(super) async fn in_place(
    node: &LinuxNode,
    device: &Device,
    at: &Path,
    fs_type: FsType,
    waiters: &Waiters,
) -> Result<(), Cause> {
    let outcome = grow_mounted(node, device, at, fs_type, waiters).await;
    match &outcome {
        Ok(()) => node.backlog.record_grown(device.volume()),
        Err(Cause::Abandoned { .. }) => {}
        Err(cause) => {
            // Measure again, because a part of the growth may have succeeded.
            let headroom = node.mounter.headroom_of_mounted(device, at, fs_type).await.ok();
            failed(node, device.volume(), headroom.as_ref(), cause);
        }
    }
    outcome
}

async fn grow_mounted(
    node: &LinuxNode,
    device: &Device,
    at: &Path,
    fs_type: FsType,
    waiters: &Waiters,
) -> Result<(), Cause> {
    let headroom = node.mounter.headroom_of_mounted(device, at, fs_type).await?;
    if let Some(growth) = headroom.growth {
        if !node.mounter.can_grow_mounted(fs_type) {
            return Err(NodeRefusal::GrowthNeedsPrivilege { growth, has_clusters: headroom.has_clusters }.into());
        }
        in_use::refuse_raw_binds(node, device.number(), at).await?;
        refuse_frozen(node, at).await?;
        ensure_wanted(waiters, "growing")?;
        node.mounter.grow_mounted(device, at, fs_type, growth).await?;
        tracing::info!(volume = %device.volume(), %growth, "file system grown");
    }
    match headroom.limit {
        Some(limit) => {
            let size = headroom.growth.map_or(headroom.size, |growth| growth.to);
            Err(NodeRefusal::AtItsLimit { size, device: headroom.device, limit }.into())
        }
        None => Ok(()),
    }
}

/// Refuses to grow a file system that accepts no writes, such as a frozen one: the tool would block the volume until
/// the thaw, and the driver could not stop the tool. Ignores other errors, which the tool reports better.
async fn refuse_frozen(node: &LinuxNode, at: &Path) -> Result<(), Cause> {
    match node.mounter.can_write(at).await {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(Cause::io(
            "test whether the file system accepts a write, because a frozen file system cannot grow",
        )(error)),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn failed(node: &LinuxNode, volume: &VolumeId, headroom: Option<&Headroom>, cause: &Cause) {
    let (size, device) = (headroom.map(|headroom| headroom.size), headroom.map(|headroom| headroom.device));
    let message = chain(cause);
    tracing::warn!(%volume, size, device, error = message, "file system could not grow to its disk's size: using the volume at its present size");
    // An error about the missing privilege explains less than the error of an attempt before the mount.
    let explains_less = matches!(cause, Cause::Refused(NodeRefusal::GrowthNeedsPrivilege { .. }));
    let missing = headroom.map_or(0, Headroom::unused);
    node.backlog.record_failure(volume, Failure { missing, message, explains_less });
}

/// Returns a message for the volume's health if the file system is smaller than its disk.
pub(super) async fn shortfall(node: &LinuxNode, volume: &VolumeId, entry: &MountEntry) -> Option<String> {
    if entry.device.major == 0 || entry.is_read_only() || entry.is_file_system_read_only() {
        return None;
    }
    let fs_type = FsType::parse(&entry.fs_type).ok()?;
    let device = node.mounter.open_mounted(volume, entry.device).await.ok()?;
    let headroom = node.mounter.headroom_of_mounted(&device, &entry.target, fs_type).await.ok()?;
    if headroom.is_used_up() {
        node.backlog.record_grown(volume);
        return None;
    }
    let why = node.backlog.record_seen(volume, headroom.unused())?;
    Some(format!("the file system uses {} of the {} bytes of its disk: {why}", headroom.size, headroom.device))
}

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

    /// Records a failed growth before a mount. `sizes`: old and wanted size in bytes. `start`: when the growth began.
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
        assert_eq!(backlog.volumes().attempts.len(), 1, "the expired attempt is forgotten");
        backlog.record_grown(&volume(2));
        assert!(backlog.is_due(&volume(2), sizes));
    }
}

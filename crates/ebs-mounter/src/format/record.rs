//! The record of a format in progress, with which an interrupted mkfs can be repeated safely. Decision:
//! `docs/dev/decisions/0023-need-the-state-directory-only-to-format.md`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ebs_ec2::VolumeId;

use crate::bounded;
use crate::config::MounterConfig;
use crate::device::Device;
use crate::fs_type::FsType;
use crate::mounter::Mounter;
use crate::os::if_exists;
use crate::partition::Partition;
use crate::probe::{BlankProof, Contents};

const PREFIX: &str = "format-";
const UNKNOWN: &str = "unknown";

/// A format that is about to run. The record is written and synced before mkfs starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatRecord {
    pub volume: VolumeId,
    pub partition: Option<u8>,
    pub bytes: u64,
    pub fs_type: FsType,
    /// When EC2 attached the volume. If `None` (an old controller attached it), an interrupted format must not be
    /// redone.
    pub attach_time: Option<String>,
    pub boot_id: String,
    /// The kernel's sequence number of the disk; `None` before Linux 5.15. A volume that is detached and attached again
    /// without the orchestrator keeps its attach time but gets a new sequence number.
    pub diskseq: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The driver checks the device again. A record in this state does not permit mkfs to be repeated.
    Checking,
    /// mkfs was started or was about to start.
    Started,
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            Self::Checking => "checking",
            Self::Started => "started",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Checking, Self::Started].into_iter().find(|state| state.as_str() == text)
    }
}

/// The permission to run mkfs, from a proof that the device is blank or from the record of an interrupted mkfs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatPermit {
    redo: bool,
}

impl FormatPermit {
    /// Permits the format of a device that is proven blank.
    pub fn of_blank(_proof: &BlankProof) -> Self {
        Self { redo: false }
    }

    /// True if mkfs may get its force flag.
    pub(crate) fn is_redo(&self) -> bool {
        self.redo
    }
}

impl FormatRecord {
    /// Permits the driver to repeat an interrupted format if the previous record describes the same volume, file
    /// system, attachment and disk (which may have grown), and the contents may come from an interrupted mkfs.
    pub fn permit_redo(&self, left_behind: &Self, contents: &Contents) -> Option<FormatPermit> {
        let same_attachment = self.attach_time.is_some() && self.continues(left_behind);
        (same_attachment && self.could_have_left(contents)).then_some(FormatPermit { redo: true })
    }

    /// True if the other record describes the same device at an earlier time. Volumes may grow but never shrink.
    fn continues(&self, earlier: &Self) -> bool {
        earlier.bytes <= self.bytes && *self == Self { bytes: self.bytes, ..earlier.clone() }
    }

    pub(crate) fn could_have_left(&self, contents: &Contents) -> bool {
        match contents {
            Contents::Blank(_) | Contents::Data { .. } => true,
            Contents::Filesystem(superblock) => !superblock.is_complete() && self.fs_type.accepts(superblock.fs_type()),
            Contents::Foreign { .. } => false,
        }
    }

    fn to_text(&self, state: State) -> String {
        let partition = self.partition.map_or_else(|| "none".to_owned(), |number| number.to_string());
        let attach_time = self.attach_time.as_deref().unwrap_or(UNKNOWN);
        let diskseq = self.diskseq.map_or_else(|| UNKNOWN.to_owned(), |number| number.to_string());
        let Self { volume, bytes, fs_type, boot_id, .. } = self;
        let state = state.as_str();
        format!(
            "volume={volume}\npartition={partition}\nbytes={bytes}\nfs={fs_type}\nattach-time={attach_time}\n\
             boot={boot_id}\ndiskseq={diskseq}\nstate={state}\nend\n",
        )
    }

    /// Parses a record. Returns `None` for a record of an older version of this driver, which lacks some lines.
    fn parse(text: &str) -> Option<(Self, State)> {
        let mut lines = text.lines();
        let mut value = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix('=').map(str::to_owned);
        let volume = VolumeId::parse(&value("volume")?).ok()?;
        let partition = match value("partition")?.as_str() {
            "none" => None,
            number => Some(number.parse().ok()?),
        };
        let bytes = value("bytes")?.parse().ok()?;
        let fs_type = FsType::parse(&value("fs")?).ok()?;
        let attach_time = Some(value("attach-time")?).filter(|time| time != UNKNOWN);
        let boot_id = Some(value("boot")?).filter(|id| !id.is_empty())?;
        let diskseq = match value("diskseq")?.as_str() {
            UNKNOWN => None,
            number => Some(number.parse().ok()?),
        };
        let state = State::parse(&value("state")?)?;
        let record = Self { volume, partition, bytes, fs_type, attach_time, boot_id, diskseq };
        // A record without its last line was not written completely.
        (lines.next() == Some("end")).then_some((record, state))
    }
}

/// A failed operation on a format record.
#[derive(Debug, thiserror::Error)]
#[error("{step} the record of a format in progress, {}", path.display())]
pub struct RecordError {
    path: PathBuf,
    step: &'static str,
    source: io::Error,
}

/// The step whose failure leaves it unknown whether a record exists.
const LOOKED_FOR: &str = "look for";

impl RecordError {
    /// Returns true if it is unknown whether a record exists.
    pub fn is_unknown(&self) -> bool {
        self.step == LOOKED_FOR
    }
}

impl Mounter {
    /// Returns a new record for a format of this device with this attach time, in the current boot.
    pub async fn format_record(
        &self,
        device: &Device,
        fs_type: FsType,
        partition: Option<Partition>,
        attach_time: Option<String>,
    ) -> io::Result<FormatRecord> {
        let bytes = device.size().await?.0;
        let diskseq = self.diskseq(device).await?;
        let at = self.config.boot_id.clone();
        let boot_id = bounded::reading("reading", &self.config.boot_id, move || fs::read_to_string(at)).await?;
        Ok(FormatRecord {
            volume: device.volume().clone(),
            partition: partition.map(Partition::number),
            bytes,
            fs_type,
            attach_time,
            boot_id: boot_id.trim().to_owned(),
            diskseq,
        })
    }

    /// Returns the record of an interrupted mkfs of this device. Ignores a record that is unreadable, invalid, or of a
    /// format whose mkfs never started. Without a record, the driver formats only a blank device.
    pub async fn interrupted_format(&self, device: &Device) -> Option<FormatRecord> {
        let records = self.records();
        if records.ignored().contains(device.volume()) {
            return None;
        }
        match records.read(device.volume()).await {
            Ok(kept) => kept.and_then(|(record, state)| (state == State::Started).then_some(record)),
            Err(error) => {
                let reason = error.source.to_string();
                tracing::warn!(
                    volume = %device.volume(), %error, reason,
                    "failed to check for an interrupted format of the volume"
                );
                None
            }
        }
    }

    /// Removes the record of a volume and syncs the removal. If the state directory is unreadable, this process ignores
    /// the record from now on. Cancellation: a removal that hangs is abandoned after 30 s and may still happen.
    pub async fn forget_format_if_known(&self, volume: &VolumeId) -> Result<(), RecordError> {
        let records = self.records();
        match records.forget(volume).await {
            // A state directory that hangs or is unreadable must not prevent pods from using a file system.
            Err(error) if error.is_unknown() => {
                records.ignore(volume, &error);
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Removes the record like [`Mounter::forget_format_if_known`], before another program may write to the disk. Also
    /// fails if it is unknown whether a record exists, because such a record would outlive this process.
    pub async fn forget_format(&self, volume: &VolumeId) -> Result<(), RecordError> {
        self.records().forget(volume).await
    }

    /// Removes the record of a volume that leaves this node, like [`Mounter::forget_format_if_known`], but always
    /// succeeds. A record that remains does not permit a format: this process ignores it, and so does each later
    /// process, because a record is valid for one attachment (`attach_time`) and one appearance of the disk
    /// (`diskseq`). Before any other program can write to the disk, [`Mounter::forget_format`] must succeed.
    pub async fn abandon_format(&self, volume: &VolumeId) {
        let records = self.records();
        if let Err(error) = records.forget(volume).await {
            records.ignore(volume, &error);
        }
    }

    pub(super) fn records(&self) -> FormatRecords {
        FormatRecords { config: Arc::clone(&self.config), ignored: Arc::clone(&self.ignored_records) }
    }
}

#[derive(Debug)]
pub(super) struct FormatRecords {
    config: Arc<MounterConfig>,
    ignored: Arc<Mutex<BTreeSet<VolumeId>>>,
}

impl FormatRecords {
    async fn read(&self, volume: &VolumeId) -> Result<Option<(FormatRecord, State)>, RecordError> {
        let path = self.path_of(volume);
        let at = path.clone();
        let text = bounded::reading("reading", &path, move || if_exists(fs::read_to_string(at))).await;
        let text = text.map_err(|source| RecordError { path, step: "read", source })?;
        Ok(text.and_then(|text| FormatRecord::parse(&text)))
    }

    pub(super) async fn write(&self, record: &FormatRecord) -> Result<(), RecordError> {
        let path = self.path_of(&record.volume);
        let (at, text) = (path.clone(), record.to_text(State::Checking));
        let outcome = bounded::changing("writing", &path, move || write_synced(&at, text.as_bytes())).await;
        outcome.map_err(|source| RecordError { path, step: "write", source })?;
        self.ignored().remove(&record.volume);
        Ok(())
    }

    /// Records that mkfs starts now. Fails if the record to mark is gone, for example after a raw publish. Does not
    /// sync: a sync would delay mkfs after the last check of the disk, and a reboot invalidates the record anyway.
    pub(super) async fn mark_started(&self, record: &FormatRecord, permit: &FormatPermit) -> Result<(), RecordError> {
        let path = self.path_of(&record.volume);
        let failed = |source| RecordError { path: path.clone(), step: "mark", source };
        let expected = if permit.is_redo() { State::Started } else { State::Checking };
        let fits = |kept: &FormatRecord| if permit.is_redo() { record.continues(kept) } else { record == kept };
        if !self.read(&record.volume).await?.is_some_and(|(kept, state)| fits(&kept) && state == expected) {
            let gone = "it was removed or replaced in the meantime, for example because the volume was published as a raw device";
            return Err(failed(io::Error::other(gone)));
        }
        let (at, text) = (path.clone(), record.to_text(State::Started));
        let outcome = bounded::changing("writing", &path, move || write_atomic(&at, text.as_bytes(), |_| Ok(()))).await;
        outcome.map_err(failed)
    }

    pub(super) async fn forget(&self, volume: &VolumeId) -> Result<(), RecordError> {
        let path = self.path_of(volume);
        let at = path.clone();
        // Without a record there is nothing to remove, so a read-only or hanging directory must not cause an error.
        let looked = bounded::reading("checking for", &path, move || exists(&at)).await;
        if looked.map_err(|source| RecordError { path: path.clone(), step: LOOKED_FOR, source })? {
            let at = path.clone();
            // While this removal hangs, later reads of the path fail. A late removal thus cannot delete the record of a
            // later format, because that format reads its record before mkfs starts.
            let remove = move || if_exists(fs::remove_file(&at))?.map_or(Ok(()), |()| sync_directory(&at));
            let outcome = bounded::reading("removing", &path, remove).await;
            outcome.map_err(|source| RecordError { path, step: "remove", source })?;
        }
        self.ignored().remove(volume);
        Ok(())
    }

    fn ignore(&self, volume: &VolumeId, error: &RecordError) {
        let reason = error.source.to_string();
        tracing::warn!(%volume, %error, reason, "ignoring the format record of the volume");
        self.ignored().insert(volume.clone());
    }

    fn ignored(&self) -> MutexGuard<'_, BTreeSet<VolumeId>> {
        self.ignored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path_of(&self, volume: &VolumeId) -> PathBuf {
        self.config.state_dir.join(format!("{PREFIX}{volume}"))
    }
}

fn exists(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes the records that can never permit another format, because they are from an earlier boot or their disk is
/// detached: a forced detachment or a reboot does not unstage the volume. Keeps unreadable records.
pub(crate) fn collect_stale(config: &MounterConfig) -> io::Result<()> {
    let boot_id = fs::read_to_string(&config.boot_id)?;
    let mut records = Vec::new();
    for entry in fs::read_dir(&config.state_dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(PREFIX)
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            records.push((entry.path(), FormatRecord::parse(&text)));
        }
    }
    // List the disks only after the records were read: a disk that appears in between has none of these records.
    let mut present = Vec::new();
    for disk in fs::read_dir(config.sys.join("block"))? {
        // A disk that disappears at this moment needs no record.
        let Ok(text) = fs::read_to_string(disk?.path().join("diskseq")) else { continue };
        present.extend(text.trim().parse::<u64>());
    }
    let is_stale = |record: &FormatRecord| {
        record.boot_id != boot_id.trim() || record.diskseq.is_some_and(|number| !present.contains(&number))
    };
    for (path, record) in records {
        if record.is_none_or(|(record, _)| is_stale(&record)) {
            tracing::info!(record = %path.display(), "removing the format record of a detached disk");
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Writes a file atomically: after a crash it is complete or does not exist.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_atomic(path, bytes, File::sync_all)?;
    sync_directory(path)
}

fn write_atomic(path: &Path, bytes: &[u8], sync: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().unwrap_or_default().display();
    let new = path.with_file_name(format!(".new-{}-{number}-{name}", std::process::id()));
    let write = || {
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        sync(&file)?;
        fs::rename(&new, path)
    };
    write().inspect_err(|_| {
        // The file may not exist. Only the first error matters.
        let _gone = fs::remove_file(&new);
    })
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> FormatRecord {
        FormatRecord {
            volume: VolumeId::parse("vol-0abc").unwrap(),
            partition: None,
            bytes: 1 << 30,
            fs_type: FsType::Ext4,
            attach_time: Some("2026-11-21T17:31:00Z".to_owned()),
            boot_id: "3bd5cb53-7200-4b16-a2f7-55ed1954f190".to_owned(),
            diskseq: Some(12),
        }
    }

    const DATA: Contents = Contents::Data { offset: 4096 };

    #[test]
    fn format_redo_requires_same_volume_fs_attachment_boot_and_disk() {
        assert!(record().permit_redo(&record(), &DATA).is_some_and(|permit| permit.is_redo()));
        let smaller = FormatRecord { bytes: 1 << 29, ..record() };
        assert!(record().permit_redo(&smaller, &DATA).is_some(), "the disk has grown");
        let luks = Contents::Foreign { what: "LUKS encryption".to_owned(), offset: 0 };
        assert_eq!(record().permit_redo(&record(), &luks), None);
        for other in [
            FormatRecord { volume: VolumeId::parse("vol-0abd").unwrap(), ..record() },
            FormatRecord { diskseq: Some(13), ..smaller },
            FormatRecord { partition: Some(1), ..record() },
            // Smaller than at the first format, so not the same disk.
            FormatRecord { bytes: 2 << 30, ..record() },
            FormatRecord { fs_type: FsType::Xfs, ..record() },
            FormatRecord { attach_time: Some("2026-11-21T17:32:00Z".to_owned()), ..record() },
            FormatRecord { attach_time: None, ..record() },
            FormatRecord { boot_id: "3bd5cb53-7200-4b16-a2f7-55ed1954f191".to_owned(), ..record() },
            FormatRecord { diskseq: Some(13), ..record() },
            FormatRecord { diskseq: None, ..record() },
        ] {
            assert_eq!(record().permit_redo(&other, &DATA), None, "{other:?}");
        }
        let unknown = FormatRecord { attach_time: None, ..record() };
        assert_eq!(unknown.permit_redo(&unknown, &DATA), None);
    }

    #[test]
    fn redo_accepts_only_contents_that_an_interrupted_mkfs_leaves() {
        use crate::probe::tests::{superblock_of, whole_and_begun};
        let contents = |bytes: &[u8]| Contents::Filesystem(superblock_of(bytes, 1 << 30).unwrap());
        let may = |fs_type: FsType, contents: &Contents| FormatRecord { fs_type, ..record() }.could_have_left(contents);
        for (fs_type, other) in [(FsType::Ext4, FsType::Xfs), (FsType::Xfs, FsType::Ext2)] {
            let (whole, begun) = whole_and_begun(fs_type);
            assert!(!may(fs_type, &contents(&whole)), "a whole {fs_type}");
            assert!(may(fs_type, &contents(&begun)), "half a {fs_type}");
            assert!(!may(other, &contents(&begun)), "an incomplete {fs_type} is not from an mkfs of {other}");
            assert!(may(fs_type, &DATA));
            assert!(!may(fs_type, &Contents::Foreign { what: "LUKS encryption".to_owned(), offset: 0 }));
        }
    }

    fn records(state: &Path) -> FormatRecords {
        FormatRecords { config: Arc::new(MounterConfig::new(state)), ignored: Arc::default() }
    }

    #[tokio::test]
    async fn unreadable_format_record_is_an_error() {
        let state = tempfile::tempdir().unwrap();
        let (records, volume) = (records(state.path()), record().volume);
        assert_eq!(records.read(&volume).await.unwrap(), None);
        records.forget(&volume).await.unwrap();
        fs::create_dir(records.path_of(&volume)).unwrap();
        let said = records.read(&volume).await.unwrap_err().to_string();
        assert!(said.starts_with("read the record") && said.contains("vol-0abc"), "{said}");
        let said = records.forget(&volume).await.unwrap_err().to_string();
        assert!(said.starts_with("remove the record"), "{said}");
    }

    #[tokio::test]
    async fn mkfs_is_marked_as_started_only_in_its_own_record() {
        let state = tempfile::tempdir().unwrap();
        let (records, record) = (records(state.path()), record());
        let (first, redo) = (FormatPermit { redo: false }, FormatPermit { redo: true });
        let kept = async || records.read(&record.volume).await.unwrap();
        assert!(records.mark_started(&record, &first).await.is_err(), "no record exists");
        records.write(&record).await.unwrap();
        assert_eq!(kept().await, Some((record.clone(), State::Checking)));
        assert!(records.mark_started(&record, &redo).await.is_err(), "no mkfs has started yet");
        let other = FormatRecord { bytes: 2 << 30, ..record.clone() };
        assert!(records.mark_started(&other, &first).await.is_err(), "it has another size");
        records.mark_started(&record, &first).await.unwrap();
        assert_eq!(kept().await, Some((record.clone(), State::Started)));
        assert!(records.mark_started(&record, &first).await.is_err(), "another call has started it");
        records.mark_started(&record, &redo).await.unwrap();
        records.forget(&record.volume).await.unwrap();
        assert_eq!(kept().await, None);
    }

    #[test]
    fn failed_write_leaves_no_file_behind() {
        let state = tempfile::tempdir().unwrap();
        fs::create_dir(state.path().join("taken")).unwrap();
        assert!(write_synced(&state.path().join("taken"), b"text").is_err());
        assert!(write_synced(&state.path().join("missing/file"), b"text").is_err());
        write_synced(&state.path().join("file"), b"text").unwrap();
        let mut names: Vec<_> = fs::read_dir(state.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["file", "taken"]);
    }

    #[test]
    fn format_record_is_read_back_and_incomplete_one_is_ignored() {
        for record in [
            record(),
            FormatRecord { partition: Some(3), attach_time: None, ..record() },
            FormatRecord { diskseq: None, ..record() },
        ] {
            for state in [State::Checking, State::Started] {
                let text = record.to_text(state);
                assert_eq!(FormatRecord::parse(&text), Some((record.clone(), state)));
                for length in 0..text.len() - 1 {
                    assert_eq!(FormatRecord::parse(&text[..length]), None, "{length} bytes");
                }
                for key in ["boot", "diskseq", "state"] {
                    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with(key)).collect();
                    assert_eq!(FormatRecord::parse(&lines.join("\n")), None, "{key}, as before it existed");
                }
            }
        }
    }
}

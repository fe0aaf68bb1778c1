//! The record of a format in progress: what makes an interrupted mkfs safe to run again.
//!
//! Decision: `docs/decisions/0023-need-the-state-directory-only-to-format.md`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{MutexGuard, PoisonError};

use ebs_types::VolumeId;

use crate::bounded;
use crate::config::MounterConfig;
use crate::device::Device;
use crate::fs_type::FsType;
use crate::mounter::Mounter;
use crate::partition::Partition;
use crate::probe::{BlankProof, Contents};

/// What the names of records begin with.
const PREFIX: &str = "format-";
/// What a record says where nothing is known.
const UNKNOWN: &str = "unknown";

/// What is about to be formatted, written and synced before mkfs starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatRecord {
    pub volume: VolumeId,
    /// The partition; `None` for the whole disk.
    pub partition: Option<u8>,
    /// Bytes of the device.
    pub bytes: u64,
    /// What it becomes.
    pub fs_type: FsType,
    /// When EC2 attached the volume; `None` with attachments of older controllers, which are never formatted twice.
    pub attach_time: Option<String>,
    /// Which run of the kernel has the disk.
    pub boot_id: String,
    /// Which of all disks that this run of the kernel has seen it is; `None` before Linux 5.15. A volume that was taken
    /// away and brought back behind the orchestrator's back has the attach time that it had, and another number.
    pub diskseq: Option<u64>,
}

/// How far the format of a record has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The device is to be looked at once more: no leave to format.
    Checking,
    /// mkfs was started, or would have been in the next moment.
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

/// Leave to run mkfs: from a proof that the device is blank, or from a record that an mkfs of ours was interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatPermit {
    redo: bool,
}

impl FormatPermit {
    /// A device that was proven blank may be formatted.
    pub fn of_blank(_proof: &BlankProof) -> Self {
        Self { redo: false }
    }

    /// True when force flags may be used.
    pub(crate) fn is_redo(&self) -> bool {
        self.redo
    }
}

impl FormatRecord {
    /// Leave to run an interrupted format again: the record left behind is of the same volume, file system, attachment and
    /// disk, which may have grown meanwhile, and what is on the device can be what an interrupted mkfs leaves.
    pub fn permit_redo(&self, left_behind: &Self, contents: &Contents) -> Option<FormatPermit> {
        let same_attachment = self.attach_time.is_some() && self.continues(left_behind);
        (same_attachment && self.could_have_left(contents)).then_some(FormatPermit { redo: true })
    }

    /// True when the other record is of the same device at an earlier time: volumes grow and never shrink.
    fn continues(&self, earlier: &Self) -> bool {
        earlier.bytes <= self.bytes && *self == Self { bytes: self.bytes, ..earlier.clone() }
    }

    /// True when an interrupted mkfs of this record can have left these contents.
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

    /// A record of an older version of this driver, which lacks some of the lines, is none.
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
        // Without its last line a record was not written to its end.
        (lines.next() == Some("end")).then_some((record, state))
    }
}

/// A record that cannot be kept.
#[derive(Debug, thiserror::Error)]
#[error("the record of a format in progress, {}, cannot be {step}", path.display())]
pub struct RecordError {
    path: PathBuf,
    step: &'static str,
    source: io::Error,
}

/// The step of an error that leaves open whether there is a record.
const LOOKED_FOR: &str = "looked for";

impl RecordError {
    /// True when it is unknown whether there is a record.
    pub fn is_unknown(&self) -> bool {
        self.step == LOOKED_FOR
    }
}

impl Mounter {
    /// The record of a format of this device, which was attached at the given time, as this kernel sees it now.
    ///
    /// # Errors
    /// What the kernel says.
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

    /// The record of an mkfs of this device that was interrupted. One that cannot be read or parsed is none, nor is that of a
    /// format that never came to its mkfs: without a record nothing is formatted that is not blank.
    pub async fn interrupted_format(&self, device: &Device) -> Option<FormatRecord> {
        if self.void_records().contains(device.volume()) {
            return None;
        }
        match self.read_record(device.volume()).await {
            Ok(kept) => kept.and_then(|(record, state)| (state == State::Started).then_some(record)),
            Err(error) => {
                let reason = error.source.to_string();
                tracing::warn!(volume = %device.volume(), %error, reason, "whether a format of the volume was interrupted is not known");
                None
            }
        }
    }

    async fn read_record(&self, volume: &VolumeId) -> Result<Option<(FormatRecord, State)>, RecordError> {
        let path = self.record_path(volume);
        let at = path.clone();
        let text = bounded::reading("reading", &path, move || match fs::read_to_string(at) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        });
        let text = text.await.map_err(|source| RecordError { path, step: "read", source })?;
        Ok(text.and_then(|text| FormatRecord::parse(&text)))
    }

    /// Writes the record and syncs it and its directory.
    pub(crate) async fn write_record(&self, record: &FormatRecord) -> Result<(), RecordError> {
        let path = self.record_path(&record.volume);
        let (at, text) = (path.clone(), record.to_text(State::Checking));
        let outcome = bounded::changing("writing", &path, move || write_synced(&at, text.as_bytes())).await;
        outcome.map_err(|source| RecordError { path, step: "written", source })?;
        self.void_records().remove(&record.volume);
        Ok(())
    }

    /// Says in the record that mkfs starts now. It must still be the one that the permit came from or that this call has
    /// written: a raw publish of the volume takes it away. Nothing is synced here, so that no time passes between the last
    /// look at the disk and mkfs: a record is good for one run of the kernel, and within it needs no disk.
    pub(crate) async fn mark_started(&self, record: &FormatRecord, permit: &FormatPermit) -> Result<(), RecordError> {
        let path = self.record_path(&record.volume);
        let failed = |source| RecordError { path: path.clone(), step: "marked", source };
        let expected = if permit.is_redo() { State::Started } else { State::Checking };
        let fits = |kept: &FormatRecord| if permit.is_redo() { record.continues(kept) } else { record == kept };
        match self.read_record(&record.volume).await? {
            Some((kept, state)) if fits(&kept) && state == expected => {}
            _ => {
                let gone = "it was taken away or replaced meanwhile, as by a raw publish of the volume";
                return Err(failed(io::Error::other(gone)));
            }
        }
        let (at, text) = (path.clone(), record.to_text(State::Started));
        let outcome = bounded::changing("writing", &path, move || write_atomic(&at, text.as_bytes(), |_| Ok(()))).await;
        outcome.map_err(failed)
    }

    /// Removes the record of a volume, if there is one, and syncs the removal. Where the state directory cannot even be looked
    /// at, the record counts no more for this process.
    ///
    /// Cancellation: a removal that hangs is left after 30 s and may still happen.
    ///
    /// # Errors
    /// [`RecordError`]: there is one and it cannot be removed.
    pub async fn forget_format_if_known(&self, volume: &VolumeId) -> Result<(), RecordError> {
        match self.forget_format(volume).await {
            // A directory that hangs or cannot be read keeps no file system from its pods.
            Err(error) if error.is_unknown() => {
                self.ignore_record(volume, &error);
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// As [`Mounter::forget_format_if_known`], for a volume that leaves this node: it always returns, and what is left of the record allows
    /// nothing. This process ignores it, and so does each later one: a record is of one attachment (`attach_time`) and one
    /// appearance of the disk (`diskseq`), and before anything else can write to the disk, [`Mounter::forget_format`]
    /// must succeed.
    pub async fn abandon_format(&self, volume: &VolumeId) {
        if let Err(error) = self.forget_format(volume).await {
            self.ignore_record(volume, &error);
        }
    }

    /// As [`Mounter::forget_format_if_known`], before somebody else may write to the disk: a record that may be there is an error too,
    /// since it would outlive this process.
    ///
    /// # Errors
    /// [`RecordError`]: the record cannot be removed, or it is unknown whether there is one.
    pub async fn forget_format(&self, volume: &VolumeId) -> Result<(), RecordError> {
        let path = self.record_path(volume);
        let at = path.clone();
        // A directory that refuses changes, or hangs with them, prevents nothing where there is nothing to remove.
        let looked = bounded::reading("looking for", &path, move || exists(&at)).await;
        if looked.map_err(|source| RecordError { path: path.clone(), step: LOOKED_FOR, source })? {
            let at = path.clone();
            // While this hangs, the place is refused to later looks. So no later format can lose its record by it: mkfs starts
            // only after a look at its record.
            let outcome = bounded::reading("removing", &path, move || match fs::remove_file(&at) {
                Ok(()) => sync_directory(&at),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
            });
            outcome.await.map_err(|source| RecordError { path, step: "removed", source })?;
        }
        self.void_records().remove(volume);
        Ok(())
    }

    fn ignore_record(&self, volume: &VolumeId, error: &RecordError) {
        let reason = error.source.to_string();
        tracing::warn!(%volume, %error, reason, "the driver ignores the record of a format of the volume");
        self.void_records().insert(volume.clone());
    }

    fn void_records(&self) -> MutexGuard<'_, BTreeSet<VolumeId>> {
        self.void_records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_path(&self, volume: &VolumeId) -> PathBuf {
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

/// Removes the records that can never be leave to format again, of disks that this run of the kernel does not have or has
/// no more: volumes that were detached by force, or whose node was rebooted, are never unstaged. What cannot be read stays.
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
    // After the records: a disk that came in between has none of them.
    let mut present = Vec::new();
    for disk in fs::read_dir(config.sys.join("block"))? {
        // A disk that goes at this moment has no record to be kept.
        let Ok(text) = fs::read_to_string(disk?.path().join("diskseq")) else { continue };
        present.extend(text.trim().parse::<u64>());
    }
    let is_stale = |record: &FormatRecord| {
        record.boot_id != boot_id.trim() || record.diskseq.is_some_and(|number| !present.contains(&number))
    };
    for (path, record) in records {
        if record.is_none_or(|(record, _)| is_stale(&record)) {
            tracing::info!(record = %path.display(), "the record of a format on a disk that is gone is removed");
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Writes a file so that after a crash it is there whole or not at all.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_atomic(path, bytes, File::sync_all)?;
    sync_directory(path)
}

/// Replaces a file at once, by way of a name that nobody else uses.
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
        // It may not be there at all; what counts is the first error.
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

    /// A redo needs the same volume, file system, attachment, run of the kernel and disk, which may have grown.
    #[test]
    fn a_redo_needs_the_same_volume_size_file_system_and_attachment() {
        assert!(record().permit_redo(&record(), &DATA).is_some_and(|permit| permit.is_redo()));
        for other in [
            FormatRecord { volume: VolumeId::parse("vol-0abd").unwrap(), ..record() },
            FormatRecord { partition: Some(1), ..record() },
            // Smaller than when the format began: not the same disk.
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

    /// A volume that was expanded in the middle of its format is still the same.
    #[test]
    fn a_disk_that_grew_since_the_interrupted_format_is_the_same() {
        let smaller = FormatRecord { bytes: 1 << 29, ..record() };
        assert!(record().permit_redo(&smaller, &DATA).is_some_and(|permit| permit.is_redo()));
        let other = FormatRecord { diskseq: Some(13), ..smaller };
        assert_eq!(record().permit_redo(&other, &DATA), None);
    }

    #[test]
    fn a_redo_never_goes_over_a_foreign_signature() {
        let luks = Contents::Foreign { what: "LUKS encryption".to_owned(), offset: 0 };
        assert_eq!(record().permit_redo(&record(), &luks), None);
    }

    /// An interrupted mkfs can have left nothing, unknown bytes, or half a file system of its own family; never a whole one, one of
    /// another family, or anything foreign.
    #[test]
    fn only_what_an_interrupted_mkfs_can_have_left_is_formatted_again() {
        use crate::probe::tests::{superblock_of, whole_and_begun};
        let contents = |bytes: &[u8]| Contents::Filesystem(superblock_of(bytes, 1 << 30).unwrap());
        let may = |fs_type: FsType, contents: &Contents| FormatRecord { fs_type, ..record() }.could_have_left(contents);
        for (fs_type, other) in [(FsType::Ext4, FsType::Xfs), (FsType::Xfs, FsType::Ext2)] {
            let (whole, begun) = whole_and_begun(fs_type);
            assert!(!may(fs_type, &contents(&whole)), "a whole {fs_type}");
            assert!(may(fs_type, &contents(&begun)), "half a {fs_type}");
            assert!(!may(other, &contents(&begun)), "half a {fs_type} is not of an mkfs of {other}");
            assert!(may(fs_type, &DATA));
            assert!(!may(fs_type, &Contents::Foreign { what: "LUKS encryption".to_owned(), offset: 0 }));
        }
    }

    fn mounter(state: &Path) -> Mounter {
        Mounter::new(crate::config::MounterConfig::new(state)).unwrap()
    }

    /// A record that cannot be read is an error, and none that is missing.
    #[tokio::test]
    async fn a_record_that_cannot_be_read_is_an_error() {
        let state = tempfile::tempdir().unwrap();
        let (mounter, volume) = (mounter(state.path()), record().volume);
        assert_eq!(mounter.read_record(&volume).await.unwrap(), None);
        mounter.forget_format(&volume).await.unwrap();
        fs::create_dir(mounter.record_path(&volume)).unwrap();
        let said = mounter.read_record(&volume).await.unwrap_err().to_string();
        assert!(said.contains("cannot be read") && said.contains("vol-0abc"), "{said}");
        let said = mounter.forget_format(&volume).await.unwrap_err().to_string();
        assert!(said.contains("cannot be removed"), "{said}");
    }

    /// mkfs is marked as started only in the record that this call has written, or that its leave came from.
    #[tokio::test]
    async fn mkfs_is_marked_as_started_only_in_its_own_record() {
        let state = tempfile::tempdir().unwrap();
        let (mounter, record) = (mounter(state.path()), record());
        let (first, redo) = (FormatPermit { redo: false }, FormatPermit { redo: true });
        let kept = async || mounter.read_record(&record.volume).await.unwrap();
        assert!(mounter.mark_started(&record, &first).await.is_err(), "there is none");
        mounter.write_record(&record).await.unwrap();
        assert_eq!(kept().await, Some((record.clone(), State::Checking)));
        assert!(mounter.mark_started(&record, &redo).await.is_err(), "no mkfs has started yet");
        let other = FormatRecord { bytes: 2 << 30, ..record.clone() };
        assert!(mounter.mark_started(&other, &first).await.is_err(), "it is of another size");
        mounter.mark_started(&record, &first).await.unwrap();
        assert_eq!(kept().await, Some((record.clone(), State::Started)));
        assert!(mounter.mark_started(&record, &first).await.is_err(), "another call has started it");
        mounter.mark_started(&record, &redo).await.unwrap();
        mounter.forget_format(&record.volume).await.unwrap();
        assert_eq!(kept().await, None);
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing_behind() {
        let state = tempfile::tempdir().unwrap();
        fs::create_dir(state.path().join("taken")).unwrap();
        assert!(write_synced(&state.path().join("taken"), b"text").is_err());
        assert!(write_synced(&state.path().join("missing/file"), b"text").is_err());
        write_synced(&state.path().join("file"), b"text").unwrap();
        let mut names: Vec<_> = fs::read_dir(state.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["file", "taken"]);
    }

    /// A record comes back as it was written; half a record is none.
    #[test]
    fn a_record_comes_back_as_it_was_written_and_half_a_record_is_none() {
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
            }
        }
    }

    #[test]
    fn a_record_without_boot_disk_or_state_is_none() {
        let text = record().to_text(State::Started);
        let as_before =
            "volume=vol-0abc\npartition=none\nbytes=1073741824\nfs=ext4\nattach-time=2026-11-21T17:31:00Z\nend\n";
        assert_eq!(FormatRecord::parse(as_before), None);
        for key in ["boot", "diskseq", "state"] {
            let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with(key)).collect();
            assert_eq!(FormatRecord::parse(&lines.join("\n")), None, "{key}");
        }
    }
}

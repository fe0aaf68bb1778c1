//! The record of a format in progress (`decisions.md` D-32): what makes an interrupted mkfs safe to run again.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ebs_types::VolumeId;

use crate::bounded;
use crate::device::Device;
use crate::fs_type::FsType;
use crate::mounter::Mounter;
use crate::probe::{BlankProof, Contents};

/// What is about to be formatted, written and synced before mkfs starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatRecord {
    /// The volume.
    pub volume: VolumeId,
    /// The partition; `None` for the whole disk.
    pub partition: Option<u8>,
    /// Bytes of the device.
    pub bytes: u64,
    /// What it becomes.
    pub fs_type: FsType,
    /// When EC2 attached the volume; `None` with attachments of older controllers, which are never formatted twice.
    pub attach_time: Option<String>,
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
    /// Leave to run an interrupted format again: the record left behind is of the same volume, size, file system and
    /// attachment, and what is on the device can be what an interrupted mkfs leaves.
    pub fn permit_redo(&self, left_behind: &Self, contents: &Contents) -> Option<FormatPermit> {
        let same_attachment = self.attach_time.is_some() && self == left_behind;
        (same_attachment && self.could_have_left(contents)).then_some(FormatPermit { redo: true })
    }

    /// True when an interrupted mkfs of this record can have left these contents.
    pub(crate) fn could_have_left(&self, contents: &Contents) -> bool {
        match contents {
            Contents::Blank(_) | Contents::Data { .. } => true,
            Contents::Filesystem(superblock) => !superblock.is_complete() && self.fs_type.accepts(superblock.fs_type()),
            Contents::Foreign { .. } => false,
        }
    }

    fn to_text(&self) -> String {
        let partition = self.partition.map_or_else(|| "none".to_owned(), |number| number.to_string());
        let attach_time = self.attach_time.as_deref().unwrap_or("unknown");
        format!(
            "volume={}\npartition={partition}\nbytes={}\nfs={}\nattach-time={attach_time}\nend\n",
            self.volume, self.bytes, self.fs_type
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut value = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix('=').map(str::to_owned);
        let volume = VolumeId::parse(&value("volume")?).ok()?;
        let partition = match value("partition")?.as_str() {
            "none" => None,
            number => Some(number.parse().ok()?),
        };
        let bytes = value("bytes")?.parse().ok()?;
        let fs_type = FsType::parse(&value("fs")?).ok()?;
        let attach_time = Some(value("attach-time")?).filter(|time| time != "unknown");
        // Without its last line a record was not written to its end.
        (lines.next() == Some("end")).then_some(Self { volume, partition, bytes, fs_type, attach_time })
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

impl Mounter {
    /// The record that an interrupted format of this device has left behind. One that cannot be parsed is none.
    ///
    /// # Errors
    /// [`RecordError`] when the file cannot be read.
    pub async fn interrupted_format(&self, device: &Device) -> Result<Option<FormatRecord>, RecordError> {
        let path = self.record_path(device.volume());
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
        let (at, text) = (path.clone(), record.to_text());
        let outcome = bounded::changing("writing", &path, move || write_synced(&at, text.as_bytes())).await;
        outcome.map_err(|source| RecordError { path, step: "written", source })
    }

    /// Removes the record of a volume, if there is one, and syncs the removal.
    ///
    /// # Errors
    /// [`RecordError`].
    pub async fn forget_format(&self, volume: &VolumeId) -> Result<(), RecordError> {
        let path = self.record_path(volume);
        let at = path.clone();
        let outcome = bounded::changing("removing", &path, move || match fs::remove_file(&at) {
            Ok(()) => sync_directory(&at),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        });
        outcome.await.map_err(|source| RecordError { path, step: "removed", source })
    }

    fn record_path(&self, volume: &VolumeId) -> PathBuf {
        self.config.state_dir.join(format!("format-{volume}"))
    }
}

/// Writes a file so that after a crash it is there whole or not at all.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_added_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    sync_directory(path)
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
        }
    }

    const DATA: Contents = Contents::Data { offset: 4096 };

    #[test]
    fn a_redo_needs_the_same_volume_size_file_system_and_attachment() {
        assert!(record().permit_redo(&record(), &DATA).is_some_and(|permit| permit.is_redo()));
        for other in [
            FormatRecord { volume: VolumeId::parse("vol-0abd").unwrap(), ..record() },
            FormatRecord { partition: Some(1), ..record() },
            FormatRecord { bytes: 2 << 30, ..record() },
            FormatRecord { fs_type: FsType::Xfs, ..record() },
            FormatRecord { attach_time: Some("2026-11-21T17:32:00Z".to_owned()), ..record() },
            FormatRecord { attach_time: None, ..record() },
        ] {
            assert_eq!(record().permit_redo(&other, &DATA), None, "{other:?}");
        }
        let unknown = FormatRecord { attach_time: None, ..record() };
        assert_eq!(unknown.permit_redo(&unknown, &DATA), None);
    }

    #[test]
    fn a_redo_never_goes_over_a_foreign_signature() {
        let luks = Contents::Foreign { what: "LUKS encryption".to_owned(), offset: 0 };
        assert_eq!(record().permit_redo(&record(), &luks), None);
    }

    #[test]
    fn a_record_comes_back_as_it_was_written_and_half_a_record_is_none() {
        for record in [record(), FormatRecord { partition: Some(3), attach_time: None, ..record() }] {
            let text = record.to_text();
            assert_eq!(FormatRecord::parse(&text), Some(record));
            for length in 0..text.len() - 1 {
                assert_eq!(FormatRecord::parse(&text[..length]), None, "{length} bytes");
            }
        }
    }
}

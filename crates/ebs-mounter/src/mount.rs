//! Mounts a proven device and binds the mount to its target. Verifies each mount afterwards. Thaws file systems that a
//! program froze and did not thaw, such as a backup hook whose pod ended too early: the kernel keeps a frozen file system
//! and its disk in use even without a mount. Thawing loses nothing: data written before the freeze is on the disk, and the
//! journal protects later writes.

mod thaw_unmounted;
pub(crate) mod unmount;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::{fmt, io};

use crate::bounded;
use crate::device::{Device, DeviceError};
use crate::fs_type::FsType;
use crate::mounter::Mounter;
use crate::mountinfo::{MountEntry, MountTable, MountTableError};
use crate::options::{Attribute, MountOptions, is_security_label};
use crate::os::{self, DeviceNumber, OptionsCheck};
use crate::path::NodePath;
use crate::probe::{Contents, ProbeError, probe_again};

/// Why a mount failed.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    #[error("the device changed before it was mounted")]
    Device(#[from] DeviceError),
    #[error("read the device again before mounting it")]
    Probe(#[from] ProbeError),
    #[error("{device} held {expected} and now holds {found}; it was not mounted")]
    ContentsChanged { device: String, expected: String, found: String },
    #[error("mount {} on {} as {kind}{}: the kernel rejected the mount; the kernel log may contain the reason", source_path.display(), target.display(), if options.is_empty() { String::new() } else { format!(" with the options {options}") })]
    Refused { source_path: PathBuf, target: PathBuf, kind: String, options: String, source: io::Error },
    #[error("{fs_type} does not support the mount option {option} on this node{}", reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})")))]
    Option { option: String, fs_type: FsType, reason: Option<String> },
    /// The kernel rejects the combination of options and disk, and does not report which option is invalid.
    #[error(
        "{fs_type} does not support one of the mount options {options} on this node; the kernel does not report which"
    )]
    OneOfOptions { options: String, fs_type: FsType, source: io::Error },
    #[error("verify the new mount")]
    Table(#[from] MountTableError),
    /// The new mount is not the expected one. If it was visible, it was unmounted again.
    #[error("{} has {found} after the mount, not {expected}", target.display())]
    NotAsWanted { target: PathBuf, found: String, expected: String },
}

/// How strongly a kernel error suggests that the file system is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspicion {
    /// The kernel has reported damage (EUCLEAN, EBADMSG).
    Damage,
    /// Possibly damage, possibly a disk with errors or a feature that this kernel does not support (EIO, EINVAL).
    PerhapsDamage,
}

impl MountError {
    /// Returns how strongly the error suggests that the file system is damaged; `None` if it does not.
    pub fn suspicion(&self) -> Option<Suspicion> {
        let (Self::Refused { source, .. } | Self::OneOfOptions { source, .. }) = self else { return None };
        match source.raw_os_error()? {
            libc::EUCLEAN | libc::EBADMSG => Some(Suspicion::Damage),
            libc::EIO | libc::EINVAL => Some(Suspicion::PerhapsDamage),
            _ => None,
        }
    }
}

/// The source that must be visible at the target of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MountSource {
    Filesystem(DeviceNumber),
    Device(DeviceNumber),
}

impl fmt::Display for MountSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filesystem(number) => write!(f, "the file system of device {number}"),
            Self::Device(number) => write!(f, "device {number}"),
        }
    }
}

impl Mounter {
    /// Reads the serial number and superblock of a device again, then mounts its file system. After an error, nothing
    /// is mounted. xfs gets the option `nouuid`, so that a volume and its clone can be mounted on one node.
    pub async fn mount(
        &self,
        device: &Device,
        target: &NodePath,
        fs_type: FsType,
        options: &MountOptions,
    ) -> Result<(), MountError> {
        self.reconfirm(device).await?;
        match probe_again(device).await? {
            Contents::Filesystem(superblock) if superblock.is_complete() && superblock.fs_type() == fs_type => {}
            other => {
                let (device, expected) = (device.path().display().to_string(), fs_type.to_string());
                return Err(MountError::ContentsChanged { device, expected, found: other.to_string() });
            }
        }
        let asked = self.effective(options);
        let options = if fs_type == FsType::Xfs { asked.clone().with_word("nouuid") } else { asked.clone() };
        let (source, at, given) = (device.path().to_owned(), target.as_path().to_owned(), options.clone());
        let mounting = move || mount_as(&source, &at, fs_type, &given);
        if let Err(source) = bounded::changing("mounting", target.as_path(), mounting).await {
            return Err(explain(device.path(), target.as_path(), fs_type, asked, source).await);
        }
        let wanted = options.of_one_mount();
        self.verify(target, MountSource::Filesystem(device.number()), &wanted).await
    }

    /// Binds `source` to `target` atomically, with the attributes of the source's mount and the given ones.
    pub async fn bind(
        &self,
        source: &Path,
        target: &NodePath,
        attributes: &BTreeSet<Attribute>,
        shown: MountSource,
    ) -> Result<(), MountError> {
        let (from, at, with) = (source.to_owned(), target.as_path().to_owned(), attributes.clone());
        let temporary = self.config.temporary_binds();
        let bind = move || os::mount_bound(&from, &at, &with, &temporary);
        let bound = bounded::changing("binding", target.as_path(), bind).await;
        bound.map_err(|error| MountError::Refused {
            source_path: source.to_owned(),
            target: target.as_path().to_owned(),
            kind: "a bind mount".to_owned(),
            options: Attribute::words(attributes),
            source: error,
        })?;
        self.verify(target, shown, attributes).await
    }

    /// Returns the options that this kernel accepts: without a security module, it rejects security labels.
    pub fn effective(&self, options: &MountOptions) -> MountOptions {
        if os::security_labels_are_active() { options.clone() } else { options.clone().without_security_labels() }
    }

    /// Returns the number of the block device at a path, or `None` if it is not a block device.
    pub async fn block_device_at(&self, path: &Path) -> io::Result<Option<DeviceNumber>> {
        let at = path.to_owned();
        bounded::reading("examining", path, move || Ok(os::block_device_number(&std::fs::metadata(at)?))).await
    }

    /// Returns the size in bytes of the block device at a path.
    pub async fn block_device_size(&self, path: &Path) -> io::Result<u64> {
        let at = path.to_owned();
        bounded::reading("reading the size of", path, move || os::block_size(&std::fs::File::open(at)?)).await
    }

    /// Returns the number and the size in bytes of the block device at a path, both from one descriptor.
    pub async fn sized_block_device(&self, path: &Path) -> io::Result<(DeviceNumber, u64)> {
        let at = path.to_owned();
        let read = move || {
            let opened = std::fs::File::open(at)?;
            let number = os::block_device_number(&opened.metadata()?)
                .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the path is not a block device"))?;
            Ok((number, os::block_size(&opened)?))
        };
        bounded::reading("reading the size of", path, read).await
    }

    /// Verifies the new mount and unmounts it if it is not the expected one.
    async fn verify(
        &self,
        target: &NodePath,
        shown: MountSource,
        attributes: &BTreeSet<Attribute>,
    ) -> Result<(), MountError> {
        let Some(found) = self.differs(target, shown, attributes).await.transpose() else { return Ok(()) };
        let at = target.as_path().to_owned();
        let unmounted = bounded::changing("unmounting", target.as_path(), move || os::unmount(&at, false)).await;
        if let Err(error) = unmounted {
            tracing::warn!(%target, %error, "failed to unmount a mount with wrong attributes");
        }
        let expected = format!("{shown} with {}", Attribute::words(attributes));
        Err(MountError::NotAsWanted { target: target.as_path().to_owned(), found: found?, expected })
    }

    async fn differs(
        &self,
        target: &NodePath,
        shown: MountSource,
        attributes: &BTreeSet<Attribute>,
    ) -> Result<Option<String>, MountError> {
        let at = target.in_table().await.map_err(MountTableError::Read)?;
        let table = MountTable::read().await?;
        let Some(entry) = table.topmost(&at) else { return Ok(Some("no mount".to_owned())) };
        let is_right = match shown {
            MountSource::Filesystem(number) => entry.device == number,
            MountSource::Device(number) => {
                self.block_device_at(&at).await.map_err(MountTableError::Read)? == Some(number)
            }
        };
        self.warn_if_not_shared(entry);
        let has = Attribute::distinguishing(entry.options.iter().map(String::as_str));
        let distinguishing = wanted_words(attributes);
        Ok((!is_right || !distinguishing.is_subset(&has)).then(|| describe(entry)))
    }

    /// Logs once that mounts of this process are invisible in other mount namespaces. A pod would find an empty
    /// directory.
    fn warn_if_not_shared(&self, entry: &MountEntry) {
        if !entry.is_shared && !self.has_warned_not_shared.swap(true, Ordering::Relaxed) {
            tracing::warn!(path = %entry.target.display(),
                "mounts are visible in the driver's mount namespace only: in a container, mount the kubelet's \
                 directory with mountPropagation: Bidirectional");
        }
    }
}

/// Returns the attributes that the mount table shows as words.
fn wanted_words(attributes: &BTreeSet<Attribute>) -> BTreeSet<Attribute> {
    let defaults = [Attribute::RelAtime, Attribute::StrictAtime];
    attributes.iter().copied().filter(|attribute| !defaults.contains(attribute)).collect()
}

fn describe(entry: &MountEntry) -> String {
    let MountEntry { fs_type, source, device, options, .. } = entry;
    format!("{fs_type} {} of device {device} with [{}]", source.display(), options.join(","))
}

/// Calls mount(2). Retries ext2 and ext3 with the ext4 driver, because the kernel may lack their own drivers. Also, a
/// volume that was requested as ext4 but made as ext3 may have mount options that only the ext4 driver supports.
fn mount_as(source: &Path, target: &Path, fs_type: FsType, options: &MountOptions) -> io::Result<()> {
    let is_older = fs_type.is_ext() && fs_type != FsType::Ext4;
    match os::mount(source, target, fs_type.as_str(), options) {
        Err(error) if is_older && matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EINVAL)) => {
            os::mount(source, target, FsType::Ext4.as_str(), options)
        }
        outcome => outcome,
    }
}

async fn explain(
    device: &Path,
    target: &Path,
    fs_type: FsType,
    options: MountOptions,
    source: io::Error,
) -> MountError {
    // The same parser reads the options of all ext file systems.
    let parser = if fs_type.is_ext() { FsType::Ext4 } else { fs_type };
    let words: Vec<String> = options.words().iter().filter(|word| !is_security_label(word)).cloned().collect();
    let all = words.join(",");
    let has_words = !words.is_empty();
    let check = move || os::check_options(parser.as_str(), words.iter().map(String::as_str));
    match bounded::changing("checking the mount options for", target, check).await {
        OptionsCheck::Rejected { option, reason } => MountError::Option { option, fs_type, reason },
        OptionsCheck::Unknown if has_words && source.kind() == io::ErrorKind::InvalidInput => {
            MountError::OneOfOptions { options: all, fs_type, source }
        }
        OptionsCheck::Unknown | OptionsCheck::Accepted => MountError::Refused {
            source_path: device.to_owned(),
            target: target.to_owned(),
            kind: fs_type.to_string(),
            options: options.to_string(),
            source,
        },
    }
}

impl Mounter {
    /// Thaws a file system if `entry`, at `at`, is its only mount in this mount table. Returns true if it was frozen. With
    /// more mounts it stays frozen: the program that froze it may still thaw it.
    pub async fn thaw_only_mount(&self, entry: &MountEntry, at: &NodePath) -> bool {
        let is_only = |table: MountTable| {
            let mut mounts = table.of_device(entry.device);
            mounts.next().is_some_and(|mount| mount.id == entry.id) && mounts.next().is_none()
        };
        let is_alone = entry.device.major != 0 && MountTable::read().await.is_ok_and(is_only);
        is_alone && thaw(at.as_path()).await
    }

    /// Thaws a file system that was frozen before it was mounted at `at`, unless it has another mount. Logs a failure.
    pub async fn thaw_new_mount(&self, device: &Device, at: &NodePath) {
        let is_alone = MountTable::read().await.is_ok_and(|table| table.of_device(device.number()).count() == 1);
        if is_alone && thaw(at.as_path()).await {
            tracing::warn!(
                volume = %device.volume(), path = %at,
                "thawed a file system that was already frozen when it was mounted"
            );
        }
    }
}

pub(super) async fn thaw_before_last_unmount(table: &MountTable, entry: &MountEntry, at: &Path) -> bool {
    let is_last = entry.device.major != 0 && table.of_device(entry.device).count() == 1;
    let thawed = is_last && thaw(at).await;
    if thawed {
        tracing::warn!(
            path = %at.display(), device = %entry.device,
            "thawed a frozen file system before its last unmount"
        );
    }
    thawed
}

async fn thaw(at: &Path) -> bool {
    let directory = at.to_owned();
    match bounded::changing("thawing", at, move || os::thaw(&directory)).await {
        Ok(thawed) => thawed,
        Err(error) => {
            tracing::warn!(path = %at.display(), %error, "failed to check whether the file system is frozen");
            false
        }
    }
}

#[cfg(test)]
mod tests;

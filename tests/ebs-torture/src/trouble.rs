//! Leftovers of pods, backups and agents on a volume, and damage on its disk.

use crate::mount_copy::MountCopy;

/// Leftovers of other programs on a volume. They end when the volume is unstaged or its node loses power.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    /// A backup pod has frozen the file system, and was deleted before it could thaw the file system.
    pub(crate) is_frozen: bool,
    /// The file system was frozen at some time, and may still be.
    pub(crate) was_frozen: bool,
    /// Copies of the volume's mounts in another mount namespace.
    pub(crate) copy: Option<MountCopy>,
    pub(crate) copy_is_used: bool,
    /// The kernel has found errors in the file system and rejects writes.
    pub(crate) is_read_only: bool,
    /// Metadata on the disk is damaged in a way that `e2fsck -p` repairs.
    pub(crate) is_damaged: bool,
    /// The disk has grown, and the file system perhaps has not.
    pub(crate) must_grow: bool,
}

impl Trouble {
    /// Returns whether a process in another mount namespace has a file open, which prevents unstaging.
    pub(crate) fn is_in_use(&self) -> bool {
        self.copy.is_some() && self.copy_is_used
    }

    /// Returns a description of leftovers that must not prevent the volume from being unstaged.
    pub(crate) fn idle(&self) -> Option<&'static str> {
        match (self.is_in_use(), self.is_frozen, self.copy.is_some()) {
            (true, ..) => None,
            (_, true, _) => Some("an unused frozen file system"),
            (_, _, true) => Some("an idle copy of its mount in another mount namespace"),
            _ => None,
        }
    }

    /// Returns whether the volume must be unstaged before it can be used again.
    pub(crate) fn must_be_unstaged(&self) -> bool {
        self.is_frozen || self.copy.is_some() || self.is_read_only
    }

    /// Forgets all leftovers, because the volume is unstaged or its node has lost power.
    pub(crate) fn end(&mut self) {
        self.copy = None;
        (self.is_frozen, self.is_read_only) = (false, false);
    }
}

//! Frozen file systems.

use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{NoArg, Opcode, ioctl, opcode};

/// `_IOWR('X', 120, int)`: ends a freeze by FIFREEZE. The kernel ignores the argument.
const FITHAW: Opcode = opcode::read_write::<i32>(b'X', 120);

/// Thaws the file system of a directory. Returns false if it was not frozen.
pub(crate) fn thaw(directory: &Path) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory, flags, Mode::empty())?;
    // SAFETY: the opcode is FITHAW, for which the kernel neither reads nor writes our memory: it takes no argument. On
    // a file system that cannot be thawed it fails.
    match unsafe { ioctl(&opened, NoArg::<FITHAW>::new()) } {
        Ok(()) => Ok(true),
        Err(Errno::INVAL) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fithaw_matches_the_kernel_ioctl_number() {
        assert_eq!(FITHAW, 0xC004_5878);
    }

    #[test]
    fn thaw_of_an_unfrozen_file_system_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        // A file system that does not support freezing returns an error.
        assert!(!thaw(directory.path()).unwrap_or(false));
    }
}

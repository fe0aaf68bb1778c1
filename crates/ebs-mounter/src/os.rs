//! Typed system calls and ioctls. Only this module contains `unsafe` code.

mod bind;
mod block;
mod events;
mod fs_context;
mod xfs;

use std::ffi::CString;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

use rustix::fs::{Mode, OFlags, StatFs};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::ioctl::{NoArg, Opcode, ioctl, opcode};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::thread::CapabilitySet;

use crate::options::{Attribute, MountOptions};

pub(crate) use bind::{clear_temporary_binds, mount_bound};
#[cfg(test)]
pub(crate) use block::serial_in;
pub(crate) use block::{block_device_number, block_size, is_block_read_only, nvme_serial, nvme_statistics_page};
pub(crate) use events::DeviceEvents;
pub(crate) use fs_context::{OptionsCheck, check_options};
pub(crate) use rustix::fs::statfs;
pub(crate) use xfs::xfs_data_bytes;

/// `MS_I_VERSION` of `linux/mount.h`.
const INODE_VERSION: u32 = 1 << 23;

pub(crate) fn mount(source: &Path, target: &Path, fs_type: &str, options: &MountOptions) -> io::Result<()> {
    let flags = options.attributes().iter().fold(MountFlags::empty(), |flags, attribute| flags | flag(*attribute));
    let data = CString::new(options.data()).map_err(io::Error::other)?;
    rustix::mount::mount(source, target, fs_type, flags, Some(data.as_c_str())).map_err(io::Error::from)
}

fn flag(attribute: Attribute) -> MountFlags {
    match attribute {
        Attribute::ReadOnly => MountFlags::RDONLY,
        Attribute::NoSuid => MountFlags::NOSUID,
        Attribute::NoDev => MountFlags::NODEV,
        Attribute::NoExec => MountFlags::NOEXEC,
        Attribute::NoAtime => MountFlags::NOATIME,
        Attribute::NoDirAtime => MountFlags::NODIRATIME,
        Attribute::RelAtime => MountFlags::RELATIME,
        Attribute::StrictAtime => MountFlags::STRICTATIME,
        Attribute::NoSymFollow => MountFlags::NOSYMFOLLOW,
        Attribute::Synchronous => MountFlags::SYNCHRONOUS,
        Attribute::DirSync => MountFlags::DIRSYNC,
        Attribute::LazyTime => MountFlags::LAZYTIME,
        Attribute::MandatoryLocks => MountFlags::PERMIT_MANDATORY_FILE_LOCKING,
        Attribute::InodeVersion => MountFlags::from_bits_retain(INODE_VERSION),
        Attribute::Silent => MountFlags::SILENT,
    }
}

/// Unmounts the topmost mount at a path. With `lazy`, the kernel detaches it now and unmounts it after its last use.
pub(crate) fn unmount(target: &Path, lazy: bool) -> io::Result<()> {
    let flags = if lazy { UnmountFlags::NOFOLLOW | UnmountFlags::DETACH } else { UnmountFlags::NOFOLLOW };
    rustix::mount::unmount(target, flags).map_err(io::Error::from)
}

/// Reads like [`statfs`], but only if the path is on this device. The check and the read use one descriptor.
pub(crate) fn statfs_of(path: &Path, device: DeviceNumber) -> io::Result<StatFs> {
    let opened = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let found = DeviceNumber::of(rustix::fs::fstat(&opened)?.st_dev);
    if found != device {
        let what = format!("the file system of another device, {found}, is mounted there");
        return Err(io::Error::new(io::ErrorKind::NotFound, what));
    }
    Ok(rustix::fs::fstatfs(&opened)?)
}

/// True if the kernel lets this process grow a mounted ext file system, which requires CAP_SYS_RESOURCE.
pub(crate) fn may_resize_mounted_ext() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_RESOURCE))
}

/// True if a security module supports `context=` mount options. Without one, the kernel rejects these options.
pub(crate) fn security_labels_are_active() -> bool {
    fs::read_to_string("/proc/filesystems").is_ok_and(|list| list.lines().any(|line| line.ends_with("selinuxfs")))
}

/// Returns `None` if the file does not exist. Returns every other error unchanged.
pub(crate) fn if_exists<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn kernel_release() -> io::Result<(u32, u32)> {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    parse_release(&text).ok_or_else(|| io::Error::other(format!("kernel release {text:?} has no version number")))
}

fn parse_release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Makes a child process inherit a descriptor. Every other child closes it.
pub(crate) fn inherit_descriptor(command: &mut tokio::process::Command, file: Arc<File>) {
    // SAFETY: between fork and exec the closure makes one system call, fcntl(2), which is async-signal-safe. It
    // allocates nothing and takes no lock: the descriptor stays open, since the closure owns it, and an error is a
    // plain number.
    unsafe {
        command.pre_exec(move || fcntl_setfd(&*file, FdFlags::empty()).map_err(std::io::Error::from));
    }
}

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

/// The kernel's number of a device. No other device has it while the device is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DeviceNumber {
    pub major: u32,
    pub minor: u32,
}

impl DeviceNumber {
    pub(crate) fn of(raw: u64) -> Self {
        Self { major: rustix::fs::major(raw), minor: rustix::fs::minor(raw) }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once(':')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_release_is_parsed_from_its_first_two_numbers() {
        assert_eq!(parse_release("6.18.44-fc-v669\n"), Some((6, 18)));
        assert_eq!(parse_release("4.14.355-275.582.amzn2.x86_64\n"), Some((4, 14)));
        assert_eq!(parse_release("5.10+\n"), Some((5, 10)));
        assert_eq!(parse_release("unknown"), None);
    }

    #[test]
    fn failed_read_does_not_prove_that_a_file_is_missing() {
        assert_eq!(if_exists(Ok(1)).unwrap(), Some(1));
        assert_eq!(if_exists::<()>(Err(io::ErrorKind::NotFound.into())).unwrap(), None);
        assert!(if_exists::<()>(Err(io::Error::from_raw_os_error(libc::EIO))).is_err());
    }

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

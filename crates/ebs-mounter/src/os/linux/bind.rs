//! Bind mounts that appear with all their attributes or not at all (`node.md` N-19).

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};

use crate::options::Attribute;

/// `struct mount_attr` of `linux/mount.h`.
#[repr(C)]
#[derive(Default, Debug, PartialEq, Eq)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// The bits of access-time handling, which are one value and must be cleared to be set.
const ATIME_MASK: u64 = 0x70;

/// Makes `target` show `source` with the attributes of the source's mount and those given besides.
///
/// With mount_setattr(2) (Linux 5.12) the mount is complete before it is attached to the tree. Without, it is attached,
/// changed, and detached again if the change is refused.
pub(crate) fn mount_bound(source: &Path, target: &Path, attributes: &BTreeSet<Attribute>) -> io::Result<()> {
    match atomically(source, target, attributes) {
        Err(Errno::NOSYS | Errno::PERM) => in_two_steps(source, target, attributes),
        outcome => outcome.map_err(io::Error::from),
    }
}

fn atomically(source: &Path, target: &Path, attributes: &BTreeSet<Attribute>) -> Result<(), Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let detached = rustix::mount::open_tree(CWD, source, flags)?;
    set_attributes(&detached, &mount_attr(attributes))?;
    // The descriptor is the source; the empty path says so.
    rustix::mount::move_mount(&detached, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

fn mount_attr(attributes: &BTreeSet<Attribute>) -> MountAttr {
    let mut attr = MountAttr::default();
    for attribute in attributes {
        match attribute {
            Attribute::ReadOnly => attr.set |= 0x1,
            Attribute::NoSuid => attr.set |= 0x2,
            Attribute::NoDev => attr.set |= 0x4,
            Attribute::NoExec => attr.set |= 0x8,
            Attribute::RelAtime => attr.clear |= ATIME_MASK,
            Attribute::NoAtime => {
                attr.clear |= ATIME_MASK;
                attr.set |= 0x10;
            }
            Attribute::StrictAtime => {
                attr.clear |= ATIME_MASK;
                attr.set |= 0x20;
            }
            Attribute::NoDirAtime => attr.set |= 0x80,
            Attribute::NoSymFollow => attr.set |= 0x20_0000,
            // Of the file system, not of one of its mounts: a bind cannot change them.
            Attribute::Synchronous
            | Attribute::DirSync
            | Attribute::LazyTime
            | Attribute::MandatoryLocks
            | Attribute::Silent => {}
        }
    }
    attr
}

fn set_attributes(mount: &OwnedFd, attr: &MountAttr) -> Result<(), Errno> {
    if *attr == MountAttr::default() {
        return Ok(());
    }
    // SAFETY: mount_setattr(2) reads an empty, terminated path and `size_of::<MountAttr>()` bytes of `attr`, which has
    // the kernel's layout (checked by a test) and outlives the call; it writes nothing to our memory. The descriptor
    // is open for the length of the borrow.
    let status = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            std::ptr::from_ref(attr),
            size_of::<MountAttr>(),
        )
    };
    if status == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

fn in_two_steps(source: &Path, target: &Path, attributes: &BTreeSet<Attribute>) -> io::Result<()> {
    // A remount replaces all attributes, so those of the source come along.
    let wanted = attributes.iter().fold(inherited(source)?, |flags, attribute| flags | super::flag(*attribute));
    rustix::mount::mount_bind(source, target)?;
    rustix::mount::mount_remount(target, wanted | MountFlags::BIND, "").map_err(|refused| match rustix::mount::unmount(
        target,
        UnmountFlags::NOFOLLOW,
    ) {
        Ok(()) => refused.into(),
        Err(stays) => io::Error::other(format!("{refused}; and a bind mount without them stays behind: {stays}")),
    })
}

/// The attributes of the mount that a path lies on.
fn inherited(path: &Path) -> io::Result<MountFlags> {
    use rustix::fs::StatVfsMountFlags as Of;
    let flags = rustix::fs::statvfs(path)?.f_flag;
    let pairs = [
        (Of::RDONLY, MountFlags::RDONLY),
        (Of::NOSUID, MountFlags::NOSUID),
        (Of::NODEV, MountFlags::NODEV),
        (Of::NOEXEC, MountFlags::NOEXEC),
        (Of::NOATIME, MountFlags::NOATIME),
        (Of::NODIRATIME, MountFlags::NODIRATIME),
        (Of::RELATIME, MountFlags::RELATIME),
    ];
    Ok(pairs.into_iter().filter(|(of, _)| flags.contains(*of)).fold(MountFlags::empty(), |all, (_, flag)| all | flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_attributes_have_the_kernels_layout_and_bits() {
        assert_eq!(size_of::<MountAttr>(), 32);
        let attr = mount_attr(&BTreeSet::from([Attribute::ReadOnly, Attribute::NoSuid, Attribute::NoAtime]));
        assert_eq!(attr, MountAttr { set: 0x13, clear: ATIME_MASK, ..MountAttr::default() });
    }

    fn words_at(path: &Path) -> String {
        let table = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        let fields = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let entry = table.lines().map(fields).rfind(|fields| fields[4] == path.to_str().unwrap());
        entry.map_or_else(String::new, |fields| fields[5].clone())
    }

    #[test]
    fn on_old_kernels_a_bind_in_two_steps_has_its_attributes_and_those_of_its_source() {
        ebs_testkit::mount_namespace::in_mount_namespace(|| async {
            let place = tempfile::tempdir().unwrap();
            let place = place.path().canonicalize().unwrap();
            let (source, target) = (place.join("source"), place.join("target"));
            std::fs::create_dir(&source).unwrap();
            std::fs::create_dir(&target).unwrap();
            rustix::mount::mount("none", &source, "tmpfs", MountFlags::NODEV, None).unwrap();
            in_two_steps(&source, &target, &BTreeSet::from([Attribute::ReadOnly])).unwrap();
            assert_eq!(words_at(&target), "ro,nodev,relatime");
            assert_eq!(words_at(&source), "rw,nodev,relatime");
        });
    }

    /// A bind mount whose attributes are refused leaves nothing mounted.
    ///
    /// Rule: node.md N-19
    #[test]
    fn a_bind_whose_attributes_are_refused_leaves_nothing_mounted() {
        ebs_testkit::mount_namespace::in_mount_namespace(|| async {
            let place = tempfile::tempdir().unwrap();
            let (source, target) = (place.path().join("source"), place.path().join("target"));
            std::fs::create_dir(&source).unwrap();
            std::fs::create_dir(&target).unwrap();
            // No kernel takes these two at once.
            let both = BTreeSet::from([Attribute::NoAtime, Attribute::StrictAtime]);
            assert!(atomically(&source, &target, &both).is_err());
            assert_eq!(words_at(&target), "");
        });
    }
}

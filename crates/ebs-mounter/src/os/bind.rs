//! Bind mounts that appear with all their attributes or not at all.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

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

/// The bits of the access-time mode. They form one value, so they must be cleared before they are set.
const ATIME_MASK: u64 = 0x70;

/// Binds `source` to `target` with the attributes of the source's mount and the given ones. With mount_setattr(2)
/// (Linux 5.12), the mount gets them before it is attached to the tree. Older kernels set them at a path below
/// `temporary`, and the bind to the target copies them. So the target never shows a mount without all attributes, even
/// if this process dies.
pub(crate) fn mount_bound(
    source: &Path,
    target: &Path,
    attributes: &BTreeSet<Attribute>,
    temporary: &Path,
) -> io::Result<()> {
    match atomically(source, target, attributes) {
        Err(Errno::NOSYS | Errno::PERM) => via_temporary_bind(temporary, source, target, attributes),
        outcome => outcome.map_err(io::Error::from),
    }
}

/// Removes the temporary binds of a process that was killed. They are copies of mounts, so no data is lost.
pub(crate) fn clear_temporary_binds(temporary: &Path) -> io::Result<()> {
    let Some(places) = super::if_exists(fs::read_dir(temporary))? else { return Ok(()) };
    for place in places {
        clear(&place?.path())?;
    }
    Ok(())
}

fn clear(place: &Path) -> io::Result<()> {
    // One path may have several mounts. When no mount is left, the unmount fails.
    while rustix::mount::unmount(place, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH).is_ok() {}
    if fs::symlink_metadata(place)?.is_dir() { fs::remove_dir(place) } else { fs::remove_file(place) }
}

fn atomically(source: &Path, target: &Path, attributes: &BTreeSet<Attribute>) -> Result<(), Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let detached = rustix::mount::open_tree(CWD, source, flags)?;
    set_attributes(&detached, &mount_attr(attributes))?;
    // The descriptor itself is the source, because the path is empty.
    rustix::mount::move_mount(&detached, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

fn mount_attr(attributes: &BTreeSet<Attribute>) -> MountAttr {
    let mut attr = MountAttr::default();
    for attribute in attributes {
        let (set, clear) = match attribute {
            Attribute::ReadOnly => (0x1, 0),
            Attribute::NoSuid => (0x2, 0),
            Attribute::NoDev => (0x4, 0),
            Attribute::NoExec => (0x8, 0),
            Attribute::RelAtime => (0, ATIME_MASK),
            Attribute::NoAtime => (0x10, ATIME_MASK),
            Attribute::StrictAtime => (0x20, ATIME_MASK),
            Attribute::NoDirAtime => (0x80, 0),
            Attribute::NoSymFollow => (0x20_0000, 0),
            // These are attributes of the file system, which a bind cannot change.
            Attribute::Synchronous
            | Attribute::DirSync
            | Attribute::LazyTime
            | Attribute::MandatoryLocks
            | Attribute::InodeVersion
            | Attribute::Silent => (0, 0),
        };
        attr.set |= set;
        attr.clear |= clear;
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

fn via_temporary_bind(
    temporary: &Path,
    source: &Path,
    target: &Path,
    attributes: &BTreeSet<Attribute>,
) -> io::Result<()> {
    // A remount replaces all attributes, so it must repeat the source's.
    let wanted = attributes.iter().fold(inherited(source)?, |flags, attribute| flags | super::flag(*attribute));
    let place = place_in(temporary, source)?;
    let bound = rustix::mount::mount_bind(source, &place)
        .and_then(|()| rustix::mount::mount_remount(&place, wanted | MountFlags::BIND, ""))
        .and_then(|()| rustix::mount::mount_bind(&place, target));
    if let Err(error) = clear(&place) {
        tracing::warn!(place = %place.display(), %error, "failed to remove a temporary mount");
    }
    bound.map_err(io::Error::from)
}

/// Creates an unused path of the same kind as the source: a directory, or a file for a device.
fn place_in(temporary: &Path, source: &Path) -> io::Result<PathBuf> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(temporary)?;
    let place = temporary.join(format!("{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed)));
    if fs::metadata(source)?.is_dir() {
        fs::create_dir(&place)?
    } else {
        drop(fs::File::create_new(&place)?)
    }
    Ok(place)
}

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
    fn mount_attr_matches_the_kernel_layout_and_bits() {
        assert_eq!(size_of::<MountAttr>(), 32);
        let attr = mount_attr(&BTreeSet::from([Attribute::ReadOnly, Attribute::NoSuid, Attribute::NoAtime]));
        assert_eq!(attr, MountAttr { set: 0x13, clear: ATIME_MASK, ..MountAttr::default() });
        use Attribute::{DirSync, InodeVersion, LazyTime, MandatoryLocks, RelAtime, Silent, StrictAtime, Synchronous};
        // These attributes do not appear in the mount table. The access time modes share one mask.
        let attr = |attribute| mount_attr(&BTreeSet::from([attribute]));
        assert_eq!((attr(RelAtime).set, attr(RelAtime).clear), (0, ATIME_MASK));
        assert_eq!((attr(StrictAtime).set, attr(StrictAtime).clear), (0x20, ATIME_MASK));
        for of_the_file_system in [Synchronous, DirSync, LazyTime, MandatoryLocks, InodeVersion, Silent] {
            assert_eq!(attr(of_the_file_system), MountAttr::default(), "{of_the_file_system:?}");
        }
    }

    fn assert_shows(target: &Path, word: &str) {
        let shown = words_at(target);
        assert!(shown.split(',').any(|have| have == word), "{word} is not in {shown}");
        rustix::mount::unmount(target, UnmountFlags::empty()).unwrap();
    }

    /// With either way of binding, the kernel shows the requested attributes and the attributes of the source.
    #[test]
    fn kernel_shows_each_attribute_of_a_bind() {
        with_places(|source, target, temporary| {
            for word in ["ro", "nosuid", "nodev", "noexec", "noatime", "nodiratime", "nosymfollow"] {
                let attributes = crate::options::MountOptions::parse([word]).unwrap().of_one_mount();
                atomically(source, target, &attributes).unwrap();
                assert_shows(target, word);
                via_temporary_bind(temporary, source, target, &attributes).unwrap();
                assert_shows(target, word);
            }
            let all = [
                ("ro", MountFlags::RDONLY),
                ("nosuid", MountFlags::NOSUID),
                ("nodev", MountFlags::NODEV),
                ("noexec", MountFlags::NOEXEC),
                ("noatime", MountFlags::NOATIME),
                ("nodiratime", MountFlags::NODIRATIME),
                ("relatime", MountFlags::RELATIME),
            ];
            for (word, flag) in all {
                rustix::mount::mount_remount(source, MountFlags::BIND | flag, "").unwrap();
                via_temporary_bind(temporary, source, target, &BTreeSet::new()).unwrap();
                assert_shows(target, word);
            }
        });
    }

    fn words_at(path: &Path) -> String {
        let table = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        let fields = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let entry = table.lines().map(fields).rfind(|fields| fields[4] == path.to_str().unwrap());
        entry.map_or_else(String::new, |fields| fields[5].clone())
    }

    /// Runs a test in a directory that contains `source`, a tmpfs with `nodev`, and an empty `target`.
    fn with_places(test: impl FnOnce(&Path, &Path, &Path) + Send + 'static) {
        ebs_testkit::mount_namespace::in_mount_namespace(|| async {
            let place = tempfile::tempdir().unwrap();
            let place = place.path().canonicalize().unwrap();
            let (source, target) = (place.join("source"), place.join("target"));
            fs::create_dir(&source).unwrap();
            fs::create_dir(&target).unwrap();
            rustix::mount::mount("none", &source, "tmpfs", MountFlags::NODEV, None).unwrap();
            test(&source, &target, &place.join("binding"));
            // Unmount everything here, because the namespace outlives the directory.
            clear_temporary_binds(&place.join("binding")).unwrap();
            for mounted in [&target, &source] {
                while rustix::mount::unmount(mounted, UnmountFlags::empty()).is_ok() {}
            }
        });
    }

    #[test]
    fn bind_without_mount_setattr_has_own_and_source_attributes() {
        with_places(|source, target, temporary| {
            via_temporary_bind(temporary, source, target, &BTreeSet::from([Attribute::ReadOnly])).unwrap();
            let words = words_at(target);
            assert!(words.starts_with("ro,") && words.contains("nodev"), "{words}");
            assert_eq!(fs::read_dir(temporary).unwrap().count(), 0);
            // The source may be a file, as for a raw block volume.
            fs::write(source.join("file"), "x").unwrap();
            let file = target.with_file_name("file");
            fs::write(&file, "").unwrap();
            via_temporary_bind(temporary, &source.join("file"), &file, &BTreeSet::from([Attribute::ReadOnly])).unwrap();
            assert_eq!(fs::write(&file, "y").unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
            rustix::mount::unmount(&file, UnmountFlags::empty()).unwrap();
        });
    }

    #[test]
    fn interrupted_bind_without_mount_setattr_leaves_no_mount() {
        with_places(|source, target, temporary| {
            let missing = target.with_file_name("missing");
            via_temporary_bind(temporary, source, &missing, &BTreeSet::from([Attribute::ReadOnly])).unwrap_err();
            assert_eq!(fs::read_dir(temporary).unwrap().count(), 0);
            // Leftovers of a process that was killed before the remount, and of one that was killed before its last
            // step.
            for place in ["1-0", "1-1"].map(|name| temporary.join(name)) {
                fs::create_dir(&place).unwrap();
                rustix::mount::mount_bind(source, &place).unwrap();
            }
            assert_eq!(words_at(target), "");
            clear_temporary_binds(temporary).unwrap();
            assert_eq!(fs::read_dir(temporary).unwrap().count(), 0);
            assert_ne!(words_at(source), "", "the mount itself stays");
        });
    }

    #[test]
    fn bind_with_rejected_attributes_leaves_no_mount() {
        with_places(|source, target, _| {
            // The kernel rejects the combination of these two attributes.
            let both = BTreeSet::from([Attribute::NoAtime, Attribute::StrictAtime]);
            assert!(atomically(source, target, &both).is_err());
            assert_eq!(words_at(target), "");
        });
    }
}

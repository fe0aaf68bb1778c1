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

/// The bits of access-time handling, which are one value and must be cleared to be set.
const ATIME_MASK: u64 = 0x70;

/// Makes `target` show `source` with the attributes of the source's mount and those given besides.
///
/// With mount_setattr(2) (Linux 5.12) the mount is complete before it is attached to the tree. Without, it is completed at a
/// place of its own below `workshop`, and then shown at the target, for which the kernel copies it with its attributes: at
/// no time is there a mount at the target that lacks some, whenever this process dies.
pub(crate) fn mount_bound(
    source: &Path,
    target: &Path,
    attributes: &BTreeSet<Attribute>,
    workshop: &Path,
) -> io::Result<()> {
    match atomically(source, target, attributes) {
        Err(Errno::NOSYS | Errno::PERM) => by_way_of(workshop, source, target, attributes),
        outcome => outcome.map_err(io::Error::from),
    }
}

/// Takes away what a process that was killed in the middle of a bind has left in its workshop. Only copies of mounts are
/// there, so nothing is lost with them.
pub(crate) fn clear_workshop(workshop: &Path) -> io::Result<()> {
    let places = match fs::read_dir(workshop) {
        Ok(places) => places,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for place in places {
        clear(&place?.path())?;
    }
    Ok(())
}

fn clear(place: &Path) -> io::Result<()> {
    // Only a mount point can be unmounted, and of one place there may be several.
    while rustix::mount::unmount(place, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH).is_ok() {}
    if fs::symlink_metadata(place)?.is_dir() { fs::remove_dir(place) } else { fs::remove_file(place) }
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
            | Attribute::InodeVersion
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

fn by_way_of(workshop: &Path, source: &Path, target: &Path, attributes: &BTreeSet<Attribute>) -> io::Result<()> {
    // A remount replaces all attributes, so those of the source come along.
    let wanted = attributes.iter().fold(inherited(source)?, |flags, attribute| flags | super::flag(*attribute));
    let place = place_in(workshop, source)?;
    let bound = rustix::mount::mount_bind(source, &place)
        .and_then(|()| rustix::mount::mount_remount(&place, wanted | MountFlags::BIND, ""))
        .and_then(|()| rustix::mount::mount_bind(&place, target));
    if let Err(error) = clear(&place) {
        tracing::warn!(place = %place.display(), %error, "a mount that was needed for a moment stays behind");
    }
    bound.map_err(io::Error::from)
}

/// An unused place of the kind that the source is: a directory, or a file for a device.
fn place_in(workshop: &Path, source: &Path) -> io::Result<PathBuf> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(workshop)?;
    let place = workshop.join(format!("{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed)));
    if fs::metadata(source)?.is_dir() {
        fs::create_dir(&place)?
    } else {
        drop(fs::File::create_new(&place)?)
    }
    Ok(place)
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

    /// Each attribute of one mount has the bit of `linux/mount.h`; the ways to keep access times are one value.
    #[test]
    fn each_attribute_has_its_bit_and_the_others_have_none() {
        use Attribute as A;
        let bits = |attribute| {
            let attr = mount_attr(&BTreeSet::from([attribute]));
            (attr.set, attr.clear)
        };
        for (attribute, set, clear) in [
            (A::ReadOnly, 0x1, 0),
            (A::NoSuid, 0x2, 0),
            (A::NoDev, 0x4, 0),
            (A::NoExec, 0x8, 0),
            (A::RelAtime, 0, ATIME_MASK),
            (A::NoAtime, 0x10, ATIME_MASK),
            (A::StrictAtime, 0x20, ATIME_MASK),
            (A::NoDirAtime, 0x80, 0),
            (A::NoSymFollow, 0x20_0000, 0),
            (A::Synchronous, 0, 0),
            (A::DirSync, 0, 0),
            (A::LazyTime, 0, 0),
            (A::MandatoryLocks, 0, 0),
            (A::InodeVersion, 0, 0),
            (A::Silent, 0, 0),
        ] {
            assert_eq!(bits(attribute), (set, clear), "{attribute:?}");
        }
    }

    /// The kernel shows each attribute of a bind by its word, whichever way the bind is made.
    #[test]
    fn the_kernel_shows_each_attribute_of_a_bind() {
        with_places(|source, target, workshop| {
            let words = ["ro", "nosuid", "nodev", "noexec", "noatime", "nodiratime", "nosymfollow"];
            for word in words {
                let attributes = crate::options::MountOptions::parse([word]).unwrap().of_one_mount();
                atomically(source, target, &attributes).unwrap();
                let shown = words_at(target);
                rustix::mount::unmount(target, UnmountFlags::empty()).unwrap();
                by_way_of(workshop, source, target, &attributes).unwrap();
                let shown_by_way = words_at(target);
                rustix::mount::unmount(target, UnmountFlags::empty()).unwrap();
                for shown in [shown, shown_by_way] {
                    assert!(shown.split(',').any(|have| have == word), "{word} is not in {shown}");
                }
            }
        });
    }

    /// On kernels before 5.12 too a bind has every attribute of its source, also those that take rights away.
    #[test]
    fn on_old_kernels_a_bind_has_every_attribute_of_its_source() {
        with_places(|source, target, workshop| {
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
                by_way_of(workshop, source, target, &BTreeSet::new()).unwrap();
                let shown = words_at(target);
                assert!(shown.split(',').any(|have| have == word), "{word} is not in {shown}");
                rustix::mount::unmount(target, UnmountFlags::empty()).unwrap();
            }
        });
    }

    fn words_at(path: &Path) -> String {
        let table = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        let fields = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let entry = table.lines().map(fields).rfind(|fields| fields[4] == path.to_str().unwrap());
        entry.map_or_else(String::new, |fields| fields[5].clone())
    }

    /// Runs a test with a directory that holds `source`, a tmpfs with `nodev`, and an empty `target`.
    fn with_places(test: impl FnOnce(&Path, &Path, &Path) + Send + 'static) {
        ebs_testkit::mount_namespace::in_mount_namespace(|| async {
            let place = tempfile::tempdir().unwrap();
            let place = place.path().canonicalize().unwrap();
            let (source, target) = (place.join("source"), place.join("target"));
            fs::create_dir(&source).unwrap();
            fs::create_dir(&target).unwrap();
            rustix::mount::mount("none", &source, "tmpfs", MountFlags::NODEV, None).unwrap();
            test(&source, &target, &place.join("binding"));
            // The namespace outlives the directory.
            clear_workshop(&place.join("binding")).unwrap();
            for mounted in [&target, &source] {
                while rustix::mount::unmount(mounted, UnmountFlags::empty()).is_ok() {}
            }
        });
    }

    /// On kernels before 5.12 too a bind has its attributes, and those of its source, from its first moment.
    #[test]
    fn on_old_kernels_a_bind_has_its_attributes_and_those_of_its_source() {
        with_places(|source, target, workshop| {
            by_way_of(workshop, source, target, &BTreeSet::from([Attribute::ReadOnly])).unwrap();
            let words = words_at(target);
            assert!(words.starts_with("ro,") && words.contains("nodev"), "{words}");
            assert_eq!(fs::read_dir(workshop).unwrap().count(), 0);
            // A file, as for a raw device.
            fs::write(source.join("file"), "x").unwrap();
            let file = target.with_file_name("file");
            fs::write(&file, "").unwrap();
            by_way_of(workshop, &source.join("file"), &file, &BTreeSet::from([Attribute::ReadOnly])).unwrap();
            assert_eq!(fs::write(&file, "y").unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
            rustix::mount::unmount(&file, UnmountFlags::empty()).unwrap();
        });
    }

    /// What fails, or is killed, on the way of a bind on kernels before 5.12 leaves nothing at the target, and what it leaves
    /// elsewhere is taken away.
    #[test]
    fn on_old_kernels_a_bind_that_does_not_come_to_its_end_leaves_nothing_mounted() {
        with_places(|source, target, workshop| {
            let missing = target.with_file_name("missing");
            by_way_of(workshop, source, &missing, &BTreeSet::from([Attribute::ReadOnly])).unwrap_err();
            assert_eq!(fs::read_dir(workshop).unwrap().count(), 0);
            // Killed before the remount, and killed before the end.
            for place in ["1-0", "1-1"].map(|name| workshop.join(name)) {
                fs::create_dir(&place).unwrap();
                rustix::mount::mount_bind(source, &place).unwrap();
            }
            assert_eq!(words_at(target), "");
            clear_workshop(workshop).unwrap();
            assert_eq!(fs::read_dir(workshop).unwrap().count(), 0);
            assert_ne!(words_at(source), "", "the mount itself stays");
        });
    }

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

//! The single list of the image's contents. `deploy/image/packages.lock` lists the packages of the files.
//!
//! Decision: `docs/decisions/0028-ship-an-image-without-a-shell.md`.

/// The product's name, for program and image.
pub const NAME: &str = "aws-ebs-csi-driver";

/// One of our images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct What {
    pub name: &'static str,
    pub description: &'static str,
}

/// The driver's image.
pub const DRIVER_IMAGE: What =
    What { name: NAME, description: "Amazon EBS volumes by CSI: the driver and the file-system tools" };

/// The path of the driver in pods.
pub const DRIVER: &str = "/bin/aws-ebs-csi-driver";

/// Maximum size of the compressed layers of one platform, in bytes.
pub const MOST_BYTES: u64 = 12_000_000;

/// A program of a Debian package. Its libraries are added too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// The path without the leading slash, on a system with everything below `/usr`.
    pub path: &'static str,
    pub why: &'static str,
}

const fn program(path: &'static str, why: &'static str) -> Program {
    Program { path, why }
}

/// The programs in addition to the driver.
pub const PROGRAMS: [Program; 8] = [
    program("usr/sbin/blkid", "every stage: contents of a disk"),
    program("usr/sbin/dumpe2fs", "for people: features and state of an ext file system"),
    program("usr/sbin/e2fsck", "repair of an ext file system, also before growth"),
    program("usr/sbin/mke2fs", "ext2, ext3 and ext4 on a proven blank disk"),
    program("usr/sbin/mkfs.xfs", "xfs on a proven blank disk"),
    program("usr/sbin/resize2fs", "growth of an ext file system"),
    program("usr/sbin/xfs_growfs", "growth of an xfs file system"),
    program("usr/sbin/xfs_repair", "for people: repair of an xfs file system, on nodes without the tool"),
];

/// Libraries that no program names, because they are loaded at run time.
pub(crate) const LOADED_LATER: [&str; 1] = ["libgcc_s.so.1"];

/// Files of Debian packages that are not programs.
pub(crate) const DEBIAN_FILES: [&str; 9] = [
    "etc/os-release",
    // The full texts to which the copyright files refer.
    "usr/share/common-licenses/GPL",
    "usr/share/common-licenses/GPL-2",
    "usr/share/common-licenses/GPL-3",
    "usr/share/common-licenses/LGPL",
    "usr/share/common-licenses/LGPL-2",
    "usr/share/common-licenses/LGPL-2.1",
    "usr/share/common-licenses/LGPL-3",
    "usr/share/common-licenses/MPL-2.0",
];

/// Links for the short paths of a system with everything below `/usr`, and e2fsprogs' link to the mount table.
pub(crate) const LINKS: [(&str, &str); 4] =
    [("bin", "usr/bin"), ("sbin", "usr/sbin"), ("lib", "usr/lib"), ("etc/mtab", "../proc/self/mounts")];

/// A further link for machines with their loader there.
pub(crate) const LIB64: (&str, &str) = ("lib64", "usr/lib64");

/// Our own files with their text.
pub(crate) const FILES: [(&str, &str); 4] = [
    ("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
    ("etc/mke2fs.conf", include_str!("../../ebs-mounter/data/mke2fs.conf")),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
    ("etc/passwd", "root:x:0:0:root:/:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"),
];

/// The bundle of the CA certificates that Mozilla trusts.
pub(crate) const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";

/// The directory where ca-certificates has them as single files.
pub(crate) const AUTHORITIES_FROM: &str = "usr/share/ca-certificates/mozilla/";

/// SPDX licences of the files from packages, as their copyright files name them. The copyright files are also in the
/// image.
pub(crate) const LICENCES: [(&str, &str); 14] = [
    ("base-files", "GPL-2.0-or-later"),
    ("ca-certificates", "MPL-2.0"),
    ("e2fsprogs", "GPL-2.0-only"),
    ("gcc-12-base", "GPL-3.0-or-later WITH GCC-exception-3.1"),
    ("libblkid1", "LGPL-2.1-or-later"),
    ("libc6", "LGPL-2.1-or-later"),
    ("libcom-err2", "MIT"),
    ("libext2fs2", "LGPL-2.0-only"),
    ("libgcc-s1", "GPL-3.0-or-later WITH GCC-exception-3.1"),
    ("libinih1", "BSD-3-Clause"),
    ("liburcu8", "LGPL-2.1-or-later"),
    ("libuuid1", "BSD-3-Clause"),
    ("util-linux", "GPL-2.0-or-later"),
    ("xfsprogs", "GPL-2.0-only"),
];

/// The environment of the image's process.
pub const PATH: &str = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";

//! The mounter on real block devices: needs root, e2fsprogs, xfsprogs and util-linux, and touches loop devices of its
//! own alone.

mod device;
mod disk;
mod format;
mod mount;

//! The mounter on real block devices: needs root, e2fsprogs, xfsprogs and util-linux, and touches loop devices of its
//! own alone.

#[cfg(test)]
mod check;
#[cfg(test)]
mod device;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod format;
#[cfg(test)]
mod growth;
#[cfg(test)]
mod moments;
#[cfg(test)]
mod mount;
#[cfg(test)]
mod statistics;

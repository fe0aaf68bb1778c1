//! Tests the mounter on real block devices. Needs root, e2fsprogs, xfsprogs and util-linux. Touches only its own loop
//! devices.

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

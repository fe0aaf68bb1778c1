//! Numbers of devices.

use std::fmt;

/// The kernel's number of a device; unique as long as the device is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    /// The driver's part.
    pub major: u32,
    /// The device's part.
    pub minor: u32,
}

impl DeviceNumber {
    /// From the number as stat(2) gives it.
    pub(crate) fn of(raw: u64) -> Self {
        Self { major: rustix::fs::major(raw), minor: rustix::fs::minor(raw) }
    }

    /// From `major:minor`, as the kernel writes it.
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

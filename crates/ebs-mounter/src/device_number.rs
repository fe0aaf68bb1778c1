//! Device numbers.

use std::fmt;

/// The kernel's number of a device, unique while the device is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    /// Identifies the kernel driver.
    pub major: u32,
    /// Identifies the device of that driver.
    pub minor: u32,
}

impl DeviceNumber {
    /// Converts the number from stat(2).
    pub(crate) fn of(raw: u64) -> Self {
        Self { major: rustix::fs::major(raw), minor: rustix::fs::minor(raw) }
    }

    /// Parses `major:minor`, as the kernel writes it.
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

//! Numbers that Windows gives to disks and partitions.

use std::fmt;

/// The number of a disk, `MSFT_Disk.Number`. It is valid until the disks of the machine change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct DiskNumber(pub u32);

/// The number of a partition on its disk, from 1. The API's 0, which means "all partitions", is `None` here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct PartitionNumber(u32);

impl PartitionNumber {
    pub fn new(number: u32) -> Option<Self> {
        (number != 0).then_some(Self(number))
    }

    pub fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for DiskNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for PartitionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

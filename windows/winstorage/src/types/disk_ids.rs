//! Identifiers of disks.

/// The location of a disk in the machine, with Windows' values; empty if Windows reports none of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskLocation {
    pub adapter: String,
    pub bus: String,
    pub target: String,
    pub lun: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskIds {
    /// Its first identifier on page 83; empty if it is missing or the query failed.
    pub page83: String,
    pub serial_number: String,
}

//! Identifiers of disks.

/// The location of a disk in the machine, in Windows' form. The fields are empty if Windows reports no location.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskLocation {
    pub adapter: String,
    pub bus: String,
    pub target: String,
    pub lun: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskIds {
    /// The disk's first identifier on page 83. It is empty if the disk reports no identifier or the query failed.
    pub page83: String,
    pub serial_number: String,
}

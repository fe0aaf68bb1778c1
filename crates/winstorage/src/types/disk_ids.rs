//! What disks say of themselves.

/// Where a disk is in the machine, in Windows' words; empty where they say nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskLocation {
    /// Of the host bus adapter.
    pub adapter: String,
    /// SCSI bus.
    pub bus: String,
    /// SCSI target.
    pub target: String,
    /// Logical unit.
    pub lun: String,
}

/// What a disk says it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskIds {
    /// Its first identifier on page 83; empty where it has none or will not say.
    pub page83: String,
    /// Verbatim, blanks included.
    pub serial_number: String,
}

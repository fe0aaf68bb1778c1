//! Resource usage of this process.

/// The current values. A value that the system does not report is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figures {
    pub cpu_seconds: Option<f64>,
    pub resident: Option<f64>,
    pub open: Option<f64>,
    /// Start time in seconds since 1970.
    pub started: Option<f64>,
}

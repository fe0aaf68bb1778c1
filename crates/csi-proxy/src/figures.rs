//! What the system tells of this process.

/// The figures of a moment. What the system does not tell is left out.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figures {
    /// Seconds of all processors.
    pub cpu_seconds: Option<f64>,
    /// Bytes of memory.
    pub resident: Option<f64>,
    /// Handles.
    pub open: Option<f64>,
    /// Seconds since 1970.
    pub started: Option<f64>,
}

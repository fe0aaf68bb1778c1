//! What the system tells of this process.

use super::page::single;

/// The figures of a moment. What the system does not tell is left out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Process {
    /// Seconds of all processors.
    pub(crate) cpu_seconds: Option<f64>,
    /// Bytes.
    pub(crate) resident: Option<f64>,
    /// Files on Linux, handles on Windows.
    pub(crate) open: Option<f64>,
    /// Seconds since 1970.
    pub(crate) started: Option<f64>,
}

impl Process {
    pub(super) fn now() -> Self {
        #[cfg(windows)]
        return crate::windows::process_figures();
        #[cfg(not(windows))]
        linux()
    }

    pub(super) fn print(self, page: &mut String) {
        let rows = [
            ("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", "counter", self.cpu_seconds),
            ("process_open_fds", "Number of open file descriptors or handles.", "gauge", self.open),
            ("process_resident_memory_bytes", "Resident memory size in bytes.", "gauge", self.resident),
            ("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", "gauge", self.started),
        ];
        for (name, help, kind, value) in rows {
            if let Some(value) = value {
                single(page, name, help, kind, value);
            }
        }
    }
}

/// By `/proc`, where this program only runs in tests.
#[cfg(not(windows))]
fn linux() -> Process {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> = stat
        .rsplit(") ")
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .map(|field| field.parse().unwrap_or_default())
        .collect();
    let boot = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let boot = boot.lines().find_map(|line| line.strip_prefix("btime ")).and_then(|time| time.parse::<f64>().ok());
    // Ticks are hundredths of a second and pages have 4 KiB on every machine that tests run on.
    let ticks = |at: usize| fields.get(at).map(|ticks| ticks / 100.0);
    Process {
        cpu_seconds: ticks(11).zip(ticks(12)).map(|(user, system)| user + system),
        resident: fields.get(21).map(|pages| pages * 4096.0),
        open: None,
        started: ticks(19).zip(boot).map(|(since, boot)| boot + since),
    }
}

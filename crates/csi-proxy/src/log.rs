//! Log lines as klog writes them, to standard error or to a file that does not grow for ever.

mod events;
mod sink;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::panic::Location;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::{Date, now};
use sink::Sink;

/// How bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// As it should be.
    Info,
    /// Worth a look.
    Warning,
    /// Something was not done.
    Error,
    /// The process ends.
    Fatal,
}

/// Where log lines go, and how they look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// Lines up to this level are written.
    pub verbosity: u32,
    /// To standard error and nowhere else.
    pub to_stderr: bool,
    /// To files and to standard error.
    pub also_to_stderr: bool,
    /// From this severity on to standard error, too.
    pub stderr_from: Severity,
    /// The log file.
    pub file: Option<PathBuf>,
    /// Where a log file is made when none is named.
    pub directory: Option<PathBuf>,
    /// The log file is begun anew when it would grow over this; 0 for never.
    pub file_bytes: u64,
    /// The directory of the source file in each line.
    pub directory_in_header: bool,
    /// No header before lines.
    pub skip_line_headers: bool,
    /// No lines at the beginning of a file.
    pub skip_file_headers: bool,
}

/// The log of the process; copies share it.
#[derive(Clone)]
pub struct Log(Arc<Shared>);

struct Shared {
    settings: LogSettings,
    sink: Mutex<Sink>,
}

impl Severity {
    /// By number, as the flags have it, or by name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "0" | "INFO" => Some(Self::Info),
            "1" | "WARNING" => Some(Self::Warning),
            "2" | "ERROR" => Some(Self::Error),
            "3" | "FATAL" => Some(Self::Fatal),
            _ => None,
        }
    }

    const fn letter(self) -> char {
        match self {
            Self::Info => 'I',
            Self::Warning => 'W',
            Self::Error => 'E',
            Self::Fatal => 'F',
        }
    }
}

impl Log {
    /// Opens the log file, if one is wanted.
    ///
    /// # Errors
    ///
    /// That of opening the file.
    pub fn open(settings: LogSettings) -> io::Result<Self> {
        let sink = Sink::open(&settings)?;
        Ok(Self(Arc::new(Shared { settings, sink: Mutex::new(sink) })))
    }

    /// A log for tests: lines go to `target`.
    #[must_use]
    pub fn to_memory(settings: LogSettings, target: Arc<Mutex<Vec<u8>>>) -> Self {
        Self(Arc::new(Shared { settings, sink: Mutex::new(Sink::memory(target)) }))
    }

    /// Something as it should be.
    #[track_caller]
    pub fn info(&self, line: impl fmt::Display) {
        self.write(Severity::Info, &line, Location::caller());
    }

    /// Something that is written at this verbosity only.
    #[track_caller]
    pub fn verbose(&self, level: u32, line: impl fmt::Display) {
        if level <= self.0.settings.verbosity {
            self.write(Severity::Info, &line, Location::caller());
        }
    }

    /// Something worth a look.
    #[track_caller]
    pub fn warning(&self, line: impl fmt::Display) {
        self.write(Severity::Warning, &line, Location::caller());
    }

    /// Something that was not done.
    #[track_caller]
    pub fn error(&self, line: impl fmt::Display) {
        self.write(Severity::Error, &line, Location::caller());
    }

    /// A line that has its own form: no header.
    pub fn plain(&self, line: &str) {
        self.put(Severity::Info, format!("{line}\n").as_bytes());
    }

    fn write(&self, severity: Severity, line: &dyn fmt::Display, from: &Location<'_>) {
        // What clients write stands in log lines: nothing of it may begin a line of its own.
        let line = line.to_string().replace(['\r', '\n'], " ");
        let header = if self.0.settings.skip_line_headers { String::new() } else { self.header(severity, from) };
        self.put(severity, format!("{header}{line}\n").as_bytes());
    }

    fn header(&self, severity: Severity, from: &Location<'_>) -> String {
        let Date { month, day, hour, minute, second, micros, .. } = now();
        let parts: Vec<&str> = from.file().rsplit(['/', '\\']).take(2).collect();
        let file = match parts.as_slice() {
            [file, directory] if self.0.settings.directory_in_header => format!("{directory}/{file}"),
            [file, ..] => (*file).to_owned(),
            [] => String::new(),
        };
        let (letter, process) = (severity.letter(), std::process::id());
        let line = from.line();
        format!("{letter}{month:02}{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06} {process:>7} {file}:{line}] ")
    }

    fn put(&self, severity: Severity, bytes: &[u8]) {
        let mut sink = self.0.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.write(&self.0.settings, severity, bytes);
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Log").field(&self.0.settings).finish()
    }
}

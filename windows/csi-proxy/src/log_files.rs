//! The log output: standard error, or a file of limited size. A failure to write the log never stops the program.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use component_base::logs::{ByVerbosity, Lines, LogFormat, Shape, VerboseCrates, escaped_json, utc};
use tracing::Metadata;
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::log_file_flags::{FileLogFlags, Severity};

/// Sets up logging for the whole process and returns the log. Logs only code whose target `is_ours` accepts. If the
/// flags do not name the log file, `program` is part of its name.
pub(crate) fn init(flags: &FileLogFlags, program: &str, is_ours: fn(&str) -> bool) -> std::io::Result<Output> {
    let output = Output::open(flags, program)?;
    let wanted = ByVerbosity::new(flags.v, flags.vmodule.clone(), is_ours).without_others();
    let shape = Shape { header: !flags.skip_headers, directory: flags.add_dir_header, ..Shape::PRINTED };
    let lines = Lines::new(LogFormat::Text, output.clone(), VerboseCrates::NONE).shaped(shape).with_filter(wanted);
    tracing_subscriber::registry().with(lines).try_init().map_err(std::io::Error::other)?;
    Ok(output)
}

/// Returns the current time in RFC 3339 format, in UTC, with microseconds.
pub(crate) fn now() -> String {
    utc(SystemTime::now(), "%Y-%m-%dT%H:%M:%S.%6fZ")
}

/// The open log of a process. Clones share it.
#[derive(Debug, Clone)]
pub struct Output(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    also_stderr: bool,
    /// The severity from which lines also go to standard error.
    stderr_from: Severity,
    /// The log file, or `None` for standard error.
    file: Option<Mutex<LogFile>>,
}

impl Output {
    /// Opens the log file, if configured. If the flags do not name the file, `program` is part of its name.
    pub fn open(flags: &FileLogFlags, program: &str) -> io::Result<Self> {
        let file = if flags.logtostderr { None } else { Some(Mutex::new(LogFile::open(flags, program)?)) };
        let (also_stderr, stderr_from) = (flags.alsologtostderr, flags.stderrthreshold);
        Ok(Self(Arc::new(Shared { also_stderr, stderr_from, file })))
    }

    /// Writes a JSON document as a line, without a header. Escapes control characters within its strings.
    pub fn json_line(&self, document: &str) {
        self.write(Severity::Info, format!("{}\n", escaped_json(document)).as_bytes());
    }

    fn write(&self, severity: Severity, bytes: &[u8]) {
        let Shared { also_stderr, stderr_from, file } = &*self.0;
        let file = file.as_ref().map(|file| file.lock().unwrap_or_else(PoisonError::into_inner));
        // If the log cannot be written, this cannot be reported either.
        if file.is_none() || *also_stderr || severity >= *stderr_from {
            drop(io::stderr().write_all(bytes));
        }
        drop(file.map(|mut file| file.write(bytes)));
    }
}

/// Writes a single line.
#[derive(Debug)]
pub struct LineWriter<'a> {
    output: &'a Output,
    severity: Severity,
}

impl Write for LineWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(self.severity, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Output {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        LineWriter { output: self, severity: Severity::Info }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Self::Writer {
        LineWriter { output: self, severity: Severity::of(*metadata.level()) }
    }
}

#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    file: File,
    written: u64,
    /// The file is rotated before it exceeds this size in bytes. 0 means no limit.
    limit: u64,
    has_header: bool,
}

impl LogFile {
    fn open(flags: &FileLogFlags, program: &str) -> io::Result<Self> {
        const MEGABYTE: u64 = 1024 * 1024;
        let path = if flags.log_file.is_empty() {
            let directory = if flags.log_dir.is_empty() { std::env::temp_dir() } else { PathBuf::from(&flags.log_dir) };
            let now = utc(SystemTime::now(), "%Y%m%d-%H%M%S");
            directory.join(format!("{program}.INFO.{now}.{}.log", std::process::id()))
        } else {
            PathBuf::from(&flags.log_file)
        };
        let file = append_to(&path)?;
        let (written, limit) = (file.metadata()?.len(), flags.log_file_max_size.saturating_mul(MEGABYTE));
        let mut opened = Self { path, file, written, limit, has_header: !flags.skip_log_headers };
        opened.begin()?;
        Ok(opened)
    }

    fn begin(&mut self) -> io::Result<()> {
        if !self.has_header {
            return Ok(());
        }
        let line = format!(
            "Log file created at: {}\nLog line format: [IWEF]mmdd hh:mm:ss.uuuuuu threadid file:line] msg\n",
            now()
        );
        self.append(line.as_bytes())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.written = self.written.saturating_add(length(bytes));
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.limit > 0 && self.written.saturating_add(length(bytes)) > self.limit {
            // If the rotation fails, the file may grow by the same size again before the next attempt, because a long
            // log is better than a lost one.
            self.written = 0;
            drop(self.rotate());
        }
        self.append(bytes)
    }

    /// Rotates the file: renames it over the previous old file, and opens a new one.
    fn rotate(&mut self) -> io::Result<()> {
        // Windows renames an open file only if every process that has it open allows this, as Rust's standard library
        // does. If the rename fails, truncate the file instead.
        if std::fs::rename(&self.path, before(&self.path)).is_err() {
            File::create(&self.path)?;
        }
        self.file = append_to(&self.path)?;
        self.begin()
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

fn before(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::Path;

    use component_base::flags::CommandLine;
    use component_base::logs::ModuleLevels;

    use super::*;

    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("klog-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn file(&self) -> PathBuf {
            self.0.join("program.log")
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }

    fn flags(file: &Path) -> FileLogFlags {
        let fixed =
            ["-logtostderr=false", "-stderrthreshold=FATAL", "-skip_log_headers", "-log_file"].map(OsString::from);
        CommandLine::read(fixed.into_iter().chain([file.into()])).unwrap().flags
    }

    fn open(flags: &FileLogFlags, limit: u64) -> Output {
        let mut file = LogFile::open(flags, "program").unwrap();
        file.limit = limit;
        Output(Arc::new(Shared { also_stderr: false, stderr_from: Severity::Fatal, file: Some(Mutex::new(file)) }))
    }

    fn logged(flags: &FileLogFlags, limit: u64, shape: Shape, log: impl FnOnce(&Output)) -> Vec<String> {
        let output = open(flags, limit);
        let lines = Lines::new(LogFormat::Text, output.clone(), VerboseCrates::NONE).shaped(shape);
        let wanted = ByVerbosity::new(2, ModuleLevels::default(), |_| true);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines.with_filter(wanted)), || {
            log(&output);
        });
        std::fs::read_to_string(&flags.log_file).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn log_file_is_rotated_before_it_exceeds_its_limit() {
        let directory = Directory::new("anew");
        let mut with_header = flags(&directory.file());
        with_header.skip_log_headers = false;
        let new = logged(&with_header, 400, Shape::PRINTED, |_| {
            for number in 0..20 {
                tracing::info!("line {number}");
            }
        });
        let old = std::fs::read_to_string(before(&directory.file())).unwrap();
        assert!(new.join("\n").len() < 400 && old.len() <= 400, "{new:?} {old}");
        assert!(new[0].starts_with("Log file created at: ") && new.last().unwrap().ends_with("line 19"), "{new:?}");
        assert!(old.lines().all(|line| line.starts_with("Log ") || line.contains("] line ")), "{old}");
    }

    #[test]
    fn log_file_is_truncated_when_rotation_fails() {
        let directory = Directory::new("on");
        std::fs::create_dir(before(&directory.file())).unwrap();
        std::fs::write(before(&directory.file()).join("in the way"), "").unwrap();
        let without_header = Shape { header: false, ..Shape::PRINTED };
        let lines = logged(&flags(&directory.file()), 100, without_header, |_| {
            for number in 0..50 {
                tracing::info!("line {number}");
            }
        });
        assert!(lines.len() < 20 && lines.last().unwrap() == "line 49", "{lines:?}");
    }

    /// If the flags do not name a log file, its name contains the program's name.
    #[test]
    fn existing_log_file_is_appended_to() {
        let directory = Directory::new("name");
        std::fs::write(directory.file(), "before\n").unwrap();
        let lines = logged(&flags(&directory.file()), 0, Shape::PRINTED, |_| tracing::info!("after"));
        assert!(lines[0] == "before" && lines[1].ends_with("] after"), "{lines:?}");
        std::fs::remove_file(directory.file()).unwrap();
        let log_dir = directory.0.display().to_string();
        let mut nameless = flags(&directory.file());
        (nameless.log_file, nameless.log_dir) = (String::new(), log_dir);
        Output::open(&nameless, "program").unwrap().json_line("{}");
        let names: Vec<_> = std::fs::read_dir(&directory.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        let name = names[0].to_str().unwrap();
        assert!(names.len() == 1 && name.starts_with("program.INFO.2") && name.ends_with(".log"), "{names:?}");
        let missing = flags(&directory.0.join("none").join("file"));
        assert!(Output::open(&missing, "program").is_err());
    }

    #[test]
    fn json_line_has_no_header_and_escapes_control_characters() {
        let directory = Directory::new("document");
        let lines = logged(&flags(&directory.file()), 0, Shape::PRINTED, |output| {
            output.json_line("{\"path\":\"größe \u{9b}31m\u{7f}\"}");
        });
        assert_eq!(lines, ["{\"path\":\"größe \\u009b31m\\u007f\"}"]);
        let read: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!(read["path"], "größe \u{9b}31m\u{7f}");
    }
}

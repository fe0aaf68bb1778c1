//! klog's own flags, for programs that log to files.

use std::path::PathBuf;

use super::files::{Destination, Severity};
use super::{BadModuleLevel, ModuleLevels, Shape};
use crate::flags::value;

/// klog's flags. Their names have underscores.
#[derive(Debug, Clone, clap::Args)]
#[command(rename_all = "snake_case", next_help_heading = "Log")]
pub struct FileLogFlags {
    /// verbosity of the log
    #[arg(long, default_value = "0", value_name = "LEVEL", value_parser = value::level)]
    v: u32,
    /// verbosity of single source files, by patterns of their names
    #[arg(long, default_value = "", value_name = "PATTERN=N,…")]
    vmodule: String,
    /// log to standard error instead of files (the default)
    #[arg(long, default_value = "true")]
    logtostderr: bool,
    /// log to standard error and to files
    #[arg(long)]
    alsologtostderr: bool,
    /// lowest severity that is also logged to standard error when logging to files
    #[arg(long, default_value = "2", value_name = "SEVERITY", value_parser = Severity::parse)]
    stderrthreshold: Severity,
    /// path of the log file
    #[arg(long, default_value = "", value_name = "FILE")]
    log_file: String,
    /// directory of log files without --log_file
    #[arg(long, default_value = "", value_name = "DIRECTORY")]
    log_dir: String,
    /// maximum size of the log file in MB, after which it is started again; 0 for no limit
    #[arg(long, default_value = "1800", value_name = "MB", value_parser = megabytes)]
    log_file_max_size: u64,
    /// no effect
    #[arg(long, default_value = "", value_name = "VALUE")]
    log_backtrace_at: String,
    /// add the directory of the source file to each line
    #[arg(long)]
    add_dir_header: bool,
    /// no effect: all severities have one log file
    #[arg(long)]
    one_output: bool,
    /// omit the header of each line
    #[arg(long)]
    skip_headers: bool,
    /// omit the header lines of the log file
    #[arg(long)]
    skip_log_headers: bool,
    /// no effect: each line is written at once
    #[arg(long, default_value = "", value_name = "VALUE")]
    log_flush_frequency: String,
}

/// Settings of the log and its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSettings {
    /// `--v`.
    pub verbosity: u32,
    /// `--vmodule`: a higher verbosity for some source files.
    pub modules: ModuleLevels,
    pub shape: Shape,
    pub destination: Destination,
}

impl FileLogFlags {
    /// Returns the settings.
    ///
    /// # Errors
    /// `--vmodule` is invalid.
    pub fn settings(&self) -> Result<FileSettings, BadModuleLevel> {
        const MEGABYTE: u64 = 1024 * 1024;
        let path = |text: &str| Some(text).filter(|text| !text.is_empty()).map(PathBuf::from);
        Ok(FileSettings {
            verbosity: self.v,
            modules: self.vmodule.parse()?,
            shape: Shape { header: !self.skip_headers, directory: self.add_dir_header, ..Shape::PRINTED },
            destination: Destination {
                only_stderr: self.logtostderr,
                also_stderr: self.alsologtostderr,
                stderr_from: self.stderrthreshold,
                file: path(&self.log_file),
                directory: path(&self.log_dir),
                file_bytes: self.log_file_max_size.saturating_mul(MEGABYTE),
                bare_file: self.skip_log_headers,
            },
        })
    }
}

fn megabytes(text: &str) -> Result<u64, String> {
    u64::try_from(value::integer(text)?).map_err(|_| "it must not be negative".to_owned())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::flags::CommandLine;

    fn read(line: &str) -> Result<FileSettings, String> {
        let line = CommandLine::<FileLogFlags>::read(line.split_whitespace().map(OsString::from));
        line.map_err(|error| error.to_string())?.flags.settings().map_err(|error| error.to_string())
    }

    /// Invalid values are rejected.
    #[test]
    fn klog_flags_have_same_meaning_as_in_go() {
        let plain = read("").unwrap();
        assert_eq!((plain.verbosity, plain.shape), (0, Shape::PRINTED));
        assert!(plain.destination.only_stderr && !plain.destination.also_stderr && !plain.destination.bare_file);
        assert_eq!((plain.destination.stderr_from, plain.destination.file_bytes), (Severity::Error, 1800 << 20));
        let given = read(
            "-v=5 -vmodule=pipe=9 -logtostderr=false -alsologtostderr -stderrthreshold=WARNING -log_file a -log_dir=b \
             -log_file_max_size=1 -add_dir_header -skip_headers -skip_log_headers -one_output -log_backtrace_at=x:1",
        )
        .unwrap();
        assert_eq!((given.verbosity, given.modules), (5, "pipe=9".parse().unwrap()));
        assert_eq!(given.shape, Shape { header: false, directory: true, quoted: false });
        let expected = Destination {
            only_stderr: false,
            also_stderr: true,
            stderr_from: Severity::Warning,
            file: Some("a".into()),
            directory: Some("b".into()),
            file_bytes: 1 << 20,
            bare_file: true,
        };
        assert_eq!(given.destination, expected);
        for (line, because) in [
            ("-v=-1", "--v is"),
            ("-vmodule=pipe", "pattern=N"),
            ("-stderrthreshold=4", "0 to 3"),
            ("-log_file_max_size=-1", "negative"),
            ("-log_file_max_size=much", "--log_file_max_size"),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.contains(because), "{line}: {error}");
        }
    }
}

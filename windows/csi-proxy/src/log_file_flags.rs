//! klog's own flags, for programs that log to files.

use std::str::FromStr;

use component_base::flags::value;
use component_base::logs::ModuleLevels;
use tracing::Level;

/// The severity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Info,
    Warning,
    Error,
    /// A severity above all lines, for the flag `--stderrthreshold`.
    Fatal,
}

impl Severity {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "0" | "INFO" => Ok(Self::Info),
            "1" | "WARNING" => Ok(Self::Warning),
            "2" | "ERROR" => Ok(Self::Error),
            "3" | "FATAL" => Ok(Self::Fatal),
            _ => Err("it must be 0 to 3, or INFO, WARNING, ERROR or FATAL".to_owned()),
        }
    }

    pub(crate) fn of(level: Level) -> Self {
        match level {
            Level::ERROR => Self::Error,
            Level::WARN => Self::Warning,
            _ => Self::Info,
        }
    }
}

/// klog's flags. Their names have underscores.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(rename_all = "snake_case", next_help_heading = "Log")]
pub struct FileLogFlags {
    /// verbosity of the log
    #[arg(long, default_value = "0", value_name = "LEVEL", value_parser = value::level)]
    pub v: u32,
    /// verbosity of individual source files, by patterns of their names
    #[arg(long, default_value = "", value_name = "PATTERN=N,…", value_parser = ModuleLevels::from_str)]
    pub vmodule: ModuleLevels,
    /// log to standard error instead of files (the default)
    #[arg(long, default_value = "true")]
    pub logtostderr: bool,
    /// log to standard error and to files
    #[arg(long)]
    pub alsologtostderr: bool,
    /// lowest severity that is also logged to standard error when logging to files
    #[arg(long, default_value = "2", value_name = "SEVERITY", value_parser = Severity::parse)]
    pub stderrthreshold: Severity,
    /// path of the log file
    #[arg(long, default_value = "", value_name = "FILE")]
    pub log_file: String,
    /// directory of the log file if --log_file is not set; default: the directory of temporary files
    #[arg(long, default_value = "", value_name = "DIRECTORY")]
    pub log_dir: String,
    /// maximum size of the log file in MB, after which a new file is started; 0 for no limit
    #[arg(long, default_value = "1800", value_name = "MB", value_parser = megabytes)]
    pub log_file_max_size: u64,
    /// no effect
    #[arg(long, default_value = "", value_name = "VALUE")]
    log_backtrace_at: String,
    /// add the directory of the source file to each line
    #[arg(long)]
    pub add_dir_header: bool,
    /// no effect: all severities have one log file
    #[arg(long)]
    one_output: bool,
    /// omit the header of each line
    #[arg(long)]
    pub skip_headers: bool,
    /// omit the header lines of the log file
    #[arg(long)]
    pub skip_log_headers: bool,
    /// no effect: each line is written immediately
    #[arg(long, default_value = "", value_name = "VALUE")]
    log_flush_frequency: String,
}

fn megabytes(text: &str) -> Result<u64, String> {
    u64::try_from(value::integer(text)?).map_err(|_| "it must not be negative".to_owned())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use component_base::flags::{BadCommandLine, CommandLine};

    use super::*;

    fn read(line: &str) -> Result<FileLogFlags, BadCommandLine> {
        Ok(CommandLine::read(line.split_whitespace().map(OsString::from))?.flags)
    }

    #[test]
    fn klog_flags_have_same_meaning_as_in_go() {
        let plain = read("").unwrap();
        assert!(plain.logtostderr && !plain.alsologtostderr && !plain.skip_headers && !plain.skip_log_headers);
        assert_eq!((plain.v, plain.stderrthreshold, plain.log_file_max_size), (0, Severity::Error, 1800));
        let given = read(
            "-v=5 -vmodule=pipe=9 -logtostderr=false -alsologtostderr -stderrthreshold=WARNING -log_file a -log_dir=b \
             -log_file_max_size=1 -add_dir_header -skip_headers -skip_log_headers -one_output -log_backtrace_at=x:1 \
             -log_flush_frequency=5s",
        );
        let expected = FileLogFlags {
            v: 5,
            vmodule: "pipe=9".parse().unwrap(),
            logtostderr: false,
            alsologtostderr: true,
            stderrthreshold: Severity::Warning,
            log_file: "a".to_owned(),
            log_dir: "b".to_owned(),
            log_file_max_size: 1,
            log_backtrace_at: "x:1".to_owned(),
            add_dir_header: true,
            one_output: true,
            skip_headers: true,
            skip_log_headers: true,
            log_flush_frequency: "5s".to_owned(),
        };
        assert_eq!(given, Ok(expected));
        for (line, because) in [
            ("-v=-1", "--v is"),
            ("-vmodule=pipe", "--vmodule is \"pipe\""),
            ("-stderrthreshold=4", "0 to 3"),
            ("-log_file_max_size=-1", "negative"),
            ("-log_file_max_size=much", "--log_file_max_size"),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(because), "{line}: {error}");
        }
    }

    #[test]
    fn severity_is_parsed_from_number_or_name() {
        assert_eq!(Severity::parse("2"), Ok(Severity::Error));
        assert_eq!(Severity::parse("WARNING"), Ok(Severity::Warning));
        assert!(Severity::parse("4").unwrap_err().contains("0 to 3"));
        assert!(Severity::of(Level::DEBUG) < Severity::of(Level::WARN));
    }
}

//! klog's own flags, for programs that log to files.

use std::path::PathBuf;

use go_flags::{CommandLine, Flag, Kind, value};

use super::files::{Destination, Severity};
use super::flags::{modules, verbosity};
use super::{BadLogFlags, ModuleLevels, Shape};

/// The entries for a program's table of flags.
pub const FILE_FLAGS: [Flag; 14] = [
    Flag::value("v", "LEVEL", "0", "verbosity of the log"),
    Flag::value("vmodule", "PATTERN=N,…", "", "verbosity of single source files, by patterns of their names"),
    Flag { name: "logtostderr", kind: Kind::Boolean, default: "true", help: "log to standard error instead of files" },
    Flag::boolean("alsologtostderr", "log to standard error and to files"),
    Flag::value(
        "stderrthreshold",
        "SEVERITY",
        "2",
        "lowest severity that is also logged to standard error when logging to files",
    ),
    Flag::value("log_file", "FILE", "", "path of the log file"),
    Flag::value("log_dir", "DIRECTORY", "", "directory of log files without --log_file"),
    Flag::value(
        "log_file_max_size",
        "MB",
        "1800",
        "maximum size of the log file in MB, after which it is started again; 0 for no limit",
    ),
    Flag::value("log_backtrace_at", "VALUE", "", "no effect"),
    Flag::boolean("add_dir_header", "add the directory of the source file to each line"),
    Flag::boolean("one_output", "no effect: all severities have one log file"),
    Flag::boolean("skip_headers", "omit the header of each line"),
    Flag::boolean("skip_log_headers", "omit the header lines of the log file"),
    Flag::value("log_flush_frequency", "VALUE", "", "no effect: each line is written at once"),
];

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

impl FileSettings {
    /// Reads the settings from a command line whose table has [`FILE_FLAGS`].
    ///
    /// # Errors
    /// [`BadLogFlags`].
    pub fn of(line: &CommandLine) -> Result<Self, BadLogFlags> {
        const MEGABYTE: u64 = 1024 * 1024;
        let path = |flag| Some(line.text(flag)).filter(|text| !text.is_empty()).map(PathBuf::from);
        let megabytes = line.parsed("log_file_max_size", |text| {
            u64::try_from(value::integer(text)?).map_err(|_| "it must not be negative".to_owned())
        })?;
        Ok(Self {
            verbosity: verbosity(line)?,
            modules: modules(line)?,
            shape: Shape {
                header: !line.boolean("skip_headers"),
                directory: line.boolean("add_dir_header"),
                ..Shape::PRINTED
            },
            destination: Destination {
                only_stderr: line.boolean("logtostderr"),
                also_stderr: line.boolean("alsologtostderr"),
                stderr_from: line.parsed("stderrthreshold", Severity::parse)?,
                file: path("log_file"),
                directory: path("log_dir"),
                file_bytes: megabytes.saturating_mul(MEGABYTE),
                bare_file: line.boolean("skip_log_headers"),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn read(line: &str) -> Result<FileSettings, BadLogFlags> {
        FileSettings::of(&CommandLine::read(&FILE_FLAGS, line.split_whitespace().map(OsString::from)).unwrap())
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
            ("-vmodule=pipe", "--vmodule"),
            ("-stderrthreshold=4", "0 to 3"),
            ("-log_file_max_size=-1", "negative"),
            ("-log_file_max_size=much", "--log_file_max_size"),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(because), "{line}: {error}");
        }
    }
}

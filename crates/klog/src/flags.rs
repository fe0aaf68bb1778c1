//! The flags of Kubernetes' log library, as programs without `pflag` have them.

use go_flags::{BadCommandLine, CommandLine, Flag, value};

use super::{BadModuleLevel, LogFormat, ModuleLevels};

const FLUSH: &str = "log-flush-frequency";

/// The entries for a program's table of flags.
pub const FLAGS: [Flag; 8] = [
    Flag::value("v", "LEVEL", "0", "Verbosity of the log: 2 for operators, 5 shows each request, 7 shows everything"),
    Flag::value(
        "vmodule",
        "PATTERN=N,…",
        "",
        "Verbosity of single source files, by patterns of their names; text format only",
    ),
    Flag::value("logging-format", "FORMAT", "text", "Format of the log lines, text or json"),
    Flag::value(FLUSH, "DURATION", "5s", "No effect: lines are written at once"),
    Flag::boolean("log-text-split-stream", "Unsupported: must be false"),
    Flag::boolean("log-json-split-stream", "Unsupported: must be false"),
    Flag::value("log-text-info-buffer-size", "SIZE", "0", "Unsupported: must be 0"),
    Flag::value("log-json-info-buffer-size", "SIZE", "0", "Unsupported: must be 0"),
];

/// Settings of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogSettings {
    pub format: LogFormat,
    /// `--v`.
    pub verbosity: u32,
    /// `--vmodule`: a higher verbosity for some source files.
    pub modules: ModuleLevels,
}

/// Invalid or unsupported log flags.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLogFlags {
    #[error(transparent)]
    Value(#[from] BadCommandLine),
    #[error("--vmodule: {0}")]
    Modules(BadModuleLevel),
    #[error("--vmodule is unsupported with --logging-format=json; use --logging-format=text")]
    ModulesOfJson,
    #[error("split log streams are unsupported: all lines go to standard error; remove the flag")]
    SplitStream,
    #[error("log buffers are unsupported: lines are written at once; set the size to 0")]
    Buffer,
}

impl LogSettings {
    /// Reads the settings from a command line whose table has [`FLAGS`].
    ///
    /// # Errors
    /// [`BadLogFlags`].
    pub fn of(line: &CommandLine) -> Result<Self, BadLogFlags> {
        let format = line.parsed("logging-format", |text| match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err("it must be text or json".to_owned()),
        })?;
        let (verbosity, modules) = (verbosity(line)?, modules(line)?);
        line.parsed(FLUSH, value::positive_duration)?;
        if format == LogFormat::Json && !line.text("vmodule").is_empty() {
            return Err(BadLogFlags::ModulesOfJson);
        }
        if line.boolean("log-text-split-stream") || line.boolean("log-json-split-stream") {
            return Err(BadLogFlags::SplitStream);
        }
        for buffer in ["log-text-info-buffer-size", "log-json-info-buffer-size"] {
            if line.parsed(buffer, value::size)? != "0" {
                return Err(BadLogFlags::Buffer);
            }
        }
        Ok(Self { format, verbosity, modules })
    }

    /// Returns a warning that names the flags which are given and valid but have no effect.
    pub fn without_effect(line: &CommandLine) -> Option<String> {
        line.is_given(FLUSH).then(|| format!("--{FLUSH} has no effect: lines are written at once"))
    }
}

/// `--v`.
pub(super) fn verbosity(line: &CommandLine) -> Result<u32, BadLogFlags> {
    let level = line.parsed("v", |text| {
        let level = value::integer(text)?;
        i32::try_from(level)
            .ok()
            .and_then(|level| u32::try_from(level).ok())
            .ok_or_else(|| "it must be a whole number from 0 to 2147483647".to_owned())
    })?;
    Ok(level)
}

/// `--vmodule`.
pub(super) fn modules(line: &CommandLine) -> Result<ModuleLevels, BadLogFlags> {
    line.text("vmodule").parse().map_err(BadLogFlags::Modules)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn read(line: &str) -> Result<LogSettings, BadLogFlags> {
        LogSettings::of(&CommandLine::read(&FLAGS, line.split_whitespace().map(OsString::from)).unwrap())
    }

    /// Verbosity, patterns and format take effect. Streams and buffers are not supported and rejected.
    #[test]
    fn each_log_flag_takes_effect_or_is_rejected() {
        assert_eq!(read(""), Ok(LogSettings::default()));
        let settings = read("-v=5 --vmodule=driver=7 --logging-format=text --log-flush-frequency=1s").unwrap();
        assert_eq!((settings.verbosity, settings.format), (5, LogFormat::Text));
        assert_eq!(settings.modules, "driver=7".parse().unwrap());
        assert_eq!(read("--logging-format json").unwrap().format, LogFormat::Json);
        assert!(
            read("--log-text-split-stream=false --log-json-info-buffer-size=0 --log-text-info-buffer-size=0Ki").is_ok()
        );
        for (line, because) in [
            ("-v=-1", "--v is \"-1\", but it must be a whole number"),
            ("-v=2147483648", "2147483647"),
            ("-v=much", "whole number"),
            ("--logging-format=xml", "it must be text or json"),
            ("--vmodule=driver", "--vmodule"),
            ("--vmodule=driver=5 --logging-format=json", "use --logging-format=text"),
            ("--log-flush-frequency=0", "longer than 0"),
            ("--log-text-split-stream", "split log streams"),
            ("--log-json-split-stream=1", "split log streams"),
            ("--log-text-info-buffer-size=64Ki", "log buffers"),
            ("--log-json-info-buffer-size=much", "size"),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(because), "{line}: {error}");
        }
    }
}

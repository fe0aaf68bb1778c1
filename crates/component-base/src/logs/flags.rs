//! The flags of Kubernetes' log library.

use std::time::Duration;

use super::{BadModuleLevel, LogFormat, ModuleLevels};
use crate::flags::value;

/// The default of `--log-flush-frequency`.
const FLUSH: &str = "5s";

/// The flags of Kubernetes' log library that have no effect or are unsupported.
#[derive(Debug, Clone, clap::Args)]
pub struct LogFlags {
    /// No effect: each line is written immediately
    #[arg(long, default_value = FLUSH, value_name = "DURATION", value_parser = value::positive_duration)]
    log_flush_frequency: Duration,
    /// Unsupported: must be false
    #[arg(long)]
    log_text_split_stream: bool,
    /// Unsupported: must be false
    #[arg(long)]
    log_json_split_stream: bool,
    /// Unsupported: must be 0
    #[arg(long, default_value = "0", value_name = "SIZE", value_parser = value::size)]
    log_text_info_buffer_size: String,
    /// Unsupported: must be 0
    #[arg(long, default_value = "0", value_name = "SIZE", value_parser = value::size)]
    log_json_info_buffer_size: String,
}

/// The settings of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogSettings {
    pub format: LogFormat,
    /// The value of `--v`: 2 shows events for operators, 4 adds each request and step, and 7 or more shows everything.
    pub verbosity: u32,
    /// The value of `--vmodule`: a higher verbosity for some source files.
    pub modules: ModuleLevels,
}

/// Why log flags are invalid or unsupported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLogFlags {
    #[error("--vmodule: {0}")]
    Modules(#[from] BadModuleLevel),
    #[error("--vmodule is unsupported with --logging-format=json; use --logging-format=text")]
    ModulesOfJson,
    #[error(
        "split log streams are unsupported: all lines go to standard error; remove --log-text-split-stream and --log-json-split-stream"
    )]
    SplitStream,
    #[error(
        "log buffers are unsupported: each line is written immediately; set --log-text-info-buffer-size and --log-json-info-buffer-size to 0"
    )]
    Buffer,
}

impl LogFlags {
    /// Returns the settings of `--logging-format`, `--v`, and `--vmodule`.
    pub fn settings(&self, format: LogFormat, verbosity: u32, modules: &str) -> Result<LogSettings, BadLogFlags> {
        if format == LogFormat::Json && !modules.is_empty() {
            return Err(BadLogFlags::ModulesOfJson);
        }
        if self.log_text_split_stream || self.log_json_split_stream {
            return Err(BadLogFlags::SplitStream);
        }
        if self.log_text_info_buffer_size != "0" || self.log_json_info_buffer_size != "0" {
            return Err(BadLogFlags::Buffer);
        }
        Ok(LogSettings { format, verbosity, modules: modules.parse()? })
    }

    /// Returns a warning if a flag that has no effect differs from its default.
    pub fn without_effect(&self) -> Option<&'static str> {
        let is_default = value::duration(FLUSH).is_ok_and(|usual| usual == self.log_flush_frequency);
        (!is_default).then_some("--log-flush-frequency has no effect: each line is written immediately")
    }
}

//! Parses command lines as Go programs do, on top of clap.
//!
//! A boolean flag without a value is true, and takes a value only after `=`. The last occurrence of a flag wins.

#[cfg(feature = "go-command-line")]
mod command_line;
pub mod value;

use std::collections::BTreeSet;

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Command};

#[cfg(feature = "go-command-line")]
pub use command_line::{BadCommandLine, CommandLine, command};

/// Applies Go's syntax to a command's flags.
pub fn as_in_go(command: Command) -> Command {
    command.args_override_self(true).mut_args(|flag| {
        if !matches!(flag.get_action(), ArgAction::SetTrue) {
            let has_default = flag.get_default_values().iter().any(|default| !default.is_empty());
            return flag.hide_default_value(!has_default);
        }
        let default = if flag.get_default_values().is_empty() { "false" } else { "true" };
        flag.action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .value_name("BOOL")
            .default_value(default)
            .default_missing_value("true")
            .hide_default_value(true)
            .hide_possible_values(true)
            .value_parser(value::boolean)
    })
}

/// Returns the field names of the flags that the command line sets.
pub fn given(matches: &ArgMatches) -> BTreeSet<String> {
    let ids = matches.ids().map(clap::Id::as_str);
    ids.filter(|id| matches.value_source(id) == Some(ValueSource::CommandLine)).map(str::to_owned).collect()
}

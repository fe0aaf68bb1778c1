use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Adds to the error which modes have the flag. Removes clap's advice to put the flag after `--`, which no mode
/// accepts.
pub(super) fn explain(mut error: clap::Error, command: &mut Command) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return error };
    let flag = flag.clone();
    let modes = having(command, &flag);
    if modes.is_empty() {
        error.remove(ContextKind::Suggested);
        return error;
    }
    let modes = modes.join(", ");
    command.error(
        ErrorKind::UnknownArgument,
        format!("{flag} is a flag of the modes {modes}, not of this one; MODE --help lists the flags of a mode"),
    )
}

fn having(command: &Command, flag: &str) -> Vec<String> {
    let Some(name) = flag.strip_prefix("--") else { return Vec::new() };
    let has = |mode: &&Command| mode.get_arguments().any(|argument| argument.get_long() == Some(name));
    command.get_subcommands().filter(has).map(|mode| mode.get_name().to_owned()).collect()
}

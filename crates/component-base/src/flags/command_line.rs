//! Command lines of programs that accept one dash or two, as Go programs do.
//!
//! A flag is `-name` or `--name`, with its value after `=` or as the next argument. All arguments after `--` are words.
//!
//! **Different from Go:** in Go, the first argument that is not a flag ends the flags, and Go silently ignores later
//! flags. Here later flags take effect, and the program gets the words, so that it can warn that it ignores them.

use std::collections::BTreeSet;
use std::error::Error;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Command};

use super::{as_in_go, given};

/// Reports an invalid command line. The text names the flag and the rule for its value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadCommandLine(String);

/// The parsed flags of a program that accepts one dash or two.
#[derive(Debug)]
pub struct CommandLine<F> {
    pub flags: F,
    given: BTreeSet<String>,
}

impl<F: Args> CommandLine<F> {
    /// Parses arguments, without the program's name.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, BadCommandLine> {
        let command = command::<F>("");
        let arguments = with_two_dashes(&command, arguments);
        let mut matches = command.try_get_matches_from(arguments).map_err(|error| explain(&error))?;
        let given = given(&matches);
        let flags = F::from_arg_matches_mut(&mut matches).map_err(|error| explain(&error))?;
        Ok(Self { flags, given })
    }

    /// Returns true if the command line sets the flag with this field name, whatever the value.
    pub fn is_given(&self, field: &str) -> bool {
        self.given.contains(field)
    }
}

/// Returns the clap command of a program that accepts one dash or two, for its help and documentation.
pub fn command<F: Args>(program: &'static str) -> Command {
    let command = F::augment_args(Command::new(program).disable_help_flag(true).no_binary_name(true));
    as_in_go(command).override_usage(format!("{program} [FLAGS]   (flags may begin with one dash or two)"))
}

/// Writes each flag with two dashes. Joins a flag with `=` to its value in the next argument, because Go takes that
/// argument as the value even if the argument begins with a dash.
fn with_two_dashes(command: &Command, arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let takes_next =
        |name: &str| command.get_arguments().any(|flag| flag.get_long() == Some(name) && !flag.is_require_equals_set());
    let mut arguments = arguments.into_iter();
    let mut written = Vec::new();
    while let Some(argument) = arguments.next() {
        let dashed = argument.to_str().and_then(|text| text.strip_prefix('-')).filter(|rest| !rest.is_empty());
        let Some(name) = dashed.map(|rest| rest.strip_prefix('-').unwrap_or(rest)) else {
            written.push(argument);
            continue;
        };
        let mut flag = OsString::from(format!("--{name}"));
        if name.is_empty() {
            written.push(flag);
            written.extend(arguments);
            break;
        }
        if takes_next(name)
            && let Some(value) = arguments.next()
        {
            flag.push("=");
            flag.push(value);
        }
        written.push(flag);
    }
    written
}

/// Returns the problem in one line, without clap's usage text.
fn explain(error: &clap::Error) -> BadCommandLine {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let flag = text(ContextKind::InvalidArg).split(['=', ' ', '[']).next().unwrap_or_default();
    let value = text(ContextKind::InvalidValue);
    BadCommandLine(match (error.kind(), error.get(ContextKind::ValidValue), error.source()) {
        (ErrorKind::UnknownArgument, ..) => format!("unknown flag {flag}"),
        (ErrorKind::InvalidValue, ..) if value.is_empty() => format!("{flag} needs a value; use {flag}=VALUE"),
        (ErrorKind::InvalidValue, Some(ContextValue::Strings(valid)), _) => {
            format!("{flag} is {value:?}, but it must be {}", valid.join(" or "))
        }
        (ErrorKind::ValueValidation, _, Some(rule)) => format!("{flag} is {value:?}, but {rule}"),
        (ErrorKind::InvalidUtf8, ..) => "an argument is not valid UTF-8".to_owned(),
        _ => error.to_string().lines().next().unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::flags::value;

    #[derive(Debug, Args)]
    struct Flags {
        /// Where the driver is
        #[arg(long, default_value = "/run/csi/socket", value_name = "ADDRESS")]
        csi_address: String,
        /// Of a call
        #[arg(long, default_value = "1s", value_name = "DURATION", value_parser = value::duration)]
        timeout: Duration,
        /// Print the version
        #[arg(long)]
        version: bool,
        #[arg(long = "v", default_value = "0", value_parser = value::level)]
        v: u32,
        #[arg(long)]
        list: Vec<String>,
        #[arg(hide = true)]
        words: Vec<String>,
    }

    fn read(line: &[&str]) -> Result<CommandLine<Flags>, BadCommandLine> {
        CommandLine::read(line.iter().map(OsString::from))
    }

    fn flags(line: &[&str]) -> Flags {
        read(line).unwrap().flags
    }

    #[test]
    fn flag_takes_value_after_equals_sign_or_as_next_argument() {
        for (line, value) in [
            (&["--csi-address=/a"][..], "/a"),
            (&["-csi-address=/a"], "/a"),
            (&["--csi-address", "/a"], "/a"),
            (&["-csi-address", "/a"], "/a"),
            (&["--csi-address=/b", "-csi-address", "/a"], "/a"),
            (&["--csi-address="], ""),
            (&["--csi-address", ""], ""),
            (&["--csi-address=a=b"], "a=b"),
            (&["--csi-address", "--version"], "--version"),
            (&["--csi-address", "-"], "-"),
            (&[], "/run/csi/socket"),
        ] {
            assert_eq!(flags(line).csi_address, value, "{line:?}");
        }
        assert_eq!((flags(&["-v=5"]).v, flags(&["-v", "0x6"]).v, flags(&[]).v), (5, 6, 0));
        assert_eq!(flags(&["--list=a,b", "-list", "c"]).list, ["a,b", "c"], "a list accumulates");
        assert_eq!(flags(&["-timeout", "1m30s"]).timeout, Duration::from_secs(90));
        let line = read(&["--v=0"]).unwrap();
        assert!(line.is_given("v") && !line.is_given("timeout"), "a default is not given");
    }

    #[test]
    fn boolean_flag_is_true_unless_equals_sign_gives_a_value() {
        assert!(!flags(&[]).version && flags(&["-version"]).version && !flags(&["--version=F"]).version);
        let line = flags(&["--version", "false", "--v=3"]);
        assert!(line.version && line.words == ["false"] && line.v == 3, "flags after a word count: {line:?}");
        assert_eq!(flags(&["-", "a", "--", "--v=9"]).words, ["-", "a", "--v=9"]);
    }

    #[test]
    fn invalid_argument_is_rejected_and_named() {
        for (line, because) in [
            ("--nope", "unknown flag --nope"),
            ("-nope=1", "unknown flag --nope"),
            ("-v5", "unknown flag --v5"),
            ("---v=5", "unknown flag ---v"),
            ("--=5", ""),
            ("--csi-address", "--csi-address needs a value; use --csi-address=VALUE"),
            ("--version=yes", "--version is \"yes\", but it must be true or false"),
            ("--timeout=1", "--timeout is \"1\", but it must be a duration such as 2s, 500ms or 1m30s"),
        ] {
            let error = read(&[line]).unwrap_err().to_string();
            assert!(if because.is_empty() { !error.is_empty() } else { error == because }, "{line}: {error}");
        }
        #[cfg(unix)]
        {
            let not_text = std::os::unix::ffi::OsStringExt::from_vec(vec![b'-', 0xff]);
            let error = CommandLine::<Flags>::read([not_text]).unwrap_err();
            assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn help_lists_each_flag_with_its_default() {
        let text = command::<Flags>("registrar").render_help().to_string();
        for part in ["registrar [FLAGS]", "--timeout <DURATION>", "Of a call [default: 1s]", "--version"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    proptest! {
        #[test]
        fn parser_never_panics_and_keeps_flag_values_unchanged(arguments in prop::collection::vec(".{0,12}", 0..5), value in ".{0,20}") {
            let _understood_or_not = CommandLine::<Flags>::read(arguments.iter().map(OsString::from));
            prop_assert_eq!(flags(&["--csi-address", &value]).csi_address, value);
        }
    }
}

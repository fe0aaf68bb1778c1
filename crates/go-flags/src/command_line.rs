//! Parses arguments into the values of a table of flags.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;

use crate::value;

/// A flag of a program's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag {
    /// Without dashes.
    pub name: &'static str,
    pub kind: Kind,
    /// As written on a command line. Empty: no default.
    pub default: &'static str,
    /// One sentence for the usage text and the documentation.
    pub help: &'static str,
}

/// The kind of a flag's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Boolean,
    /// A value, with its name in the usage text.
    Value(&'static str),
}

impl Flag {
    /// Returns a flag with a value.
    pub const fn value(name: &'static str, kind: &'static str, default: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Value(kind), default, help }
    }

    /// Returns a boolean flag, which is false by default.
    pub const fn boolean(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Boolean, default: "false", help }
    }
}

/// An invalid command line, or a request for the usage text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCommandLine {
    /// `-h` or `--help`, which is not an error.
    #[error("usage requested")]
    Help,
    #[error("unknown flag --{0}")]
    Unknown(String),
    #[error("{0:?} is not a flag; use --NAME, --NAME=VALUE or --NAME VALUE")]
    Syntax(String),
    #[error("--{0} needs a value; use --{0}=VALUE")]
    NoValue(&'static str),
    #[error("--{flag} is {value:?}, but {must}")]
    Value {
        flag: &'static str,
        value: String,
        /// The rule for the value.
        must: String,
    },
    #[error("argument {0} is not valid UTF-8")]
    NotText(usize),
}

/// The values of a program's flags.
#[derive(Debug, Clone)]
pub struct CommandLine {
    flags: Vec<Flag>,
    given: BTreeMap<&'static str, Vec<String>>,
    words: Vec<String>,
}

impl CommandLine {
    /// Parses arguments, without the program's name, by the table `flags`.
    ///
    /// # Errors
    /// The first invalid argument. Values other than booleans are checked when they are read.
    pub fn read(flags: &[Flag], arguments: impl IntoIterator<Item = OsString>) -> Result<Self, BadCommandLine> {
        let mut read = Self { flags: flags.to_vec(), given: BTreeMap::new(), words: Vec::new() };
        let mut arguments = arguments
            .into_iter()
            .enumerate()
            .map(|(at, argument)| argument.into_string().map_err(|_| BadCommandLine::NotText(at + 1)));
        while let Some(argument) = arguments.next() {
            let argument = argument?;
            if argument == "--" {
                for word in arguments.by_ref() {
                    read.words.push(word?);
                }
                break;
            }
            let Some(dashed) = argument.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
                read.words.push(argument);
                continue;
            };
            let flag = dashed.strip_prefix('-').unwrap_or(dashed);
            if flag.starts_with(['-', '=']) {
                return Err(BadCommandLine::Syntax(argument));
            }
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (flag, None),
            };
            read.take(name, value, || arguments.next())?;
        }
        Ok(read)
    }

    fn take(
        &mut self,
        name: &str,
        value: Option<String>,
        next: impl FnOnce() -> Option<Result<String, BadCommandLine>>,
    ) -> Result<(), BadCommandLine> {
        let Some(flag) = self.flags.iter().find(|flag| flag.name == name) else {
            let asks_for_help = ["h", "help"].contains(&name);
            return Err(if asks_for_help { BadCommandLine::Help } else { BadCommandLine::Unknown(name.to_owned()) });
        };
        let value = match (flag.kind, value) {
            (Kind::Boolean, value) => {
                let value = value.unwrap_or_else(|| "true".to_owned());
                value::boolean(&value).map_err(|must| BadCommandLine::Value {
                    flag: flag.name,
                    value: value.clone(),
                    must,
                })?;
                value
            }
            (Kind::Value(_), Some(value)) => value,
            (Kind::Value(_), None) => next().ok_or(BadCommandLine::NoValue(flag.name))??,
        };
        self.given.entry(flag.name).or_default().push(value);
        Ok(())
    }

    /// Returns the given value of a flag, or its default. The value of a flag that is not in the table is empty.
    pub fn text(&self, name: &str) -> &str {
        let default = || self.flags.iter().find(|flag| flag.name == name).map_or("", |flag| flag.default);
        self.all(name).last().map_or_else(default, String::as_str)
    }

    /// Returns all values of a repeated flag in order, or an empty list.
    pub fn all(&self, name: &str) -> &[String] {
        self.given.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the value of a boolean flag.
    pub fn boolean(&self, name: &str) -> bool {
        value::boolean(self.text(name)).unwrap_or_default()
    }

    /// Returns the value of a flag as `parse` reads it, which is a function of [`value`] or similar.
    ///
    /// # Errors
    /// [`BadCommandLine::Value`].
    pub fn parsed<T>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, BadCommandLine> {
        let value = self.text(name);
        parse(value).map_err(|must| BadCommandLine::Value { flag: name, value: value.to_owned(), must })
    }

    /// Returns whether the command line contains the flag, with any value.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// Returns the arguments that are not flags, in order.
    pub fn words(&self) -> &[String] {
        &self.words
    }
}

/// Returns the text of `--help`: each flag of the table with its default and its sentence.
pub fn usage(program: &str, flags: &[Flag]) -> String {
    let mut text = format!("Usage: {program} [FLAGS]   (one dash is as good as two)\n\n");
    for flag in flags {
        let value = match flag.kind {
            Kind::Boolean => String::new(),
            Kind::Value(value) => format!(" {value}"),
        };
        let default = match flag.default {
            "" | "false" => String::new(),
            default => format!(" (default: {default})"),
        };
        // Writing to a string cannot fail.
        let _infallible = writeln!(text, "  --{}{value}\n        {}{default}", flag.name, flag.help);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const FLAGS: [Flag; 4] = [
        Flag::value("csi-address", "ADDRESS", "/run/csi/socket", "Where the driver is"),
        Flag::value("timeout", "DURATION", "1s", "Of a call"),
        Flag::boolean("version", "Print the version"),
        Flag::value("v", "LEVEL", "0", "Verbosity"),
    ];

    fn read(line: &[&str]) -> Result<CommandLine, BadCommandLine> {
        CommandLine::read(&FLAGS, line.iter().map(OsString::from))
    }

    /// The last of several values wins.
    #[test]
    fn flag_takes_value_after_equals_sign_or_as_next_argument() {
        for line in [
            &["--csi-address=/a"][..],
            &["-csi-address=/a"],
            &["--csi-address", "/a"],
            &["-csi-address", "/a"],
            &["--csi-address=/b", "-csi-address", "/a"],
        ] {
            assert_eq!(read(line).unwrap().text("csi-address"), "/a", "{line:?}");
        }
        assert_eq!(read(&["--v=5", "-v", "6"]).unwrap().all("v"), ["5", "6"]);
        assert!(read(&[]).unwrap().all("v").is_empty(), "a default is not given");
        assert_eq!(read(&["-v=5"]).unwrap().text("v"), "5");
        assert_eq!(read(&["-v", "5"]).unwrap().text("v"), "5");
        assert_eq!(read(&["--csi-address="]).unwrap().text("csi-address"), "");
        assert_eq!(read(&["--csi-address=a=b"]).unwrap().text("csi-address"), "a=b");
        assert_eq!(read(&["--csi-address", "--version"]).unwrap().text("csi-address"), "--version", "as in Go");
    }

    #[test]
    fn boolean_is_true_alone_and_takes_value_after_equals_sign() {
        assert!(!read(&[]).unwrap().boolean("version"));
        assert!(read(&["-version"]).unwrap().boolean("version"));
        assert!(!read(&["--version=F"]).unwrap().boolean("version"));
        let line = read(&["--version", "false", "--v=3"]).unwrap();
        assert!(line.boolean("version"));
        assert_eq!((line.words(), line.text("v")), (&["false".to_owned()][..], "3"), "flags after a word count");
        assert!(matches!(read(&["--version=yes"]), Err(BadCommandLine::Value { flag: "version", .. })));
    }

    #[test]
    fn invalid_argument_is_rejected_and_named() {
        assert_eq!(read(&["--nope"]).unwrap_err(), BadCommandLine::Unknown("nope".to_owned()));
        assert_eq!(read(&["-v5"]).unwrap_err(), BadCommandLine::Unknown("v5".to_owned()), "as in Go");
        assert_eq!(read(&["---v=5"]).unwrap_err(), BadCommandLine::Syntax("---v=5".to_owned()));
        assert_eq!(read(&["--=5"]).unwrap_err(), BadCommandLine::Syntax("--=5".to_owned()));
        assert_eq!(read(&["--v"]).unwrap_err(), BadCommandLine::NoValue("v"));
        assert_eq!(read(&["-h"]).unwrap_err(), BadCommandLine::Help);
        assert_eq!(read(&["--help=x"]).unwrap_err(), BadCommandLine::Help);
        let timeout = read(&["--timeout=1"]).unwrap().parsed("timeout", value::duration).unwrap_err();
        assert!(timeout.to_string().starts_with("--timeout is \"1\", but it must be a duration"), "{timeout}");
        #[cfg(unix)]
        {
            let not_text = std::os::unix::ffi::OsStringExt::from_vec(vec![b'-', 0xff]);
            assert_eq!(CommandLine::read(&FLAGS, [not_text]).unwrap_err(), BadCommandLine::NotText(1));
        }
    }

    #[test]
    fn missing_flags_have_defaults_and_words_are_kept() {
        let line = read(&["-", "a", "--", "--v=9"]).unwrap();
        assert_eq!(line.parsed("timeout", value::duration), Ok(Duration::from_secs(1)));
        assert_eq!(line.words(), ["-", "a", "--v=9"]);
        assert!(!line.is_given("v") && line.text("v") == "0");
    }

    #[test]
    fn usage_text_has_each_flag_with_default() {
        let text = usage("registrar", &FLAGS);
        assert!(text.contains("  --timeout DURATION\n        Of a call (default: 1s)\n"), "{text}");
        assert!(text.contains("  --version\n        Print the version\n"), "{text}");
    }

    proptest! {
        #[test]
        fn no_argument_causes_panic_and_values_are_unchanged(arguments in prop::collection::vec(".{0,12}", 0..5), value in ".{0,20}") {
            let given = arguments.iter().map(OsString::from);
            let _understood_or_not = CommandLine::read(&FLAGS, given);
            let line = CommandLine::read(&FLAGS, [OsString::from("--csi-address"), OsString::from(&value)]).unwrap();
            prop_assert_eq!(line.text("csi-address"), value);
        }
    }
}

//! From arguments to the values of a table's flags.

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
    /// As it would be written; empty: none.
    pub default: &'static str,
    /// One sentence for the usage text and the documentation.
    pub help: &'static str,
}

/// What a flag takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Boolean,
    /// A value, with its name in the usage text.
    Value(&'static str),
}

impl Flag {
    /// A flag with a value.
    pub const fn value(name: &'static str, kind: &'static str, default: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Value(kind), default, help }
    }

    /// A boolean that is false unless given.
    pub const fn boolean(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Boolean, default: "false", help }
    }
}

/// A command line that cannot be understood, or that asks for the usage text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCommandLine {
    /// `-h` or `--help`: no mistake.
    #[error("the usage text is asked for")]
    Help,
    #[error("there is no flag --{0}")]
    Unknown(String),
    #[error("{0:?} is no flag: it must be --NAME, --NAME=VALUE or --NAME VALUE")]
    Syntax(String),
    #[error("--{0} needs a value: --{0}=VALUE")]
    NoValue(&'static str),
    #[error("--{flag} is {value:?}, but {must}")]
    Value {
        flag: &'static str,
        value: String,
        /// What it must be.
        must: String,
    },
    #[error("argument {0} is no text (UTF-8)")]
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
    /// Reads arguments, without the program's name, by the table `flags`.
    ///
    /// # Errors
    /// The first argument that cannot be understood. Values other than booleans are checked when they are asked for.
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

    /// The value of a flag as given, or its default. A name that the table lacks has the value of nothing, which is empty.
    pub fn text(&self, name: &str) -> &str {
        let default = || self.flags.iter().find(|flag| flag.name == name).map_or("", |flag| flag.default);
        self.all(name).last().map_or_else(default, String::as_str)
    }

    /// All values of a flag that may be given several times, in order; none when it is not given.
    pub fn all(&self, name: &str) -> &[String] {
        self.given.get(name).map_or(&[], Vec::as_slice)
    }

    /// The value of a boolean flag.
    pub fn boolean(&self, name: &str) -> bool {
        value::boolean(self.text(name)).unwrap_or_default()
    }

    /// The value of a flag as `parse` reads it, one of [`value`]'s functions or one like them.
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

    /// A flag stood on the command line, whatever its value.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// What was no flag, in order.
    pub fn words(&self) -> &[String] {
        &self.words
    }
}

/// What `--help` prints: each flag of the table with its default and its sentence.
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

    /// A flag of the registrar has one dash or two, and its value behind an equals sign or as the next argument; of a flag given
    /// twice the last counts.
    #[test]
    fn a_flag_has_one_dash_or_two_and_its_value_behind_an_equals_sign_or_next() {
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

    /// A boolean flag alone is true, and takes a value behind an equals sign only.
    #[test]
    fn a_boolean_alone_is_true_and_takes_a_value_behind_an_equals_sign_only() {
        assert!(!read(&[]).unwrap().boolean("version"));
        assert!(read(&["-version"]).unwrap().boolean("version"));
        assert!(!read(&["--version=F"]).unwrap().boolean("version"));
        let line = read(&["--version", "false", "--v=3"]).unwrap();
        assert!(line.boolean("version"));
        assert_eq!((line.words(), line.text("v")), (&["false".to_owned()][..], "3"), "flags after a word count");
        assert!(matches!(read(&["--version=yes"]), Err(BadCommandLine::Value { flag: "version", .. })));
    }

    #[test]
    fn what_cannot_be_understood_is_an_error_that_names_it() {
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
    fn defaults_count_where_nothing_is_given_and_words_are_kept() {
        let line = read(&["-", "a", "--", "--v=9"]).unwrap();
        assert_eq!(line.parsed("timeout", value::duration), Ok(Duration::from_secs(1)));
        assert_eq!(line.words(), ["-", "a", "--v=9"]);
        assert!(!line.is_given("v") && line.text("v") == "0");
    }

    #[test]
    fn the_usage_text_has_each_flag_with_its_default() {
        let text = usage("registrar", &FLAGS);
        assert!(text.contains("  --timeout DURATION\n        Of a call (default: 1s)\n"), "{text}");
        assert!(text.contains("  --version\n        Print the version\n"), "{text}");
    }

    proptest! {
        #[test]
        fn no_argument_makes_it_panic_and_a_value_comes_back_as_given(arguments in prop::collection::vec(".{0,12}", 0..5), value in ".{0,20}") {
            let given = arguments.iter().map(OsString::from);
            let _understood_or_not = CommandLine::read(&FLAGS, given);
            let line = CommandLine::read(&FLAGS, [OsString::from("--csi-address"), OsString::from(&value)]).unwrap();
            prop_assert_eq!(line.text("csi-address"), value);
        }
    }
}

//! Command lines as Go programs read them: the grammar of Go's `flag` package over a table of flags, and the values of
//! both `flag` and `pflag`.
//!
//! A flag is `-name` or `--name`, with its value after `=` or as the next argument. A boolean without a value is true,
//! and takes a value only after `=`. The last occurrence of a flag wins. All arguments after `--` are words.
//!
//! **Different from Go:** there, the first argument that is not a flag ends the flags, and Go ignores later flags
//! silently. Here later flags take effect, and the words are returned, so that the program can warn that it ignores
//! them.

mod command_line;
pub mod value;

pub use command_line::{BadCommandLine, CommandLine, Flag, Kind, usage};

//! Command lines as Go programs read them: the grammar of Go's `flag` package over a table of flags, and the values of both
//! `flag` and `pflag`.
//!
//! A flag is `-name` or `--name`; its value stands behind `=` or is the next argument. A boolean alone is true and takes a
//! value behind `=` only. Of a flag that is given twice the last counts. What follows `--` are words.
//!
//! **Different from Go:** there, the first word that is no flag ends the flags, and whatever follows is silently without effect. Here
//! flags after it count, and the words are told, so that the program can say that it ignores them.

mod command_line;
pub mod value;

pub use command_line::{BadCommandLine, CommandLine, Flag, Kind, usage};

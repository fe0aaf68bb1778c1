//! The command line of `csi-proxy selftest`.

use std::ffi::OsString;

use clap::Args;
use component_base::flags::CommandLine;

use super::BadCommandLine;

/// The first argument, which selects the self-test.
pub(super) const WORD: &str = "selftest";

#[derive(Debug, Args)]
struct Flags {
    /// required: number of a spare disk without partitions, which is formatted
    #[arg(long, default_value = "", value_name = "NUMBER")]
    disk: String,
    /// working directory, which must not exist and is removed at the end
    #[arg(long, default_value = r"C:\ProgramData\csi-proxy-selftest", value_name = "DIRECTORY")]
    directory: String,
    /// print this help
    #[arg(long, alias = "h")]
    help: bool,
    #[arg(hide = true)]
    words: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selftest {
    pub disk: u32,
    pub directory: String,
}

/// Parses the arguments after `selftest`. Returns `None` if they request help.
pub(super) fn read(arguments: impl Iterator<Item = OsString>) -> Result<Option<Selftest>, BadCommandLine> {
    let Flags { disk, directory, help, words } = CommandLine::<Flags>::read(arguments)?.flags;
    if let Some(word) = words.into_iter().next() {
        return Err(BadCommandLine::Argument(word));
    }
    if help {
        return Ok(None);
    }
    let disk = disk.parse().map_err(|_| BadCommandLine::Disk(disk))?;
    Ok(Some(Selftest { disk, directory }))
}

pub(super) fn usage() -> String {
    let about = "csi-proxy selftest: tests the storage functions of this machine with a spare disk, which it formats";
    component_base::flags::command::<Flags>("csi-proxy selftest").about(about).render_help().to_string()
}

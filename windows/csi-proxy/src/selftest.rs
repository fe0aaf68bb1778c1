//! `csi-proxy selftest`: compares Windows with the assumptions of the tests, on a machine with a spare disk. **It
//! formats that disk.**

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::Arc;

use clap::Args;
use component_base::flags::CommandLine;
use winstorage::host::Host;
use winstorage::selftest::{Outcome, Spare, run};
use winstorage::service::{Policy, Storage};
use winstorage::types::{DiskNumber, WinPath};

use crate::flags::BadCommandLine;

/// The first word of the command line.
pub(crate) const WORD: &str = "selftest";

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

/// The spare disk and directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selftest {
    pub disk: u32,
    pub directory: String,
}

/// Parses the arguments after the word; `None` if help is requested.
pub(crate) fn read(arguments: impl Iterator<Item = OsString>) -> Result<Option<Selftest>, BadCommandLine> {
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

/// Returns the output of `selftest --help`.
pub(crate) fn usage() -> String {
    let about = "csi-proxy selftest: tests the storage functions of this machine with a spare disk, which it formats";
    component_base::flags::command::<Flags>("csi-proxy selftest").about(about).render_help().to_string()
}

/// Runs all steps, and writes a line for each and the total to `out`.
pub(crate) fn execute(host: Arc<dyn Host>, asked: &Selftest, out: &mut dyn Write) -> Result<(), String> {
    let directory = WinPath::normalise(&asked.directory);
    let directory = directory.ok_or_else(|| format!("directory {:?} is not an absolute path", asked.directory))?;
    // The siblings of the directory must be out of reach, so a drive cannot be the working directory.
    let parent = directory.parent().filter(|parent| !parent.components().is_empty());
    let parent = parent.ok_or_else(|| format!("directory {directory} must be below another directory"))?;
    let storage = Storage::new(host, Policy::new(vec![parent]));
    let spare = Spare { disk: DiskNumber(asked.disk), directory: directory.to_string() };
    if storage.path_exists(&spare.directory).map_err(|error| error.text())? {
        return Err(format!("{directory} already exists; choose a new directory with --directory"));
    }
    let (mut steps, mut written) = (0_usize, Ok(()));
    let mut report = |outcome: &Outcome| {
        steps += 1;
        // The reader is gone, but the steps on the disk still run to their end.
        written = std::mem::replace(&mut written, Ok(())).and_then(|()| tell(out, outcome));
    };
    let failures = run(&storage, &spare, &mut report).map_err(|error| format!("nothing was done: {}", error.text()))?;
    let summed = written.and_then(|()| writeln!(out, "{} of {steps} steps passed", steps - failures));
    summed.map_err(|error| format!("write the results: {error}"))?;
    if failures == 0 { Ok(()) } else { Err(format!("{failures} of {steps} steps failed")) }
}

fn tell(out: &mut dyn Write, Outcome { what, failure }: &Outcome) -> io::Result<()> {
    match failure {
        None => writeln!(out, "ok     {what}"),
        Some(failure) => writeln!(out, "FAILED {what}: {failure}"),
    }?;
    out.flush()
}

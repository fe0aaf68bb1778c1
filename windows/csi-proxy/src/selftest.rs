//! `csi-proxy selftest` checks on a machine with a spare disk that Windows behaves as the tests assume. **It formats
//! that disk.**

#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::sync::Arc;

use winstorage::host::Host;
use winstorage::selftest::{Outcome, Spare, run};
use winstorage::service::{Policy, Storage};
use winstorage::types::{DiskNumber, WinPath};

use crate::flags::Selftest;

pub(crate) fn execute(host: Arc<dyn Host>, asked: &Selftest, out: &mut dyn Write) -> Result<(), String> {
    let directory = WinPath::normalise(&asked.directory);
    let directory = directory.ok_or_else(|| format!("directory {:?} is not an absolute path", asked.directory))?;
    // The working directory must have siblings, which the steps must not reach, so it cannot be a drive.
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
        // If the reader of the output is gone, still complete the steps on the disk.
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

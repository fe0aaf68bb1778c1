//! Steps on a spare disk that check what only Windows can prove. The tests run the same steps on [`crate::fake`], so
//! that the machine in memory is compared with a real one. **The self-test formats the disk.**

mod model;
mod steps;

use std::cell::RefCell;

use crate::types::{DiskNumber, VolumeGuid};
use crate::{Storage, StorageError};

/// The disk and the directory that the steps may use.
#[derive(Debug, Clone)]
pub struct Spare {
    /// A disk of at least 1 GiB without any partition. The steps overwrite it.
    pub disk: DiskNumber,
    /// A path below a working directory. It must not exist. The steps create it and remove it at the end.
    pub directory: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub what: &'static str,
    pub failure: Option<String>,
}

struct Bench<'a> {
    storage: &'a Storage,
    spare: &'a Spare,
    volume: RefCell<Option<VolumeGuid>>,
}

type Step = (&'static str, fn(&Bench<'_>) -> Result<(), String>);

/// Runs all steps in order, passes each result to `report`, and returns the number of failed steps. After a failure the
/// other steps still run, and those that depend on it fail too. Errors: the disk already has partitions, does not
/// exist, or belongs to Windows. In these cases nothing has changed.
pub fn run(storage: &Storage, spare: &Spare, report: &mut dyn FnMut(&Outcome)) -> Result<usize, StorageError> {
    storage.unused_disk(spare.disk)?;
    let bench = Bench { storage, spare, volume: RefCell::new(None) };
    let mut failures = 0;
    for (what, step) in steps::ALL {
        let failure = step(&bench).err();
        failures += usize::from(failure.is_some());
        report(&Outcome { what, failure });
    }
    Ok(failures)
}

impl Bench<'_> {
    fn at(&self, rest: &str) -> String {
        format!(r"{}\{rest}", self.spare.directory)
    }

    fn volume(&self) -> Result<String, String> {
        self.volume.borrow().as_ref().map(ToString::to_string).ok_or_else(|| "the disk has no volume".to_owned())
    }
}

fn done<T>(result: Result<T, StorageError>) -> Result<T, String> {
    result.map_err(|error| error.text())
}

fn refused<T: std::fmt::Debug>(result: Result<T, StorageError>, part: &str) -> Result<(), String> {
    match result {
        Ok(value) => Err(format!("it succeeded: {value:?}")),
        Err(error) if error.text().contains(part) => Ok(()),
        Err(error) => Err(format!("{part:?} is missing in: {}", error.text())),
    }
}

fn equal<T: PartialEq + std::fmt::Debug>(is: &T, expected: &T) -> Result<(), String> {
    if is == expected { Ok(()) } else { Err(format!("found {is:?}, expected {expected:?}")) }
}

#[cfg(test)]
mod tests;

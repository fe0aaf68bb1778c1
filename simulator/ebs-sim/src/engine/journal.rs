//! The inputs of the state since it was saved, one line of JSON for each. A replay produces the same state, including
//! ids. Each line has the position in the random number stream, so that a diverging replay is detected.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::api::Call;
use crate::faults::FaultInjection;
use crate::state::{Effect, Outcome, Sim};

use super::TimingOverride;

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Input {
    Call { now: SystemTime, call: Call, injection: FaultInjection, mark: Option<u64> },
    Advance { now: SystemTime, mark: Option<u64> },
    Finish { now: SystemTime, effect: Effect, outcome: Outcome },
    Timing(TimingOverride),
    KeyRefused { volumes: Vec<String> },
    Release { now: SystemTime, volume: String, instance: Option<String> },
    Heal { volume: String },
}

impl Input {
    /// Returns the time of the input, or `None` for an input without a specific time.
    fn now(&self) -> Option<SystemTime> {
        match self {
            Self::Call { now, .. }
            | Self::Advance { now, .. }
            | Self::Finish { now, .. }
            | Self::Release { now, .. } => Some(*now),
            Self::Timing(_) | Self::Heal { .. } | Self::KeyRefused { .. } => None,
        }
    }

    fn replay(self, sim: &mut Sim) -> Result<(), String> {
        let mark = match self {
            Self::Call { now, call, injection, mark } => {
                // A rejected call was also rejected the first time.
                let _same = sim.apply(now, call, &injection);
                mark
            }
            Self::Advance { now, mark } => {
                sim.advance(now);
                mark
            }
            Self::Finish { now, effect, outcome } => {
                sim.finish(now, &effect, &outcome);
                return Ok(());
            }
            Self::Timing(timing) => {
                sim.set_timing(timing);
                return Ok(());
            }
            Self::KeyRefused { volumes } => {
                sim.refuse_key(&volumes);
                return Ok(());
            }
            Self::Release { now, volume, instance } => {
                return sim.release(now, &volume, instance.as_deref()).map_err(|fault| fault.to_string());
            }
            Self::Heal { volume } => return sim.heal_device(&volume).map_err(|fault| fault.to_string()),
        };
        if sim.mark() == mark { Ok(()) } else { Err("replays to a different state than it first produced".to_owned()) }
    }
}

#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    lines: usize,
}

impl Journal {
    /// Creates the file. Fails if it exists.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create_new(true).open(path)?;
        Ok(Self { file, lines: 0 })
    }

    /// Appends one line with a single write. After a kill, the file has the whole line, or a part without a line end.
    pub(super) fn write(&mut self, input: &Input) -> io::Result<()> {
        let mut line = serde_json::to_vec(input).map_err(io::Error::other)?;
        line.push(b'\n');
        self.lines += 1;
        self.file.write_all(&line)
    }

    pub(super) fn lines(&self) -> usize {
        self.lines
    }
}

/// Replays a journal and returns the time of its last input. Ignores an incomplete last line: no client got a reply to
/// that input.
pub(super) fn replay(path: &Path, sim: &mut Sim) -> io::Result<Result<Option<SystemTime>, String>> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut last = None;
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 || line.last() != Some(&b'\n') {
            break;
        }
        let input: Input = match serde_json::from_slice(&line) {
            Ok(input) => input,
            Err(error) => return Ok(Err(format!("line {number} is not a simulator input: {error}"))),
        };
        last = input.now().or(last);
        if let Err(why) = input.replay(sim) {
            return Ok(Err(format!("line {number} {why}")));
        }
        // Replayed effects are not needed: the loaded state triggers them again.
        sim.take_effects();
    }
    Ok(Ok(last))
}

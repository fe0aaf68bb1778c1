//! Messages between the tests inside the machine and the program outside: one JSON value per line, over a serial line.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

/// A message from the tests inside the virtual machine. Every request gets an [`Answer`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
    /// Request: plug in a disk, with the data that it had when it was unplugged. With `hangs`, its reads never return.
    Plug { serial: String, gib: u64, hangs: bool },
    /// Request: unplug a disk, even if it is in use.
    Unplug { serial: String },
    /// Request: make writes to a disk fail from now on.
    FailWrites { serial: String },
    /// Request: let writes to a disk succeed again.
    Heal { serial: String },
    /// Request: let reads of a disk return from now on.
    Release { serial: String },
    /// Cut the power, boot again, and pass this text to the new boot. No answer.
    CutPower { carried: String },
    /// A test has passed. Gets no answer.
    Passed { test: String, seconds: u64 },
    /// A test has failed. Gets no answer.
    Failed { test: String, why: String },
    /// Information for people. Gets no answer.
    Note { text: String },
    /// All tests have run. This message gets no answer.
    Done,
}

/// The answer from the program outside of the virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Why the request failed; `None` after a success.
    pub(super) error: Option<String>,
}

/// The inner end of the serial line.
#[derive(Debug)]
pub(super) struct Line {
    from: BufReader<File>,
    to: File,
}

impl Line {
    pub(super) fn open(path: &str) -> anyhow::Result<Self> {
        let to = File::options().read(true).write(true).open(path).with_context(|| format!("open {path}"))?;
        Ok(Self { from: BufReader::new(to.try_clone().context("share the line")?), to })
    }

    /// Sends a message that gets no answer.
    pub(super) fn say(&mut self, said: &Said) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec(said).context("a line")?;
        text.push(b'\n');
        self.to.write_all(&text).context("write to the line")
    }

    /// Sends a request and waits until it is executed.
    pub(super) fn ask(&mut self, said: &Said) -> anyhow::Result<()> {
        self.say(said)?;
        let mut text = String::new();
        self.from.read_line(&mut text).context("read from the line")?;
        let answer: Answer = serde_json::from_str(&text).with_context(|| format!("an answer: {text:?}"))?;
        match answer.error {
            None => Ok(()),
            Some(error) => bail!("{said:?}: {error}"),
        }
    }
}

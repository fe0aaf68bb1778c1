//! The messages between the tests inside and the program outside: one JSON value per line, over a serial line.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

/// A message of the tests inside. A request gets an [`Answer`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
    /// Plug a disk in. It has the data from before it was last unplugged. `hangs`: its reads do not return.
    Plug { serial: String, gib: u64, hangs: bool },
    /// Unplug it, even if it is in use.
    Unplug { serial: String },
    /// Its writes fail from now on.
    FailWrites { serial: String },
    /// Its writes no longer fail.
    Heal { serial: String },
    /// Its reads return from now on.
    Release { serial: String },
    /// Cut the power, boot again, and pass this text to the new boot. No answer.
    CutPower { carried: String },
    /// A test has passed. No answer.
    Passed { test: String, seconds: u64 },
    /// A test has failed. No answer.
    Failed { test: String, why: String },
    /// Information for people. No answer.
    Note { text: String },
    /// All tests have run. No answer.
    Done,
}

/// The answer of the program outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Why the request failed.
    pub(super) error: Option<String>,
}

/// The inner end of the line.
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

    /// Sends a message that needs no answer.
    pub(super) fn say(&mut self, said: &Said) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec(said).context("a line")?;
        text.push(b'\n');
        self.to.write_all(&text).context("write to the line")
    }

    /// Sends a request and waits until it is done.
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

//! What the tests inside and the program outside say to each other: one JSON value a line, over a serial line.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

/// What the tests inside say. Those that ask for something get an [`Answer`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// Plug a disk; what was written to it before the last time it was unplugged is on it. `hangs`: its reads do not come back.
    Plug { serial: String, gib: u64, hangs: bool },
    /// Unplug it, whatever uses it.
    Unplug { serial: String },
    /// Make it larger, as EC2 does to a volume in use.
    Grow { serial: String, gib: u64 },
    /// Its writes fail from now on.
    FailWrites { serial: String },
    /// They do not fail any more.
    Heal { serial: String },
    /// Its reads come back from now on.
    Release { serial: String },
    /// Cut the power, boot again and hand this over.
    CutPower { carried: String },
    /// A test has passed. No answer.
    Passed { test: String, seconds: u64 },
    /// A test has failed. No answer.
    Failed { test: String, why: String },
    /// A test cannot run on this kernel. No answer.
    Skipped { test: String, why: String },
    /// Something that people want to know. No answer.
    Note { text: String },
    /// That was all. No answer.
    Done,
}

/// What the program outside answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Why it could not be done.
    pub error: Option<String>,
}

/// The inner end of the line.
#[derive(Debug)]
pub struct Line {
    from: BufReader<File>,
    to: File,
}

impl Line {
    /// Opens the device of the line.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &str) -> anyhow::Result<Self> {
        let to = File::options().read(true).write(true).open(path).with_context(|| format!("open {path}"))?;
        Ok(Self { from: BufReader::new(to.try_clone().context("share the line")?), to })
    }

    /// Says something that needs no answer.
    ///
    /// # Errors
    /// When the line is broken.
    pub fn say(&mut self, said: &Said) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec(said).context("a line")?;
        text.push(b'\n');
        self.to.write_all(&text).context("write to the line")
    }

    /// Asks for something and waits until it is done.
    ///
    /// # Errors
    /// What the program outside says.
    pub fn ask(&mut self, said: &Said) -> anyhow::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_travels_in_one_line() {
        for said in [Said::Done, Said::Plug { serial: "vol0a\n".to_owned(), gib: 1, hangs: true }] {
            let text = serde_json::to_string(&said).unwrap();
            assert!(!text.contains('\n'));
            assert_eq!(serde_json::from_str::<Said>(&text).unwrap(), said);
        }
    }
}

//! A recording made by `tests/acceptance/recorder`: one line about the recording, then one line for each call.

use std::time::Duration;

use ebs_sim::engine::TimingOverride;
use serde::Deserialize;
use serde_json::Value;

pub(crate) struct Recording {
    pub(crate) name: String,
    /// How long operations take in EC2.
    pub(crate) timing: TimingOverride,
    /// The placeholder for the ID of the node's instance.
    pub(crate) instance: String,
    /// The calls in the order in which they began.
    pub(crate) lines: Vec<Line>,
}

#[derive(Deserialize)]
struct Head {
    timing: TimingOverride,
    instance: String,
}

/// One call of a sidecar.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    pub(crate) from: String,
    pub(crate) connection: u32,
    pub(crate) method: String,
    at_ms: u64,
    took_ms: u64,
    deadline_ms: Option<u64>,
    pub(crate) request: Value,
    pub(crate) end: End,
    /// The gRPC code of the response, as Go spells it.
    pub(crate) code: Option<String>,
    /// The message, only for people who read the recording.
    #[serde(rename = "message")]
    _message: Option<String>,
    pub(crate) reply: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum End {
    Answered,
    /// The call's deadline passed.
    Deadline,
    /// The sidecar ended.
    Gone,
}

impl Recording {
    /// Parses a recording.
    ///
    /// # Panics
    /// When the text is not a valid recording.
    pub(crate) fn parse(name: &str, text: &str) -> Self {
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_else(|| panic!("{name} is empty"));
        let Head { timing, instance } = serde_json::from_str(head).unwrap_or_else(|error| panic!("{name}: {error}"));
        let line = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{name}: {error}: {line}"));
        Self { name: name.to_owned(), timing, instance, lines: lines.map(line).collect() }
    }

    /// Returns the positions of the mutating calls.
    pub(crate) fn mutations(&self) -> Vec<usize> {
        let mutates =
            |line: &Line| !line.method.contains("Get") && !line.method.starts_with("List") && line.method != "Probe";
        self.lines.iter().enumerate().filter(|(_, line)| mutates(line)).map(|(place, _)| place).collect()
    }

    /// Returns the calls that had ended when the call at `place` began, which may need their responses.
    pub(crate) fn ended_before(&self, place: usize) -> impl Iterator<Item = usize> {
        let began = self.lines[place].at();
        (0..place).filter(move |earlier| self.lines[*earlier].at() + self.lines[*earlier].took() <= began)
    }
}

impl Line {
    /// Returns when the call began, as time since the start of the recording.
    pub(crate) fn at(&self) -> Duration {
        Duration::from_millis(self.at_ms)
    }

    pub(crate) fn took(&self) -> Duration {
        Duration::from_millis(self.took_ms)
    }

    /// Returns how long the sidecar waits for the response.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline_ms.map_or(Duration::from_hours(1), Duration::from_millis)
    }
}

//! The output of the demo: progress while a step runs, a line at its end, and a table at the end of the run.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::Context;
use ebs_testkit::control::{Control, Ledger};
use tokio::time::Instant;

/// Interval of the progress on a terminal.
const TERMINAL_TICK: Duration = Duration::from_millis(250);
/// Interval of the progress in a log.
const LOG_TICK: Duration = Duration::from_secs(5);
/// Width of the names of steps.
const WIDTH: usize = 66;

/// Prints a line. A closed output does not stop the demo.
pub(super) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The steps so far.
#[derive(Debug)]
pub(super) struct Report {
    begun: Instant,
    steps: Vec<Step>,
    running: Option<String>,
    terminal: bool,
}

#[derive(Debug)]
struct Step {
    name: String,
    took: Duration,
    calls: Option<Ledger>,
}

impl Report {
    pub(super) fn new() -> Self {
        let terminal = std::io::stdout().is_terminal();
        Self { begun: Instant::now(), steps: Vec::new(), running: None, terminal }
    }

    /// Runs a step and prints its line: name, time, and the EC2 calls meanwhile.
    pub(super) async fn step<T>(
        &mut self,
        control: Option<&Control>,
        name: &str,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        self.running = Some(name.to_owned());
        let from = match control {
            Some(control) => control.position().await?,
            None => 0,
        };
        let begun = Instant::now();
        let result = self.watch(name, begun, work).await.with_context(|| name.to_owned())?;
        let took = begun.elapsed();
        let calls = match control {
            Some(control) => Some(control.ledger(from).await?),
            None => None,
        };
        let step = Step { name: name.to_owned(), took, calls };
        self.clear();
        say(&format!("  ✓ {}", step.line()));
        self.steps.push(step);
        self.running = None;
        Ok(result)
    }

    async fn watch<T>(
        &self,
        name: &str,
        begun: Instant,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let mut work = Box::pin(work);
        let every = if self.terminal { TERMINAL_TICK } else { LOG_TICK };
        let mut tick = tokio::time::interval_at(begun + every, every);
        loop {
            tokio::select! {
                result = &mut work => return result,
                _ = tick.tick() => self.progress(name, begun.elapsed()),
            }
        }
    }

    fn progress(&self, name: &str, elapsed: Duration) {
        if self.terminal {
            let mut out = std::io::stdout().lock();
            let _ = write!(out, "\r\x1b[K  … {name} {}", seconds(elapsed)).and_then(|()| out.flush());
        } else {
            say(&format!("  … {name} {}", seconds(elapsed)));
        }
    }

    fn clear(&self) {
        if self.terminal {
            let mut out = std::io::stdout().lock();
            let _ = write!(out, "\r\x1b[K").and_then(|()| out.flush());
        }
    }

    /// Marks the step that failed.
    pub(super) fn broken(&self) {
        self.clear();
        if let Some(name) = &self.running {
            say(&format!("  ✗ {name}"));
        }
    }

    /// Prints the table of all steps with their total.
    pub(super) fn table(&self) {
        say(&format!("\n{:WIDTH$} {:>8}  EC2 calls", "step", "time"));
        for step in &self.steps {
            say(&step.line());
        }
        let mut sum: BTreeMap<&str, usize> = BTreeMap::new();
        for call in self.steps.iter().filter_map(|step| step.calls.as_ref()).flat_map(|ledger| &ledger.calls) {
            *sum.entry(&call.action).or_default() += 1;
        }
        let total: usize = sum.values().sum();
        say(&format!("{:WIDTH$} {:>8}  {total} EC2 calls", "total", seconds(self.begun.elapsed())));
        for (action, count) in sum {
            say(&format!("{:WIDTH$} {:>8}  {count} {action}", "", ""));
        }
        say("no leftovers: no volume or snapshot in EC2, no loop device, link, mount or process");
    }
}

impl Step {
    fn line(&self) -> String {
        let calls = self.calls.as_ref().map(Ledger::summary).unwrap_or_default();
        format!("{:WIDTH$} {:>8}  {calls}", self.name, seconds(self.took)).trim_end().to_owned()
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_line_has_name_time_and_calls() {
        let step = Step { name: "attach".to_owned(), took: Duration::from_millis(1_240), calls: None };
        let line = step.line();
        assert!(line.starts_with("attach ") && line.ends_with(" 1.2 s"), "{line:?}");
    }
}

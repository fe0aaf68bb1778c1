//! The output of the demo: progress while a step runs, a line at its end, and a table at the end of the run.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::Context;
use ebs_testkit::control::{Control, Ledger};
use tokio::time::Instant;

/// Interval of the progress on a terminal, and in a log.
const TERMINAL_TICK: Duration = Duration::from_millis(250);
const LOG_TICK: Duration = Duration::from_secs(5);
/// Width of the names of steps.
const WIDTH: usize = 66;

/// Prints a line. A closed output does not stop the demo.
pub(super) fn say(line: &str) {
    print(&format!("{line}\n"));
}

fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// The steps so far.
#[derive(Debug)]
pub(super) struct Report {
    begun: Instant,
    steps: Vec<Step>,
    running: Option<String>,
    terminal: bool,
    /// Where the calls of a step are read, while the simulator runs.
    pub(super) control: Option<Control>,
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
        Self { begun: Instant::now(), steps: Vec::new(), running: None, terminal, control: None }
    }

    /// Runs a step and prints its line: name, time, and the EC2 calls meanwhile.
    pub(super) async fn step<T>(
        &mut self,
        name: &str,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        self.running = Some(name.to_owned());
        let control = self.control.clone();
        let from = match &control {
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

    async fn watch<T>(&self, name: &str, begun: Instant, work: impl Future<Output = T>) -> T {
        let mut work = Box::pin(work);
        let every = if self.terminal { TERMINAL_TICK } else { LOG_TICK };
        let mut tick = tokio::time::interval_at(begun + every, every);
        loop {
            tokio::select! {
                result = &mut work => return result,
                _ = tick.tick() => {
                    self.clear();
                    let end = if self.terminal { "" } else { "\n" };
                    print(&format!("  … {name} {}{end}", seconds(begun.elapsed())));
                }
            }
        }
    }

    fn clear(&self) {
        if self.terminal {
            print("\r\x1b[K");
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

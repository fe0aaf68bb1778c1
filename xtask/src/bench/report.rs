//! What is printed and written of the outcomes.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use super::BenchArgs;
use super::case::Case;
use super::figures::{RpcFigures, TrafficFigures, Transitions};

/// What a case came to for one driver.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Outcome {
    pub(super) case: String,
    /// `ours` or `other`.
    pub(super) subject: String,
    pub(super) conditions: Case,
    pub(super) transitions: Transitions,
    /// From the first life's beginning to the last one's end.
    pub(super) seconds: f64,
    pub(super) rpcs: BTreeMap<&'static str, RpcFigures>,
    pub(super) traffic: TrafficFigures,
    pub(super) cpu_seconds: f64,
    /// In bytes.
    pub(super) peak_memory: u64,
}

/// One figure beside its target.
struct Verdict {
    what: String,
    reached: f64,
    target: f64,
}

impl Outcome {
    fn verdicts(&self) -> Vec<Verdict> {
        let targets = &self.conditions.targets;
        let verdict = |what: &str, reached: f64, target: Option<f64>| {
            target.map(|target| Verdict { what: what.to_owned(), reached, target })
        };
        let mut verdicts = vec![
            verdict("mutating calls a life", self.traffic.mutating_per_life, targets.mutating_per_life),
            verdict("throttled, of mutating calls", self.traffic.throttled_mutating, targets.throttled),
            verdict("throttled, of all calls", self.traffic.throttled_all, targets.throttled),
            verdict("describe calls a life", self.traffic.describes_per_life, targets.describes_per_life),
            verdict("peak memory in MiB", mib(self.peak_memory), targets.peak_memory.map(mib)),
        ];
        for (rpc, figures) in &self.rpcs {
            verdicts.push(verdict(&format!("median added latency of {rpc}"), figures.added_p50, targets.median_added));
        }
        verdicts.into_iter().flatten().collect()
    }

    /// The targets that were missed, in words.
    pub(super) fn missed(&self) -> Vec<String> {
        let missed = self.verdicts().into_iter().filter(|v| v.reached > v.target);
        missed.map(|v| format!("{}: {} is {:.3}, not {:.3}", self.case, v.what, v.reached, v.target)).collect()
    }
}

fn mib(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX)) / 1024.0
}

/// Writes all figures as JSON.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn write(path: &Path, args: &BenchArgs, outcomes: &[Outcome]) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let whole = serde_json::json!({
        "lives": args.lives, "rate_per_second": args.rate, "burst": args.burst, "cores": cores, "outcomes": outcomes,
    });
    let text = serde_json::to_vec_pretty(&whole).context("write the results as JSON")?;
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

/// Prints them for people.
pub(super) fn print(path: &Path, outcomes: &[Outcome]) {
    let mut text = String::new();
    for outcome in outcomes {
        text.push_str(&one(outcome));
    }
    text.push_str(&ratios(outcomes));
    text.push_str(&format!("all figures: {}\n", path.display()));
    // A reader that has gone needs no figures.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn one(outcome: &Outcome) -> String {
    let mut text = format!(
        "\n{} / {}: {} lives in {:.0} s, driver {:.1} CPU seconds, peak {:.1} MiB\n",
        outcome.case,
        outcome.subject,
        outcome.conditions.lives,
        outcome.seconds,
        outcome.cpu_seconds,
        mib(outcome.peak_memory)
    );
    text.push_str("  RPC                         calls retried  whole p50    p99  added p50    p99    max  (s)\n");
    for (rpc, f) in &outcome.rpcs {
        text.push_str(&format!(
            "  {rpc:<27} {:>5} {:>7}  {:>9.3} {:>6.2}  {:>9.3} {:>6.2} {:>6.2}\n",
            f.calls, f.retried, f.whole_p50, f.whole_p99, f.added_p50, f.added_p99, f.added_max
        ));
    }
    for (action, (calls, throttled)) in &outcome.traffic.calls {
        text.push_str(&format!("  EC2 {action:<23} {calls:>5}  throttled {throttled}\n"));
    }
    for v in outcome.verdicts() {
        let word = if v.reached > v.target { "MISSED" } else { "ok" };
        text.push_str(&format!("  {word:<6} {}: {:.3} (at most {:.3})\n", v.what, v.reached, v.target));
    }
    text
}

/// Ours by the other's, where both played a case.
fn ratios(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for other in outcomes.iter().filter(|o| o.subject == "other") {
        let Some(ours) = outcomes.iter().find(|o| o.subject == "ours" && o.case == other.case) else { continue };
        let ratio = |ours: f64, other: f64| if other > 0.0 { format!("{:.2}", ours / other) } else { "-".to_owned() };
        text.push_str(&format!(
            "\n{}: ours / other: mutating calls {}, describe calls {}, CPU {}, peak memory {}\n",
            other.case,
            ratio(ours.traffic.mutating_per_life, other.traffic.mutating_per_life),
            ratio(ours.traffic.describes_per_life, other.traffic.describes_per_life),
            ratio(ours.cpu_seconds, other.cpu_seconds),
            ratio(mib(ours.peak_memory), mib(other.peak_memory)),
        ));
    }
    text
}

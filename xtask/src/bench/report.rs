//! Prints and writes the results.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use super::BenchArgs;
use super::case::{Case, Judged};
use super::figures::{PhaseFigures, TrafficFigures, Transitions};

/// The results of a case for one driver.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Outcome {
    pub(super) case: String,
    /// `ours` or `other`.
    pub(super) subject: String,
    pub(super) conditions: Case,
    pub(super) transitions: Transitions,
    /// From the start of the first life to the end of the last one.
    pub(super) seconds: f64,
    pub(super) phases: Vec<PhaseFigures>,
    pub(super) traffic: TrafficFigures,
    pub(super) cpu_seconds: f64,
    /// In bytes.
    pub(super) peak_memory: u64,
}

/// A value and its target.
struct Verdict {
    what: String,
    reached: f64,
    target: f64,
}

impl Outcome {
    /// Returns whether it is our driver.
    pub(super) fn is_ours(&self) -> bool {
        self.subject == "ours"
    }

    fn verdicts(&self) -> Vec<Verdict> {
        let targets = &self.conditions.targets;
        let verdict = |what: &str, reached: f64, target: Option<f64>| {
            target.map(|target| Verdict { what: what.to_owned(), reached, target })
        };
        let mut verdicts = vec![
            verdict(
                "mutating calls per lifecycle, without spare ones",
                self.traffic.mutating_per_life,
                targets.mutating_per_life,
            ),
            verdict("spare calls per lifecycle", self.traffic.spare_per_life, targets.spare_per_life),
            verdict("throttled fraction of mutating calls", self.traffic.throttled_mutating, targets.throttled),
            verdict("throttled fraction of all calls", self.traffic.throttled_all, targets.throttled),
            verdict("describe calls per lifecycle", self.traffic.describes_per_life, targets.describes_per_life),
            verdict("peak memory in MiB", mib(self.peak_memory), targets.peak_memory.map(mib)),
        ];
        verdicts.extend(self.phases.iter().flat_map(|phase| self.latency_verdicts(phase)).map(Some));
        verdicts.into_iter().flatten().collect()
    }

    /// Returns the latencies of a phase with their targets.
    fn latency_verdicts(&self, phase: &PhaseFigures) -> Vec<Verdict> {
        let targets = &self.conditions.targets;
        let like = match phase.judged {
            Judged::No => return Vec::new(),
            Judged::Targets => None,
            Judged::Like(name) => self.phases.iter().find(|other| other.name == name),
        };
        let mut verdicts = Vec::new();
        for (rpc, figures) in &phase.rpcs {
            let of = if self.phases.len() > 1 { format!("{rpc} ({})", phase.name) } else { (*rpc).to_owned() };
            let than = like.and_then(|like| like.rpcs.get(rpc));
            let (median_before, p99_before) = than.map_or((0.0, 0.0), |than| (than.added_p50, than.added_p99));
            let mut held = |figure: &str, reached: f64, before: f64, target: Option<f64>| {
                verdicts.extend(target.map(|target| Verdict {
                    what: format!("{figure} of {of}"),
                    reached,
                    target: before.max(0.0) + target,
                }));
            };
            held("median added latency", figures.added_p50, median_before, targets.median_added);
            held("p99 of added latency", figures.added_p99, p99_before, targets.p99_added);
        }
        verdicts
    }

    /// Returns CPU milliseconds per life.
    fn cpu_per_life(&self) -> f64 {
        self.cpu_seconds * 1_000.0 / f64::from(self.conditions.lives().max(1))
    }

    /// Returns the missed targets as text.
    pub(super) fn missed(&self) -> Vec<String> {
        let missed = self.verdicts().into_iter().filter(|v| v.reached > v.target);
        missed.map(|v| format!("{}: {} is {:.3}, target {:.3}", self.case, v.what, v.reached, v.target)).collect()
    }
}

fn mib(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX)) / 1024.0
}

/// Writes all results as JSON.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write(path: &Path, args: &BenchArgs, outcomes: &[Outcome]) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let whole = serde_json::json!({
        "lives": args.lives, "rate_per_second": args.rate, "burst": args.burst, "cores": cores, "outcomes": outcomes,
    });
    let text = serde_json::to_vec_pretty(&whole).context("write the results as JSON")?;
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

/// Prints the results for people.
pub(super) fn print(path: &Path, outcomes: &[Outcome]) {
    let mut text = String::new();
    for outcome in outcomes {
        text.push_str(&one(outcome));
    }
    text.push_str(&ratios(outcomes));
    text.push_str(&format!("all results: {}\n", path.display()));
    say(&text);
}

/// Prints a text.
pub(super) fn say(text: &str) {
    // A closed output is not an error.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Writes the results of a case without lives as JSON.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write_json(path: &Path, figures: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_vec_pretty(figures).context("write the results as JSON")?;
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

fn one(outcome: &Outcome) -> String {
    let mut text = format!(
        "\n{} / {}: {} lifecycles in {:.0} s, driver {:.1} CPU seconds ({:.1} ms per lifecycle), peak {:.1} MiB\n",
        outcome.case,
        outcome.subject,
        outcome.conditions.lives(),
        outcome.seconds,
        outcome.cpu_seconds,
        outcome.cpu_per_life(),
        mib(outcome.peak_memory)
    );
    for phase in &outcome.phases {
        text.push_str(&of_phase(phase, outcome.phases.len() > 1));
    }
    for (action, (calls, throttled)) in &outcome.traffic.calls {
        text.push_str(&format!("  EC2 {action:<23} {calls:>5}  throttled {throttled}\n"));
    }
    let of_a_life = &outcome.traffic;
    text.push_str(&format!(
        "  per lifecycle: {:.3} mutating calls, {:.3} spare calls, {:.3} describes\n",
        of_a_life.mutating_per_life, of_a_life.spare_per_life, of_a_life.describes_per_life
    ));
    for v in outcome.verdicts() {
        let word = if v.reached > v.target { "MISSED" } else { "ok" };
        text.push_str(&format!("  {word:<6} {}: {:.3} (at most {:.3})\n", v.what, v.reached, v.target));
    }
    text
}

fn of_phase(phase: &PhaseFigures, named: bool) -> String {
    let title = if named { format!("RPC ({})", phase.name) } else { "RPC".to_owned() };
    let mut text = format!("  {title:<27} calls retried  whole p50    p99  added p50    p99    max  (s)\n");
    for (rpc, f) in &phase.rpcs {
        text.push_str(&format!(
            "  {rpc:<27} {:>5} {:>7}  {:>9.3} {:>6.2}  {:>9.3} {:>6.2} {:>6.2}\n",
            f.calls, f.retried, f.whole_p50, f.whole_p99, f.added_p50, f.added_p99, f.added_max
        ));
    }
    text
}

/// Formats our values divided by the other driver's, for cases of both.
fn ratios(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for other in outcomes.iter().filter(|o| !o.is_ours()) {
        let Some(ours) = outcomes.iter().find(|o| o.is_ours() && o.case == other.case) else { continue };
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

#[cfg(test)]
mod tests {
    use super::super::case::{Phase, Targets};
    use super::super::figures::RpcFigures;
    use super::*;

    /// Returns the outcome of a steady case with one kind of call and these values.
    fn outcome(added_p99: f64, mutating_per_life: f64, spare_per_life: f64) -> Outcome {
        let targets = Targets {
            mutating_per_life: Some(4.08),
            spare_per_life: Some(0.6),
            p99_added: Some(1.0),
            ..Targets::default()
        };
        let every = std::time::Duration::from_secs(1);
        let phase = Phase { name: "whole", lives: 1, every, judged: Judged::Targets };
        let conditions = Case {
            name: super::super::case::CaseName::Steady,
            phases: vec![phase],
            storm: None,
            eaten: 0.0,
            workers: None,
            targets,
        };
        let figures = RpcFigures {
            calls: 1,
            retried: 0,
            whole_p50: 0.0,
            whole_p99: 0.0,
            added_p50: 0.0,
            added_p99,
            added_max: 0.0,
        };
        let rpcs = [("ControllerUnpublishVolume", figures)].into();
        let traffic = TrafficFigures {
            calls: std::collections::BTreeMap::new(),
            mutating_per_life,
            spare_per_life,
            describes_per_life: 0.0,
            throttled_mutating: 0.0,
            throttled_all: 0.0,
        };
        Outcome {
            case: "steady".to_owned(),
            subject: "ours".to_owned(),
            conditions,
            transitions: Transitions { create: 2.0, attach: 2.5, detach: 4.0 },
            seconds: 1.0,
            phases: vec![PhaseFigures { name: "whole", judged: Judged::Targets, rpcs }],
            traffic,
            cpu_seconds: 0.0,
            peak_memory: 0,
        }
    }

    /// So `make bench` fails. The targets cover every RPC, and calls and spare calls per life.
    #[test]
    fn slow_p99_and_too_many_spare_calls_miss_targets() {
        assert_eq!(outcome(1.0, 4.08, 0.6).missed(), Vec::<String>::new());
        let slow = outcome(1.001, 4.0, 0.0).missed();
        assert!(slow.len() == 1 && slow[0].contains("p99 of added latency of ControllerUnpublishVolume"), "{slow:?}");
        let spare = outcome(0.5, 4.0, 0.601).missed();
        assert!(spare.len() == 1 && spare[0].contains("spare calls per lifecycle"), "{spare:?}");
        let calls = outcome(0.5, 4.1, 0.0).missed();
        assert!(calls.len() == 1 && calls[0].contains("mutating calls per lifecycle"), "{calls:?}");
        let mut unjudged = outcome(1.001, 4.0, 0.0);
        unjudged.phases[0].judged = Judged::No;
        assert_eq!(unjudged.missed(), Vec::<String>::new());
    }

    #[test]
    fn phase_may_exceed_its_reference_phase_by_the_targets() {
        let mut day = outcome(2.5, 4.0, 0.0);
        let noon = PhaseFigures { name: "noon", judged: Judged::No, ..day.phases[0].clone() };
        let mut evening = PhaseFigures { name: "evening", judged: Judged::Like("noon"), ..noon.clone() };
        let of_evening = |evening: &mut PhaseFigures, p99| {
            for figures in evening.rpcs.values_mut() {
                figures.added_p99 = p99;
            }
        };
        of_evening(&mut evening, 3.5);
        day.phases = vec![noon.clone(), evening.clone()];
        assert_eq!(day.missed(), Vec::<String>::new());
        of_evening(&mut evening, 3.501);
        day.phases = vec![noon, evening];
        let missed = day.missed();
        assert!(missed.len() == 1 && missed[0].contains("(evening) is 3.501, not 3.500"), "{missed:?}");
    }

    #[test]
    fn targets_of_the_steady_case_match_the_decisions() {
        use clap::Parser as _;
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: BenchArgs,
        }
        let args = Line::parse_from(["bench"]).args;
        let targets = super::super::case::CaseName::Steady.case(&args).unwrap().targets;
        assert_eq!((targets.mutating_per_life, targets.spare_per_life), (Some(4.08), Some(0.6)));
        assert_eq!((targets.median_added, targets.p99_added), (Some(0.3), Some(1.0)));
        assert_eq!((targets.throttled, targets.describes_per_life), (Some(0.02), Some(0.8)));
    }
}

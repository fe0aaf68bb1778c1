//! Prints and writes the results.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use super::case::{Case, Judged};
use super::figures::{PhaseFigures, RpcFigures, TrafficFigures};
use crate::record::{self, Conditions, Driver, Latencies, LoadPoint};

#[derive(Debug)]
pub(super) struct Verdict {
    what: String,
    reached: f64,
    target: f64,
}

impl Verdict {
    pub(super) fn new(what: impl Into<String>, reached: f64, target: f64) -> Self {
        Self { what: what.into(), reached, target }
    }
}

pub(super) fn missed(subject: &str, verdicts: &[Verdict]) -> Vec<String> {
    let missed = verdicts.iter().filter(|v| v.reached > v.target);
    missed.map(|v| format!("{subject}: {} is {:.3}, target {:.3}", v.what, v.reached, v.target)).collect()
}

pub(super) fn table(verdicts: &[Verdict]) -> String {
    let line = |v: &Verdict| {
        let word = if v.reached > v.target { "MISSED" } else { "ok" };
        format!("  {word:<6} {}: {:.3} (at most {:.3})\n", v.what, v.reached, v.target)
    };
    verdicts.iter().map(line).collect()
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Outcome {
    pub(super) case: String,
    /// The measured driver: `ours` or `other`.
    pub(super) subject: &'static str,
    pub(super) conditions: Case,
    /// Time from the start of the first life to the end of the last one.
    pub(super) seconds: f64,
    pub(super) phases: Vec<PhaseFigures>,
    pub(super) traffic: TrafficFigures,
    pub(super) cpu_seconds: f64,
    pub(super) peak_memory_mib: f64,
}

impl Outcome {
    fn verdicts(&self) -> Vec<Verdict> {
        let (traffic, targets) = (&self.traffic, &self.conditions.targets);
        let of_the_case = [
            ("mutating calls per lifecycle, without spare ones", traffic.mutating_per_life, targets.mutating_per_life),
            ("spare calls per lifecycle", traffic.spare_per_life, targets.spare_per_life),
            ("throttled fraction of mutating calls", traffic.throttled_mutating, targets.throttled),
            ("throttled fraction of all calls", traffic.throttled_all, targets.throttled),
            ("describe calls per lifecycle", traffic.describes_per_life, targets.describes_per_life),
            ("peak memory in MiB", self.peak_memory_mib, targets.peak_memory),
        ];
        let of_the_case =
            of_the_case.into_iter().filter_map(|(what, reached, most)| Some(Verdict::new(what, reached, most?)));
        of_the_case.chain(self.phases.iter().flat_map(|phase| self.latencies(phase))).collect()
    }

    fn latencies(&self, phase: &PhaseFigures) -> Vec<Verdict> {
        let targets = &self.conditions.targets;
        let like = match phase.judged {
            Judged::No => return Vec::new(),
            Judged::Targets => None,
            Judged::Like(name) => self.phases.iter().find(|other| other.name == name),
        };
        let mut verdicts = Vec::new();
        for (rpc, figures) in &phase.rpcs {
            let of = if self.phases.len() > 1 { format!("{rpc} ({})", phase.name) } else { (*rpc).to_owned() };
            let before = like.and_then(|like| like.rpcs.get(rpc)).map_or((0.0, 0.0), |f| (f.added_p50, f.added_p99));
            for (figure, reached, before, target) in [
                ("median added latency", figures.added_p50, before.0, targets.median_added),
                ("p99 of added latency", figures.added_p99, before.1, targets.p99_added),
            ] {
                let verdict = |target| Verdict::new(format!("{figure} of {of}"), reached, before.max(0.0_f64) + target);
                verdicts.extend(target.map(verdict));
            }
        }
        verdicts
    }

    /// Returns the figures of the plot of calls against load.
    pub(super) fn load_point(&self) -> LoadPoint {
        LoadPoint {
            rate: self.conditions.rate(),
            lives: self.conditions.lives(),
            mutating_per_life: self.traffic.mutating_per_life,
            spare_per_life: self.traffic.spare_per_life,
            describes_per_life: self.traffic.describes_per_life,
            cpu_per_life: self.cpu_per_life(),
        }
    }

    /// Returns the figures of the plot of latencies.
    pub(super) fn driver(&self, conditions: &Conditions) -> Driver {
        let whole = self.phases.first();
        let latency = |f: &RpcFigures| Latencies { median: f.added_p50, p99: f.added_p99 };
        let rpcs = whole.map(|p| p.rpcs.iter().map(|(rpc, f)| ((*rpc).to_owned(), latency(f))).collect());
        let name = if self.subject == "ours" { record::OUR_NAME } else { "other driver" };
        Driver {
            name: name.to_owned(),
            conditions: conditions.clone(),
            lives: self.conditions.lives(),
            rate: self.conditions.rate(),
            rpcs: rpcs.unwrap_or_default(),
            cpu_per_life: self.cpu_per_life(),
            peak_memory: self.peak_memory_mib,
            mutating_per_life: self.traffic.mutating_per_life,
            spare_per_life: self.traffic.spare_per_life,
            describes_per_life: self.traffic.describes_per_life,
        }
    }

    /// Returns the driver's processor time per lifecycle in milliseconds.
    fn cpu_per_life(&self) -> f64 {
        self.cpu_seconds * 1_000.0 / f64::from(self.conditions.lives().max(1))
    }

    /// Returns the missed targets of our driver as text; empty for another driver.
    pub(super) fn missed(&self) -> Vec<String> {
        if self.subject == "ours" { missed(&self.case, &self.verdicts()) } else { Vec::new() }
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "\n{} / {}: {} lifecycles in {:.0} s, driver {:.1} CPU seconds ({:.1} ms per lifecycle), peak {:.1} MiB\n",
            self.case,
            self.subject,
            self.conditions.lives(),
            self.seconds,
            self.cpu_seconds,
            self.cpu_per_life(),
            self.peak_memory_mib,
        );
        for phase in &self.phases {
            let title = if self.phases.len() > 1 { format!("RPC ({})", phase.name) } else { "RPC".to_owned() };
            text += &format!("  {title:<27} calls retried  whole p50    p99  added p50    p99    max  (s)\n");
            for (rpc, f) in &phase.rpcs {
                text += &format!(
                    "  {rpc:<27} {:>5} {:>7}  {:>9.3} {:>6.2}  {:>9.3} {:>6.2} {:>6.2}\n",
                    f.calls, f.retried, f.whole_p50, f.whole_p99, f.added_p50, f.added_p99, f.added_max
                );
            }
        }
        for (action, (calls, throttled)) in &self.traffic.calls {
            text += &format!("  EC2 {action:<23} {calls:>5}  throttled {throttled}\n");
        }
        text += &format!(
            "  per lifecycle: {:.3} mutating calls, {:.3} spare calls, {:.3} describes\n",
            self.traffic.mutating_per_life, self.traffic.spare_per_life, self.traffic.describes_per_life
        );
        text + &table(&self.verdicts())
    }
}

/// Formats our values divided by the other driver's, for cases that both have run.
pub(super) fn ratios(outcomes: &[Outcome]) -> String {
    let of = |subject| outcomes.iter().filter(move |outcome| outcome.subject == subject);
    let ratio = |ours: f64, other: f64| if other > 0.0 { format!("{:.2}", ours / other) } else { "-".to_owned() };
    let both = of("other").filter_map(|other| Some((other, of("ours").find(|ours| ours.case == other.case)?)));
    let line = |(other, ours): (&Outcome, &Outcome)| {
        format!(
            "\n{}: ours / other: mutating calls {}, describe calls {}, CPU {}, peak memory {}\n",
            other.case,
            ratio(ours.traffic.mutating_per_life, other.traffic.mutating_per_life),
            ratio(ours.traffic.describes_per_life, other.traffic.describes_per_life),
            ratio(ours.cpu_seconds, other.cpu_seconds),
            ratio(ours.peak_memory_mib, other.peak_memory_mib),
        )
    };
    both.map(line).collect()
}

pub(super) fn say(text: &str) {
    // Standard output may be closed, which is not an error.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

pub(super) fn write_json(path: &Path, results: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_vec_pretty(results).context("write the results as JSON")?;
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::super::BenchArgs;
    use super::super::case::CaseName;
    use super::super::figures::traffic;
    use super::*;

    fn steady() -> Case {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: BenchArgs,
        }
        CaseName::Steady.cases(&<Line as clap::Parser>::parse_from(["bench"]).args).remove(0)
    }

    /// Returns the outcome of a steady case with one kind of call and these values.
    fn outcome(added_p99: f64, mutating_per_life: f64, spare_per_life: f64) -> Outcome {
        let figures = RpcFigures { added_p99, ..RpcFigures::default() };
        let rpcs = [("ControllerUnpublishVolume", figures)].into();
        Outcome {
            case: "steady".to_owned(),
            subject: "ours",
            conditions: steady(),
            seconds: 1.0,
            phases: vec![PhaseFigures { name: "whole", judged: Judged::Targets, rpcs }],
            traffic: TrafficFigures { mutating_per_life, spare_per_life, ..traffic(&[], 1) },
            cpu_seconds: 0.0,
            peak_memory_mib: 0.0,
        }
    }

    /// A missed target makes `make bench` fail. The targets cover the latency of every RPC, and the mutating and spare
    /// calls per volume lifecycle.
    #[test]
    fn slow_p99_and_too_many_spare_calls_miss_targets() {
        assert_eq!(outcome(1.0, 4.08, 0.6).missed(), Vec::<String>::new());
        for (bad, word) in [
            (outcome(1.001, 4.0, 0.0), "p99 of added latency of ControllerUnpublishVolume"),
            (outcome(0.5, 4.0, 0.601), "spare calls per lifecycle"),
            (outcome(0.5, 4.1, 0.0), "mutating calls per lifecycle"),
        ] {
            let missed = bad.missed();
            assert!(missed.len() == 1 && missed[0].contains(word), "{missed:?}");
            assert!(bad.text().contains("MISSED"));
            assert_eq!(Outcome { subject: "other", ..bad }.missed(), Vec::<String>::new());
        }
        let mut unjudged = outcome(1.001, 4.0, 0.0);
        unjudged.phases[0].judged = Judged::No;
        assert_eq!(unjudged.missed(), Vec::<String>::new());
    }

    #[test]
    fn phase_fails_if_p99_exceeds_its_reference_plus_the_target() {
        for (p99, expected) in [(3.5, None), (3.501, Some("(evening) is 3.501, target 3.500"))] {
            let mut day = outcome(2.5, 4.0, 0.0);
            let evening = outcome(p99, 4.0, 0.0).phases.remove(0);
            (day.phases[0].name, day.phases[0].judged) = ("noon", Judged::No);
            day.phases.push(PhaseFigures { name: "evening", judged: Judged::Like("noon"), ..evening });
            let missed = day.missed();
            assert_eq!(missed.len(), usize::from(expected.is_some()), "{missed:?}");
            assert!(expected.is_none_or(|text| missed[0].contains(text)), "{missed:?}");
        }
    }
}

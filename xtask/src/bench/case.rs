//! The cases, and the targets of each.

use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use super::BenchArgs;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CaseName {
    /// Lifecycles at a fixed rate, with all API budgets for the driver
    Steady,
    /// Lifecycles at a fixed rate, while another client uses half of every budget
    Competitor,
    /// All lifecycles at the same time
    Burst,
    /// Added time of stage and publish on a node, and the driver's memory; requires root
    Node,
    /// Start time, memory and file size of the program
    Process,
    /// A day with compressed quiet hours and a throttling storm in the afternoon
    Day,
    /// Lifecycles at several rates side by side, each for the same time
    Load,
    /// Memory, CPU time and calls as the number of existing volumes grows
    Volumes,
}

/// Volume lifecycles that begin at a fixed rate, whether or not earlier ones have ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) lives: u32,
    /// The time between the starts of two lives; zero starts all at once.
    pub(super) every: Duration,
    pub(super) judged: Judged,
}

/// The latency targets that apply to a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Judged {
    /// Nothing
    No,
    /// The latency targets of the case.
    Targets,
    /// The latencies of the phase with this name plus the latency targets of the case.
    Like(&'static str),
}

/// The load and the targets of a case.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Case {
    pub(super) name: CaseName,
    /// The phases of the load, in order.
    pub(super) phases: Vec<Phase>,
    /// The start and end of a period in which EC2 throttles every call, whatever tokens its buckets hold. Both count
    /// from the start of the case.
    pub(super) storm: Option<(Duration, Duration)>,
    /// The fraction of every rate budget that another client uses, 0 to 1.
    pub(super) eaten: f64,
    /// Maximum number of concurrent calls of each kind, like the sidecars' `--worker-threads`; `None` means no limit.
    pub(super) workers: Option<usize>,
    pub(super) targets: Targets,
}

/// Maximum values; `None` if the case does not check the value.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Targets {
    /// Number of mutating calls per life, including dry runs and throttled calls but not spare ones.
    pub(super) mutating_per_life: Option<f64>,
    pub(super) spare_per_life: Option<f64>,
    /// Throttled fraction, 0 to 1, both of the mutating calls and of all calls.
    pub(super) throttled: Option<f64>,
    pub(super) describes_per_life: Option<f64>,
    /// Median added latency of every RPC, in seconds; `p99_added` is the 99th percentile.
    pub(super) median_added: Option<f64>,
    pub(super) p99_added: Option<f64>,
    /// Peak resident memory of the driver, in MiB.
    pub(super) peak_memory: Option<f64>,
}

/// The `--worker-threads` of the provisioner and the attacher in the chart.
pub(super) const WORKERS: usize = 100;

impl CaseName {
    /// Returns the volume lives of the case at each of its loads; none for [`super::node`], [`super::process`] and
    /// [`super::volumes`].
    pub(super) fn cases(self, args: &BenchArgs) -> Vec<Case> {
        if self == Self::Load {
            args.loads.iter().map(|rate| load(args, *rate)).collect()
        } else {
            self.case(args).into_iter().collect()
        }
    }

    fn case(self, args: &BenchArgs) -> Option<Case> {
        let whole = |lives, every| vec![Phase { name: "whole", lives, every, judged: Judged::Targets }];
        let at_rate = || whole(args.lives, per_second(args.rate));
        let memory = Targets { peak_memory: Some(40.0), ..Targets::default() };
        let latency = Targets { median_added: Some(0.3), p99_added: Some(1.0), ..memory };
        let (phases, eaten, workers, targets) = match self {
            Self::Steady => {
                let targets = Targets {
                    mutating_per_life: Some(4.08),
                    spare_per_life: Some(0.6),
                    throttled: Some(0.02),
                    describes_per_life: Some(0.8),
                    ..latency
                };
                (at_rate(), 0.0, Some(WORKERS), targets)
            }
            Self::Competitor => {
                let targets = Targets { mutating_per_life: Some(4.3), throttled: Some(0.05), ..memory };
                (at_rate(), 0.5, Some(WORKERS), targets)
            }
            // By default, a thousand concurrent calls, which is more than any sidecar makes.
            Self::Burst => {
                let targets = Targets { peak_memory: Some(64.0), ..Targets::default() };
                (whole(args.burst, Duration::ZERO), 0.0, None, targets)
            }
            Self::Node | Self::Process | Self::Volumes | Self::Load => return None,
            Self::Day => (day(args.day_lives), 0.0, Some(WORKERS), latency),
        };
        let storm = (self == Self::Day).then(|| afternoon_storm(&phases));
        Some(Case { name: self, phases, storm, eaten, workers, targets })
    }
}

/// Returns the time between the starts of two lives.
pub(super) fn per_second(lives: f64) -> Duration {
    Duration::from_secs_f64(1.0 / lives.clamp(0.01, 1_000.0))
}

/// Returns lives at this rate, as many as begin in the time of the case.
fn load(args: &BenchArgs, rate: f64) -> Case {
    let every = per_second(rate);
    let whole = Duration::from_secs(args.load_seconds.into());
    let lives = u32::try_from(whole.as_micros().div_ceil(every.as_micros())).unwrap_or(u32::MAX);
    let phases = vec![Phase { name: "whole", lives, every, judged: Judged::No }];
    Case { name: CaseName::Load, phases, storm: None, eaten: 0.0, workers: Some(WORKERS), targets: Targets::default() }
}

/// Returns the phases of a day with this number of volume lifecycles. `noon` and `evening` have the same load. With the
/// usual 2,000 lifecycles, the quiet time before the evening is 10 minutes. That is the longest time that the driver's
/// estimated rate needs to drift back to the documented rate.
fn day(lives: u32) -> Vec<Phase> {
    let part = |of_2_000: u64| u32::try_from(u64::from(lives) * of_2_000 / 2_000).unwrap_or(lives).max(1);
    let phase = |name, of_2_000, rate, judged| Phase { name, lives: part(of_2_000), every: per_second(rate), judged };
    vec![
        phase("night", 20, 0.2, Judged::Targets),
        phase("morning", 200, 2.0, Judged::Targets),
        // More lives than EC2's limits permit, so the queue's length depends on the simulator as much as on our driver.
        phase("noon", 630, 8.0, Judged::No),
        phase("afternoon", 400, 2.0, Judged::No),
        phase("quiet", 120, 0.2, Judged::No),
        phase("evening", 630, 8.0, Judged::Like("noon")),
    ]
}

/// Returns the last quarter of the afternoon. By then the lives of the phase `noon` have ended.
fn afternoon_storm(phases: &[Phase]) -> (Duration, Duration) {
    let lasts = |phase: &Phase| phase.every * phase.lives;
    let afternoon = phases.iter().position(|phase| phase.name == "afternoon").unwrap_or(0);
    let until = phases[..=afternoon].iter().map(lasts).sum::<Duration>();
    (until - lasts(&phases[afternoon]) / 4, until)
}

impl Case {
    pub(super) fn all_at_once(&self) -> bool {
        self.phases.iter().all(|phase| phase.every.is_zero())
    }

    /// Returns the number of lives over all phases.
    pub(super) fn lives(&self) -> u32 {
        self.phases.iter().map(|phase| phase.lives).sum()
    }

    /// Returns the number of lives that begin each second in the first phase.
    pub(super) fn rate(&self) -> f64 {
        self.phases.first().map_or(0.0, |phase| 1.0 / phase.every.as_secs_f64())
    }

    /// Returns the name as it appears in arguments, with the rate if the case runs at several rates.
    pub(super) fn slug(&self) -> String {
        let name = self.name.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        if self.name == CaseName::Load { format!("{name}-{:.2}", self.rate()) } else { name }
    }
}

//! The cases, and what `decisions.md` D-24 wants of each.

use std::time::Duration;

use serde::Serialize;

use super::BenchArgs;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CaseName {
    /// Lives in open loop, all budgets for the driver alone
    Steady,
    /// The same while another client uses half of every budget
    Competitor,
    /// All lives at once
    Burst,
}

/// What a case does and what is expected of it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Case {
    pub(super) name: CaseName,
    /// Lives in all.
    pub(super) lives: u32,
    /// Between the beginnings of two lives.
    pub(super) every: Duration,
    /// The part of every budget that another client uses, 0 to 1.
    pub(super) eaten: f64,
    /// At most so many calls of a kind at once, as the sidecars' `--worker-threads`; `None`: no limit.
    pub(super) workers: Option<usize>,
    pub(super) targets: Targets,
}

/// Figures that must not be exceeded; `None`: not asked of this case.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Targets {
    /// Mutating calls a life, dry runs and throttled ones included, spare ones not.
    pub(super) mutating_per_life: Option<f64>,
    /// Spare calls a life.
    pub(super) spare_per_life: Option<f64>,
    /// Throttled part of the mutating calls, 0 to 1.
    pub(super) throttled: Option<f64>,
    /// Describe calls of all kinds a life.
    pub(super) describes_per_life: Option<f64>,
    /// Median of the added latency of every RPC, in seconds.
    pub(super) median_added: Option<f64>,
    /// 99th percentile of the added latency of every RPC, in seconds.
    pub(super) p99_added: Option<f64>,
    /// Peak resident memory of the driver, in bytes.
    pub(super) peak_memory: Option<u64>,
}

const MEMORY: Option<u64> = Some(64 << 20);

impl CaseName {
    pub(super) fn case(self, args: &BenchArgs) -> Case {
        let every = Duration::from_secs_f64(1.0 / args.rate.clamp(0.01, 1_000.0));
        let steady = Targets {
            mutating_per_life: Some(4.08),
            spare_per_life: Some(0.6),
            throttled: Some(0.02),
            describes_per_life: Some(0.8),
            median_added: Some(0.3),
            p99_added: Some(1.0),
            peak_memory: MEMORY,
        };
        let (lives, every, eaten, workers, targets) = match self {
            Self::Steady => (args.lives, every, 0.0, Some(100), steady),
            Self::Competitor => {
                let targets = Targets {
                    mutating_per_life: Some(4.3),
                    throttled: Some(0.05),
                    peak_memory: MEMORY,
                    ..Targets::default()
                };
                (args.lives, every, 0.5, Some(100), targets)
            }
            Self::Burst => {
                (args.burst, Duration::ZERO, 0.0, None, Targets { peak_memory: MEMORY, ..Targets::default() })
            }
        };
        Case { name: self, lives, every, eaten, workers, targets }
    }
}

impl Case {
    pub(super) fn all_at_once(&self) -> bool {
        self.every.is_zero()
    }

    /// The name as in file names.
    pub(super) fn slug(&self) -> &'static str {
        match self.name {
            CaseName::Steady => "steady",
            CaseName::Competitor => "competitor",
            CaseName::Burst => "burst",
        }
    }
}

//! Computes the results from the samples and the ledger.
//!
//! The added latency of a call is the caller's wait minus two parts. One is the time that EC2 needed for the API call
//! that did the work and for the transition that the call began. The other is the wait for a token that even an ideal
//! client would have had ([`super::ideal`]).

use std::collections::{BTreeMap, HashMap};

use ebs_testkit::control::Call;
use serde::Serialize;

use super::case::{Case, Judged, Phase};
use super::ideal::Bucket;
use super::life::{Rpc, Sample};
use super::process_stat::to_f64;

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct RpcFigures {
    pub(super) calls: usize,
    /// Number of calls that needed more than one attempt.
    pub(super) retried: usize,
    /// Seconds from the first attempt to the success.
    pub(super) whole_p50: f64,
    pub(super) whole_p99: f64,
    /// Seconds in addition to the time that EC2 and an ideal client need.
    pub(super) added_p50: f64,
    pub(super) added_p99: f64,
    pub(super) added_max: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct TrafficFigures {
    /// The number of calls and of throttled calls, by action.
    pub(super) calls: BTreeMap<String, (u64, u64)>,
    /// Number of mutating calls per volume lifecycle, without spare calls.
    pub(super) mutating_per_life: f64,
    pub(super) spare_per_life: f64,
    pub(super) describes_per_life: f64,
    /// Throttled fraction of the mutating calls, 0 to 1; `throttled_all` is the fraction of all calls.
    pub(super) throttled_mutating: f64,
    pub(super) throttled_all: f64,
}

/// Computes the results about the driver's calls to EC2 over this number of volume lifecycles.
pub(super) fn traffic(calls: &[Call], lives: u32) -> TrafficFigures {
    let mut by_action: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for call in calls {
        let entry = by_action.entry(call.action.clone()).or_default();
        entry.0 += 1;
        entry.1 += u64::from(is_throttle(call));
    }
    let sum = |reads: bool, pick: fn(&(u64, u64)) -> u64| -> f64 {
        let wanted = by_action.iter().filter(|(action, _)| action.starts_with("Describe") == reads);
        to_f64(wanted.map(|(_, counts)| pick(counts)).sum())
    };
    let (mutating, describes) = (sum(false, |c| c.0), sum(true, |c| c.0));
    let throttled = (sum(false, |c| c.1), sum(true, |c| c.1));
    let lives = f64::from(lives.max(1));
    let spare = to_f64(spare_calls(calls));
    TrafficFigures {
        mutating_per_life: (mutating - spare) / lives,
        spare_per_life: spare / lives,
        describes_per_life: describes / lives,
        throttled_mutating: throttled.0 / mutating.max(1.0),
        throttled_all: (throttled.0 + throttled.1) / (mutating + describes).max(1.0),
        calls: by_action,
    }
}

/// Counts the spare calls. A spare call repeats DetachVolume for an accepted detachment, and its error proves the
/// detachment. Only one per detachment is spare; further ones are ordinary calls. Uses only the ledger, whatever the
/// driver reports.
fn spare_calls(calls: &[Call]) -> u64 {
    let mut detached: HashMap<&str, bool> = HashMap::new();
    let mut spare = 0;
    for call in calls.iter().filter(|call| !call.dry_run) {
        let Some(volume) = call.parameters.get("VolumeId").map(String::as_str) else { continue };
        match (call.action.as_str(), detached.get(volume).copied()) {
            ("AttachVolume", _) if call.did_work() => drop(detached.remove(volume)),
            ("DetachVolume", Some(asked_again)) => {
                spare += u64::from(!asked_again);
                detached.insert(volume, true);
            }
            ("DetachVolume", None) if call.did_work() => drop(detached.insert(volume, false)),
            _ => {}
        }
    }
    spare
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct PhaseFigures {
    pub(super) name: &'static str,
    /// The targets for the phase; see [`Phase::judged`].
    pub(super) judged: Judged,
    pub(super) rpcs: BTreeMap<&'static str, RpcFigures>,
}

/// Computes the callers' latencies in each phase, as if EC2's buckets were full at the start of the phase.
pub(super) fn by_phase(case: &Case, samples: &[(usize, Sample)], calls: &[Call]) -> Vec<PhaseFigures> {
    let service = service_times(calls);
    let of_phase = |(index, phase): (usize, &Phase)| {
        let of_it: Vec<&Sample> = samples.iter().filter(|(of, _)| *of == index).map(|(_, sample)| sample).collect();
        let rpcs = Rpc::ALL.map(|rpc| (rpc.as_str(), latency(rpc, &of_it, &service, case.eaten)));
        PhaseFigures { name: phase.name, judged: phase.judged, rpcs: rpcs.into() }
    };
    case.phases.iter().enumerate().map(of_phase).collect()
}

type ServiceTimes<'a> = HashMap<(&'a str, &'a str), f64>;

/// Computes the callers' latencies of one kind of call.
fn latency(rpc: Rpc, samples: &[&Sample], service: &ServiceTimes<'_>, eaten: f64) -> RpcFigures {
    let mut mine: Vec<&Sample> = samples.iter().copied().filter(|sample| sample.rpc == rpc).collect();
    mine.sort_by(|a, b| a.began.total_cmp(&b.began));
    let arrivals: Vec<f64> = mine.iter().map(|sample| sample.began).collect();
    let waits = Bucket::new(rpc.action(), eaten).waits(&arrivals);
    let transition = to_f64(rpc.transition_ms()) / 1_000.0;
    let own = |sample: &Sample| service.get(&(rpc.action(), sample.key.as_str())).copied().unwrap_or(0.0) + transition;
    let mut added: Vec<f64> = mine.iter().zip(waits).map(|(s, wait)| s.took - own(s) - wait).collect();
    let mut whole: Vec<f64> = mine.iter().map(|sample| sample.took).collect();
    added.sort_by(f64::total_cmp);
    whole.sort_by(f64::total_cmp);
    RpcFigures {
        calls: mine.len(),
        retried: mine.iter().filter(|sample| sample.tries > 1).count(),
        whole_p50: percentile(&whole, 50),
        whole_p99: percentile(&whole, 99),
        added_p50: percentile(&added, 50),
        added_p99: percentile(&added, 99),
        added_max: added.last().copied().unwrap_or(0.0),
    }
}

/// Returns the duration of EC2's calls in seconds. A key is an action and a parameter value (volume id or CSI name).
fn service_times(calls: &[Call]) -> ServiceTimes<'_> {
    let mut times = HashMap::new();
    for call in calls.iter().filter(|call| call.did_work() && !call.is_read()) {
        for value in call.parameters.values() {
            times.insert((call.action.as_str(), value.as_str()), to_f64(call.ms) / 1_000.0);
        }
    }
    times
}

fn is_throttle(call: &Call) -> bool {
    call.outcome == "RequestLimitExceeded"
}

/// Returns the smallest value that is at least as large as `percent` percent of all values.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(rank).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(action: &str, outcome: &str, key: &str, ms: u64) -> Call {
        let parameters = [("VolumeId".to_owned(), key.to_owned())].into();
        Call { action: action.into(), parameters, outcome: outcome.into(), ms, ..Call::default() }
    }

    #[test]
    fn percentile_is_a_measured_value() {
        assert_eq!(percentile(&[1.0, 2.0, 3.0, 4.0], 50), 2.0);
        assert_eq!(percentile(&[1.0, 2.0, 3.0, 4.0], 99), 4.0);
        assert_eq!(percentile(&[], 50), 0.0);
    }

    #[test]
    fn throttled_calls_and_dry_runs_count_as_mutating_calls() {
        let mut dry = call("CreateVolume", "DryRunOperation", "a", 1);
        dry.dry_run = true;
        let calls = [
            dry,
            call("CreateVolume", "RequestLimitExceeded", "a", 1),
            call("CreateVolume", "ok", "a", 1),
            call("DescribeVolumes", "ok", "a", 1),
        ];
        let figures = traffic(&calls, 1);
        assert_eq!((figures.mutating_per_life, figures.describes_per_life), (3.0, 1.0));
        assert!((figures.throttled_mutating - 1.0 / 3.0).abs() < 1e-9);
        assert!((figures.throttled_all - 0.25).abs() < 1e-9);
    }

    /// Only the ledger determines which DetachVolume call is spare. Spare calls do not count as mutating calls.
    #[test]
    fn only_the_first_repeat_of_an_accepted_detach_is_spare() {
        let figures = |calls: &[Call]| {
            let figures = traffic(calls, 1);
            (figures.mutating_per_life, figures.spare_per_life)
        };
        let attach = || call("AttachVolume", "ok", "vol-1", 1);
        let detach = || call("DetachVolume", "ok", "vol-1", 1);
        let again = || call("DetachVolume", "IncorrectState", "vol-1", 1);
        let other = || call("DetachVolume", "IncorrectState", "vol-2", 1);
        assert_eq!(figures(&[attach(), detach(), again()]), (2.0, 1.0));
        assert_eq!(figures(&[attach(), detach(), again(), again()]), (3.0, 1.0), "the second is not spare");
        assert_eq!(figures(&[attach(), again(), detach()]), (3.0, 0.0), "nothing had been accepted");
        assert_eq!(figures(&[attach(), detach(), other()]), (3.0, 0.0), "another volume");
        assert_eq!(figures(&[detach(), again(), attach(), detach(), again()]), (3.0, 2.0), "one for each detachment");
        assert_eq!(figures(&[detach(), attach(), again()]), (3.0, 0.0), "the volume was attached anew");
    }

    /// Even an ideal client waits for tokens.
    #[test]
    fn added_latency_excludes_ec2_time_and_the_ideal_client_wait() {
        let sample =
            |key: &str, began: f64, took: f64| Sample { rpc: Rpc::Publish, key: key.into(), began, took, tries: 1 };
        let calls = [call("AttachVolume", "ok", "vol-1", 400)];
        let latency = |samples: &[Sample], calls: &[Call]| {
            latency(Rpc::Publish, &samples.iter().collect::<Vec<_>>(), &service_times(calls), 0.0)
        };
        let figures = latency(&[sample("vol-1", 0.0, 3.0)], &calls);
        assert!((figures.added_p50 - 0.1).abs() < 1e-9);
        // With any client, the fifty-first concurrent call waits 0.2 s for its token.
        let many: Vec<Sample> = (0..51).map(|_| sample("x", 0.0, 2.7)).collect();
        let figures = latency(&many, &[]);
        assert!((figures.added_p50 - 0.2).abs() < 1e-9 && (figures.added_max - 0.2).abs() < 1e-9);
    }
}

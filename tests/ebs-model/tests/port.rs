//! The model test over the port: no SDK, no gRPC, on virtual time.
//!
//! `EBS_MODEL_SEED=n` runs only seed `n` and prints every call; `EBS_MODEL_SEEDS=n` runs `n` seeds instead of the
//! default number.

use std::fmt::Write as _;
use std::ops::Range;

use clap::ValueEnum as _;
use ebs_model::{Failure, Options, Planted, run_on_port, run_seeds};

const SEEDS: u64 = 10_000;
/// The number of seeds within which every planted bug must be found.
const SEEDS_FOR_A_BUG: u64 = 2000;
/// Number of lines of the trace in a failure message. `EBS_MODEL_SEED` prints the whole trace.
const LINES: usize = 60;
const MOST_FAILURES: usize = 12;

/// Runs the seeds on all cores until there are enough failures. Returns the failures, lowest seed first.
fn failures(seeds: Range<u64>, options: &Options, enough: impl Fn(&[Failure]) -> bool + Sync) -> Vec<Failure> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    run_seeds(threads, seeds, enough, |seed| run_on_port(seed, options).err()).0
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|n| n.parse().expect("a number"))
}

fn report(failure: &Failure) -> String {
    let mut text = format!("seed {}: {}\n", failure.seed, failure.rule);
    let skipped = failure.trace.len().saturating_sub(LINES);
    if skipped > 0 {
        let _ = writeln!(text, "  ({skipped} lines before)");
    }
    for line in &failure.trace[skipped..] {
        let _ = writeln!(text, "  {line}");
    }
    let _ = writeln!(text, "again: EBS_MODEL_SEED={} cargo test --workspace --test port", failure.seed);
    text
}

/// The rules, in addition to those in the description of the crate:
///
/// - After a final code of CreateVolume or CreateSnapshot, nothing is left behind, even if EC2 rejects a repeated call
///   for another reason, and even if a standby process returned the code.
/// - The driver adopts, changes, attaches and deletes no foreign object. A request with a used name and other content
///   changes nothing.
/// - When no caller is waiting, a driver begins no mutation. At most one ModifyVolume per volume is in flight.
/// - A snapshot is ready only with its lock and fast restores. An expansion raises the IOPS by the ratio in the tags.
/// - After the faults, every request ends within half an hour, with sidecars that disconnect after 10 or 15 s.
/// - A success that a new leader reports is true, whatever the old leader has just changed.
#[test]
fn every_model_rule_holds_in_ten_thousand_runs() {
    if let Some(seed) = number("EBS_MODEL_SEED") {
        let failed = failures(seed..seed + 1, &Options { verbose: true, ..Options::default() }, |_| false);
        if let Some(failure) = failed.first() {
            panic!("{failure}");
        }
        return;
    }
    let seeds = number("EBS_MODEL_SEEDS").unwrap_or(SEEDS);
    let failed = failures(0..seeds, &Options::default(), |failed| failed.len() >= MOST_FAILURES);
    if let Some(first) = failed.first() {
        let others: String = failed[1..].iter().map(|f| format!("seed {}: {}\n", f.seed, f.rule)).collect();
        panic!("{}{others}", report(first));
    }
}

/// For each planted bug, the words of a violated rule that a failure must contain.
const REPORTED_AS: &[(Planted, &str)] = &[
    (Planted::NothingRemembered, "is still unfinished"),
    (Planted::DeleteForgotten, "but EC2 still has it"),
    (Planted::SnapshotDeleteForgotten, "but EC2 still has it"),
    (Planted::LockForgotten, "reported ready without its lock"),
    (Planted::FastRestoresForgotten, "reported ready without its lock or fast restores"),
    (Planted::DetachingIsDetached, "was reported detached"),
    (Planted::DetachUnasked, "was published to"),
    (Planted::DeleteUnasked, "is lost: vol-"),
    (Planted::DeleteByName, "a foreign volume was changed"),
    (Planted::DeleteByName, "a foreign snapshot was deleted"),
    (Planted::DeleteByName, "is lost: snap-"),
    (Planted::WrongDevice, "was published to"),
    (Planted::SameDevice, "has assigned it to"),
    (Planted::TokenForEachCall, "has several volumes"),
    (Planted::IdChanges, "changed from vol-"),
    (Planted::IdChanges, "changed from snap-"),
    (Planted::CreateTwice, "creates vol-"),
    (Planted::SnapshotTwice, "everything was deleted, but "),
    (Planted::ZoneIgnored, "the zone was not requested"),
    (Planted::SizeCut, "the volume is smaller than requested"),
    (Planted::SharingForgotten, "multi-attach differs from the request"),
    (Planted::TypeForgotten, "the type differs from the request"),
    (Planted::SourceForgotten, "the source differs from the request"),
    (Planted::EncryptionForgotten, "the volume is not encrypted"),
    (Planted::CreatingIsUsable, "the volume is not available yet"),
    (Planted::UnclearIsRefused, "without a reason: "),
    (Planted::TagsDropped, "has lost its tag team"),
    (Planted::SnapshotTagsDropped, "has lost its tag ebs.csi.aws.com/cluster"),
    (Planted::NameDropped, "no client requested"),
    (Planted::OwnershipUnseen, "a foreign volume was adopted"),
    (Planted::VolumesUnseen, "failed with a final error"),
    (Planted::SnapshotsUnseen, "creates snap-"),
    (Planted::ReadyTooSoon, "reported ready but is not"),
    (Planted::SizeAhead, "the size in the reply is not the volume's"),
    (Planted::LateBeyondBelief, "after a successful detach"),
    (Planted::WorkWithoutCallers, "although no client waits"),
    (Planted::BeyondThePolicies, "the run panicked: calls that no policy"),
    (Planted::ContentIgnored, "although the existing volume has another content source"),
    (Planted::ContentIgnored, "although the existing snapshot has another source"),
    (Planted::ContentIgnored, "the snapshot is foreign"),
    (Planted::AnswersRemembered, "which was deleted"),
    (Planted::UnknownIsSuccess, "which EC2 does not have"),
    (Planted::UnknownIsFinal, "CreateVolume of pvc-"),
    (Planted::UnknownIsFinal, "CreateSnapshot of snapshot-"),
    (Planted::UnknownIsFinal, "DeleteVolume of vol-"),
    (Planted::UnknownIsFinal, "ControllerPublishVolume of vol-"),
    (Planted::UnknownIsFinal, "ControllerUnpublishVolume of vol-"),
    (Planted::UnknownIsFinal, "ControllerExpandVolume of vol-"),
    (Planted::UnknownIsFinal, "ControllerModifyVolume of vol-"),
    (Planted::WrongZone, "the zone in the reply is not the volume's"),
    (Planted::WrongSize, "is reported with"),
    (Planted::WrongSize, "the size in the reply is not the snapshot's"),
    (Planted::WrongSource, "the source differs from the request"),
    (Planted::ModifyBeside, "sends two concurrent ModifyVolume"),
    (Planted::ChangedBack, "has lost the"),
    (Planted::ClassTagsForgotten, "its tag tier differs from"),
    (Planted::TagsKept, "its tag extra differs from"),
    (Planted::RefusedIsTagged, "was rejected as infeasible"),
    (Planted::RatioUnseen, "but its tags require"),
    (Planted::ClassGuessed, "was modified, but its"),
    (Planted::ClockForgotten, "is still unfinished"),
    (Planted::IopsGuessed, "the IOPS differ from the request"),
    (Planted::ResizerTermUnseen, "was modified, but "),
];

/// Every rule is violated by a planted bug. A call that no policy allows makes the run panic, and the panic is reported
/// with its seed.
#[test]
fn every_planted_bug_violates_its_expected_rules() {
    let mut unseen = Vec::new();
    for bug in Planted::value_variants() {
        assert!(REPORTED_AS.iter().any(|(planted, _)| planted == bug), "{bug:?} has no expected rule");
    }
    for &(bug, words) in REPORTED_AS {
        let options = Options { planted: Some(bug), ..Options::default() };
        let is_reported = |failed: &[Failure]| failed.iter().any(|failure| failure.rule.contains(words));
        let failed = failures(0..SEEDS_FOR_A_BUG, &options, is_reported);
        if !is_reported(&failed) {
            let rules: Vec<String> =
                failed.into_iter().take(MOST_FAILURES).map(|f| format!("seed {}: {}", f.seed, f.rule)).collect();
            unseen.push(format!("{bug:?} is to be reported as {words:?}, not as {rules:#?}"));
        }
    }
    assert!(unseen.is_empty(), "not found within {SEEDS_FOR_A_BUG} seeds each:\n{}", unseen.join("\n"));
}

/// A developer can repeat a failing run with its seed.
#[test]
fn seed_gives_the_same_trace_every_time() {
    let options = Options { planted: Some(Planted::UnclearIsRefused), ..Options::default() };
    let failed = failures(0..SEEDS_FOR_A_BUG, &options, |failed| !failed.is_empty());
    let failure = failed.first().expect("the planted bug is found");
    let again = failures(failure.seed..failure.seed + 1, &options, |_| false);
    let again = again.first().expect("the same seed fails again");
    assert_eq!((&again.rule, &again.trace), (&failure.rule, &failure.trace));
}

//! A short run of the node torture, and the proof that it finds bugs. Needs root.
//!
//! `make torture CYCLES=1000` or `SECONDS=600` runs longer; `target/debug/ebs-torture --seed N` repeats one cycle.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use clap::ValueEnum as _;
use ebs_testkit::loop_device::unused_volume_id;
use ebs_testkit::mount_namespace::in_mount_namespace;
use ebs_testkit::run_dir::OwnDir;
use ebs_torture::cut_disk::{Attached, CutDisks};
use ebs_torture::{Counts, Exception, Failure, Options, Planted, STAGED, run_seeds};

const CYCLES: u64 = 100;
/// Time limit of the run, which takes less than a minute on an idle machine. A busy machine runs fewer cycles.
const BOUND: Duration = Duration::from_secs(240);
/// The number of cycles within which every planted bug must be found.
const CYCLES_FOR_A_BUG: u64 = 400;
/// Time limit of the search for one bug, which takes at most a minute on an idle machine. On two cores with a load of
/// 40, one cycle takes twenty seconds.
const BOUND_FOR_A_BUG: Duration = Duration::from_secs(300);
const THREADS: u64 = 2;

fn options(planted: Option<Planted>) -> Options {
    Options { program: env!("CARGO_BIN_EXE_ebs-torture").into(), planted }
}

/// Runs cycles until all are done, one has failed, or the time is over. Returns the failures, the number of cycles, and
/// the events. In a search for a planted bug, only a failure that the bug explains counts.
fn failures(cycles: u64, bound: Duration, planted: Option<Planted>) -> (Vec<Failure>, u64, Counts) {
    let found = Mutex::new((Vec::new(), Counts::default()));
    let first = planted.map_or(0, first_seed);
    let cycles = run_seeds(first, cycles, (THREADS, bound), &options(planted), |outcome| {
        let mut found = found.lock().expect("no cycle panics");
        found.1.join(&outcome.counts);
        found.0.extend(outcome.failure.filter(|failure| planted.is_none_or(|bug| is_of(failure, bug))));
        found.0.is_empty()
    });
    let (failed, counts) = found.into_inner().expect("no cycle panics");
    (failed, cycles, counts)
}

/// No acknowledged data is lost, no disk with data is formatted, and nothing is left behind.
#[test]
fn acknowledged_data_survives_kills_and_power_cuts() {
    let (failed, cycles, counts) = failures(CYCLES, BOUND, None);
    let traces: Vec<String> = failed.iter().map(ToString::to_string).collect();
    assert!(failed.is_empty(), "{}", traces.join("\n"));
    assert!(cycles >= 2, "only {cycles} cycles in {BOUND:?}");
    // A fault that never happened would prove nothing.
    if cycles == CYCLES {
        for what in ["services killed", "nodes that lost power", "disks that lost unflushed data", "acknowledged files"]
        {
            assert!(counts.of(what) > 0, "no {what} in {cycles} cycles:\n{counts}");
        }
        assert!(counts.of(STAGED) > counts.of(Exception::FormatCut.as_str()), "{counts}");
    }
}

/// Returns the first seed of a search for a bug. If no early seed finds the bug, the search starts close to one that
/// does, so that a busy machine finds the bug within the time limit.
fn first_seed(bug: Planted) -> u64 {
    match bug {
        Planted::RecordOutlivesRawPublish => 60,
        Planted::RecordOutlivesRefusal => 36,
        _ => 0,
    }
}

fn rules_against(bug: Planted) -> &'static [&'static str] {
    match bug {
        Planted::RecordOutlivesRefusal | Planted::RecordOutlivesRawPublish | Planted::ForceWithoutRecord => &["raw"],
        Planted::MountStaysBehind => &["mounts were left behind", "mount directories were left behind"],
        Planted::RecordNotKept => &["requires manual repair"],
        Planted::UnstageIgnoresUses => &["still published", "the disk is still open"],
        Planted::GrowthDecidesAccess => &["a final code", "a failed growth"],
        Planted::FrozenStaysFrozen => &["frozen file system"],
        Planted::CopyHoldsVolume => &["an idle copy"],
        Planted::FlushLeftOut => &["data on the raw device is lost"],
        Planted::JournalErrorIgnored => &["whose errors e2fsck has not repaired", "although e2fsck -p repairs"],
        Planted::ReadOnlyPublished => &["was published for writing"],
    }
}

fn is_of(failure: &Failure, bug: Planted) -> bool {
    rules_against(bug).iter().any(|rule| failure.rule.contains(rule))
}

#[test]
fn torture_test_finds_each_planted_bug() {
    for &bug in Planted::value_variants() {
        let (failed, cycles, _) = failures(CYCLES_FOR_A_BUG, BOUND_FOR_A_BUG, Some(bug));
        assert!(!failed.is_empty(), "{bug:?} is not found in {cycles} cycles");
    }
}

/// Pages of a pattern, aligned for direct I/O.
struct Aligned(Vec<u8>);

impl Aligned {
    fn of(byte: u8) -> Self {
        Self(vec![byte; 3 * 4096])
    }

    fn page(&self) -> &[u8] {
        let from = self.0.as_ptr().align_offset(4096);
        &self.0[from..from + 4096]
    }
}

async fn disks(place: &Path) -> CutDisks {
    CutDisks::start(Path::new(env!("CARGO_BIN_EXE_ebs-torture")), place).await.expect("the disk server")
}

/// A flush of the loop device flushes the disk. Data that was written after the flush does not survive every cut.
#[test]
fn only_flushed_data_survives_every_power_cut() {
    in_mount_namespace(|| async {
        let place = OwnDir::new("cut-").expect("a directory");
        let (mut disks, volume) = (disks(place.path()).await, unused_volume_id());
        disks.add(&volume, 1 << 20, true).expect("a disk");
        let mut survived = BTreeSet::new();
        for cut in 1..=24 {
            let attached = Attached::new(disks.backing(&volume, 0)).await.expect("a loop device");
            let open = |flags| {
                File::options().read(true).write(true).custom_flags(flags).open(attached.path()).expect("the device")
            };
            let (flushed, written) = (Aligned::of(cut), Aligned::of(100 + cut));
            let device = open(0);
            device.write_all_at(flushed.page(), 0).expect("a write");
            device.sync_all().expect("a flush");
            let (flushes, _) = disks.flushes(&volume).expect("the number of flushes");
            assert!(flushes >= u64::from(cut), "{flushes} flushes after {cut} of the loop device");
            open(libc::O_DIRECT).write_all_at(written.page(), 8192).expect("a write past the cache");
            assert_eq!(
                disks.flushes(&volume).expect("the number of flushes"),
                (flushes, 1),
                "it is written and not flushed"
            );
            disks.cut(&volume, u64::from(cut)).expect("a power cut");
            device.sync_all().expect_err("no disk flushes without power");
            drop(device);
            attached.detach().await.expect("nobody holds it");
            disks.power_on(&volume).expect("power");
            let attached = Attached::new(disks.backing(&volume, 1)).await.expect("a loop device");
            let again = File::open(attached.path()).expect("the device");
            let mut page = vec![0; 4096];
            again.read_exact_at(&mut page, 0).expect("a read");
            assert_eq!(page, flushed.page(), "cut {cut} has taken what was flushed");
            again.read_exact_at(&mut page, 8192).expect("a read");
            survived.insert(page == written.page());
            drop(again);
            attached.detach().await.expect("nobody holds it");
        }
        assert_eq!(survived.len(), 2, "of what was not flushed some is lost and some is not: {survived:?}");
    });
}

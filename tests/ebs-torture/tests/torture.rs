//! A short run of the node torture, the proof that it finds bugs, and the proof that a killed run leaves nothing
//! behind. Needs root.
//!
//! `make torture CYCLES=1000` or `SECONDS=600` runs longer; `target/debug/ebs-torture --seed N` repeats one cycle.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use ebs_ec2::SplitMix64;
use ebs_testkit::content;
use ebs_testkit::loop_device::unused_volume_id;
use ebs_testkit::mount_namespace::in_mount_namespace;
use ebs_testkit::process::{Process, ProcessSpec, tool};
use ebs_testkit::run_dir::OwnDir;
use ebs_torture::cut_disk::{Attached, CutDisks};
use ebs_torture::{Counts, Exception, Failure, Options, Planted, STAGED, run};
use rustix::mount::{MountFlags, UnmountFlags};
use tokio::time::Instant;

/// How many cycles `make test` runs.
const CYCLES: u64 = 100;
/// It takes less than a minute on an idle machine. A busy machine runs fewer cycles.
const BOUND: Duration = Duration::from_secs(240);
/// Every planted bug must be found within this number of cycles.
const CYCLES_FOR_A_BUG: u64 = 400;
/// It takes a minute at most on an idle machine. On two cores with a load of 40, one cycle takes twenty seconds.
const BOUND_FOR_A_BUG: Duration = Duration::from_secs(300);
const THREADS: usize = 2;
/// For the search of a bug that needs a disk with a reused number: the more threads have disks, the sooner a number is
/// reused.
const THREADS_FOR_FOREIGN_DISKS: usize = 8;

/// Locked for writing while a planted bug formats the disk that has a device name now, whatever it is. No other test
/// may have a disk then.
static DISKS: RwLock<()> = RwLock::new(());

/// Locks for a test with its own disks.
fn with_disks() -> RwLockReadGuard<'static, ()> {
    DISKS.read().unwrap_or_else(PoisonError::into_inner)
}

fn options(planted: Option<Planted>) -> Options {
    Options { program: env!("CARGO_BIN_EXE_ebs-torture").into(), planted }
}

/// Runs cycles until all are done, one has failed, or the time is over. Returns the failures, the number of cycles, and
/// the events. In a search for a planted bug, only a failure that the bug explains counts.
fn failures(cycles: u64, bound: Duration, planted: Option<Planted>) -> (Vec<Failure>, u64, Counts) {
    let first = planted.map_or(0, first_seed);
    let (next, failed, began) = (AtomicU64::new(first), Mutex::new(Vec::new()), Instant::now());
    let counts = Mutex::new(Counts::default());
    let threads = if planted == Some(Planted::IdentityNotReadAgain) { THREADS_FOR_FOREIGN_DISKS } else { THREADS };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while failed.lock().expect("no cycle panics").is_empty() && began.elapsed() < bound {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + cycles {
                        break;
                    }
                    let outcome = run(seed, &options(planted));
                    counts.lock().expect("no cycle panics").join(&outcome.counts);
                    let found = outcome.failure.filter(|failure| planted.is_none_or(|bug| is_of(failure, bug)));
                    failed.lock().expect("no cycle panics").extend(found);
                }
            });
        }
    });
    let counts = counts.into_inner().expect("no cycle panics");
    (failed.into_inner().expect("no cycle panics"), next.into_inner().min(first + cycles) - first, counts)
}

/// Nothing acknowledged is lost, nothing with data is formatted, and nothing is left behind.
#[test]
fn nodes_with_kills_and_power_cuts_keep_acknowledged_data() {
    let own = with_disks();
    let (failed, cycles, counts) = failures(CYCLES, BOUND, None);
    drop(own);
    let traces: Vec<String> = failed.iter().map(ToString::to_string).collect();
    assert!(failed.is_empty(), "{}", traces.join("\n"));
    assert!(cycles >= 2, "only {cycles} cycles in {BOUND:?}");
    // A fault that never happens proves nothing.
    if cycles == CYCLES {
        for what in ["services killed", "nodes without power", "disks that lost unflushed data", "acknowledged files"] {
            assert!(counts.of(what) > 0, "no {what} in {cycles} cycles:\n{counts}");
        }
        assert!(counts.of(STAGED) > counts.of(Exception::FormatCut.as_str()), "{counts}");
    }
}

/// Returns the first seed of a search for a bug. Bugs that the first seeds do not find start where they were found
/// before, so that a busy machine finds them within the time limit.
fn first_seed(bug: Planted) -> u64 {
    match bug {
        Planted::RecordOutlivesRawPublish => 60,
        Planted::RecordOutlivesRefusal => 36,
        Planted::IdentityNotReadAgain => 24,
        _ => 0,
    }
}

/// Returns the rules that each planted bug violates.
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
        // The wrong disk was mounted, bound or formatted. It does not count that the service cannot find a disk that
        // was attached after its start.
        Planted::IdentityNotReadAgain => &["another disk", "formatted over", "data is lost", "raw device is lost"],
    }
}

/// Returns whether the bug explains a failure.
fn is_of(failure: &Failure, bug: Planted) -> bool {
    rules_against(bug).iter().any(|rule| failure.rule.contains(rule))
}

/// One bug needs hundreds of cycles and is left to `ebs-torture --planted RecordNotKept --cycles 1000`.
#[test]
fn each_planted_bug_is_found() {
    for bug in Planted::ALL.into_iter().filter(|bug| *bug != Planted::RecordNotKept) {
        let alone =
            (bug == Planted::IdentityNotReadAgain).then(|| DISKS.write().unwrap_or_else(PoisonError::into_inner));
        let (failed, cycles, _) = failures(CYCLES_FOR_A_BUG, BOUND_FOR_A_BUG, Some(bug));
        drop(alone);
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

/// A flush of the loop device is a flush of the disk. Data that was written after it does not survive every cut.
#[test]
fn only_flushed_data_survives_every_power_cut() {
    let _own = with_disks();
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

/// The file system returns errors, and all synced data is intact afterwards.
#[test]
fn file_system_without_power_fails_and_keeps_synced_data() {
    let _own = with_disks();
    in_mount_namespace(|| async {
        let place = OwnDir::new("cut-").expect("a directory");
        let mut disks = disks(place.path()).await;
        let at = place.path().join("mnt");
        std::fs::create_dir(&at).expect("a directory");
        let mount = |device: &Path, fs: &str| rustix::mount::mount(device, &at, fs, MountFlags::empty(), None);
        for (fs, mkfs, bytes) in [("ext4", "/usr/sbin/mkfs.ext4", 16 << 20), ("xfs", "/usr/sbin/mkfs.xfs", 304 << 20)] {
            let volume = unused_volume_id();
            disks.add(&volume, bytes, true).expect("a disk");
            let attached = Attached::new(disks.backing(&volume, 0)).await.expect("a loop device");
            tool(mkfs, &["-q", &attached.path().to_string_lossy()], BOUND).await.expect(mkfs);
            mount(attached.path(), fs).expect("a mount");
            let hash = content::write_file(&at.join("synced"), 7, 100_000).expect("a synced file");
            std::fs::write(at.join("written"), vec![1; 100_000]).expect("a file");
            disks.cut(&volume, 3).expect("a power cut");
            content::write_file(&at.join("later"), 8, 100_000).expect_err("no file is synced without power");
            let began = Instant::now();
            rustix::mount::unmount(&at, UnmountFlags::empty()).expect("unmounted");
            assert!(began.elapsed() < BOUND, "{fs}: unmounted only after {:?}", began.elapsed());
            attached.detach().await.expect("nobody holds it");
            disks.power_on(&volume).expect("power");
            let attached = Attached::new(disks.backing(&volume, 0)).await.expect("a loop device");
            mount(attached.path(), fs).expect("a mount");
            assert_eq!(content::hash_file(&at.join("synced")).expect("the file"), hash, "{fs}");
            rustix::mount::unmount(&at, UnmountFlags::empty()).expect("unmounted");
            attached.detach().await.expect("nobody holds it");
        }
    });
}

/// Returns processes and mounts that name this directory.
fn left_of(place: &Path) -> Vec<String> {
    let mut left = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(&*place.to_string_lossy()) {
            left.push(line);
        }
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("/proc/self/mounts");
    left.extend(mounts.lines().filter(|line| line.contains(&*place.to_string_lossy())).map(str::to_owned));
    left
}

/// Returns the disks of a process, and whether each has autoclear set.
fn devices_of(process: u32) -> Vec<(String, bool)> {
    let volumes = format!("vol-0{process:08x}");
    let of = |at: &Path, what: &str| std::fs::read_to_string(at.join("loop").join(what)).unwrap_or_default();
    let all = std::fs::read_dir("/sys/block").expect("/sys/block").flatten().map(|entry| entry.path());
    let of_it = all.filter(|at| of(at, "backing_file").contains(&volumes));
    of_it.map(|at| (at.display().to_string(), of(&at, "autoclear").trim() == "1")).collect()
}

/// The kill can happen at any moment. The next run detaches a remaining loop device.
#[test]
fn killed_run_leaves_no_process_no_mount_and_no_device() {
    let _own = with_disks();
    let place = tempfile::tempdir().expect("a directory");
    let at = place.path().canonicalize().expect("its path");
    let log = tempfile::NamedTempFile::new().expect("a file");
    let start = |args: &[&str]| {
        let spec = ProcessSpec {
            name: "the torture".to_owned(),
            program: env!("CARGO_BIN_EXE_ebs-torture").into(),
            args: args.iter().map(Into::into).collect(),
            env: [("TMPDIR".to_owned(), at.to_string_lossy().into_owned())].into(),
            log: log.path().to_owned(),
        };
        Process::spawn(spec).expect("the torture starts")
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut rng = SplitMix64::new(11);
        let mut killed = Vec::new();
        for _ in 0..4 {
            let mut torture = start(&["--cycles", "1000000"]);
            let process = torture.pid();
            until(|| !devices_of(process).is_empty(), "a disk").await;
            tokio::time::sleep(Duration::from_millis(rng.below(1500))).await;
            torture.kill().expect("it is killed");
            until(|| left_of(&at).is_empty(), "no process and no mount to be left").await;
            // Except one that it was attaching at that moment.
            until(|| devices_of(process).iter().all(|(_, goes)| !goes), "the disks to go by themselves").await;
            killed.push(process);
        }
        let mut torture = start(&["--cycles", "1", "--seed", "3"]);
        let ended = torture.wait(BOUND).await.expect("it ends");
        assert!(ended.success(), "{}", torture.log_tail(60));
        let left: Vec<_> = std::fs::read_dir(&at).expect("the directory").flatten().map(|entry| entry.path()).collect();
        assert!(left.is_empty(), "{left:?}");
        until(|| killed.iter().all(|process| devices_of(*process).is_empty()), "the next run to clear all disks").await;
    });
}

async fn until(holds: impl Fn() -> bool, what: &str) {
    let deadline = Instant::now() + BOUND;
    while !holds() {
        assert!(Instant::now() < deadline, "waited for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

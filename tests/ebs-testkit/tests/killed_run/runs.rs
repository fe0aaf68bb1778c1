//! After a test run was killed, the next run removes its leftovers and does not touch a run that is alive. Needs root,
//! because the runs create loop devices and mounts.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebs_ec2::VolumeId;
use ebs_testkit::leftovers::Leftovers;
use ebs_testkit::loop_device::LoopDevice;
use ebs_testkit::mount_namespace::in_mount_namespace;
use ebs_testkit::process::{Process, ProcessSpec};
use ebs_testkit::record::ProcessRecord;
use ebs_testkit::run_dir::{OwnDir, RunDir};

const BOUND: Duration = Duration::from_secs(120);
/// Environment variable that marks a process as one of these runs. Its value is the name of the run's volume.
const RUN: &str = "EBS_TESTKIT_RUN";
const READY: &str = "everything is there";

/// The objects of a run: a device, its by-id link, a mount and a child process.
struct Things {
    device: LoopDevice,
    link: PathBuf,
    mount: PathBuf,
    child: Process,
}

impl Things {
    fn new(name: &str) -> Self {
        let volume = VolumeId::parse(&format!("vol-0run{name}{}", std::process::id())).unwrap();
        let device = LoopDevice::new(&volume, 1 << 20).unwrap();
        let by_id = Path::new("/dev/disk/by-id");
        fs::create_dir_all(by_id).unwrap();
        let link = by_id.join(format!("nvme-Amazon_Elastic_Block_Store_{}", volume.serial()));
        symlink(format!("../../{}", device.name()), &link).unwrap();
        let mount = device.directory().join("mount");
        fs::create_dir(&mount).unwrap();
        rustix::mount::mount("none", &mount, "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
        let child = sleeper(device.directory());
        RunDir::current().unwrap().record_process(&child.record().unwrap()).unwrap();
        Self { device, link, mount, child }
    }
}

/// The other tests start this test as a separate run, in which `RUN` is set and the test never ends on its own.
#[test]
fn run_that_ends_by_itself_leaves_nothing() {
    if let Ok(name) = std::env::var(RUN) {
        let _things = Things::new(&name);
        writeln!(std::io::stderr(), "{READY}").unwrap();
        loop {
            std::thread::park();
        }
    }
    in_mount_namespace(|| async {
        let Things { device, link, mount, mut child } = Things::new("ends");
        let dir = device.directory().to_owned();
        assert_eq!(Leftovers::below(&dir).unwrap().links, std::slice::from_ref(&link));
        child.kill().unwrap();
        rustix::mount::unmount(&mount, rustix::mount::UnmountFlags::empty()).unwrap();
        fs::remove_file(link).unwrap();
        drop(device);
        assert!(!dir.exists());
        gone(&dir).await;
    });
}

fn sleeper(dir: &Path) -> Process {
    Process::spawn(ProcessSpec {
        name: "sleeper".to_owned(),
        program: PathBuf::from("/usr/bin/sleep"),
        args: vec!["3600".into()],
        env: BTreeMap::new(),
        log: dir.join("log"),
    })
    .unwrap()
}

/// Waits until nothing is left below a directory. A device stays until its last user has closed it.
async fn gone(dir: &Path) {
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    let empty = async {
        while !Leftovers::below(dir).unwrap().is_empty() {
            tick.tick().await;
        }
    };
    let within = tokio::time::timeout(BOUND, empty).await;
    within.unwrap_or_else(|_| panic!("left: {}", Leftovers::below(dir).unwrap()));
}

/// A run in a separate process. All runs share one directory for temporary files.
struct Run {
    process: Process,
    left: Leftovers,
}

impl Run {
    async fn start(name: &str, temporary: &Path, log: &Path) -> Self {
        let env = [(RUN, name), ("TMPDIR", temporary.to_str().unwrap())];
        let mut process = Process::spawn(ProcessSpec {
            name: name.to_owned(),
            program: std::env::current_exe().unwrap(),
            args: ["--exact", "runs::run_that_ends_by_itself_leaves_nothing", "--nocapture"].map(Into::into).into(),
            env: env.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            log: log.join(format!("{name}.log")),
        })
        .unwrap();
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        let ready = async {
            while !process.output().unwrap().contains(READY) {
                assert_eq!(process.ended().unwrap(), None, "{}", process.output().unwrap());
                tick.tick().await;
            }
        };
        tokio::time::timeout(BOUND, ready).await.expect("the run gets to work");
        let pid = process.pid().to_string();
        let all = Leftovers::below(temporary).unwrap();
        let mine = |path: &Path| path.to_string_lossy().contains(&format!("run{name}{pid}"));
        let loops: Vec<_> = all.loops.into_iter().filter(|left| mine(&left.backing)).collect();
        let dir = loops[0].backing.parent().unwrap().to_owned();
        let mounts = all.mounts.into_iter().filter(|mount| mount.starts_with(&dir)).collect();
        let links = all.links.into_iter().filter(|link| mine(link)).collect();
        Self { process, left: Leftovers { mounts, loops, links } }
    }

    fn there(&self) -> Leftovers {
        let dir = self.left.loops[0].backing.parent().unwrap();
        Leftovers::below(dir).unwrap()
    }
}

/// Covers processes, mounts, loop devices, links by id and files. The next run reports what it has removed.
#[test]
fn next_run_removes_only_leftovers_of_killed_runs() {
    in_mount_namespace(|| async {
        let own = OwnDir::new("ebs-runs-").unwrap();
        let temporary = own.path().join("tmp");
        fs::create_dir(&temporary).unwrap();
        let mut killed = Run::start("killed", &temporary, own.path()).await;
        let alive = Run::start("alive", &temporary, own.path()).await;
        assert_eq!((killed.left.mounts.len(), killed.left.loops.len(), killed.left.links.len()), (1, 1, 1));
        killed.process.kill().unwrap();
        assert_eq!(killed.there(), killed.left, "a killed run removes nothing itself");

        let swept = RunDir::sweep(&temporary);
        assert_eq!(swept.len(), 1, "{swept:?}");
        assert!(swept[0].trouble.is_none(), "{}", swept[0]);
        let device = killed.left.loops[0].device.display().to_string();
        assert!(swept[0].to_string().contains(&device), "{}", swept[0]);
        gone(killed.left.loops[0].backing.parent().unwrap()).await;
        assert!(!killed.left.loops[0].backing.exists() && !swept[0].dir.exists(), "its files are there");
        assert_eq!(alive.there(), alive.left, "what lives lost something");
        assert!(RunDir::sweep(&temporary).is_empty(), "there was more");

        let (left, mut process) = (alive.left, alive.process);
        process.kill().unwrap();
        let swept = RunDir::sweep(&temporary);
        assert!(swept.len() == 1 && swept[0].trouble.is_none(), "{swept:?}");
        assert!(!left.loops[0].backing.exists());
        gone(&temporary).await;
    });
}

#[tokio::test]
async fn next_run_ends_recorded_processes_but_not_reused_ids() {
    let own = OwnDir::new("ebs-runs-").unwrap();
    let (mut outlives, stranger) = (sleeper(own.path()), sleeper(own.path()));
    let other = ProcessRecord { start_ticks: 1, ..stranger.record().unwrap() };
    let run = RunDir::claim_in(own.path()).unwrap();
    for record in [&outlives.record().unwrap(), &other] {
        run.record_process(record).unwrap();
    }
    let dir = run.path().to_owned();
    assert!(RunDir::sweep(own.path()).is_empty(), "the run still holds its directory");
    assert_eq!(outlives.ended().unwrap(), None);
    // The state after a kill: the lock is free, and nothing was removed.
    let kept = fs::read(dir.join("processes")).unwrap();
    drop(run);
    assert!(!dir.exists(), "a run without leftovers removes its directory");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("processes"), kept).unwrap();

    let swept = RunDir::sweep(own.path());
    assert_eq!(swept.len(), 1, "{swept:?}");
    assert_eq!(swept[0].removed.len(), 1, "{}", swept[0]);
    assert!(outlives.wait(BOUND).await.unwrap().code().is_none(), "it was killed");
    assert!(stranger.record().unwrap().is_running());
    assert!(!dir.exists());
}

#[test]
fn sweep_does_not_remove_other_directories() {
    let own = OwnDir::new("ebs-runs-").unwrap();
    let (other, file) = (own.path().join("somebody"), own.path().join("ebs-test-file"));
    fs::create_dir(&other).unwrap();
    fs::write(&file, "").unwrap();
    symlink(&other, own.path().join("ebs-test-link")).unwrap();
    assert!(RunDir::sweep(own.path()).is_empty());
    assert!(other.exists() && file.exists());
}

//! Interrupted demos: the next run removes what a killed one has left, Ctrl-C cleans up by itself, and objects of
//! others are not touched. Needs root, and the programs beside xtask (`make test` builds them).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ebs_ec2::VolumeId;
use ebs_testkit::leftovers::Leftovers;
use ebs_testkit::loop_device::LoopDevice;
use ebs_testkit::mount_namespace::in_mount_namespace;
use ebs_testkit::process::{Process, ProcessSpec};
use ebs_testkit::record::children_of;
use ebs_testkit::run_dir::OwnDir;
use rustix::process::Signal;

const XTASK: &str = env!("CARGO_BIN_EXE_xtask");
/// The time limit of one run of the demo, on a busy machine.
const BOUND: Duration = Duration::from_secs(900);

fn start(dir: &Path, log: &Path) -> anyhow::Result<Process> {
    Process::spawn(ProcessSpec {
        name: "demo".to_owned(),
        program: PathBuf::from(XTASK),
        args: vec!["demo".into(), "--quick".into(), "--state-dir".into(), dir.into()],
        env: BTreeMap::new(),
        log: log.to_owned(),
    })
}

/// Waits until the demo has finished the step with these words.
async fn reached(demo: &mut Process, words: &str) -> anyhow::Result<()> {
    let line = format!("✓ {words}");
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    let seen = async {
        loop {
            tick.tick().await;
            let output = demo.output()?;
            if output.contains(&line) {
                return Ok(());
            }
            if let Some(status) = demo.ended()? {
                bail!("the demo ended with {status} before it came to {words:?}:\n{output}");
            }
        }
    };
    tokio::time::timeout(BOUND, seen).await.with_context(|| format!("waiting for {words:?}"))?
}

/// Objects of others are not touched.
#[test]
fn interrupted_demo_is_cleaned_up_by_itself_or_the_next_run() {
    in_mount_namespace(|| async {
        if let Err(error) = interrupt_and_run_again().await {
            panic!("{error:?}");
        }
    });
}

async fn interrupt_and_run_again() -> anyhow::Result<()> {
    let own = OwnDir::new("ebs-demo-")?;
    let root = own.path();
    let (dir, log) = (root.join("state"), root.join("log"));
    let _clean = CleanOnDrop(dir.clone());
    let bystander = Bystander::new()?;

    let mut killed = start(&dir, &log)?;
    reached(&mut killed, "publish it to a pod").await?;
    let children: Vec<u32> = children_of(killed.pid())?.into_iter().map(|(pid, _)| pid).collect();
    ensure!(children.len() == 2, "simulator and driver were expected, there are {}", children.len());
    killed.kill()?;
    let left = Leftovers::below(&dir)?;
    ensure!(!left.loops.is_empty() && !left.links.is_empty(), "a killed run left {left}: nothing to clean");

    let mut interrupted = start(&dir, &log)?;
    reached(&mut interrupted, "stage it").await?;
    let output = interrupted.output()?;
    for found in &left.loops {
        let device = found.device.to_string_lossy();
        ensure!(output.contains("removed leftovers of a previous run") && output.contains(&*device), "{output}");
    }
    interrupted.signal(Signal::INT)?;
    let status = interrupted.wait(BOUND).await?;
    let output = interrupted.output()?;
    ensure!(!status.success() && output.contains("interrupted"), "after Ctrl-C: {status}\n{output}");
    nothing_left(&dir)?;

    let mut whole = start(&dir, &log)?;
    let status = whole.wait(BOUND).await?;
    let output = whole.output()?;
    ensure!(status.success(), "the run after the interruption ended with {status}:\n{output}");
    ensure!(output.contains("no leftovers"), "{output}");
    nothing_left(&dir)?;
    bystander.is_whole()
}

fn nothing_left(dir: &Path) -> anyhow::Result<()> {
    let left = Leftovers::below(dir)?;
    ensure!(left.is_empty(), "left: {left}");
    Ok(())
}

struct CleanOnDrop(PathBuf);

impl Drop for CleanOnDrop {
    fn drop(&mut self) {
        let _ = Leftovers::release_below(&self.0);
    }
}

/// Objects of another user on the same machine: a loop device, a link by id to it, and a mount.
struct Bystander {
    device: LoopDevice,
    link: PathBuf,
    mount: PathBuf,
}

impl Bystander {
    fn new() -> anyhow::Result<Self> {
        let volume = VolumeId::parse(&format!("vol-0bystander{}", std::process::id()))?;
        let device = LoopDevice::new(&volume, 1 << 20)?;
        let by_id = Path::new("/dev/disk/by-id");
        fs::create_dir_all(by_id)?;
        let link = by_id.join(format!("nvme-Amazon_Elastic_Block_Store_{}", volume.serial()));
        std::os::unix::fs::symlink(format!("../../{}", device.name()), &link)?;
        let mount = device.directory().join("mount");
        fs::create_dir(&mount)?;
        rustix::mount::mount("none", &mount, "tmpfs", rustix::mount::MountFlags::empty(), None)?;
        Ok(Self { device, link, mount })
    }

    fn is_whole(&self) -> anyhow::Result<()> {
        let there = Leftovers::below(self.device.directory())?;
        ensure!(there.mounts == [self.mount.clone()] && there.loops.len() == 1, "of the bystander's only {there}");
        ensure!(there.links == [self.link.clone()], "the bystander's link: {there}");
        Ok(())
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.link);
        let _ = rustix::mount::unmount(&self.mount, rustix::mount::UnmountFlags::DETACH);
    }
}

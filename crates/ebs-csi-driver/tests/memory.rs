//! A tool that runs out of memory does not end the driver or affect other volumes: under a memory limit, as a container
//! has one. Needs root and a cgroup. Where the machine has no usable cgroup, the test is reported as ignored, with the
//! reason.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::csi_client::{Access, new_volume};
use ebs_testkit::memory_cgroup::MemoryCgroup;
use ebs_testkit::on_node::VolumeOnNode;
use ebs_testkit::process::run_tool;
use ebs_testkit::replaced_tool::ReplacedTool;
use ebs_testkit::world::{World, with_mounts};

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const NAME: &str = "a_check_short_of_memory_ends_alone";
const BOUND: Duration = Duration::from_secs(120);
/// Limit of driver and tools together. e2fsck alone needs some 55 MiB for this number of extents, because of its kind
/// of maps.
const LIMIT: u64 = 40 << 20;
const EXTENTS: u64 = 500_000;
const BLOCK: u64 = 4096;

/// Runs without the harness of libtest, which cannot ignore a test that finds out only at run time that the machine
/// lacks something.
fn main() -> anyhow::Result<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut out = std::io::stdout();
    if args.iter().any(|arg| arg == "--list") {
        writeln!(out, "{NAME}: test")?;
        return Ok(ExitCode::SUCCESS);
    }
    let filters: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let is_wanted = filters.is_empty() || filters.iter().any(|filter| NAME.contains(filter.as_str()));
    let [passed, failed, ignored] = match MemoryCgroup::new(LIMIT) {
        _ if !is_wanted => [0, 0, 0],
        Err(reason) => {
            writeln!(out, "test {NAME} ... ignored, this machine gives no cgroup with a memory limit: {reason}")?;
            [0, 0, 1]
        }
        Ok(cgroup) => {
            let passed = std::panic::catch_unwind(|| with_mounts(move || check_short_of_memory(cgroup))).is_ok();
            writeln!(out, "test {NAME} ... {}", if passed { "ok" } else { "FAILED" })?;
            [u8::from(passed), u8::from(!passed), 0]
        }
    };
    let word = if failed == 0 { "ok" } else { "FAILED" };
    let counts = format!("{passed} passed; {failed} failed; {ignored} ignored; 0 measured; 0 filtered out");
    writeln!(out, "\ntest result: {word}. {counts}\n")?;
    Ok(ExitCode::from(failed))
}

/// Creates a file with this number of extents of one block each, by punching out every second block. Writes no data.
fn fragment(path: &Path) -> anyhow::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    let file = std::fs::File::create(path)?;
    fallocate(&file, FallocateFlags::empty(), 0, 2 * EXTENTS * BLOCK)?;
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for extent in 0..EXTENTS {
        fallocate(&file, hole, 2 * extent * BLOCK, BLOCK)?;
    }
    Ok(file.sync_all()?)
}

/// Returns the device that is mounted at a path.
fn device_at(path: &Path) -> anyhow::Result<PathBuf> {
    let table = std::fs::read_to_string("/proc/thread-self/mountinfo")?;
    let line = table.lines().find(|line| line.split(' ').nth(4) == path.to_str()).context("no mount")?;
    Ok(line.split(" - ").nth(1).and_then(|rest| rest.split(' ').nth(1)).context("no device")?.into())
}

/// Makes the file system require a check at its next stage.
fn demand_check(device: &Path) -> anyhow::Result<()> {
    let path = device.to_str().context("a name that is text")?;
    run_tool("/usr/sbin/debugfs", &["-w", "-R", "set_super_value state 3", path], BOUND).map(drop)
}

async fn volume(world: &World, name: &str, gib: i64) -> anyhow::Result<VolumeOnNode> {
    let access = Access::Mount("ext4".to_owned());
    let created = world.client().create_volume(new_volume(name, gib, &access)).await?;
    let mut volume = world.on_node(created, &access).await?;
    volume.attach().await?;
    Ok(volume)
}

async fn check_short_of_memory(cgroup: MemoryCgroup) -> anyhow::Result<()> {
    let mut world = World::builder(DRIVER).loop_devices().start().await?;
    let mut fragmented = volume(&world, "fragmented", 6).await?;
    let mut other = volume(&world, "other", 1).await?;
    fragmented.stage().await?;
    let device = device_at(&fragmented.staging)?;
    let file = fragmented.staging.join("fragmented");
    tokio::task::spawn_blocking(move || fragment(&file)).await??;
    fragmented.unstage().await?;
    let driver = world.driver()?.pid();
    cgroup.add(driver)?;

    demand_check(&device)?;
    fragmented.stage().await.context("a check within the limit")?;
    fragmented.unstage().await?;
    ensure!(cgroup.kills()? == 0, "the kernel has killed {} processes", cgroup.kills()?);

    // A check that needs more memory than the limit.
    demand_check(&device)?;
    let greedy = ReplacedTool::by_script("e2fsck", "exec tail /dev/zero")?;
    let refused = fragmented.stage().await.expect_err("the check was killed");
    let message = refused.message();
    ensure!(message.contains("signal 9") && message.contains("memory limit"), "{message}");
    ensure!(cgroup.kills()? > 0, "the kernel has killed nothing");
    ensure!(world.driver()?.ended()?.is_none(), "the driver was killed too");
    other.stage().await.context("another volume, beside it")?;
    drop(greedy);
    fragmented.stage().await.context("a check within the limit, after one that was killed")?;

    for volume in [&mut fragmented, &mut other] {
        volume.unstage().await?;
        volume.detach().await?;
        world.client().delete_volume(volume.id()).await?;
    }
    world.finish().await?;
    cgroup.remove().await.context("the cgroup of this test")
}

//! `cargo xtask demo`: the lifecycle of volumes from creation to deletion, through the driver's CSI socket, with the
//! simulated EC2 and real block devices. Each step calls the driver as Kubernetes does, and checks the result.

use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use component_base::signals::Signals;
use ebs_testkit::content;
use ebs_testkit::control::{Control, State, Timing};
use ebs_testkit::csi_client::{Access, GIB, new_volume, refused, restored_volume};
use ebs_testkit::mount_namespace::in_mount_namespace;
use ebs_testkit::on_node::VolumeOnNode;
use ebs_testkit::world::{Shipped, World};
use ebs_testkit::writer::Writer;
use futures_util::future::try_join_all;
use tokio::time::Instant;

use crate::programs::Places;

const BOUND: Duration = Duration::from_secs(60);
const FILE_BYTES: u64 = 64 << 20;
const BLOCK_BYTES: u64 = 32 << 20;
/// Width of the column with the names of steps.
const WIDTH: usize = 66;

/// The arguments of the demo.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Directory with the program aws-ebs-csi-driver [default: this program's directory]
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,
}

/// Runs the demo from preparation to cleanup.
pub(crate) fn run(args: DemoArgs) -> anyhow::Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "run the demo: loop devices and mounts need root; use `make demo`, which reports all that is missing"
    );
    let driver = Places::new("demo", None, args.bin_dir)?.driver();
    let (sender, receiver) = mpsc::channel();
    // A private mount namespace, so that the mounts vanish with its last process.
    in_mount_namespace(move || async move {
        let ended = tokio::select! {
            ended = Box::pin(lifecycle(driver)) => ended,
            interrupted = interruption() => Err(interrupted),
        };
        // The receiver still waits, so this cannot fail.
        let _ = sender.send(ended);
    });
    receiver.recv().context("the demo returned no result")?
}

async fn interruption() -> anyhow::Error {
    match Signals::listen() {
        Ok(mut signals) => anyhow!("interrupted ({})", signals.next().await),
        Err(_) => anyhow!("failed to listen for signals"),
    }
}

/// Prints a line. The demo continues even if standard output is closed.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Runs steps, and prints a line for each: its name, its duration, and the calls to EC2 that it caused.
struct Steps {
    control: Control,
    begun: Instant,
}

impl Steps {
    async fn step<T>(&self, name: &str, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let (from, begun) = (self.control.position().await?, Instant::now());
        say(&format!("  … {name}"));
        let result = work.await.with_context(|| name.to_owned())?;
        let calls = self.control.ledger(from).await?;
        say(&format!("  ✓ {name:WIDTH$} {:>6.1} s  {}", begun.elapsed().as_secs_f64(), calls.summary()));
        Ok(result)
    }
}

async fn lifecycle(driver: PathBuf) -> anyhow::Result<()> {
    say("starting the simulated EC2, with EC2's delays, and aws-ebs-csi-driver in mode all");
    // EC2's usual delays, but shorter where a spectator would only wait.
    let shown = Timing { detach_ms: Some(2_000), snapshot_ms: Some(6_000), ..Timing::default() };
    let world = World::builder(driver).loop_devices().realistic(Duration::ZERO).timing(shown);
    let mut world = world.under(Shipped::ManagedV2).start().await?;
    let steps = Steps { control: world.control().clone(), begun: Instant::now() };
    let mut volumes = Vec::new();
    // Boxed, because this future is large: it contains the futures of its steps.
    let snapshot = Box::pin(first_and_restored(&world, &steps, &mut volumes)).await?;
    Box::pin(grow(&world, &steps, &mut volumes)).await?;
    Box::pin(raw_block(&mut world, &steps, &mut volumes)).await?;
    Box::pin(take_down(&world, &steps, &mut volumes, &snapshot)).await?;
    let (calls, took) = (steps.control.ledger(0).await?, steps.begun.elapsed().as_secs_f64());
    world.finish().await?;
    say(&format!("{} EC2 calls in {took:.1} s: {}", calls.calls.len(), calls.summary()));
    say("every call was allowed by deploy/iam/managed-v2.json");
    say("no leftovers: no volume or snapshot in EC2, no loop device, link, mount or process");
    Ok(())
}

/// Returns the response of a call.
async fn done<T>(call: impl Future<Output = Result<T, tonic::Status>>) -> anyhow::Result<T> {
    call.await.map_err(refused)
}

/// Runs blocking work (reads, writes, syncs) on another thread, so that the clock continues.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> anyhow::Result<T> {
    Ok(tokio::task::spawn_blocking(work).await.context("the work stopped early")??)
}

async fn create(world: &World, name: &str, gib: i64, access: &Access) -> anyhow::Result<VolumeOnNode> {
    let volume = done(world.client().create_volume(new_volume(name, gib, access))).await?;
    ensure!(volume.capacity_bytes == gib * GIB, "the volume has {} bytes", volume.capacity_bytes);
    world.on_node(volume, access).await
}

async fn bring_up(world: &World, name: &str, gib: i64, access: &Access) -> anyhow::Result<VolumeOnNode> {
    let mut volume = create(world, name, gib, access).await?;
    done(volume.bring_up()).await?;
    Ok(volume)
}

/// Checks that the file system has about this size; metadata uses a part of it. Returns the used bytes.
async fn has_about(volume: &VolumeOnNode, gib: i64) -> anyhow::Result<i64> {
    let (total, used) = done(volume.stats()).await?;
    ensure!(total > gib * GIB / 10 * 9 && total <= gib * GIB, "the file system has {total} bytes");
    Ok(used)
}

/// Brings up a volume, and a second volume that is restored from a snapshot of the first. Returns the snapshot.
async fn first_and_restored(world: &World, steps: &Steps, volumes: &mut Vec<VolumeOnNode>) -> anyhow::Result<String> {
    let ext4 = Access::Mount("ext4".to_owned());
    let mut volume = steps.step("create a gp3 volume of 4 GiB", create(world, "demo-data", 4, &ext4)).await?;
    steps.step("attach it", done(volume.attach())).await?;
    steps.step("stage it: format with ext4, mount", done(volume.stage())).await?;
    steps.step("publish it to a pod", done(volume.publish())).await?;
    let file = volume.target.join("data");
    let write = blocking(move || content::write_file(&file, 1, FILE_BYTES));
    let hash = steps.step("write 64 MiB and hash the data", write).await?;
    let used = steps.step("read its statistics: 4 GiB, 64 MiB used", has_about(&volume, 4)).await?;
    ensure!(used >= FILE_BYTES.cast_signed(), "{used} bytes are used");
    let taken = world.client().snapshot_ready("demo-snapshot", volume.id(), BOUND);
    let snapshot = steps.step("take a snapshot of it", taken).await?.snapshot_id;
    let restore = async {
        let request = restored_volume("demo-restored", 6, &ext4, &snapshot);
        let mut restored = world.on_node(done(world.client().create_volume(request)).await?, &ext4).await?;
        done(restored.bring_up()).await.map(|()| restored)
    };
    let restored = Box::pin(steps.step("restore it into a volume of 6 GiB; attach, stage, publish", restore)).await?;
    let compare = async {
        let file = restored.target.join("data");
        let found = blocking(move || content::hash_file(&file)).await?;
        ensure!(found == hash, "written {hash}, restored {found}");
        has_about(&restored, 6).await
    };
    steps.step("same hash; the file system has grown to 6 GiB", compare).await?;
    volumes.extend([volume, restored]);
    Ok(snapshot)
}

async fn grow(world: &World, steps: &Steps, volumes: &mut Vec<VolumeOnNode>) -> anyhow::Result<()> {
    let xfs = Access::Mount("xfs".to_owned());
    let up = bring_up(world, "demo-xfs", 2, &xfs);
    let mut volume = Box::pin(steps.step("create an xfs volume of 2 GiB; attach, stage, publish", up)).await?;
    let expand = async {
        let file = volume.target.join("stream");
        let writer = Writer::start(file.clone());
        writer.progress().await?;
        ensure!(done(volume.expand_in_ec2(4)).await?, "the controller requests no expansion on the node");
        let capacity = done(volume.expand_on_node()).await?;
        ensure!(capacity == 4 * GIB, "the node reports {capacity} bytes");
        writer.progress().await?;
        let hash = writer.end().await?;
        let found = blocking(move || content::hash_file(&file)).await?;
        ensure!(found == hash, "the data read differs from the last write");
        has_about(&volume, 4).await
    };
    steps.step("expand it to 4 GiB online, during writes", expand).await?;
    volumes.push(volume);
    Ok(())
}

async fn raw_block(world: &mut World, steps: &Steps, volumes: &mut Vec<VolumeOnNode>) -> anyhow::Result<()> {
    let up = bring_up(world, "demo-block", 1, &Access::Block);
    let mut volume = Box::pin(steps.step("create a raw block volume of 1 GiB; attach, publish", up)).await?;
    let target = volume.target.clone();
    let written = blocking(move || content::write_device(&target, 2, BLOCK_BYTES));
    let written = steps.step("write 32 MiB to the device", written).await?;
    steps.step("unpublish and detach it", done(volume.take_down())).await?;
    steps.step("kill -9 the driver during the next attach", crash(world, &mut volume)).await?;
    steps.step("restart the driver", world.start_driver()).await?;
    volumes.push(volume);
    volumes.iter_mut().for_each(|volume| volume.set_client(world.client()));
    let volume = volumes.last_mut().context("find the raw block volume")?;
    let id = volume.id().to_owned();
    steps.step("retry the attach", done(volume.attach())).await?;
    let state = world.control().state().await?;
    let attachments = &state.volume(&id).context("find the volume in EC2")?.attachments;
    ensure!(attachments.len() == 1 && attachments[0].state == "attached", "EC2 has {attachments:?}");
    let again = async {
        done(volume.stage()).await?;
        done(volume.publish()).await?;
        let target = volume.target.clone();
        let found = blocking(move || content::hash_start(&target, BLOCK_BYTES)).await?;
        ensure!(found == written, "the data of the raw block volume has changed");
        Ok(())
    };
    steps.step("publish it again: the data is unchanged", again).await
}

/// Kills the driver while EC2 reports the volume as attaching.
async fn crash(world: &mut World, volume: &mut VolumeOnNode) -> anyhow::Result<()> {
    let id = volume.id().to_owned();
    let attaching = |state: &State| {
        state.volume(&id).is_some_and(|volume| volume.attachments.iter().any(|a| a.state == "attaching"))
    };
    tokio::select! {
        answer = volume.attach() => anyhow::bail!("the attach finished too early: {answer:?}"),
        state = world.control().until(BOUND, "the volume is attaching", attaching) => state?,
    };
    world.kill_driver()
}

async fn take_down(world: &World, steps: &Steps, volumes: &mut [VolumeOnNode], snapshot: &str) -> anyhow::Result<()> {
    let down = async {
        for volume in &*volumes {
            done(volume.unpublish()).await?;
            done(volume.unstage()).await?;
        }
        Ok(())
    };
    steps.step("unpublish and unstage all four volumes", down).await?;
    // Concurrently, like an orchestrator: each detach may have to wait until EC2's reads can no longer be stale.
    let detach = try_join_all(volumes.iter_mut().map(|volume| volume.detach()));
    steps.step("detach them", done(detach)).await?;
    let delete = async {
        for volume in &*volumes {
            done(world.client().delete_volume(volume.id())).await?;
        }
        done(world.client().delete_snapshot(snapshot)).await
    };
    steps.step("delete the volumes and the snapshot", delete).await
}

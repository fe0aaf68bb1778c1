//! The lifecycle of the volume: each step does one thing and checks the result, and the demo stops at an unexpected
//! one.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::content;
use ebs_testkit::control::{Call, Control, State};
use ebs_testkit::csi_client::{Access, CsiClient, GIB, new_volume, refused, restored_volume};
use ebs_testkit::on_node::VolumeOnNode;
use ebs_testkit::writer::Writer;
use futures_util::future::try_join_all;
use tokio::task::JoinSet;

use super::processes::Processes;
use super::report::{Report, say};

const BOUND: Duration = Duration::from_secs(60);
const FILE_BYTES: u64 = 64 << 20;
const BLOCK_BYTES: u64 = 32 << 20;
/// The driver's policy in most clusters.
const POLICY: &str = "managed-v2";

/// The participants, and the volumes and the snapshot so far.
struct Life<'a> {
    processes: &'a mut Processes,
    csi: CsiClient,
    control: Control,
    /// The node id of this machine.
    node: String,
    snapshot: Option<String>,
    volumes: Vec<VolumeOnNode>,
}

pub(super) async fn run(processes: &mut Processes, report: &mut Report) -> anyhow::Result<()> {
    say(&format!("a volume's lifecycle on real block devices; state and logs in {}", processes.dir().display()));
    let start = "start ebs-sim, the simulated EC2 (with EC2's delays)";
    let control = report.step(start, processes.simulator_ready()).await?;
    report.control = Some(control.clone());
    let csi = report.step("start aws-ebs-csi-driver (mode all)", processes.start_driver()).await?;
    let node = csi.node_info().await.context("NodeGetInfo")?.node_id;
    let mut life = Life { processes, csi, control, node, snapshot: None, volumes: Vec::new() };
    // Boxed, because the future of a part has the futures of its steps.
    let hash = Box::pin(first_volume(&mut life, report)).await?;
    // Concurrent with the next steps: the first snapshot is created only when EC2's describes show everything that
    // another driver may have done.
    let snapshot = life.take_snapshot()?;
    Box::pin(grow(&mut life, report)).await?;
    Box::pin(restore(&mut life, report, snapshot, &hash)).await?;
    Box::pin(raw_block(&mut life, report)).await?;
    Box::pin(take_down(&mut life, report)).await?;
    report.control = None;
    report.step("stop both processes; each exits with 0", processes.stop()).await
}

impl Life<'_> {
    /// Requests a snapshot of the first volume until it is ready.
    fn take_snapshot(&self) -> anyhow::Result<JoinSet<anyhow::Result<String>>> {
        let csi = self.csi.clone();
        let original = self.volumes.first().context("the first volume")?.id().to_owned();
        let mut taking = JoinSet::new();
        taking.spawn(async move { Ok(csi.snapshot_ready("demo-snapshot", &original, BOUND).await?.snapshot_id) });
        Ok(taking)
    }

    async fn create(&self, name: &str, gib: i64, access: &Access) -> anyhow::Result<VolumeOnNode> {
        let volume = self.csi.create_volume(new_volume(name, gib, access)).await.map_err(refused)?;
        ensure!(volume.capacity_bytes == gib * GIB, "it has {} bytes", volume.capacity_bytes);
        self.on_node(volume, access)
    }

    fn on_node(&self, volume: csi_proto::csi::Volume, access: &Access) -> anyhow::Result<VolumeOnNode> {
        let kubelet = self.processes.kubelet();
        VolumeOnNode::new(&self.csi, volume, access, &self.node, &kubelet).context("the kubelet's directories")
    }

    async fn create_and_bring_up(&self, name: &str, gib: i64, access: &Access) -> anyhow::Result<VolumeOnNode> {
        let mut volume = self.create(name, gib, access).await?;
        volume.bring_up().await.map_err(refused)?;
        Ok(volume)
    }
}

fn mounted(fs_type: &str) -> Access {
    Access::Mount(fs_type.to_owned())
}

/// Returns the response of a call.
async fn done<T>(call: impl Future<Output = Result<T, tonic::Status>>) -> anyhow::Result<T> {
    call.await.map_err(refused)
}

/// Runs blocking work (reads, writes, syncs) while the clock continues.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> anyhow::Result<T> {
    Ok(tokio::task::spawn_blocking(work).await.context("the work stopped early")??)
}

/// Checks that the file system has about this size, because its metadata uses a part. Returns the used bytes.
async fn has_about(volume: &VolumeOnNode, gib: i64) -> anyhow::Result<i64> {
    let (total, used) = volume.stats().await.map_err(refused)?;
    ensure!(total > gib * GIB / 10 * 9 && total <= gib * GIB, "the file system has {total} bytes");
    Ok(used)
}

/// Brings up the first volume and returns the hash of its file.
async fn first_volume(life: &mut Life<'_>, report: &mut Report) -> anyhow::Result<String> {
    let ext4 = mounted("ext4");
    let mut volume = report.step("create a gp3 volume of 4 GiB", life.create("demo-data", 4, &ext4)).await?;
    report.step("attach it", done(volume.attach())).await?;
    report.step("stage it: format with ext4, mount", done(volume.stage())).await?;
    report.step("publish it to a pod", done(volume.publish())).await?;
    let file = volume.target.join("data");
    let write = blocking(move || content::write_file(&file, 1, FILE_BYTES));
    let hash = report.step("write 64 MiB and hash them", write).await?;
    let stats = async {
        let used = has_about(&volume, 4).await?;
        ensure!(used >= FILE_BYTES.cast_signed(), "{used} bytes are used");
        Ok(())
    };
    report.step("ask for its statistics: 4 GiB, 64 MiB used", stats).await?;
    life.volumes.push(volume);
    Ok(hash)
}

async fn restore(
    life: &mut Life<'_>,
    report: &mut Report,
    mut taking: JoinSet<anyhow::Result<String>>,
    hash: &str,
) -> anyhow::Result<()> {
    let taken = async { taking.join_next().await.context("the snapshot")?? };
    let snapshot = report.step("the first volume's snapshot, created in the meantime, is ready", taken).await?;
    life.snapshot = Some(snapshot.clone());
    let create = async {
        let request = restored_volume("demo-restored", 6, &mounted("ext4"), &snapshot);
        life.on_node(life.csi.create_volume(request).await.map_err(refused)?, &mounted("ext4"))
    };
    let mut restored = report.step("restore it into a volume of 6 GiB", create).await?;
    report.step("attach, stage and publish the restored volume", done(restored.bring_up())).await?;
    let compare = async {
        let file = restored.target.join("data");
        let found = blocking(move || content::hash_file(&file)).await?;
        ensure!(found == hash, "written {hash}, restored {found}");
        has_about(&restored, 6).await
    };
    report.step("same hash; the file system has grown to 6 GiB", compare).await?;
    life.volumes.push(restored);
    Ok(())
}

async fn grow(life: &mut Life<'_>, report: &mut Report) -> anyhow::Result<()> {
    let xfs = mounted("xfs");
    let up = life.create_and_bring_up("demo-xfs", 2, &xfs);
    let mut volume = report.step("create an xfs volume of 2 GiB; attach, stage, publish", up).await?;
    let expand = async {
        let file = volume.target.join("stream");
        let writer = Writer::start(file.clone());
        writer.progress().await?;
        ensure!(volume.expand_in_ec2(4).await.map_err(refused)?, "the controller requests no expansion on the node");
        let capacity = volume.expand_on_node().await.map_err(refused)?;
        ensure!(capacity == 4 * GIB, "the node reports {capacity} bytes");
        writer.progress().await?;
        let hash = writer.end().await?;
        let found = blocking(move || content::hash_file(&file)).await?;
        ensure!(found == hash, "the data read differs from the last write");
        has_about(&volume, 4).await
    };
    report.step("expand it to 4 GiB online, during writes", expand).await?;
    life.volumes.push(volume);
    Ok(())
}

async fn raw_block(life: &mut Life<'_>, report: &mut Report) -> anyhow::Result<()> {
    let up = life.create_and_bring_up("demo-block", 1, &Access::Block);
    let mut volume = report.step("create a raw block volume of 1 GiB; attach, publish", up).await?;
    let target = volume.target.clone();
    let data = blocking(move || {
        let written = content::write_device(&target, 2, BLOCK_BYTES)?;
        Ok((written, content::hash_start(&target, BLOCK_BYTES)?))
    });
    let (written, read) = report.step("write 32 MiB to the device and read them back", data).await?;
    ensure!(read == written, "written {written}, read {read}");
    report.step("unpublish and detach it", done(volume.take_down())).await?;
    report.step("kill -9 the driver during the next attach", crash(life, &mut volume)).await?;
    life.csi = report.step("restart the driver", life.processes.start_driver()).await?;
    life.volumes.push(volume);
    for former in &mut life.volumes {
        former.set_client(&life.csi);
    }
    let volume = life.volumes.last_mut().context("the raw block volume")?;
    report.step("retry the attach: it completes exactly once", retry(volume, &life.control)).await?;
    let again = async {
        volume.stage().await.map_err(refused)?;
        volume.publish().await.map_err(refused)?;
        let target = volume.target.clone();
        let found = blocking(move || content::hash_start(&target, BLOCK_BYTES)).await?;
        ensure!(found == written, "the data of the raw block volume has changed");
        Ok(())
    };
    report.step("publish it again: the data is unchanged", again).await
}

/// Kills the driver while EC2 shows the volume as attaching.
async fn crash(life: &mut Life<'_>, volume: &mut VolumeOnNode) -> anyhow::Result<()> {
    let id = volume.id().to_owned();
    let attaching = |state: &State| {
        state.volume(&id).is_some_and(|volume| volume.attachments.iter().any(|a| a.state == "attaching"))
    };
    tokio::select! {
        answer = volume.attach() => anyhow::bail!("the attach finished too early: {answer:?}"),
        state = life.control.until(BOUND, "the volume is attaching", attaching) => state?,
    };
    life.processes.kill_driver()
}

async fn retry(volume: &mut VolumeOnNode, control: &Control) -> anyhow::Result<()> {
    volume.attach().await.map_err(refused)?;
    let state = control.state().await?;
    let attachments = &state.volume(volume.id()).context("the volume in EC2")?.attachments;
    ensure!(attachments.len() == 1 && attachments[0].state == "attached", "EC2 has {attachments:?}");
    let ledger = control.ledger(0).await?;
    let is_attach = |call: &&Call| {
        let of_it = call.parameters.get("VolumeId").is_some_and(|id| *id == volume.id());
        of_it && call.action == "AttachVolume" && call.did_work()
    };
    let attaches = ledger.calls.iter().filter(is_attach).count();
    ensure!(attaches == 2, "expected one attach before the crash and one during it: {}", ledger.summary());
    Ok(())
}

async fn take_down(life: &mut Life<'_>, report: &mut Report) -> anyhow::Result<()> {
    let down = async {
        for volume in &mut life.volumes {
            volume.unpublish().await.map_err(refused)?;
            volume.unstage().await.map_err(refused)?;
        }
        Ok(())
    };
    report.step("unpublish and unstage all four volumes", down).await?;
    // Concurrently, as an orchestrator does: each may have to wait until EC2's reads cannot be stale.
    let detach = try_join_all(life.volumes.iter_mut().map(|volume| volume.detach()));
    report.step("detach them", done(detach)).await?;
    let delete = async {
        for volume in &life.volumes {
            life.csi.delete_volume(volume.id()).await.map_err(refused)?;
        }
        life.csi.delete_snapshot(life.snapshot.as_ref().context("a snapshot")?).await.map_err(refused)
    };
    report.step("delete them and the snapshot", delete).await?;
    let proof = async {
        let is_ours = |tags: &BTreeMap<String, String>| tags.contains_key("ebs.csi.aws.com/cluster");
        let gone = |state: &State| {
            !state.volumes.iter().any(|volume| volume.state != "deleted" && is_ours(&volume.tags))
                && !state.snapshots.iter().any(|snapshot| is_ours(&snapshot.tags))
        };
        life.control.until(BOUND, "nothing is left in EC2", gone).await?;
        life.processes.nothing_on_machine()
    };
    report.step("nothing left: EC2, loop devices, links, mounts", proof).await?;
    let rights = async {
        let beyond = life.control.ledger(0).await?.beyond(POLICY);
        ensure!(beyond.is_empty(), "{POLICY} does not allow these calls:\n{}", beyond.join("\n"));
        Ok(())
    };
    report.step("every call was allowed by deploy/iam/managed-v2.json", rights).await
}

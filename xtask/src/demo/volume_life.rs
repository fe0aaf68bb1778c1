//! The lifecycle of the volume: each step does one thing and checks the result, and the demo stops at an unexpected
//! one.

use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::content;
use ebs_testkit::control::{Control, State};
use ebs_testkit::csi_client::{Access, GIB, new_volume, refused, restored_volume};
use ebs_testkit::on_node::VolumeOnNode;
use ebs_testkit::writer::Writer;
use futures_util::future::try_join_all;
use tokio::task::JoinSet;

use super::processes::{self, Clients, Processes};
use super::report::{Report, say};
use super::state_dir::StateDir;

const BOUND: Duration = Duration::from_secs(60);
const FILE_BYTES: u64 = 64 << 20;
const BLOCK_BYTES: u64 = 32 << 20;
/// The driver's policy in most clusters.
const POLICY: &str = "managed-v2";

/// The volumes with the data that was written to them.
struct Life {
    clients: Clients,
    snapshot: Option<String>,
    volumes: Vec<VolumeOnNode>,
}

pub(super) async fn run(processes: &mut Processes, state_dir: &StateDir, report: &mut Report) -> anyhow::Result<()> {
    say(&format!("a volume's lifecycle on real block devices; state and logs in {}", state_dir.dir().display()));
    let control =
        report.step(None, "start ebs-sim, the simulated EC2 (with EC2's delays)", processes.simulator_ready()).await?;
    let csi =
        report.step(Some(&control), "start aws-ebs-csi-driver (mode all)", processes.start_driver(state_dir)).await?;
    let clients = processes.clients(csi, control.clone()).await?;
    let mut life = Life { clients, snapshot: None, volumes: Vec::new() };
    let (original, hash) = first_volume(&life, report).await?;
    life.volumes.push(original);
    // Concurrent with the next steps: the first snapshot is created only when EC2's describes show everything that
    // another driver may have done.
    let snapshot = life.take_snapshot()?;
    grow(&mut life, report).await?;
    restore(&mut life, report, snapshot, &hash).await?;
    raw_block(&mut life, processes, state_dir, report).await?;
    take_down(&mut life, report).await?;
    let stop = async {
        processes.stop().await?;
        processes::nothing_on_machine(state_dir.dir())
    };
    report.step(None, "stop both processes; each exits with 0", stop).await
}

impl Life {
    fn control(&self) -> &Control {
        &self.clients.control
    }

    /// Requests a snapshot of the first volume until it is ready.
    fn take_snapshot(&self) -> anyhow::Result<JoinSet<anyhow::Result<String>>> {
        let csi = self.clients.csi.clone();
        let original = self.volumes.first().context("the first volume")?.id().to_owned();
        let mut taking = JoinSet::new();
        taking.spawn(async move { Ok(csi.snapshot_ready("demo-snapshot", &original, BOUND).await?.snapshot_id) });
        Ok(taking)
    }

    async fn create(&self, name: &str, gib: i64, access: &Access) -> anyhow::Result<VolumeOnNode> {
        let volume = self.clients.csi.create_volume(new_volume(name, gib, access)).await.map_err(refused)?;
        ensure!(volume.capacity_bytes == gib * GIB, "it has {} bytes", volume.capacity_bytes);
        self.on_node(volume, access)
    }

    fn on_node(&self, volume: csi_proto::csi::Volume, access: &Access) -> anyhow::Result<VolumeOnNode> {
        let clients = &self.clients;
        VolumeOnNode::new(&clients.csi, volume, access, &clients.node, &clients.kubelet)
            .context("the kubelet's directories")
    }
}

fn ext4() -> Access {
    Access::Mount("ext4".to_owned())
}

/// Runs blocking work (reads, writes, syncs) while the clock continues.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> anyhow::Result<T> {
    Ok(tokio::task::spawn_blocking(work).await.context("the work stopped early")??)
}

async fn first_volume(life: &Life, report: &mut Report) -> anyhow::Result<(VolumeOnNode, String)> {
    let control = Some(life.control());
    let mut volume = report.step(control, "create a gp3 volume of 4 GiB", life.create("demo-data", 4, &ext4())).await?;
    report.step(control, "attach it", async { volume.attach().await.map_err(refused) }).await?;
    report.step(control, "stage it: format with ext4, mount", async { volume.stage().await.map_err(refused) }).await?;
    report.step(control, "publish it to a pod", async { volume.publish().await.map_err(refused) }).await?;
    let file = volume.target.join("data");
    let write = blocking(move || content::write_file(&file, 1, FILE_BYTES));
    let hash = report.step(control, "write 64 MiB and hash them", write).await?;
    let stats = async {
        let (total, used) = volume.stats().await.map_err(refused)?;
        ensure!(about(total, 4), "the file system has {total} bytes");
        ensure!(used >= FILE_BYTES.cast_signed(), "{used} bytes are used");
        Ok(())
    };
    report.step(control, "ask for its statistics: 4 GiB, 64 MiB used", stats).await?;
    Ok((volume, hash))
}

/// Returns whether the size is about right, because file-system metadata uses a part.
fn about(total: i64, gib: i64) -> bool {
    total > gib * GIB / 10 * 9 && total <= gib * GIB
}

async fn restore(
    life: &mut Life,
    report: &mut Report,
    mut taking: JoinSet<anyhow::Result<String>>,
    hash: &str,
) -> anyhow::Result<()> {
    let control = life.control().clone();
    let control = Some(&control);
    let csi = life.clients.csi.clone();
    let taken = async { taking.join_next().await.context("the snapshot")?? };
    let snapshot =
        report.step(control, "the first volume's snapshot, created in the meantime, is ready", taken).await?;
    life.snapshot = Some(snapshot.clone());
    let create = async {
        let request = restored_volume("demo-restored", 6, &ext4(), &snapshot);
        life.on_node(csi.create_volume(request).await.map_err(refused)?, &ext4())
    };
    let mut restored = report.step(control, "restore it into a volume of 6 GiB", create).await?;
    let up = async { restored.bring_up().await.map_err(refused) };
    report.step(control, "attach, stage and publish the restored volume", up).await?;
    let compare = async {
        let file = restored.target.join("data");
        let found = blocking(move || content::hash_file(&file)).await?;
        ensure!(found == hash, "written {hash}, restored {found}");
        let (total, _) = restored.stats().await.map_err(refused)?;
        ensure!(about(total, 6), "the file system has {total} bytes in a volume of 6 GiB");
        Ok(())
    };
    report.step(control, "same hash; the file system has grown to 6 GiB", compare).await?;
    life.volumes.push(restored);
    Ok(())
}

async fn grow(life: &mut Life, report: &mut Report) -> anyhow::Result<()> {
    let control = life.control().clone();
    let control = Some(&control);
    let xfs = Access::Mount("xfs".to_owned());
    let up = async {
        let mut volume = life.create("demo-xfs", 2, &xfs).await?;
        volume.bring_up().await.map_err(refused)?;
        Ok(volume)
    };
    let mut volume = report.step(control, "create an xfs volume of 2 GiB; attach, stage, publish", up).await?;
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
        let (total, _) = volume.stats().await.map_err(refused)?;
        ensure!(about(total, 4), "the file system has {total} bytes");
        Ok(())
    };
    report.step(control, "expand it to 4 GiB online, during writes", expand).await?;
    life.volumes.push(volume);
    Ok(())
}

async fn raw_block(
    life: &mut Life,
    processes: &mut Processes,
    state_dir: &StateDir,
    report: &mut Report,
) -> anyhow::Result<()> {
    let control = life.control().clone();
    let up = async {
        let mut volume = life.create("demo-block", 1, &Access::Block).await?;
        volume.bring_up().await.map_err(refused)?;
        Ok(volume)
    };
    let mut volume = report.step(Some(&control), "create a raw block volume of 1 GiB; attach, publish", up).await?;
    let target = volume.target.clone();
    let data = blocking(move || {
        let written = content::write_device(&target, 2, BLOCK_BYTES)?;
        Ok((written, content::hash_start(&target, BLOCK_BYTES)?))
    });
    let (written, read) = report.step(Some(&control), "write 32 MiB to the device and read them back", data).await?;
    ensure!(read == written, "written {written}, read {read}");
    report.step(Some(&control), "unpublish and detach it", async { volume.take_down().await.map_err(refused) }).await?;
    crash(&mut volume, processes, report, &control).await?;
    let csi = report.step(Some(&control), "restart the driver", processes.start_driver(state_dir)).await?;
    life.clients.csi = csi.clone();
    for former in life.volumes.iter_mut().chain([&mut volume]) {
        former.set_client(&csi);
    }
    report.step(Some(&control), "retry the attach: it completes exactly once", retry(&mut volume, &control)).await?;
    let again = async {
        volume.stage().await.map_err(refused)?;
        volume.publish().await.map_err(refused)?;
        let target = volume.target.clone();
        let found = blocking(move || content::hash_start(&target, BLOCK_BYTES)).await?;
        ensure!(found == written, "the data of the raw block volume has changed");
        Ok(())
    };
    report.step(Some(&control), "publish it again: the data is unchanged", again).await?;
    life.volumes.push(volume);
    Ok(())
}

/// Kills the driver while EC2 shows the volume as attaching.
async fn crash(
    volume: &mut VolumeOnNode,
    processes: &mut Processes,
    report: &mut Report,
    control: &Control,
) -> anyhow::Result<()> {
    let id = volume.id().to_owned();
    let kill = async {
        let attaching = |state: &State| {
            state.volume(&id).is_some_and(|volume| volume.attachments.iter().any(|a| a.state == "attaching"))
        };
        tokio::select! {
            answer = volume.attach() => anyhow::bail!("the attach finished too early: {answer:?}"),
            state = control.until(BOUND, "the volume is attaching", attaching) => state?,
        };
        processes.kill_driver()
    };
    report.step(Some(control), "kill -9 the driver during the next attach", kill).await
}

async fn retry(volume: &mut VolumeOnNode, control: &Control) -> anyhow::Result<()> {
    volume.attach().await.map_err(refused)?;
    let state = control.state().await?;
    let attachments = &state.volume(volume.id()).context("the volume in EC2")?.attachments;
    ensure!(attachments.len() == 1 && attachments[0].state == "attached", "EC2 has {attachments:?}");
    let ledger = control.ledger(0).await?;
    let id = volume.id().to_owned();
    let of_it = |call: &&ebs_testkit::control::Call| call.parameters.get("VolumeId").is_some_and(|v| *v == id);
    let attaches = ledger.calls.iter().filter(of_it).filter(|call| call.action == "AttachVolume" && call.did_work());
    ensure!(attaches.count() == 2, "expected one attach before the crash and one during it: {}", ledger.summary());
    Ok(())
}

async fn take_down(life: &mut Life, report: &mut Report) -> anyhow::Result<()> {
    let control = life.control().clone();
    let down = async {
        for volume in &mut life.volumes {
            volume.unpublish().await.map_err(refused)?;
            volume.unstage().await.map_err(refused)?;
        }
        Ok(())
    };
    report.step(Some(&control), "unpublish and unstage all four volumes", down).await?;
    let detach = async {
        // Concurrently, as an orchestrator does: each may have to wait until EC2's reads cannot be stale.
        try_join_all(life.volumes.iter_mut().map(|volume| volume.detach())).await.map_err(refused)?;
        Ok(())
    };
    report.step(Some(&control), "detach them", detach).await?;
    let delete = async {
        for volume in &life.volumes {
            life.clients.csi.delete_volume(volume.id()).await.map_err(refused)?;
        }
        let snapshot = life.snapshot.as_ref().context("a snapshot")?;
        life.clients.csi.delete_snapshot(snapshot).await.map_err(refused)
    };
    report.step(Some(&control), "delete them and the snapshot", delete).await?;
    let proof = async {
        let mine = |state: &State| {
            let tagged =
                |tags: &std::collections::BTreeMap<String, String>| tags.contains_key("ebs.csi.aws.com/cluster");
            let volumes = state.volumes.iter().filter(|volume| volume.state != "deleted" && tagged(&volume.tags));
            volumes.count() + state.snapshots.iter().filter(|snapshot| tagged(&snapshot.tags)).count()
        };
        control.until(BOUND, "nothing is left in EC2", |state| mine(state) == 0).await?;
        processes::nothing_on_machine(life.clients.kubelet.parent().context("the state directory")?)
    };
    report.step(Some(&control), "nothing left: EC2, loop devices, links, mounts", proof).await?;
    let rights = async {
        let beyond = control.ledger(0).await?.beyond(POLICY);
        ensure!(beyond.is_empty(), "{POLICY} does not allow these calls:\n{}", beyond.join("\n"));
        Ok(())
    };
    report.step(Some(&control), "every call was allowed by deploy/iam/managed-v2.json", rights).await
}

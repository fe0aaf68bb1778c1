//! Clients that leave and drivers that are killed in the middle of an operation: the retry finds one volume, one
//! attachment and one file system.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use csi_proto::csi;
use ebs_testkit::control::{State, Timing};
use ebs_testkit::csi_client::{Access, CsiClient, new_volume};
use ebs_testkit::on_node::VolumeOnNode;
use ebs_testkit::process::run_tool;
use ebs_testkit::record::children_of;
use ebs_testkit::world::{STOP_BOUND, World, with_mounts};
use rustix::process::Signal;

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
/// Timeout of every wait, on a busy machine.
const BOUND: Duration = Duration::from_secs(180);
/// EC2 takes so long that no call ends by itself while a test acts in the middle, however slow the machine is. The test
/// advances the time ([`go_on`]) when it has seen the expected state.
const HELD: Duration = Duration::from_secs(600);
/// mkfs takes a noticeable time on a device of this size, though the file behind it stays small.
const LARGE_GIB: i64 = 400;

fn ext4() -> Access {
    Access::Mount("ext4".to_owned())
}

fn millis(time: Duration) -> Option<u64> {
    u64::try_from(time.as_millis()).ok()
}

fn held_creation() -> Timing {
    Timing { create_ms: millis(HELD), ..Timing::default() }
}

fn held_attachment() -> Timing {
    Timing { attach_ms: millis(HELD), ..Timing::default() }
}

/// Completes the calls that EC2 holds back.
async fn go_on(world: &World) -> anyhow::Result<()> {
    world.control().advance(HELD).await
}

/// Starts a call and drops it as soon as `moment` ends, as a client that crashes or hangs up does.
async fn leave_at<T: std::fmt::Debug>(
    call: impl Future<Output = T>,
    moment: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    tokio::select! {
        answer = call => bail!("the call was over before the client could leave: {answer:?}"),
        reached = moment => reached,
    }
}

async fn creating(world: &World, name: &str) -> anyhow::Result<()> {
    let seen = |state: &State| !state.volumes_named(name).is_empty();
    world.control().until(BOUND, "the volume is being created", seen).await.map(drop)
}

/// EC2 sees one CreateVolume.
#[tokio::test]
async fn retry_after_cancelled_create_gets_the_same_volume() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).timing(held_creation()).start().await?;
    let request = || new_volume("pvc-left", 4, &ext4());
    leave_at(world.client().create_volume(request()), creating(&world, "pvc-left")).await?;
    let volume = joined(&world, request()).await?;
    let state = world.control().state().await?;
    let named: Vec<&str> = state.volumes_named("pvc-left").iter().map(|volume| volume.id.as_str()).collect();
    ensure!(named == [volume.volume_id.as_str()], "EC2 holds {named:?}, the answer is {}", volume.volume_id);
    let calls = world.calls_since(0).await?;
    ensure!(calls.done("CreateVolume") == 1, "{}", calls.summary());
    world.client().delete_volume(&volume.volume_id).await?;
    world.finish().await
}

/// Calls CreateVolume when the driver knows that no client waits for that name, and lets EC2 continue when this call
/// has arrived.
async fn joined(world: &World, request: csi::CreateVolumeRequest) -> anyhow::Result<csi::Volume> {
    let name = request.name.clone();
    world.until_in_hand("CreateVolume", &name, 0).await?;
    let arrived = async {
        world.until_in_hand("CreateVolume", &name, 1).await?;
        go_on(world).await
    };
    let (volume, arrived) = tokio::join!(world.client().create_volume(request), arrived);
    arrived?;
    volume.context("the retry")
}

/// The expired call returns a code that is not final.
#[tokio::test]
async fn retry_joins_create_whose_deadline_passed() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).timing(held_creation()).start().await?;
    let request = new_volume("pvc-late", 4, &ext4());
    // On a busy machine a deadline may pass before the driver calls EC2. The client then calls again, as all clients
    // do.
    let mut soon = Duration::from_millis(500);
    while world.control().state().await?.volumes_named("pvc-late").is_empty() {
        let late = world.client().controller().create_volume(CsiClient::within(request.clone(), soon)).await;
        let code = late.err().context("the deadline passes first")?.code();
        let not_final = [tonic::Code::Cancelled, tonic::Code::DeadlineExceeded, tonic::Code::Aborted];
        ensure!(not_final.contains(&code), "{code:?} would make the provisioner forget the volume");
        soon = (soon * 2).min(BOUND);
    }
    let volume = joined(&world, request).await?;
    ensure!(world.control().state().await?.volumes_named("pvc-late").len() == 1, "more than one volume");
    let calls = world.calls_since(0).await?;
    ensure!(calls.done("CreateVolume") == 1, "{}", calls.summary());
    world.client().delete_volume(&volume.volume_id).await?;
    world.finish().await
}

#[tokio::test]
async fn different_request_with_name_in_creation_is_aborted() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).timing(held_creation()).start().await?;
    let client = world.client();
    let other = async {
        creating(&world, "pvc-busy").await?;
        let other = client.create_volume(new_volume("pvc-busy", 5, &ext4())).await;
        go_on(&world).await?;
        anyhow::Ok(other)
    };
    let (volume, other) = tokio::join!(client.create_volume(new_volume("pvc-busy", 4, &ext4())), other);
    let status = other?.err().context("a different request joined")?;
    ensure!(status.code() == tonic::Code::Aborted, "{status:?}");
    client.delete_volume(&volume?.volume_id).await?;
    world.finish().await
}

/// Waits until the driver has started mkfs, and returns its process id.
async fn formatting(driver: u32) -> anyhow::Result<u32> {
    let mut tick = tokio::time::interval(Duration::from_millis(1));
    let seen = async {
        loop {
            tick.tick().await;
            if let Some(pid) = mkfs_of(driver)?.pop_first() {
                return anyhow::Ok(pid);
            }
        }
    };
    tokio::time::timeout(BOUND, seen).await.context("no mkfs was seen")?
}

fn mkfs_of(driver: u32) -> std::io::Result<BTreeSet<u32>> {
    let children = children_of(driver)?.into_iter();
    let is_mkfs = |program: &str| program.starts_with("mkfs") || program.starts_with("mke2fs");
    Ok(children.filter(|(_, program)| is_mkfs(program)).map(|(pid, _)| pid).collect())
}

async fn loop_of(world: &World, volume: &VolumeOnNode) -> anyhow::Result<String> {
    let state = world.control().state().await?;
    let attachments = &state.volume(volume.id()).context("the volume")?.attachments;
    attachments.first().and_then(|attachment| attachment.loop_device.clone()).context("a loop device")
}

/// Reads the UUID in the superblock from the device, without the caches of blkid.
fn file_system_uuid(device: &str) -> anyhow::Result<String> {
    let uuid = run_tool("/usr/sbin/blkid", &["-p", "-s", "UUID", "-o", "value", device], BOUND)?;
    Ok(uuid.trim().to_owned())
}

async fn attached_large_volume(world: &World, name: &str) -> anyhow::Result<VolumeOnNode> {
    let volume = world.client().create_volume(new_volume(name, LARGE_GIB, &ext4())).await?;
    let mut volume = world.on_node(volume, &ext4()).await?;
    volume.attach().await?;
    Ok(volume)
}

async fn remove(world: World, volume: &mut VolumeOnNode) -> anyhow::Result<()> {
    volume.unstage().await?;
    volume.detach().await?;
    world.client().delete_volume(volume.id()).await?;
    world.finish().await
}

/// mkfs runs once.
#[test]
fn retry_after_cancelled_stage_finds_one_file_system() {
    with_mounts(|| async {
        let mut world = World::builder(DRIVER).loop_devices().start().await?;
        let driver = world.driver()?.pid();
        let mut volume = attached_large_volume(&world, "pvc-staged").await?;
        let mut formatters = BTreeSet::new();
        leave_at(volume.stage(), async {
            formatters.insert(formatting(driver).await?);
            Ok(())
        })
        .await?;
        let mut retry = Box::pin(volume.stage());
        let mut tick = tokio::time::interval(Duration::from_millis(1));
        loop {
            tokio::select! {
                answer = &mut retry => break answer?,
                _ = tick.tick() => formatters.append(&mut mkfs_of(driver)?),
            }
        }
        drop(retry);
        ensure!(formatters.len() == 1, "mkfs ran {} times", formatters.len());
        let device = loop_of(&world, &volume).await?;
        let first = file_system_uuid(&device)?;
        volume.unstage().await?;
        volume.stage().await?;
        ensure!(file_system_uuid(&device)? == first, "the volume was formatted again");
        remove(world, &mut volume).await
    });
}

/// The driver never kills a format whose client has left, and the next stage keeps its file system.
#[test]
fn abandoned_format_finishes_and_retry_keeps_it() {
    with_mounts(|| async {
        let mut world = World::builder(DRIVER).loop_devices().start().await?;
        let driver = world.driver()?.pid();
        let mut volume = attached_large_volume(&world, "pvc-alone").await?;
        leave_at(volume.stage(), async { formatting(driver).await.map(drop) }).await?;
        let mut tick = tokio::time::interval(Duration::from_millis(5));
        let over = async {
            while !mkfs_of(driver)?.is_empty() {
                tick.tick().await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(BOUND, over).await.context("mkfs does not end")??;
        let device = loop_of(&world, &volume).await?;
        let made = file_system_uuid(&device)?;
        volume.stage().await?;
        ensure!(file_system_uuid(&device)? == made, "the retry formatted the volume again");
        remove(world, &mut volume).await
    });
}

/// The file system is sound.
#[test]
fn restarted_driver_completes_format_of_killed_one() {
    with_mounts(|| async {
        let mut world = World::builder(DRIVER).loop_devices().start().await?;
        let driver = world.driver()?.pid();
        let mut volume = attached_large_volume(&world, "pvc-killed").await?;
        leave_at(volume.stage(), async {
            let mkfs = formatting(driver).await?;
            // The machine crashes as a whole: the driver never learns that its mkfs has died.
            world.driver()?.signal(Signal::STOP)?;
            let pid = rustix::process::Pid::from_raw(i32::try_from(mkfs)?).context("a process id")?;
            rustix::process::kill_process(pid, Signal::KILL).context("kill mkfs")?;
            world.kill_driver()
        })
        .await?;
        world.start_driver().await?;
        volume.set_client(world.client());
        volume.stage().await?;
        let device = loop_of(&world, &volume).await?;
        volume.unstage().await?;
        run_tool("/usr/sbin/e2fsck", &["-f", "-n", &device], BOUND).context("the file system is not sound")?;
        volume.stage().await?;
        remove(world, &mut volume).await
    });
}

/// Waits until EC2 has answered a call of this action since a position of the ledger.
async fn calls_with(world: &World, position: u64, action: &str) -> anyhow::Result<()> {
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    let seen = async {
        while world.calls_since(position).await?.done(action) == 0 {
            tick.tick().await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(BOUND, seen).await.with_context(|| format!("no {action} was called"))?
}

/// No second AttachVolume is made.
#[tokio::test]
async fn restarted_driver_finishes_attach_of_killed_one() -> anyhow::Result<()> {
    let mut world = World::builder(DRIVER).timing(held_attachment()).start().await?;
    let volume = world.client().create_volume(new_volume("pvc-attach", 4, &ext4())).await?;
    let mut volume = world.on_node(volume, &ext4()).await?;
    let id = volume.id().to_owned();
    let control = world.control().clone();
    leave_at(volume.attach(), async {
        let attaching = |state: &State| {
            state.volume(&id).is_some_and(|volume| volume.attachments.iter().any(|a| a.state == "attaching"))
        };
        control.until(BOUND, "the volume is attaching", attaching).await.map(drop)
    })
    .await?;
    world.kill_driver()?;
    world.start_driver().await?;
    volume.set_client(world.client());
    let position = world.control().position().await?;
    let met = async {
        // The new process has seen the state that the previous one left: not attached yet.
        calls_with(&world, position, "DescribeVolumes").await?;
        go_on(&world).await
    };
    let (attached, met) = tokio::join!(volume.attach(), met);
    met?;
    attached?;
    let calls = world.calls_since(0).await?;
    ensure!(calls.done("AttachVolume") == 1, "{}", calls.summary());
    let state = world.control().state().await?;
    let attachments = &state.volume(&id).context("the volume")?.attachments;
    ensure!(attachments.len() == 1 && attachments[0].state == "attached", "{attachments:?}");
    ensure!(volume.publish_context.get("devicePath") == Some(&attachments[0].device), "{:?}", volume.publish_context);
    volume.detach().await?;
    world.client().delete_volume(&id).await?;
    world.finish().await
}

/// Unpublish takes over an abandoned Publish of the same volume and node, so that no attach follows later.
#[tokio::test]
async fn detach_takes_over_from_abandoned_attach() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).timing(held_attachment()).start().await?;
    let volume = world.client().create_volume(new_volume("pvc-turn", 4, &ext4())).await?;
    let mut volume = world.on_node(volume, &ext4()).await?;
    let id = volume.id().to_owned();
    leave_at(volume.attach(), async {
        let begun = |state: &State| state.volume(&id).is_some_and(|volume| !volume.attachments.is_empty());
        world.control().until(BOUND, "the attachment has begun", begun).await.map(drop)
    })
    .await?;
    // Until the driver has noticed that the client has left, the attach belongs to the client.
    world.until_in_hand("ControllerPublishVolume", &id, 0).await?;
    let arrived = async {
        world.until_in_hand("ControllerUnpublishVolume", &id, 1).await?;
        go_on(&world).await
    };
    let (detached, arrived) = tokio::join!(volume.detach(), arrived);
    arrived?;
    detached?;
    let state = world.control().state().await?;
    let attachments = &state.volume(&id).context("the volume")?.attachments;
    ensure!(attachments.is_empty(), "after the detach: {attachments:?}");
    let calls = world.calls_since(0).await?;
    let order: Vec<&str> = calls.mutations().iter().map(|call| call.action.as_str()).collect();
    // One more DetachVolume may be sent to prove that the volume is not attached.
    let (begun, more) = order.split_at(order.len().min(3));
    ensure!(begun == ["CreateVolume", "AttachVolume", "DetachVolume"], "{order:?}");
    ensure!(more.is_empty() || more == ["DetachVolume"], "{order:?}");
    world.client().delete_volume(&id).await?;
    world.finish().await
}

/// SIGTERM drains: running mutations finish and are answered, the socket file is removed, and the exit code is 0.
#[tokio::test]
async fn sigterm_finishes_running_mutations_and_exits_with_0() -> anyhow::Result<()> {
    let mut world = World::builder(DRIVER).timing(held_creation()).arg("--shutdown-timeout=180s").start().await?;
    let client = world.client().clone();
    let request = new_volume("pvc-drain", 4, &ext4());
    let signalled = async {
        creating(&world, "pvc-drain").await?;
        world.signal_driver(Signal::TERM)?;
        world.until_logged("it stops", |log| log.contains("stopping: rejecting new requests")).await?;
        go_on(&world).await
    };
    let (answer, sent) = tokio::join!(client.create_volume(request.clone()), signalled);
    sent?;
    let volume = answer.context("the running request was answered")?;
    let (code, output) = world.driver_ended(STOP_BOUND).await?;
    ensure!(code == Some(0), "the driver ended with {code:?}: {output}");
    ensure!(!world.socket().exists(), "the socket file is left");
    world.start_driver().await?;
    ensure!(world.client().create_volume(request).await? == volume, "the volume is another one now");
    world.client().delete_volume(&volume.volume_id).await?;
    world.finish().await
}

#[tokio::test]
async fn second_signal_ends_driver_at_once() -> anyhow::Result<()> {
    // Without the second signal the driver would run for an hour.
    let mut world = World::builder(DRIVER).timing(held_creation()).arg("--shutdown-timeout=1h").start().await?;
    let client = world.client().clone();
    let ended = async {
        creating(&world, "pvc-twice").await?;
        world.signal_driver(Signal::TERM)?;
        world.until_logged("it stops", |log| log.contains("stopping: rejecting new requests")).await?;
        ensure!(world.driver()?.ended()?.is_none(), "the first signal did not let running work end");
        world.signal_driver(Signal::TERM)?;
        world.driver_ended(BOUND).await
    };
    // The client keeps waiting: the first signal would end an abandoned operation.
    let (answer, ended) = tokio::join!(client.create_volume(new_volume("pvc-twice", 4, &ext4())), ended);
    let (code, output) = ended?;
    ensure!(answer.is_err(), "the driver answered although EC2 was held: {answer:?}");
    ensure!(code == Some(1), "an end in the middle of work is no clean stop: {code:?}\n{output}");
    ensure!(output.contains("second signal") && output.contains("pvc-twice"), "{output}");
    go_on(&world).await?;
    let state = world.control().state().await?;
    let id = state.volumes_named("pvc-twice").first().context("the volume")?.id.clone();
    let available = |state: &State| state.volume(&id).is_some_and(|v| v.state == "available");
    world.control().until(BOUND, "the volume is available", available).await?;
    world.start_driver().await?;
    world.client().delete_volume(&id).await?;
    world.finish().await
}

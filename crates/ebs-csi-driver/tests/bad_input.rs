//! Bad input: each is rejected with a code and a text that names the field and the rule. It changes nothing, neither in
//! EC2 (proven by the ledger) nor on the machine (proven by mounts, disks and directories).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use csi_proto::csi;
use ebs_ec2::VolumeId;
use ebs_testkit::content;
use ebs_testkit::csi_client::{Access, CsiClient, GIB, new_volume};
use ebs_testkit::leftovers::Leftovers;
use ebs_testkit::loop_device::LoopDevice;
use ebs_testkit::on_node::VolumeOnNode;
use ebs_testkit::process::{Process, ProcessSpec};
use ebs_testkit::world::{World, with_mounts};
use tonic::{Code, Status};

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const BOUND: Duration = Duration::from_secs(120);

fn ext4() -> Access {
    Access::Mount("ext4".to_owned())
}

/// Checks that the error has this code and that its text contains all these words.
fn check<T: std::fmt::Debug>(case: &str, answer: Result<T, Status>, code: Code, words: &[&str]) -> anyhow::Result<()> {
    let status = match answer {
        Ok(answer) => bail!("{case}: accepted, with {answer:?}"),
        Err(status) => status,
    };
    ensure!(status.code() == code, "{case}: {:?} instead of {code:?}: {}", status.code(), status.message());
    for word in words {
        ensure!(status.message().contains(word), "{case}: {word:?} is not in {:?}", status.message());
    }
    Ok(())
}

/// Checks that no mutating call has reached EC2 since `position`.
async fn untouched(world: &World, position: u64) -> anyhow::Result<()> {
    let calls = world.calls_since(position).await?;
    ensure!(calls.mutations().is_empty(), "EC2 was asked to change something: {}", calls.summary());
    Ok(())
}

fn with_parameter(name: &str, value: &str) -> csi::CreateVolumeRequest {
    let mut request = new_volume("pvc-bad", 4, &ext4());
    request.parameters.insert(name.to_owned(), value.to_owned());
    request
}

fn with_range(required_bytes: i64, limit_bytes: i64) -> csi::CreateVolumeRequest {
    let capacity_range = Some(csi::CapacityRange { required_bytes, limit_bytes });
    csi::CreateVolumeRequest { capacity_range, ..new_volume("pvc-bad", 4, &ext4()) }
}

/// Invalid volumes have an invalid type or parameter, a size of 0, a negative size, a limit below the size, or no name.
#[tokio::test]
async fn invalid_volume_is_rejected_before_any_ec2_call() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).start().await?;
    let position = world.control().position().await?;
    let nameless = csi::CreateVolumeRequest { name: String::new(), ..with_range(GIB, 0) };
    let uncapable = csi::CreateVolumeRequest { volume_capabilities: Vec::new(), ..with_range(GIB, 0) };
    for (case, request, code, words) in [
        ("unknown parameter", with_parameter("colour", "blue"), Code::InvalidArgument, &["colour"][..]),
        ("garbage for a boolean", with_parameter("encrypted", "perhaps"), Code::InvalidArgument, &["encrypted"]),
        ("garbage for a number", with_parameter("iops", "many"), Code::InvalidArgument, &["iops", "many"]),
        ("size 0", with_range(0, 0), Code::InvalidArgument, &["required_bytes", "0"]),
        ("negative size", with_range(-1, 0), Code::InvalidArgument, &["required_bytes", "-1"]),
        ("negative limit", with_range(GIB, -5), Code::InvalidArgument, &["limit_bytes", "-5"]),
        ("limit below size", with_range(2 * GIB, GIB), Code::OutOfRange, &["limit_bytes", "2 GiB"]),
        ("no GiB between", with_range(GIB + 1, GIB + 2), Code::OutOfRange, &["limit_bytes"]),
        ("no name", nameless, Code::InvalidArgument, &["name"]),
        ("no capability", uncapable, Code::InvalidArgument, &["capabilit"]),
    ] {
        check(case, world.client().create_volume(request).await, code, words)?;
    }
    untouched(&world, position).await?;
    world.finish().await
}

#[tokio::test]
async fn expand_rejects_missing_size_and_size_above_limit() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).start().await?;
    let volume = world.client().create_volume(new_volume("pvc-bad", 4, &ext4())).await?;
    let position = world.control().position().await?;
    for (case, range, code, words) in [
        ("no range", None, Code::InvalidArgument, &["capacity_range"][..]),
        ("size 0", Some((0, 0)), Code::InvalidArgument, &["required_bytes"]),
        ("negative size", Some((-GIB, 0)), Code::InvalidArgument, &["required_bytes"]),
        ("limit below size", Some((8 * GIB, 7 * GIB)), Code::OutOfRange, &["limit_bytes"]),
    ] {
        let request = csi::ControllerExpandVolumeRequest {
            volume_id: volume.volume_id.clone(),
            capacity_range: range
                .map(|(required_bytes, limit_bytes)| csi::CapacityRange { required_bytes, limit_bytes }),
            volume_capability: Some(ext4().capability()),
            ..Default::default()
        };
        check(case, world.client().controller().controller_expand_volume(request).await, code, words)?;
    }
    untouched(&world, position).await?;
    world.client().delete_volume(&volume.volume_id).await?;
    world.finish().await
}

/// For an unknown id, delete and detach succeed, and attach fails with NotFound and the id.
#[tokio::test]
async fn unknown_id_is_deleted_but_not_found_on_attach() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).start().await?;
    let position = world.control().position().await?;
    let client = world.client();
    for id in ["vol-0123456789abcdef0", "no volume at all", "snap-0123456789abcdef0"] {
        client.delete_volume(id).await.with_context(|| format!("delete {id}"))?;
        let volume = csi::Volume { volume_id: id.to_owned(), ..Default::default() };
        let mut volume = world.on_node(volume, &ext4()).await?;
        check(id, volume.attach().await, Code::NotFound, &[id])?;
        volume.detach().await.with_context(|| format!("detach {id}"))?;
    }
    let calls = world.calls_since(position).await?;
    ensure!(calls.mutations().iter().all(|call| !call.did_work()), "{}", calls.summary());
    world.finish().await
}

/// A by-id link to a device of another volume, removed on drop.
struct FalseLink(PathBuf);

impl FalseLink {
    fn new(volume: &VolumeId, device: &LoopDevice) -> anyhow::Result<Self> {
        let by_id = Path::new("/dev/disk/by-id");
        fs::create_dir_all(by_id).context("make /dev/disk/by-id")?;
        let link = by_id.join(format!("nvme-Amazon_Elastic_Block_Store_{}", volume.serial()));
        std::os::unix::fs::symlink(format!("../../{}", device.name()), &link).context("make the link")?;
        Ok(Self(link))
    }
}

impl Drop for FalseLink {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The error names the volume and the device, for stage and for block publish.
#[test]
fn foreign_device_under_expected_name_stays_unchanged() {
    with_mounts(|| async {
        // EC2 reports the volume as attached, but the machine has no such disk: only the link exists.
        let foreign_id = VolumeId::parse(&format!("vol-0foreign{}", std::process::id()))?;
        let foreign = LoopDevice::new(&foreign_id, 4 << 30)?;
        let devices = foreign.directory().to_string_lossy().into_owned();
        let world = World::builder(DRIVER).env("EBS_SIM_DEVICES_DIR", &devices).start().await?;
        let volume = world.client().create_volume(new_volume("pvc-foreign", 4, &ext4())).await?;
        let id = VolumeId::parse(&volume.volume_id)?;
        // The name of a file proves nothing outside the simulator's directory.
        let stranger = LoopDevice::new(&id, 4 << 30)?;
        let mut mount = world.on_node(volume.clone(), &ext4()).await?;
        mount.attach().await?;
        let mut block = world.on_node(volume, &Access::Block).await?;
        block.publish_context = mount.publish_context.clone();

        let backing = stranger.backing_file().to_string_lossy().into_owned();
        for (device, found) in [(&foreign, foreign_id.as_str()), (&stranger, backing.as_str())] {
            device.write_at(b"somebody's data", 1 << 20)?;
            let before = content::hash_start(device.path(), 64 << 20)?;
            let link = FalseLink::new(&id, device)?;
            let status = mount.stage().await.err().context("a foreign device was staged")?;
            is_about_the_device(&status, &id, found)?;
            if device.name() == foreign.name() {
                let status = block.publish().await.err().context("a foreign device was published")?;
                is_about_the_device(&status, &id, found)?;
            }
            ensure!(content::hash_start(device.path(), 64 << 20)? == before, "{found} was written to");
            drop(link);
        }
        let left = Leftovers::below(world.dir())?;
        ensure!(left.is_empty(), "{left}");
        ensure!(!block.target.exists(), "the target of the refused publish is left");
        mount.detach().await?;
        world.client().delete_volume(mount.id()).await?;
        world.finish().await
    });
}

/// Checks that the error names the requested volume and the device that was found.
fn is_about_the_device(status: &Status, id: &VolumeId, found: &str) -> anyhow::Result<()> {
    let refusals = [Code::NotFound, Code::FailedPrecondition];
    ensure!(refusals.contains(&status.code()), "{status:?}");
    for word in [id.as_str(), found] {
        ensure!(status.message().contains(word), "{word} is not in {:?}", status.message());
    }
    Ok(())
}

async fn publish_to(world: &World, volume: &VolumeOnNode, target: &str) -> Result<(), Status> {
    let mut request = volume.publish_request();
    target.clone_into(&mut request.target_path);
    world.client().node().node_publish_volume(request).await.map(drop)
}

/// Invalid target paths are relative, contain `..`, are a symlink or the root, or are a directory that is not empty.
#[test]
fn invalid_target_path_is_rejected_and_left_alone() {
    with_mounts(|| async {
        let world = World::builder(DRIVER).loop_devices().start().await?;
        let volume = world.client().create_volume(new_volume("pvc-paths", 1, &ext4())).await?;
        let mut volume = world.on_node(volume, &ext4()).await?;
        volume.attach().await?;
        volume.stage().await?;
        let mounts = Leftovers::below(world.dir())?.mounts;
        let pods = world.kubelet_dir().join("pods");
        let (elsewhere, link, full) = (pods.join("elsewhere"), pods.join("link"), pods.join("full"));
        fs::create_dir(&elsewhere)?;
        std::os::unix::fs::symlink(&elsewhere, &link)?;
        fs::create_dir(&full)?;
        fs::write(full.join("file"), "somebody's")?;
        let climbing = pods.join("a/../b");
        let text = |path: &Path| path.to_string_lossy().into_owned();
        for (target, codes, word) in [
            ("pods/relative".to_owned(), &[Code::InvalidArgument][..], "absolute"),
            (text(&climbing), &[Code::InvalidArgument], ".."),
            ("/".to_owned(), &[Code::InvalidArgument], "root"),
            (text(&link), &[Code::InvalidArgument, Code::FailedPrecondition], "symbolic link"),
            (text(&full), &[Code::InvalidArgument, Code::FailedPrecondition], "empty"),
        ] {
            let status =
                publish_to(&world, &volume, &target).await.err().with_context(|| format!("{target}: accepted"))?;
            ensure!(codes.contains(&status.code()), "{target}: {status:?}");
            for part in [target.as_str(), word] {
                ensure!(status.message().contains(part), "{target}: {part:?} is not in {:?}", status.message());
            }
        }
        ensure!(Leftovers::below(world.dir())?.mounts == mounts, "something was mounted");
        ensure!(!pods.join("b").exists() && !Path::new("pods").exists(), "a refused target was created");
        ensure!(fs::read_link(&link)? == elsewhere && fs::read_dir(&elsewhere)?.next().is_none(), "the link changed");
        ensure!(fs::read_to_string(full.join("file"))? == "somebody's", "the full directory changed");
        volume.unstage().await?;
        volume.detach().await?;
        world.client().delete_volume(volume.id()).await?;
        world.finish().await
    });
}

/// Unpublish and unstage never empty a directory, and reject paths that are relative or contain `..`.
#[test]
fn unpublish_and_unstage_keep_directories_and_symlinks() {
    with_mounts(|| async {
        let world = World::builder(DRIVER).loop_devices().start().await?;
        let volume = csi::Volume { volume_id: "vol-0123456789abcdef0".to_owned(), ..Default::default() };
        let mut volume = world.on_node(volume, &ext4()).await?;
        let full = volume.target.clone();
        fs::create_dir_all(&full)?;
        fs::write(full.join("file"), "somebody's")?;
        let status = volume.unpublish().await.err().context("a full directory was unpublished")?;
        ensure!(status.message().contains(&*full.to_string_lossy()), "{status:?}");
        ensure!(fs::read_to_string(full.join("file"))? == "somebody's", "the file is gone");
        for bad in ["relative", "/a/../b"] {
            volume.target = PathBuf::from(bad);
            check(bad, volume.unpublish().await, Code::InvalidArgument, &[bad])?;
            volume.staging = PathBuf::from(bad);
            check(bad, volume.unstage().await, Code::InvalidArgument, &[bad])?;
        }
        world.finish().await
    });
}

/// Waits until Probe reports ready.
async fn until_ready(world: &mut World) -> anyhow::Result<()> {
    let socket = world.socket().to_owned();
    CsiClient::ready(&socket, world.driver()?, BOUND).await.map(drop)
}

/// The error is Unavailable and has the address of the endpoint. Probe reports ready, and the driver keeps running.
#[tokio::test]
async fn unreachable_ec2_is_unavailable_and_named() -> anyhow::Result<()> {
    let mut world = World::builder(DRIVER).env("AWS_EC2_ENDPOINT", "http://127.0.0.1:1").start_without_driver().await?;
    world.spawn_driver()?;
    until_ready(&mut world).await?;
    let request = CsiClient::within(new_volume("pvc-nowhere", 4, &ext4()), BOUND);
    let answer = world.client().controller().create_volume(request).await;
    check(
        "CreateVolume",
        answer,
        Code::Unavailable,
        &["pvc-nowhere", "EC2 was not called", "http://127.0.0.1:1 is unreachable", "check the endpoint"],
    )?;
    let driver = world.driver()?;
    ensure!(driver.ended()?.is_none(), "the driver gave up");
    world.finish().await
}

/// The error has EC2's code and the next step. No output contains the secret.
#[tokio::test]
async fn wrong_credentials_are_reported_and_create_nothing() -> anyhow::Result<()> {
    let mut world = World::builder(DRIVER)
        .access_key("AKIDEXAMPLE000000001", "right-secret")
        .env("AWS_SECRET_ACCESS_KEY", "canary-wrong-secret")
        .start_without_driver()
        .await?;
    world.spawn_driver()?;
    until_ready(&mut world).await?;
    let status = world.client().create_volume(new_volume("pvc-denied", 4, &ext4())).await.err();
    let status = status.context("wrong credentials made a volume")?;
    // A driver that has just started may not see yet whether a previous one created the volume, so no error is final.
    ensure!(status.code() == Code::Aborted, "{status:?}");
    let text = status.message();
    ensure!(text.contains("SignatureDoesNotMatch") || text.contains("AuthFailure"), "{text}");
    ensure!(text.to_lowercase().contains("credentials"), "what to do next is not in {text}");
    let calls = world.calls_since(0).await?;
    ensure!(calls.mutations().iter().all(|call| !call.did_work()), "{}", calls.summary());
    let log = world.driver()?.output()?;
    ensure!(!log.contains("canary-wrong-secret") && !text.contains("canary-wrong-secret"), "the secret is shown");
    world.finish().await
}

fn second_driver(world: &World, endpoint: &str, log: &str) -> anyhow::Result<Process> {
    let args = ["all".to_owned(), format!("--endpoint={endpoint}")];
    let spec = world.driver_spec().clone();
    Process::spawn(ProcessSpec { args: args.iter().map(Into::into).collect(), log: world.dir().join(log), ..spec })
}

#[tokio::test]
async fn second_driver_on_same_socket_exits_with_1() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).start().await?;
    let endpoint = format!("unix://{}", world.socket().display());
    let mut second = second_driver(&world, &endpoint, "second.log")?;
    let status = second.wait(BOUND).await?;
    let output = second.output()?;
    ensure!(status.code() == Some(1), "ended with {status}: {output}");
    ensure!(output.contains(&*world.socket().to_string_lossy()), "the socket is not named: {output}");
    ensure!(output.contains("another"), "the reason is not named: {output}");
    let fresh = CsiClient::lazy(world.socket());
    ensure!(fresh.probe().await?, "the first driver does not serve any more");
    world.finish().await
}

/// The error names the limit and the flag.
#[tokio::test]
async fn too_long_socket_path_is_rejected_with_limit() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).start_without_driver().await?;
    let long = world.dir().join("x".repeat(120)).join("csi.sock");
    let mut driver = second_driver(&world, &format!("unix://{}", long.display()), "long.log")?;
    let status = driver.wait(BOUND).await?;
    let output = driver.output()?;
    ensure!(status.code().is_some_and(|code| code == 1 || code == 2), "ended with {status}: {output}");
    ensure!(output.contains("107") && output.contains("--endpoint"), "limit and flag are not named: {output}");
    ensure!(!long.exists(), "something was made");
    world.finish().await
}

/// The driver never removes a file of another kind to make room for its socket.
#[tokio::test]
async fn file_of_other_kind_at_socket_path_is_kept() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).start_without_driver().await?;
    let file = world.dir().join("csi/precious");
    fs::write(&file, "data")?;
    let mut driver = second_driver(&world, &format!("unix://{}", file.display()), "file.log")?;
    let status = driver.wait(BOUND).await?;
    ensure!(status.code() == Some(1), "ended with {status}: {}", driver.output()?);
    ensure!(fs::read_to_string(&file)? == "data", "the file changed");
    world.finish().await
}

/// NodeStageVolume rejects a request without volume id, staging path, capability or device path, and ntfs on Linux.
#[tokio::test]
async fn stage_request_with_missing_field_is_rejected() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).start().await?;
    let volume = csi::Volume { volume_id: "vol-0123456789abcdef0".to_owned(), ..Default::default() };
    let volume = world.on_node(volume, &ext4()).await?;
    let whole = volume.stage_request();
    let without: BTreeMap<&str, csi::NodeStageVolumeRequest> = [
        ("volume_id", csi::NodeStageVolumeRequest { volume_id: String::new(), ..whole.clone() }),
        ("staging_target_path", csi::NodeStageVolumeRequest { staging_target_path: String::new(), ..whole.clone() }),
        ("volume capability", csi::NodeStageVolumeRequest { volume_capability: None, ..whole.clone() }),
        ("devicePath", whole.clone()),
        (
            "ntfs",
            csi::NodeStageVolumeRequest {
                volume_capability: Some(Access::Mount("ntfs".to_owned()).capability()),
                ..whole.clone()
            },
        ),
    ]
    .into();
    for (missing, request) in without {
        check(missing, world.client().stage(request).await, Code::InvalidArgument, &[missing])?;
    }
    world.finish().await
}

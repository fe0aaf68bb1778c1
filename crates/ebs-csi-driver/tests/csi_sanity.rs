//! csi-sanity, with all of its optional arguments, against the running driver, the simulator and real mounts. Nothing
//! fails, and it skips exactly the specs in `csi_sanity_skips.txt`. It also runs with an impatient client, in three
//! parallel parts, because each call to a slow EC2 then takes seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ebs_sim::iam::Shipped;
use ebs_testkit::control::Timing;
use ebs_testkit::sanity::{self, Part, SanityResult, SanitySpec};
use ebs_testkit::world::{World, WorldBuilder, with_mounts};

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const SKIPS: &str = include_str!("csi_sanity_skips.txt");
/// Timeout of the whole suite, on a busy machine.
const BOUND: Duration = Duration::from_secs(1800);

/// Timeout of a call of the impatient client.
const IMPATIENCE: Duration = Duration::from_secs(1);

/// A line is `run | spec | csi-sanity's reason | ours`; `#` starts a comment.
fn expected_skips(runs: &[&str]) -> anyhow::Result<BTreeMap<String, String>> {
    let lines = SKIPS.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let mut skips = BTreeMap::new();
    for line in lines {
        let [run, spec, reason, ours] = line.split(" | ").collect::<Vec<_>>()[..] else {
            bail!("not `run | spec | csi-sanity's reason | ours`: {line}");
        };
        ensure!(!ours.trim().is_empty(), "no reason of ours: {line}");
        if runs.contains(&run) {
            skips.insert(spec.to_owned(), reason.to_owned());
        }
    }
    Ok(skips)
}

/// Runs the suite with all of its optional arguments and compares the skipped specs with the list.
async fn run(
    world: &World,
    access: &'static str,
    part: Part,
    call_timeout: Option<Duration>,
) -> anyhow::Result<SanityResult> {
    let program = sanity::program()?;
    let spec = SanitySpec {
        socket: world.socket().to_owned(),
        dir: world.dir().join("sanity"),
        volume_bytes: 1 << 30,
        expanded_bytes: 2 << 30,
        access,
        part,
        // Both kinds of unknown ids: arbitrary words, and ids that only EC2 can reject.
        ec2_ids: access == "block",
        // The test attaches some 26 volumes in sequence. That takes minutes for a client that pauses between attempts.
        attach_limit: call_timeout.is_none(),
        call_timeout,
    };
    let impatient = call_timeout.map(|_| "impatient");
    let runs: Vec<&str> = ["both", access].into_iter().chain(impatient).collect();
    let mut expected = expected_skips(&runs)?;
    expected.retain(|spec, _| part.has(spec));
    let result = sanity::run(&program, &spec, BOUND).await?;
    let SanityResult { passed, failed, skipped, calls } = &result;
    let shown: Vec<String> = failed.iter().map(|(spec, why)| format!("{spec}: {why}")).collect();
    ensure!(failed.is_empty(), "{} specs failed:\n{}\n{calls:#?}", failed.len(), shown.join("\n"));
    let lines = |map: &BTreeMap<String, String>| {
        map.iter().map(|(spec, reason)| format!("{access} | {spec} | {reason}")).collect::<Vec<_>>().join("\n")
    };
    ensure!(*skipped == expected, "skipped:\n{}\nlisted:\n{}", lines(skipped), lines(&expected));
    let most = if part == Part::Whole { 50 } else { 15 };
    ensure!(passed.len() > most, "only {} specs ran", passed.len());
    let log = std::fs::read(&world.driver_spec().log).context("read the driver's log")?;
    ensure!(!String::from_utf8_lossy(&log).contains(sanity::SECRET), "the driver's log shows a secret");
    Ok(result)
}

// csi-sanity requests no zone, and publishes every volume on this machine.
fn world() -> WorldBuilder {
    World::builder(DRIVER).under(Shipped::ManagedV2).loop_devices().one_zone()
}

async fn patient(access: &'static str) -> anyhow::Result<()> {
    let world = world().start().await?;
    run(&world, access, Part::Whole, None).await?;
    world.finish().await
}

/// Runs a part with a slow EC2. Calls of the named methods are cancelled and repeated.
async fn impatient(part: Part, slow: &[&str]) -> anyhow::Result<()> {
    // Every wait of a call takes longer than the client's timeout.
    let [create_ms, attach_ms, detach_ms, modify_ms] = [Some(1_500); 4];
    let timing = Timing { create_ms, attach_ms, detach_ms, modify_ms, snapshot_ms: Some(3_000) };
    let world = world().realistic(Duration::ZERO).timing(timing).start().await?;
    let result = run(&world, "mount", part, Some(IMPATIENCE)).await?;
    for slow in slow {
        let calls = result.calls.get(*slow).with_context(|| format!("{slow} was never called"))?;
        ensure!(calls.cut_off > 0 && calls.sent > calls.calls, "no call of {slow} was cut off: {calls:?}");
    }
    world.finish().await
}

/// Every skip is listed with its reason.
///
/// The managed policy alone allows all calls that csi-sanity causes.
#[test]
fn csi_sanity_passes_with_file_system_volumes() {
    with_mounts(|| patient("mount"));
}

/// Every skip is listed with its reason.
#[test]
fn csi_sanity_passes_with_block_volumes() {
    with_mounts(|| patient("block"));
}

/// The client cancels each call after a second and repeats it until the answer is final. It gets the same results as a
/// patient one and leaves nothing behind.
#[test]
fn csi_sanity_passes_with_impatient_client() {
    with_mounts(|| {
        impatient(Part::Controller, &["CreateVolume", "ControllerPublishVolume", "ControllerUnpublishVolume"])
    });
}

/// The calls of the node service, and the controller calls around them.
#[test]
fn csi_sanity_of_node_passes_with_impatient_client() {
    let slow = ["CreateVolume", "ControllerPublishVolume", "ControllerUnpublishVolume", "ControllerExpandVolume"];
    with_mounts(move || async move { impatient(Part::Node, &slow).await });
}

/// Snapshots, expansion and modification.
#[test]
fn csi_sanity_of_changes_passes_with_impatient_client() {
    let slow = ["CreateVolume", "ControllerExpandVolume", "ControllerModifyVolume"];
    with_mounts(move || async move { impatient(Part::Other, &slow).await });
}

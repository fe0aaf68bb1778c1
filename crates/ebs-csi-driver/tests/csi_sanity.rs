//! Runs csi-sanity, with all of its optional arguments, against the running driver, the simulator and real mounts. No
//! spec may fail, and csi-sanity must skip exactly the specs in `csi_sanity_skips.txt`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ebs_sim::iam::Shipped;
use ebs_testkit::sanity::{self, Part, SanityResult, SanitySpec};
use ebs_testkit::world::{World, with_mounts};

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const SKIPS: &str = include_str!("csi_sanity_skips.txt");
/// Timeout of the whole suite, long enough for a busy machine.
const BOUND: Duration = Duration::from_secs(1800);

/// Returns the specs that csi-sanity skips in these runs. A line of the list is `run | spec | csi-sanity's reason | our
/// reason`; `#` starts a comment.
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
async fn passes(access: &'static str) -> anyhow::Result<()> {
    let program = sanity::program()?;
    // Use one zone, because csi-sanity requests no zone and publishes every volume on this machine.
    let world = World::builder(DRIVER).under(Shipped::ManagedV2).loop_devices().one_zone().start().await?;
    let spec = SanitySpec {
        socket: world.socket().to_owned(),
        dir: world.dir().join("sanity"),
        volume_bytes: 1 << 30,
        expanded_bytes: 2 << 30,
        access,
        part: Part::Whole,
        // One run uses arbitrary words as unknown ids, the other one uses ids that only EC2 can reject.
        ec2_ids: access == "block",
        attach_limit: true,
    };
    let expected = expected_skips(&["both", access])?;
    let SanityResult { passed, failed, skipped } = sanity::run(&program, &spec, BOUND).await?;
    let lines = |map: &BTreeMap<String, String>| {
        map.iter().map(|(spec, reason)| format!("{access} | {spec} | {reason}")).collect::<Vec<_>>().join("\n")
    };
    ensure!(failed.is_empty(), "{} specs failed:\n{}", failed.len(), lines(&failed));
    ensure!(skipped == expected, "skipped:\n{}\nlisted:\n{}", lines(&skipped), lines(&expected));
    ensure!(passed.len() > 50, "only {} specs ran", passed.len());
    let log = std::fs::read(&world.driver_spec().log).context("read the driver's log")?;
    ensure!(!String::from_utf8_lossy(&log).contains(sanity::SECRET), "the driver's log shows a secret");
    world.finish().await
}

/// The list of skipped specs has a reason for each one.
///
/// The managed policy alone allows all calls that csi-sanity causes.
#[test]
fn csi_sanity_passes_with_file_system_volumes() {
    with_mounts(|| passes("mount"));
}

/// The list has a reason for every skipped spec.
#[test]
fn csi_sanity_passes_with_block_volumes() {
    with_mounts(|| passes("block"));
}

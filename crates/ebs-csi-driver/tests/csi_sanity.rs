//! csi-sanity against the running driver, the simulator and real mounts: nothing fails, and what skips itself is
//! exactly what `csi_sanity_skips.txt` lists.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{bail, ensure};
use ebs_sim::iam::Shipped;
use ebs_testkit::sanity::{self, SanityResult, SanitySpec};
use ebs_testkit::world::{World, with_mounts};

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const SKIPS: &str = include_str!("csi_sanity_skips.txt");
/// For the whole suite, on a machine that is busy with other things.
const BOUND: Duration = Duration::from_secs(1800);

/// A line is `access | spec | csi-sanity's reason | ours`; `#` starts a remark.
fn expected_skips(access: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let lines = SKIPS.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let mut skips = BTreeMap::new();
    for line in lines {
        let [of, spec, reason, ours] = line.split(" | ").collect::<Vec<_>>()[..] else {
            bail!("not `access | spec | csi-sanity's reason | ours`: {line}");
        };
        ensure!(!ours.trim().is_empty(), "no reason of ours: {line}");
        if of == "both" || of == access {
            skips.insert(spec.to_owned(), reason.to_owned());
        }
    }
    Ok(skips)
}

async fn run(access: &'static str) -> anyhow::Result<()> {
    let program = sanity::program()?;
    // csi-sanity asks for no zone, and publishes on this machine whatever it got.
    let world = World::builder(DRIVER).under(Shipped::ManagedV2).loop_devices().one_zone().start().await?;
    let spec = SanitySpec {
        socket: world.socket().to_owned(),
        dir: world.dir().join("sanity"),
        volume_bytes: 1 << 30,
        expanded_bytes: 2 << 30,
        access,
    };
    let SanityResult { passed, failed, skipped } = sanity::run(&program, &spec, BOUND).await?;
    let shown: Vec<String> = failed.iter().map(|(spec, why)| format!("{spec}: {why}")).collect();
    ensure!(failed.is_empty(), "{} specs failed:\n{}", failed.len(), shown.join("\n"));
    let expected = expected_skips(access)?;
    let lines = |map: &BTreeMap<String, String>| {
        map.iter().map(|(spec, reason)| format!("{access} | {spec} | {reason}")).collect::<Vec<_>>().join("\n")
    };
    ensure!(skipped == expected, "skipped:\n{}\nlisted:\n{}", lines(&skipped), lines(&expected));
    ensure!(passed.len() > 50, "only {} specs ran", passed.len());
    world.finish().await
}

/// csi-sanity finds no fault with file-system volumes; every skip is listed with its reason.
///
/// Rule: D-53; own rule (tests)
///
/// All that csi-sanity makes the driver do is allowed by the managed policy alone.
///
/// Rule: D-1; deployment.md 14
#[test]
fn csi_sanity_finds_no_fault_with_file_system_volumes() {
    with_mounts(|| run("mount"));
}

/// csi-sanity finds no fault with raw block volumes; every skip is listed with its reason.
///
/// Rule: D-53; own rule (tests)
#[test]
fn csi_sanity_finds_no_fault_with_block_volumes() {
    with_mounts(|| run("block"));
}

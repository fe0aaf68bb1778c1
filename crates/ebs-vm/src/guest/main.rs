//! `ebs-vm-guest`: the tests in the virtual machine. The driver runs under the AppArmor profile of `deploy/security`,
//! or with enforced SELinux.

mod binds;
mod confinement;
mod disks;
mod faults;
mod flaky;
mod labels;
mod node;
mod power;

use std::io::Write;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use ebs_vm::line::{Line, Said};
use ebs_vm::suite::{AFTER_THE_CUT, FLAKY, Suite};
use tokio::time::Instant;

use node::Node;

/// The serial line to the program outside.
const LINE: &str = "/dev/ttyS1";
/// The time limit of one test. The processor is emulated.
const BOUND: Duration = Duration::from_secs(240);

type Test = for<'a> fn(&'a Node) -> Pin<Box<dyn Future<Output = anyhow::Result<()>> + 'a>>;

/// All tests. The suite selects which of them run.
const TESTS: [(&str, Test); 17] = [
    ("an_ext4_volume_is_found_by_its_serial_number_while_stage_waits_for_it", |n| Box::pin(disks::life(n, "ext4"))),
    ("an_xfs_volume_is_found_by_its_serial_number_while_stage_waits_for_it", |n| Box::pin(disks::life(n, "xfs"))),
    ("a_raw_volume_keeps_its_data", |n| Box::pin(disks::raw(n))),
    ("a_disk_that_sysfs_knows_no_serial_number_of_is_asked_itself", |n| Box::pin(disks::asked_itself(n))),
    ("a_disk_without_ebs_statistics_is_refused_with_the_controllers_status", |n| Box::pin(disks::statistics(n))),
    ("a_bind_is_never_seen_without_the_attributes_that_it_is_to_have", |n| Box::pin(binds::complete_at_once(n))),
    ("a_mounted_ext4_grows_while_it_is_written", |n| Box::pin(disks::grows(n, "ext4"))),
    ("a_mounted_xfs_grows_while_it_is_written", |n| Box::pin(disks::grows(n, "xfs"))),
    ("a_disk_whose_reads_hang_is_in_no_other_volumes_way", |n| Box::pin(faults::hangs(n))),
    ("an_ext4_whose_writes_fail_is_degraded_and_keeps_what_was_synced", |n| Box::pin(faults::ext4_writes_fail(n))),
    ("an_xfs_whose_writes_fail_is_reported_and_keeps_what_was_synced", |n| Box::pin(faults::xfs_writes_fail(n))),
    (FLAKY, |n| Box::pin(faults::flaky(n))),
    ("a_disk_that_vanishes_while_mounted_is_let_go_and_its_data_is_there_when_it_comes_back", |n| {
        Box::pin(faults::vanishes(n))
    }),
    ("the_profile_confines_the_node_and_denies_it_nothing", |n| Box::pin(confinement::enforced(n))),
    (AFTER_THE_CUT, |n| Box::pin(power::cut(n))),
    ("an_ext4_volume_shows_the_label_it_is_mounted_with_and_other_pods_cannot_read_it", |n| {
        Box::pin(labels::of_mounts(n, "ext4"))
    }),
    ("an_xfs_volume_shows_the_label_it_is_mounted_with_and_other_pods_cannot_read_it", |n| {
        Box::pin(labels::of_mounts(n, "xfs"))
    }),
];

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let outcome = runtime.context("a runtime").and_then(|runtime| runtime.block_on(run()));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _closed = writeln!(std::io::stderr(), "{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<()> {
    let mut line = Line::open(LINE)?;
    // Ends the line with earlier output of the console.
    line.say(&Said::Note { text: String::new() })?;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").context("the kernel's release")?;
    line.say(&Said::Note { text: format!("booted {}", release.trim()) })?;
    let suite = std::env::var("EBS_SUITE").ok().and_then(|word| Suite::of_word(&word)).context("which suite")?;
    if suite == Suite::Labels {
        labels::load_policy()?;
    }
    let node = match Node::start(line, suite).await {
        Ok(node) => node,
        Err((mut line, error)) => {
            let denied = confinement::denied().unwrap_or_default().join("\n");
            let why = format!("{error:#}\n--- denied by the profile:\n{denied}");
            line.say(&Said::Failed { test: "the driver starts".to_owned(), why })?;
            return line.say(&Said::Done);
        }
    };
    if let Ok(carried) = std::env::var("EBS_CARRIED") {
        one(&node, AFTER_THE_CUT, power::after(&node, &carried)).await?;
        return node.say(&Said::Done);
    }
    let only = std::env::var("EBS_ONLY").unwrap_or_default();
    for name in suite.tests(&only) {
        if name == FLAKY && node::kernel()? < (5, 14) {
            let why = "kernels before 5.14 accept only numbers as serial numbers of NVMe targets".to_owned();
            node.say(&Said::Skipped { test: name.to_owned(), why })?;
            continue;
        }
        let (_, test) =
            TESTS.iter().find(|(known, _)| *known == name).with_context(|| format!("unknown test {name}"))?;
        one(&node, name, test(&node)).await?;
    }
    node.say(&Said::Done)
}

async fn one(node: &Node, name: &str, test: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let began = Instant::now();
    let outcome = match tokio::time::timeout(BOUND, test).await {
        Ok(outcome) => outcome,
        Err(elapsed) => Err(elapsed).context("the test timed out"),
    };
    let test = name.to_owned();
    match outcome {
        Ok(()) => node.say(&Said::Passed { test, seconds: began.elapsed().as_secs() }),
        Err(error) => {
            let denied = confinement::denied().unwrap_or_default().join("\n");
            let log = node.log_tail();
            let why = format!("{error:#}\n--- the driver's log ends:\n{log}\n--- denied by the profile:\n{denied}");
            node.say(&Said::Failed { test, why })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_contain_only_existing_tests() {
        for suite in [Suite::Everything, Suite::Kernel, Suite::Labels] {
            for name in suite.tests("") {
                assert!(TESTS.iter().any(|(known, _)| *known == name), "{name}");
            }
        }
    }
}

//! `ebs-vm-guest`: the tests, inside the virtual machine. Everything that the driver does here it does under the AppArmor
//! profile of `deploy/security`.

mod confinement;
mod disks;
mod faults;
mod node;
mod power;

use std::io::Write;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use ebs_vm::line::{Line, Said};
use tokio::time::Instant;

use node::Node;

/// The serial line to the program outside.
const LINE: &str = "/dev/ttyS1";
/// How long one test may take: the processor is emulated.
const BOUND: Duration = Duration::from_secs(240);

type Test = for<'a> fn(&'a Node) -> Pin<Box<dyn Future<Output = anyhow::Result<()>> + 'a>>;

/// In this order; the last looks at what all others have provoked.
const TESTS: [(&str, Test); 13] = [
    ("an_ext4_volume_is_found_by_its_serial_number_while_stage_waits_for_it", |n| Box::pin(disks::life(n, "ext4"))),
    ("an_xfs_volume_is_found_by_its_serial_number_while_stage_waits_for_it", |n| Box::pin(disks::life(n, "xfs"))),
    ("a_raw_volume_keeps_its_data", |n| Box::pin(disks::raw(n))),
    ("a_disk_that_sysfs_knows_no_serial_number_of_is_asked_itself", |n| Box::pin(disks::asked_itself(n))),
    ("a_disk_without_ebs_statistics_is_refused_with_the_controllers_status", |n| Box::pin(disks::statistics(n))),
    ("a_mounted_ext4_grows_while_it_is_written", |n| Box::pin(disks::grows(n, "ext4"))),
    ("a_mounted_xfs_grows_while_it_is_written", |n| Box::pin(disks::grows(n, "xfs"))),
    ("a_disk_whose_reads_hang_is_in_no_other_volumes_way", |n| Box::pin(faults::hangs(n))),
    ("an_ext4_whose_writes_fail_is_degraded_and_keeps_what_was_synced", |n| Box::pin(faults::ext4_errors(n))),
    ("an_xfs_whose_writes_fail_is_reported_and_keeps_what_was_synced", |n| Box::pin(faults::xfs_errors(n))),
    ("a_disk_that_vanishes_while_mounted_is_let_go_and_its_data_is_there_when_it_comes_back", |n| {
        Box::pin(faults::vanishes(n))
    }),
    ("the_profile_confines_the_node_and_denies_it_nothing", |n| Box::pin(confinement::enforced(n))),
    ("what_was_acknowledged_before_a_power_cut_is_there_after_it", |n| Box::pin(power::cut(n))),
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
    // What the console has said before ends here.
    line.say(&Said::Note { text: String::new() })?;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").context("the kernel's release")?;
    line.say(&Said::Note { text: format!("booted {}", release.trim()) })?;
    let node = match Node::start(line).await {
        Ok(node) => node,
        Err((mut line, error)) => {
            let denied = confinement::denied().unwrap_or_default().join("\n");
            let why = format!("{error:#}\n--- denied by the profile:\n{denied}");
            line.say(&Said::Failed { test: "the driver starts".to_owned(), why })?;
            return line.say(&Said::Done);
        }
    };
    if let Ok(carried) = std::env::var("EBS_CARRIED") {
        one(&node, "what_was_acknowledged_before_a_power_cut_is_there_after_it", power::after(&node, &carried)).await?;
        return node.say(&Said::Done);
    }
    let only = std::env::var("EBS_ONLY").unwrap_or_default();
    for (name, test) in TESTS.iter().filter(|(name, _)| only.split(',').any(|part| name.contains(part))) {
        one(&node, name, test(&node)).await?;
    }
    node.say(&Said::Done)
}

async fn one(node: &Node, name: &str, test: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let began = Instant::now();
    let outcome = match tokio::time::timeout(BOUND, test).await {
        Ok(outcome) => outcome,
        Err(elapsed) => Err(elapsed).context("the test takes too long"),
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

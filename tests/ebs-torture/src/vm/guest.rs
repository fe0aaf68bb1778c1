//! The tests in the virtual machine. The driver runs under the AppArmor profile of `deploy/security`, or under enforced
//! SELinux.

use std::pin::Pin;
use std::time::Duration;

use anyhow::Context;
use tokio::time::Instant;

use super::line::{Line, Said};
use node::Node;

mod binds;
mod confinement;
mod disks;
mod faults;
mod labels;
mod node;

const LINE: &str = "/dev/ttyS1";
/// Time limit of one test. The processor is emulated, so tests are slow.
const BOUND: Duration = Duration::from_secs(240);
/// The test that ends in a power cut and continues in another boot.
const AFTER_THE_CUT: &str = "acknowledged_data_survives_a_power_cut";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Suite {
    /// All tests that run under AppArmor.
    Everything,
    /// The tests that depend on the kernel, for every kernel except the first.
    Kernel,
    /// Tests that need enforced SELinux.
    Labels,
}

const FIRST_KERNEL: &[Suite] = &[Suite::Everything];
const EACH_KERNEL: &[Suite] = &[Suite::Everything, Suite::Kernel];
const LABELS: &[Suite] = &[Suite::Labels];

type Run = for<'a> fn(&'a Node) -> Pin<Box<dyn Future<Output = anyhow::Result<()>> + 'a>>;
type Test = (&'static str, &'static [Suite], Run);

/// The order matters: the test of the AppArmor profile checks the denials of all earlier tests, and the power cut test
/// never returns.
static TESTS: [Test; 13] = [
    ("ext4_volume_is_found_by_serial_number_while_stage_waits", EACH_KERNEL, |n| Box::pin(disks::life(n, "ext4"))),
    ("xfs_volume_is_found_by_serial_number_while_stage_waits", EACH_KERNEL, |n| Box::pin(disks::life(n, "xfs"))),
    ("disk_without_serial_number_in_sysfs_is_asked_itself", FIRST_KERNEL, |n| Box::pin(disks::asked_itself(n))),
    ("disk_without_ebs_statistics_reports_its_nvme_status", FIRST_KERNEL, |n| Box::pin(disks::statistics(n))),
    ("bind_is_never_visible_without_its_attributes", EACH_KERNEL, |n| Box::pin(binds::complete_at_once(n))),
    ("disk_with_hanging_reads_delays_no_other_volume", FIRST_KERNEL, |n| Box::pin(faults::hangs(n))),
    ("ext4_with_failing_writes_is_degraded_and_keeps_synced_data", EACH_KERNEL, |n| {
        Box::pin(faults::ext4_writes_fail(n))
    }),
    ("xfs_with_failing_writes_is_reported_and_keeps_synced_data", FIRST_KERNEL, |n| {
        Box::pin(faults::xfs_writes_fail(n))
    }),
    ("vanished_disk_is_released_and_returns_with_its_data", FIRST_KERNEL, |n| Box::pin(faults::vanishes(n))),
    ("profile_confines_the_node_and_denies_it_nothing", EACH_KERNEL, |n| Box::pin(confinement::enforced(n))),
    (AFTER_THE_CUT, FIRST_KERNEL, |n| Box::pin(faults::loses_power(n))),
    ("ext4_volume_has_its_label_and_is_hidden_from_other_pods", LABELS, |n| Box::pin(labels::of_mounts(n, "ext4"))),
    ("xfs_volume_has_its_label_and_is_hidden_from_other_pods", LABELS, |n| Box::pin(labels::of_mounts(n, "xfs"))),
];

impl Suite {
    fn parse(word: &str) -> Option<Self> {
        [Self::Everything, Self::Kernel, Self::Labels].into_iter().find(|suite| format!("{suite:?}") == word)
    }

    pub(super) fn security(self) -> &'static str {
        match self {
            Self::Everything | Self::Kernel => "apparmor=1 security=apparmor",
            Self::Labels => "security=selinux enforcing=1",
        }
    }

    /// Returns the tests of the suite whose names contain one of the comma-separated words.
    pub(super) fn tests(self, only: &str) -> impl Iterator<Item = &'static Test> {
        TESTS
            .iter()
            .filter(move |(name, suites, ..)| suites.contains(&self) && only.split(',').any(|part| name.contains(part)))
    }
}

/// Runs the suite that the kernel's command line names.
pub async fn run() -> anyhow::Result<()> {
    let mut line = Line::open(LINE)?;
    // Ends a line that earlier console output may have begun.
    line.say(&Said::Note { text: String::new() })?;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").context("read the kernel's release")?;
    line.say(&Said::Note { text: format!("booted {}", release.trim()) })?;
    let suite = std::env::var("EBS_SUITE").ok().and_then(|word| Suite::parse(&word)).context("which suite")?;
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
        one(&node, AFTER_THE_CUT, faults::after_power_cut(&node, &carried)).await?;
        return node.say(&Said::Done);
    }
    let only = std::env::var("EBS_ONLY").unwrap_or_default();
    for (name, _, test) in suite.tests(&only) {
        one(&node, name, test(&node)).await?;
    }
    node.say(&Said::Done)
}

async fn one(node: &Node, name: &str, test: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let began = Instant::now();
    let outcome = tokio::time::timeout(BOUND, test).await.context("the test timed out").flatten();
    let test = name.to_owned();
    match outcome {
        Ok(()) => node.say(&Said::Passed { test, seconds: began.elapsed().as_secs() }),
        Err(error) => {
            let denied = confinement::denied().unwrap_or_default().join("\n");
            let log = node.log_tail();
            let why =
                format!("{error:#}\n--- last lines of the driver's log:\n{log}\n--- denied by the profile:\n{denied}");
            node.say(&Said::Failed { test, why })
        }
    }
}

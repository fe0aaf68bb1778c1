//! The AppArmor profile of all other tests.

use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::process::run_tool;

use super::node::Node;

const BOUND: Duration = Duration::from_secs(60);
const SECRET: &str = "/etc/secret";

/// The driver runs under the enforced profile. The kernel has denied nothing in all previous tests, and denies the
/// driver's programs an unrelated file.
pub(super) async fn enforced(node: &Node) -> anyhow::Result<()> {
    let label = std::fs::read_to_string(format!("/proc/{}/attr/current", node.driver())).context("the label")?;
    ensure!(label.trim() == "ebs-csi-node (enforce)", "the driver runs as {label:?}");
    let before = denied()?;
    ensure!(before.is_empty(), "denied to the node:\n{}", before.join("\n"));
    std::fs::write(SECRET, "secret").context("a file outside the driver's profile")?;
    let confined = ["-p", "ebs-csi-node", "--", "/usr/sbin/blkid", "-p", SECRET];
    let refused =
        run_tool("/usr/bin/aa-exec", &confined, BOUND).err().context("the profile allows reading every file")?;
    ensure!(refused.to_string().contains("Permission denied"), "{refused:#}");
    ensure!(denied()?.iter().any(|line| line.contains(SECRET)), "the kernel does not log denials");
    Ok(())
}

pub(super) fn denied() -> anyhow::Result<Vec<String>> {
    let log = run_tool("/usr/bin/dmesg", &[], BOUND)?;
    Ok(log.lines().filter(|line| line.contains("apparmor=\"DENIED\"")).map(str::to_owned).collect())
}

//! Checks the AppArmor profile under which all other tests run.

use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::process::run_tool;

use super::node::Node;

const BOUND: Duration = Duration::from_secs(60);
const SECRET: &str = "/etc/secret";

/// Checks that the driver runs under the enforced profile, that the kernel denied it nothing in all previous tests, and
/// that the kernel denies the driver's programs access to an unrelated file.
pub(super) async fn enforced(node: &Node) -> anyhow::Result<()> {
    let label = std::fs::read_to_string(format!("/proc/{}/attr/current", node.driver())).context("read the label")?;
    ensure!(label.trim() == "ebs-csi-node (enforce)", "the driver runs as {label:?}");
    let before = denied()?;
    ensure!(before.is_empty(), "denied to the node:\n{}", before.join("\n"));
    std::fs::write(SECRET, "secret").context("write a file outside the driver's profile")?;
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

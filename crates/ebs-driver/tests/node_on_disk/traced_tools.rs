//! Replaces tools with scripts that record their names and arguments.

use std::fs;
use std::path::PathBuf;

use ebs_testkit::replaced_tool::ReplacedTool;

use crate::node::Node;

/// The programs that may change a disk.
pub(crate) const THAT_CHANGE: [&str; 5] = ["e2fsck", "mke2fs", "mkfs.xfs", "resize2fs", "xfs_growfs"];

/// Scripts that replace tools until dropped. Each first records its name and arguments.
pub(crate) struct TracedTools {
    trace: PathBuf,
    device: String,
    _replaced: Vec<ReplacedTool>,
}

impl TracedTools {
    /// Replaces tools. `tools` pairs each tool with the script that runs in its place.
    pub(crate) fn new(node: &Node, tools: &[(&str, &str)]) -> Self {
        let trace = node.path("tools-started");
        fs::write(&trace, "").unwrap();
        let replace = |(tool, script): &(&str, &str)| {
            let note = format!("echo \"{tool} $*\" >> {}", trace.display());
            ReplacedTool::by_script(tool, &format!("{note}\n{script}")).unwrap()
        };
        let _replaced = tools.iter().map(replace).collect();
        Self { trace, device: node.disk.path().display().to_string(), _replaced }
    }

    /// Makes all programs fail that may change a disk.
    pub(crate) fn that_fail(node: &Node) -> Self {
        Self::new(node, &THAT_CHANGE.map(|tool| (tool, "echo broken on purpose >&2; exit 9")))
    }

    /// Makes a tool record its calls and do its work.
    pub(crate) fn that_works(node: &Node, tool: &str) -> Self {
        Self::new(node, &[(tool, &real(node, tool))])
    }

    /// Returns the tools that ran, with their arguments. `DEVICE` replaces the volume's device.
    pub(crate) fn started(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.trace).unwrap();
        text.lines().map(|line| line.replace(&self.device, "DEVICE")).collect()
    }
}

/// Returns a script that runs a copy of the real tool, because the tool's own path leads to the replacement.
pub(crate) fn real(node: &Node, tool: &str) -> String {
    let real = node.path(tool);
    fs::copy(PathBuf::from("/usr/sbin").join(tool), &real).unwrap();
    format!("exec {} \"$@\"", real.display())
}

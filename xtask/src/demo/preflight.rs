//! Checks the demo's requirements before anything is done, and reports all missing ones at once.

use std::path::Path;

use anyhow::bail;

use super::Places;

const DIRECTORIES: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// Tools, and the Debian package of each.
const TOOLS: [(&str, &str); 10] = [
    ("blkid", "util-linux"),
    ("losetup", "mount"),
    ("setpriv", "util-linux"),
    ("mke2fs", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
    ("resize2fs", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("xfs_growfs", "xfsprogs"),
    ("umount", "mount"),
    ("mount", "mount"),
];

pub(super) fn check(places: &Places) -> anyhow::Result<()> {
    let missing = missing(places, rustix::process::geteuid().is_root());
    if missing.is_empty() {
        return Ok(());
    }
    bail!("the demo did not start; missing:\n  - {}", missing.join("\n  - "))
}

fn missing(places: &Places, is_root: bool) -> Vec<String> {
    let mut missing = Vec::new();
    if !is_root {
        missing.push("root, for loop devices and mounts: run `sudo -E make demo`, or use a container".to_owned());
    }
    if is_root && !Path::new("/dev/loop-control").exists() {
        missing
            .push("loop devices (/dev/loop-control): run `modprobe loop`, or mount /dev into the container".to_owned());
    }
    let absent: Vec<(&str, &str)> = TOOLS.into_iter().filter(|(tool, _)| !is_installed(tool)).collect();
    if !absent.is_empty() {
        let tools: Vec<&str> = absent.iter().map(|(tool, _)| *tool).collect();
        let mut packages: Vec<&str> = absent.iter().map(|(_, package)| *package).collect();
        packages.sort_unstable();
        packages.dedup();
        missing.push(format!("{}: `apt-get install {}`", tools.join(", "), packages.join(" ")));
    }
    for program in [places.simulator(), places.driver()] {
        if !program.is_file() {
            let how = "`make demo` builds it, or `cargo build --workspace`";
            missing.push(format!("{}: {how}", program.display()));
        }
    }
    missing
}

fn is_installed(tool: &str) -> bool {
    DIRECTORIES.iter().any(|directory| Path::new(directory).join(tool).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_missing_requirements_are_reported_at_once() {
        let places =
            Places { state_dir: "/nonexistent/state".into(), bin_dir: "/nonexistent/bin".into(), quick: false };
        let missing = missing(&places, false).join("\n");
        for word in ["root", "sudo", "/nonexistent/bin/ebs-sim", "/nonexistent/bin/aws-ebs-csi-driver", "cargo build"] {
            assert!(missing.contains(word), "{word} is not in:\n{missing}");
        }
    }
}

//! The guest's root file system: programs of this machine, modules of the guest's kernel, the driver and the tests.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use ebs_testkit::process::run_tool;

use crate::archive::Archive;

const BOUND: Duration = Duration::from_secs(120);

/// Programs of the guest, with Debian's paths.
const PROGRAMS: [&str; 14] = [
    "/usr/bin/busybox",
    "/usr/bin/setpriv",
    "/usr/bin/runcon",
    "/usr/bin/aa-exec",
    "/usr/sbin/apparmor_parser",
    "/usr/sbin/blkid",
    "/usr/sbin/dmsetup",
    "/usr/sbin/e2fsck",
    "/usr/sbin/mke2fs",
    "/usr/sbin/resize2fs",
    "/usr/sbin/mkfs.xfs",
    "/usr/sbin/xfs_growfs",
    "/usr/sbin/xfs_repair",
    "/usr/sbin/dumpe2fs",
];
/// Modules of the kernel. Those that are built in are missing and skipped.
const MODULES: [&str; 9] = [
    "lib/libcrc32c.ko",
    "fs/xfs/xfs.ko",
    "fs/configfs/configfs.ko",
    "drivers/md/dm-mod.ko",
    "drivers/md/dm-flakey.ko",
    "drivers/nvme/target/nvmet.ko",
    "drivers/nvme/target/nvmet-tcp.ko",
    "drivers/nvme/host/nvme-fabrics.ko",
    "drivers/nvme/host/nvme-tcp.ko",
];
const APPLETS: [&str; 10] = ["sh", "mount", "umount", "insmod", "stty", "ip", "cat", "dmesg", "poweroff", "sha256sum"];
const DIRECTORIES: [&str; 11] =
    ["/proc", "/sys", "/dev", "/run", "/tmp", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/csi", "/etc"];

/// Packs the root file system for an unpacked kernel. Temporary files are in `work`.
///
/// # Errors
/// Something is missing on this machine. The text explains how to install it.
pub fn pack(kernel: &Path, release: &str, work: &Path, to: &Path) -> anyhow::Result<()> {
    let mut archive = Archive::default();
    for directory in DIRECTORIES {
        archive.directory(directory);
    }
    for name in ["bin", "sbin", "lib", "lib64"] {
        archive.link(&format!("/{name}"), &format!("usr/{name}"));
    }
    for program in PROGRAMS {
        let from = Path::new(program).canonicalize().with_context(|| format!("{program}: run scripts/setup vm"))?;
        archive.program(&from, program)?;
    }
    for applet in APPLETS {
        archive.link(&format!("/usr/bin/{applet}"), "busybox");
    }
    let modules = kernel.join("lib/modules").join(release).join("kernel");
    for module in MODULES.iter().filter(|module| modules.join(module).exists()) {
        let name = Path::new(module).file_name().and_then(|name| name.to_str()).context("a module")?;
        archive.copy(&modules.join(module), &format!("/modules/{name}"))?;
    }
    built(&mut archive, work)?;
    let profile = include_bytes!("../../../deploy/security/apparmor-node");
    archive.file("/etc/apparmor-node", profile, 0o644);
    policy(&mut archive, work)?;
    archive.file("/init", include_bytes!("guest/init"), 0o755);
    archive.write(to).context("write the root file system")
}

/// Adds the driver and the tests without debug information, because the guest keeps all files in memory.
fn built(archive: &mut Archive, work: &Path) -> anyhow::Result<()> {
    let built = std::env::current_exe().context("this program's place")?;
    let built = built.parent().context("this program's directory")?;
    for name in ["aws-ebs-csi-driver", "ebs-vm-guest"] {
        let stripped = work.join(name);
        if !stripped.exists() {
            let (from, small) = (built.join(name), stripped.display().to_string());
            run_tool("/usr/bin/strip", &["-o", &small, &from.display().to_string()], BOUND)?;
        }
        archive.program(&stripped, &format!("/usr/bin/{name}"))?;
    }
    Ok(())
}

/// Adds the compiled SELinux policy. It allows everything that it does not name.
fn policy(archive: &mut Archive, work: &Path) -> anyhow::Result<()> {
    let (source, compiled) = (work.join("policy.conf"), work.join("policy"));
    std::fs::write(&source, include_bytes!("guest/policy.conf")).context("the policy's source")?;
    let (from, to) = (source.display().to_string(), compiled.display().to_string());
    run_tool("/usr/bin/checkpolicy", &["-M", "-U", "allow", "-o", &to, &from], BOUND)?;
    archive.copy(&compiled, "/etc/selinux/policy")?;
    archive.file("/etc/selinux/config", b"SELINUX=enforcing\nSELINUXTYPE=test\n", 0o644);
    Ok(())
}

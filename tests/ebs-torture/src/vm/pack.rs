//! The guest's root file system: programs of this machine, modules of the guest's kernel, the driver and the tests.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use ebs_testkit::process::run_tool;

const BOUND: Duration = Duration::from_secs(120);

/// Programs of the guest, with Debian's paths.
const PROGRAMS: [&str; 13] = [
    "/usr/bin/busybox",
    "/usr/bin/setpriv",
    "/usr/bin/runcon",
    "/usr/bin/aa-exec",
    "/usr/sbin/apparmor_parser",
    "/usr/sbin/blkid",
    "/usr/sbin/e2fsck",
    "/usr/sbin/mke2fs",
    "/usr/sbin/resize2fs",
    "/usr/sbin/mkfs.xfs",
    "/usr/sbin/xfs_growfs",
    "/usr/sbin/xfs_repair",
    "/usr/sbin/dumpe2fs",
];
/// Kernel modules. A module that is built into the kernel has no file and is skipped.
const MODULES: [&str; 2] = ["lib/libcrc32c.ko", "fs/xfs/xfs.ko"];
const APPLETS: [&str; 10] = ["sh", "mount", "umount", "insmod", "stty", "ip", "cat", "dmesg", "poweroff", "sha256sum"];
const DIRECTORIES: [&str; 11] = [
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/tmp",
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/lib64",
    "/csi",
    "/etc/selinux",
];

/// Packs the root file system for an unpacked kernel as a cpio archive. Temporary files are in `work`.
pub(super) fn pack(kernel: &Path, release: &str, work: &Path, to: &Path) -> anyhow::Result<()> {
    let root = Root(work.join(format!("root-{release}")));
    for directory in DIRECTORIES {
        fs::create_dir_all(root.at(directory)).context("create a directory of the guest")?;
    }
    for name in ["bin", "sbin", "lib", "lib64"] {
        symlink(format!("usr/{name}"), root.at(name))?;
    }
    for program in PROGRAMS {
        let from = Path::new(program).canonicalize().with_context(|| format!("{program}: run scripts/setup vm"))?;
        root.program(&from, program)?;
    }
    for applet in APPLETS {
        symlink("busybox", root.at("/usr/bin").join(applet))?;
    }
    let modules = kernel.join("lib/modules").join(release).join("kernel");
    for module in MODULES.iter().map(|module| modules.join(module)).filter(|module| module.exists()) {
        let name = module.file_name().context("a module")?;
        root.copy(&module, Path::new("/modules").join(name))?;
    }
    root.built(work)?;
    root.file("/etc/apparmor-node", include_bytes!("../../../../deploy/security/apparmor-node"))?;
    root.policy(work)?;
    root.file("/init", include_bytes!("guest/init"))?;
    fs::set_permissions(root.at("/init"), fs::Permissions::from_mode(0o755))?;
    let archive = format!("cd {} && find . | busybox cpio -o -H newc >{}", root.0.display(), to.display());
    run_tool("/bin/sh", &["-c", &archive], BOUND).context("write the root file system").map(drop)
}

/// The directory in which the guest's files are collected.
struct Root(PathBuf);

impl Root {
    fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn file(&self, path: &str, contents: &[u8]) -> anyhow::Result<()> {
        fs::write(self.at(path), contents).with_context(|| format!("write the guest's {path}"))
    }

    fn copy(&self, from: &Path, path: impl AsRef<Path>) -> anyhow::Result<()> {
        let to = self.at(path);
        fs::create_dir_all(to.parent().context("a path with a directory")?)?;
        fs::copy(from, to).with_context(|| format!("copy {}", from.display())).map(drop)
    }

    fn program(&self, from: &Path, path: &str) -> anyhow::Result<()> {
        self.copy(from, path)?;
        // ldd fails for a statically linked program.
        let listed = run_tool("/usr/bin/ldd", &[&from.to_string_lossy()], BOUND).unwrap_or_default();
        // A line is `name => path (address)` or `path (address)`.
        let libraries = listed.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
        libraries.map(Path::new).try_for_each(|library| self.copy(library, library))
    }

    /// Adds the driver and the tests without debug information, because the guest keeps all files in memory.
    fn built(&self, work: &Path) -> anyhow::Result<()> {
        let built = std::env::current_exe().context("find this program")?;
        let built = built.parent().context("find this program's directory")?;
        for name in ["aws-ebs-csi-driver", "ebs-torture"] {
            let stripped = work.join(name);
            if !stripped.exists() {
                let (from, small) = (built.join(name), stripped.display().to_string());
                run_tool("/usr/bin/strip", &["-o", &small, &from.display().to_string()], BOUND)?;
            }
            self.program(&stripped, &format!("/usr/bin/{name}"))?;
        }
        Ok(())
    }

    /// Adds the compiled SELinux policy. The policy allows everything that it does not mention.
    fn policy(&self, work: &Path) -> anyhow::Result<()> {
        let source = work.join("policy.conf");
        fs::write(&source, include_bytes!("guest/policy.conf")).context("write the policy's source")?;
        let (from, to) = (source.display().to_string(), self.at("/etc/selinux/policy").display().to_string());
        run_tool("/usr/bin/checkpolicy", &["-M", "-U", "allow", "-o", &to, &from], BOUND)?;
        self.file("/etc/selinux/config", b"SELINUX=enforcing\nSELINUXTYPE=test\n")
    }
}

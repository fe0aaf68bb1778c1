//! `ebs-vm`: boots the machine and does to its disks what the tests inside ask for. `make vm-test` runs it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Parser;
use ebs_testkit::process::run_tool;
use ebs_testkit::run_dir::OwnDir;
use ebs_vm::archive::Archive;
use ebs_vm::disk::Disks;
use ebs_vm::line::{Answer, Said};
use ebs_vm::machine::{Boot, Machine};
use tokio::time::Instant;

const TOOL_BOUND: Duration = Duration::from_secs(120);

/// The node service on real NVMe disks in a virtual machine. Needs root and `scripts/setup vm`.
#[derive(Debug, Parser)]
#[command(name = "ebs-vm")]
struct Arguments {
    /// Where `scripts/setup vm` has unpacked a kernel.
    #[arg(long)]
    kernel: PathBuf,
    /// Run only the tests whose names hold one of these, separated by commas.
    #[arg(long, default_value = "")]
    only: String,
    /// Seconds after which the machine is given up.
    #[arg(long, default_value_t = 600)]
    limit: u64,
    /// Print the console of the machine at the end.
    #[arg(long)]
    console: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = run(&arguments);
    match outcome {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            let _closed = writeln!(std::io::stderr(), "Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns how many tests have failed.
fn run(arguments: &Arguments) -> anyhow::Result<usize> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("a runtime")?;
    runtime.block_on(async {
        let dir = OwnDir::new("vm-").context("a directory for the machine")?;
        let release = release(&arguments.kernel)?;
        print(&format!("kernel {release}"))?;
        let initramfs = dir.path().join("initramfs.cpio");
        pack(&arguments.kernel, &release, dir.path(), &initramfs)?;
        let disks = dir.path().join("disks");
        std::fs::create_dir(&disks).context("a directory for the disks")?;
        let mut boot = Boot {
            kernel: arguments.kernel.join(format!("boot/vmlinuz-{release}")),
            initramfs,
            append: format!("EBS_ONLY={}", arguments.only),
            directory: dir.path().to_owned(),
        };
        let mut run = Run { disks: Disks::new(&disks), passed: 0, failed: 0 };
        let deadline = Instant::now() + Duration::from_secs(arguments.limit);
        loop {
            let (mut machine, line) = Machine::boot(&boot).await?;
            let ended = run.serve(&mut machine, &line, deadline).await;
            if arguments.console || ended.is_err() {
                print(&machine.console_tail(80))?;
            }
            match ended? {
                None => break,
                Some(carried) => boot.append = format!("EBS_CARRIED={carried}"),
            }
            machine.cut_power()?;
            run.disks.forget();
        }
        print(&format!("kernel {release}: {} passed, {} failed", run.passed, run.failed))?;
        ensure!(run.passed + run.failed > 0, "no test ran");
        Ok(run.failed)
    })
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// The name of the one kernel below a directory.
fn release(kernel: &Path) -> anyhow::Result<String> {
    let entries =
        std::fs::read_dir(kernel.join("boot")).with_context(|| format!("no kernel in {}", kernel.display()))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut releases = names.filter_map(|name| name.strip_prefix("vmlinuz-").map(str::to_owned));
    releases.next().with_context(|| format!("no kernel in {}", kernel.display()))
}

struct Run {
    disks: Disks,
    passed: usize,
    failed: usize,
}

impl Run {
    /// Does what is asked for until the tests are done, or want the power cut: then returns what they hand over.
    async fn serve(
        &mut self,
        machine: &mut Machine,
        line: &UnixStream,
        deadline: Instant,
    ) -> anyhow::Result<Option<String>> {
        let mut from = BufReader::new(line);
        let mut to = line;
        loop {
            let left = deadline.checked_duration_since(Instant::now()).context("the time limit has passed")?;
            line.set_read_timeout(Some(left.max(Duration::from_millis(1)))).context("a bound for the line")?;
            let mut text = String::new();
            let read = from.read_line(&mut text).context("nothing came from the machine before the time limit")?;
            ensure!(read > 0, "the machine has ended");
            // The kernel may say something here before the tests begin.
            let Ok(said) = serde_json::from_str::<Said>(&text) else { continue };
            let outcome = match said {
                Said::Passed { test, seconds } => {
                    self.passed += 1;
                    print(&format!("PASS {test} ({seconds} s)"))?;
                    continue;
                }
                Said::Failed { test, why } => {
                    self.failed += 1;
                    print(&format!("FAIL {test}: {why}"))?;
                    continue;
                }
                Said::Note { text } => {
                    print(&text)?;
                    continue;
                }
                Said::Done => return Ok(None),
                Said::CutPower { carried } => return Ok(Some(carried)),
                asked => self.done(machine, asked).await,
            };
            let answer = Answer { error: outcome.err().map(|error| format!("{error:#}")) };
            let mut text = serde_json::to_vec(&answer).context("an answer")?;
            text.push(b'\n');
            to.write_all(&text).context("write to the line")?;
        }
    }

    async fn done(&mut self, machine: &mut Machine, asked: Said) -> anyhow::Result<()> {
        match asked {
            Said::Plug { serial, gib, hangs } => self.disks.plug(machine, &serial, gib, hangs),
            Said::Unplug { serial } => self.disks.unplug(machine, &serial).await,
            Said::Grow { serial, gib } => self.disks.grow(machine, &serial, gib),
            Said::FailWrites { serial } => Disks::fail_writes(machine, &serial),
            Said::Heal { serial } => Disks::heal(machine, &serial),
            Said::Release { serial } => Disks::release(machine, &serial),
            other => bail!("{other:?} asks for nothing"),
        }
    }
}

/// Programs of the guest, where Debian has them.
const PROGRAMS: [&str; 12] = [
    "/usr/bin/busybox",
    "/usr/bin/setpriv",
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
/// In this order: the later need the earlier.
const MODULES: [&str; 2] = ["lib/libcrc32c.ko", "fs/xfs/xfs.ko"];
const APPLETS: [&str; 9] = ["sh", "mount", "umount", "insmod", "stty", "ip", "cat", "dmesg", "poweroff"];

/// The guest's root file system.
fn pack(kernel: &Path, release: &str, work: &Path, to: &Path) -> anyhow::Result<()> {
    let mut archive = Archive::default();
    for directory in
        ["/proc", "/sys", "/dev", "/run", "/tmp", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/csi", "/etc"]
    {
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
    let built = std::env::current_exe().context("this program's place")?;
    let built = built.parent().context("this program's directory")?;
    for name in ["aws-ebs-csi-driver", "ebs-vm-guest"] {
        // Without what only a debugger reads: it all lies in the guest's memory.
        let stripped = work.join(name);
        let (from, small) = (built.join(name), stripped.display().to_string());
        run_tool("/usr/bin/strip", &["-o", &small, &from.display().to_string()], TOOL_BOUND)?;
        archive.program(&stripped, &format!("/usr/bin/{name}"))?;
    }
    let profile = include_bytes!("../../../deploy/security/apparmor-node");
    archive.file("/etc/apparmor-node", profile, 0o644);
    archive.file("/init", include_bytes!("guest/init"), 0o755);
    archive.write(to).context("write the root file system")
}

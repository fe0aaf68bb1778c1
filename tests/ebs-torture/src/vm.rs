//! The node service on real NVMe disks: a virtual machine with disks that appear, vanish, grow, hang, fail and lose
//! power, and tests inside that request these events over a serial line ([`line`]). `make vm-test` runs it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ebs_testkit::run_dir::OwnDir;
use tokio::time::Instant;

use disk::Disks;
use guest::Suite;
use line::{Answer, Said};
use machine::{Boot, Machine};

mod disk;
pub mod guest;
mod line;
mod machine;
mod pack;

/// Tests of the node service on real NVMe disks in a virtual machine. Requires root and `scripts/setup vm`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Directories of kernels from `scripts/setup vm`, separated by colons. The first kernel runs all tests, the others
    /// only those that depend on the kernel.
    #[arg(long, required = true, value_delimiter = ':')]
    kernel: Vec<PathBuf>,
    /// Run only tests whose names contain one of these texts, separated by commas.
    #[arg(long, default_value = "")]
    only: String,
    /// Time limit of the machine, in seconds.
    #[arg(long, default_value_t = 600)]
    limit: u64,
    /// Print the console of the machine after the tests.
    #[arg(long)]
    console: bool,
}

/// Runs the tests. Returns whether all have passed.
pub async fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let dir = OwnDir::new("vm-").context("create a directory for the machine")?;
    let deadline = Instant::now() + Duration::from_secs(arguments.limit);
    let (mut passed, mut failed) = (0, 0);
    for (place, kernel) in arguments.kernel.iter().enumerate() {
        let release = release(kernel)?;
        print(&format!("kernel {release}"))?;
        let initramfs = dir.path().join("initramfs.cpio");
        pack::pack(kernel, &release, dir.path(), &initramfs)?;
        let suites: &[Suite] = if place == 0 { &[Suite::Everything, Suite::Labels] } else { &[Suite::Kernel] };
        for suite in suites.iter().filter(|suite| suite.tests(&arguments.only).next().is_some()) {
            let boot = Boot {
                kernel: kernel.join(format!("boot/vmlinuz-{release}")),
                initramfs: initramfs.clone(),
                append: format!("{} EBS_SUITE={suite:?} EBS_ONLY={}", suite.security(), arguments.only),
                directory: dir.path().to_owned(),
            };
            let disks = dir.path().join(format!("disks-{place}-{suite:?}"));
            std::fs::create_dir(&disks).context("create a directory for the disks")?;
            let mut run = Run { disks: Disks::new(&disks), passed: 0, failed: 0 };
            run.boots(boot, arguments.console, deadline).await?;
            (passed, failed) = (passed + run.passed, failed + run.failed);
        }
    }
    print(&format!("{passed} passed, {failed} failed"))?;
    ensure!(passed + failed > 0, "no test ran");
    Ok(failed == 0)
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Returns the name of the only kernel below a directory.
fn release(kernel: &Path) -> anyhow::Result<String> {
    let missing = || format!("no kernel in {}", kernel.display());
    let entries = std::fs::read_dir(kernel.join("boot")).with_context(missing)?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.strip_prefix("vmlinuz-").map(str::to_owned)).next().with_context(missing)
}

struct Run {
    disks: Disks,
    passed: usize,
    failed: usize,
}

impl Run {
    /// Boots the machine, and boots it again after each power cut.
    async fn boots(&mut self, mut boot: Boot, console: bool, deadline: Instant) -> anyhow::Result<()> {
        let append = boot.append.clone();
        loop {
            let (mut machine, line) = Machine::boot(&boot).await?;
            let ended = self.serve(&mut machine, &line, deadline).await;
            if console || ended.is_err() {
                print(&machine.console_tail(80))?;
            }
            let Some(carried) = ended? else { return Ok(()) };
            boot.append = format!("{append} EBS_CARRIED={carried}");
            machine.cut_power()?;
        }
    }

    /// Serves requests until the tests are done or the power is cut. After a cut, returns the text for the next boot.
    async fn serve(
        &mut self,
        machine: &mut Machine,
        line: &UnixStream,
        deadline: Instant,
    ) -> anyhow::Result<Option<String>> {
        let mut from = BufReader::new(line);
        let mut to = line;
        loop {
            let left = deadline.checked_duration_since(Instant::now()).context("time limit exceeded")?;
            line.set_read_timeout(Some(left.max(Duration::from_millis(1)))).context("set a time limit for the line")?;
            let mut text = String::new();
            let read = from.read_line(&mut text).context("no message from the machine within the time limit")?;
            ensure!(read > 0, "the machine has stopped");
            // Skip lines that the kernel prints before the tests begin.
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
            let mut text = serde_json::to_vec(&answer).context("format an answer")?;
            text.push(b'\n');
            to.write_all(&text).context("write to the line")?;
        }
    }

    async fn done(&mut self, machine: &mut Machine, asked: Said) -> anyhow::Result<()> {
        match asked {
            Said::Plug { serial, gib, hangs } => self.disks.plug(machine, &serial, gib, hangs),
            Said::Unplug { serial } => Disks::unplug(machine, &serial).await,
            Said::FailWrites { serial } => Disks::fail_writes(machine, &serial),
            Said::Heal { serial } => Disks::heal(machine, &serial),
            Said::Release { serial } => Disks::release(machine, &serial),
            other => bail!("invalid request {other:?}"),
        }
    }
}

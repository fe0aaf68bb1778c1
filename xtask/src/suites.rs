//! `xtask test`: runs the test executables of the workspace concurrently. Cargo runs them one after the other, and most
//! of ours mainly wait for a simulated EC2. The output of a suite is printed as a whole when it has ended.

mod found;

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use ebs_testkit::process::{Process, ProcessSpec};
use ebs_testkit::run_dir::OwnDir;
use tokio::task::JoinSet;
use tokio::time::Instant;

use found::Suite;

/// A suite that runs longer hangs: the slowest takes two minutes on two idle cores.
const BOUND: Duration = Duration::from_secs(45 * 60);

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// Number of parallel suites [default: three per core]
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
}

/// A suite that has ended, or could not be started.
struct Ended {
    name: String,
    took: Duration,
    outcome: anyhow::Result<ExitStatus>,
    output: String,
}

impl Ended {
    fn is_passed(&self) -> bool {
        self.outcome.as_ref().is_ok_and(ExitStatus::success)
    }
}

/// Runs all suites to their end, also after failures.
///
/// # Errors
/// The suites cannot be found. A failed suite is an exit code.
pub(crate) fn run(args: &TestArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("a runtime")?;
    runtime.block_on(async {
        let logs = OwnDir::new("suites-").context("a directory for the suites' output")?;
        let suites = found::suites(logs.path()).await?;
        let cores = std::thread::available_parallelism().context("count the cores")?;
        let jobs = args.jobs.unwrap_or(cores.saturating_mul(NonZeroUsize::MIN.saturating_add(2)));
        let mut out = std::io::stdout();
        writeln!(out, "{} suites, {jobs} in parallel", suites.len())?;
        let ended = run_all(suites, jobs, logs.path(), &mut out).await?;
        sum_up(&ended, &mut out)
    })
}

async fn run_all(
    suites: Vec<Suite>,
    jobs: NonZeroUsize,
    logs: &Path,
    out: &mut impl Write,
) -> anyhow::Result<Vec<Ended>> {
    let (alone, others): (Vec<_>, Vec<_>) = suites.into_iter().enumerate().partition(|(_, suite)| suite.runs_alone());
    let mut waiting = VecDeque::from(others);
    let mut running = JoinSet::new();
    let mut all = Vec::new();
    for (n, suite) in alone {
        let ended = run_one(suite, logs.join(format!("{n}.log"))).await;
        show(&ended, out)?;
        all.push(ended);
    }
    loop {
        while running.len() < jobs.get()
            && let Some((n, suite)) = waiting.pop_front()
        {
            running.spawn(run_one(suite, logs.join(format!("{n}.log"))));
        }
        let Some(ended) = running.join_next().await else { return Ok(all) };
        let ended = ended.context("a suite's task")?;
        show(&ended, out)?;
        all.push(ended);
    }
}

async fn run_one(suite: Suite, log: PathBuf) -> Ended {
    let began = Instant::now();
    let name = suite.name.clone();
    let outcome = run_to_its_end(suite, log.clone()).await;
    let bytes = std::fs::read(&log).unwrap_or_default();
    Ended { name, took: began.elapsed(), outcome, output: String::from_utf8_lossy(&bytes).into_owned() }
}

async fn run_to_its_end(suite: Suite, log: PathBuf) -> anyhow::Result<ExitStatus> {
    let mut env: BTreeMap<String, String> = std::env::vars().collect();
    env.insert("CARGO_MANIFEST_DIR".to_owned(), suite.directory.display().to_string());
    env.extend(suite.threads().map(|threads| ("RUST_TEST_THREADS".to_owned(), threads.to_owned())));
    env.extend(suite.temporary_files().map(|directory| ("TMPDIR".to_owned(), directory.to_owned())));
    let mut args = vec!["--chdir".into(), suite.directory.into_os_string(), suite.program];
    args.extend(suite.args);
    let spec = ProcessSpec { name: suite.name, program: PathBuf::from("/usr/bin/env"), args, env, log };
    Process::spawn(spec)?.wait(BOUND).await
}

fn show(ended: &Ended, out: &mut impl Write) -> anyhow::Result<()> {
    writeln!(out, "\n==== {} ({:.1} s)\n{}", ended.name, ended.took.as_secs_f64(), ended.output.trim())?;
    match &ended.outcome {
        Ok(status) if status.success() => {}
        Ok(status) => writeln!(out, "==== {} FAILED: {status}", ended.name)?,
        Err(error) => writeln!(out, "==== {} FAILED: {error:#}", ended.name)?,
    }
    Ok(out.flush()?)
}

/// Returns the totals of lines like `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
fn counts<'a>(outputs: impl Iterator<Item = &'a str>) -> BTreeMap<&'static str, u64> {
    const KINDS: [&str; 3] = ["passed", "failed", "ignored"];
    let mut sums: BTreeMap<&str, u64> = KINDS.map(|kind| (kind, 0)).into();
    for line in outputs.flat_map(str::lines).filter_map(|line| line.strip_prefix("test result: ")) {
        let words: Vec<&str> = line.split([' ', ';', '.']).filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            if let (Ok(count), Some(sum)) = (pair[0].parse::<u64>(), sums.get_mut(pair[1])) {
                *sum += count;
            }
        }
    }
    sums
}

fn sum_up(ended: &[Ended], out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let counts = counts(ended.iter().map(|e| e.output.as_str()));
    let failed: Vec<&str> = ended.iter().filter(|e| !e.is_passed()).map(|e| e.name.as_str()).collect();
    let mut slowest: Vec<&Ended> = ended.iter().collect();
    slowest.sort_by_key(|e| std::cmp::Reverse(e.took));
    let slowest: Vec<String> =
        slowest.iter().take(8).map(|e| format!("{} {:.0} s", e.name, e.took.as_secs_f64())).collect();
    writeln!(out, "\nslowest: {}", slowest.join(", "))?;
    let [passed, of_failed, ignored] = ["passed", "failed", "ignored"].map(|kind| counts[kind]);
    writeln!(out, "{} suites: {passed} tests passed, {of_failed} failed, {ignored} ignored", ended.len())?;
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "FAILED: {}", failed.join(", "))?;
    Ok(ExitCode::FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn shell(name: &str, script: &str) -> Suite {
        let args = vec![OsString::from("-c"), script.into()];
        Suite { name: name.to_owned(), program: "/bin/sh".into(), args, directory: "/".into() }
    }

    /// Its position in the list does not count.
    #[tokio::test]
    async fn exclusive_suite_ends_before_any_other_begins() {
        let logs = OwnDir::new("suites-test-").unwrap();
        let trace = logs.path().join("trace");
        let script =
            |name: &str| format!("echo {name} begins >>{0}; sleep 0.1; echo {name} ends >>{0}", trace.display());
        let suites = ["a test one", "ebs-torture test torture", "ebs-torture bin torture"]
            .map(|name| shell(name, &script(&name.replace(' ', "-"))));
        let ended = run_all(suites.into(), NonZeroUsize::MAX, logs.path(), &mut Vec::new()).await.unwrap();
        assert!(ended.len() == 3 && ended.iter().all(Ended::is_passed));
        let trace = std::fs::read_to_string(trace).unwrap();
        assert!(trace.starts_with("ebs-torture-test-torture begins\nebs-torture-test-torture ends\n"), "{trace}");
    }

    /// The other suites use the system's directory.
    #[tokio::test]
    async fn suite_with_many_files_keeps_them_in_memory() {
        let logs = OwnDir::new("suites-test-").unwrap();
        let suites =
            ["ebs-torture test torture", "a test one"].map(|name| shell(name, "echo files in ${TMPDIR:-/tmp}"));
        let ended = run_all(suites.into(), NonZeroUsize::MIN, logs.path(), &mut Vec::new()).await.unwrap();
        let of_system = std::env::temp_dir();
        assert_eq!(ended[0].output.trim(), "files in /dev/shm");
        assert_eq!(ended[1].output.trim(), format!("files in {}", of_system.display()));
    }

    #[tokio::test]
    async fn failed_suite_fails_the_run_after_the_others_have_ended() {
        let logs = OwnDir::new("suites-test-").unwrap();
        let suites = vec![
            shell("fails", "echo 'test result: FAILED. 1 passed; 2 failed; 0 ignored'; exit 101"),
            shell("killed", "kill -9 $$"),
            shell("passes", "echo 'test result: ok. 3 passed; 0 failed; 1 ignored'; echo seen >&2"),
        ];
        let mut out = Vec::new();
        let ended = run_all(suites, NonZeroUsize::MIN, logs.path(), &mut out).await.unwrap();
        let passed: Vec<(&str, bool)> = ended.iter().map(|e| (e.name.as_str(), e.is_passed())).collect();
        assert_eq!(passed, [("fails", false), ("killed", false), ("passes", true)]);
        assert!(ended[2].output.ends_with("seen\n"), "{}", ended[2].output);
        assert_eq!(sum_up(&ended, &mut out).unwrap(), ExitCode::FAILURE);
        assert_eq!(sum_up(&ended[2..], &mut out).unwrap(), ExitCode::SUCCESS);
        assert_eq!(
            counts(ended.iter().map(|e| e.output.as_str())),
            [("failed", 2), ("ignored", 1), ("passed", 4)].into()
        );
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("==== killed FAILED: signal: 9") && out.contains("\nFAILED: fails, killed\n"), "{out}");
    }

    #[tokio::test]
    async fn suite_that_cannot_be_started_fails_the_run() {
        let logs = OwnDir::new("suites-test-").unwrap();
        let suite = Suite { directory: "/nowhere".into(), ..shell("lost", "true") };
        let ended = run_all(vec![suite], NonZeroUsize::MIN, logs.path(), &mut Vec::new()).await.unwrap();
        assert!(!ended[0].is_passed());
        assert!(ended[0].output.contains("/nowhere"), "{}", ended[0].output);
    }
}

//! Child processes of tests and of the demo. Only this module starts one.
//!
//! A child runs in its own process group with a cleared environment, and writes to a log file. It ends with the thread
//! that started it (`PR_SET_PDEATHSIG`), and dropping a [`Process`] ends and reaps it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::record::ProcessRecord;

/// How long a dropped child may take to end after SIGTERM.
const DROP_GRACE: Duration = Duration::from_secs(5);
/// How many bytes at the end of a log [`Process::log_tail`] reads.
const TAIL_BYTES: u64 = 64 * 1024;
/// The search path of children. Our programs start their tools by absolute path.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

#[derive(Debug, Clone)]
pub struct ProcessSpec {
    /// The name for messages.
    pub name: String,
    /// Absolute path of the program.
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// All environment variables, except `PATH`.
    pub env: BTreeMap<String, String>,
    /// The log file, to which standard output and error are appended.
    pub log: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The process ended on its own, or after SIGTERM.
    Ended(ExitStatus),
    /// SIGKILL ended the process after the grace period.
    Killed,
}

#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    pidfd: OwnedFd,
    log: PathBuf,
    log_start: u64,
    ended: Option<ExitStatus>,
}

/// Returns the path of a program from an environment variable that `scripts/setup test` sets.
pub fn program(variable: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    let path = path.with_context(|| format!("{variable} is not set; run eval \"$(scripts/setup test)\""))?;
    ensure!(path.is_file(), "{variable}={}: file not found; run scripts/setup test", path.display());
    Ok(path)
}

impl Process {
    pub fn spawn(spec: ProcessSpec) -> anyhow::Result<Self> {
        let log = OpenOptions::new().create(true).append(true).open(&spec.log);
        let log = log.with_context(|| format!("open the log {}", spec.log.display()))?;
        let log_start = log.metadata().context("size of the log")?.len();
        if !spec.program.is_file() {
            bail!("start {}: no program at {}", spec.name, spec.program.display());
        }
        #[expect(clippy::disallowed_methods, reason = "this is the one module that starts children")]
        let mut command = Command::new("/usr/bin/setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&spec.program).args(&spec.args);
        command.env_clear().env("PATH", PATH).envs(&spec.env).process_group(0);
        command.stdin(Stdio::null()).stdout(log.try_clone().context("share the log")?).stderr(log);
        let mut child = command.spawn().with_context(|| format!("start {} with /usr/bin/setpriv", spec.name))?;
        match pidfd(&child) {
            Ok(pidfd) => Ok(Self { name: spec.name, child, pidfd, log: spec.log, log_start, ended: None }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns a record that identifies this process later, even if its id is reused.
    pub fn record(&self) -> anyhow::Result<ProcessRecord> {
        ProcessRecord::of(&self.name, self.pid())
    }

    /// Sends a signal only to the child, not to its process group.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        rustix::process::pidfd_send_signal(&self.pidfd, signal)
            .with_context(|| format!("send signal {} to {}", signal.as_raw(), self.name))
    }

    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().with_context(|| format!("wait for {}", self.name))?;
        }
        Ok(self.ended)
    }

    /// Waits at most `bound` until the process has ended. Dropping the future changes nothing.
    pub async fn wait(&mut self, bound: Duration) -> anyhow::Result<ExitStatus> {
        let deadline = tokio::time::Instant::now() + bound;
        let mut tick = tokio::time::interval(Duration::from_millis(10));
        loop {
            tick.tick().await;
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if tokio::time::Instant::now() > deadline {
                bail!("{} (process {}) still runs after {bound:?}", self.name, self.pid());
            }
        }
    }

    /// Sends SIGTERM, and kills the process if it has not ended within `grace`.
    pub async fn stop(&mut self, grace: Duration) -> anyhow::Result<Ending> {
        if let Some(status) = self.ended()? {
            return Ok(Ending::Ended(status));
        }
        self.signal(Signal::TERM)?;
        if let Ok(status) = self.wait(grace).await {
            return Ok(Ending::Ended(status));
        }
        self.kill()?;
        Ok(Ending::Killed)
    }

    /// Stops the process like [`Process::stop`]. An exit code other than 0 is an error.
    pub async fn stop_cleanly(&mut self, grace: Duration) -> anyhow::Result<()> {
        match self.stop(grace).await? {
            Ending::Ended(status) if status.success() => Ok(()),
            other => bail!("{} did not stop cleanly: {other:?}\n{}", self.name, self.log_tail(20)),
        }
    }

    /// Kills the process with its process group, and reaps it.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        if let Some(group) = Pid::from_raw(i32::try_from(self.pid()).context("a process id")?) {
            // The kill fails if the process group has only zombies left.
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        self.ended = Some(self.child.wait().with_context(|| format!("reap {}", self.name))?);
        Ok(())
    }

    /// Waits like [`Process::wait`], for code without a runtime (cleanup while unwinding).
    pub fn wait_blocking(&mut self, bound: Duration) -> anyhow::Result<ExitStatus> {
        let timeout = Timespec::try_from(bound).context("convert the time limit for the kernel")?;
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let ready = loop {
            match rustix::event::poll(&mut fds, Some(&timeout)) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other.with_context(|| format!("wait for {}", self.name))?,
            }
        };
        if ready == 0 {
            bail!("{} (process {}) still runs after {bound:?}", self.name, self.pid());
        }
        self.ended()?.with_context(|| format!("{} exited without a status", self.name))
    }

    /// Returns the output of the process since its start.
    pub fn output(&self) -> io::Result<String> {
        read_from(&self.log, self.log_start)
    }

    /// Returns the last `lines` lines of the process's log.
    pub fn log_tail(&self, lines: usize) -> String {
        log_tail(&self.log, lines)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.ended(), Ok(None)) {
            let _ = self.signal(Signal::TERM);
            if self.wait_blocking(DROP_GRACE).is_err() {
                let _ = self.kill();
            }
        }
    }
}

/// Returns the last `lines` lines of a log, or the error from reading it.
pub fn log_tail(log: &Path, lines: usize) -> String {
    let start = std::fs::metadata(log).map_or(0, |m| m.len().saturating_sub(TAIL_BYTES));
    match read_from(log, start) {
        Ok(text) => {
            let all: Vec<&str> = text.lines().collect();
            all[all.len().saturating_sub(lines)..].join("\n")
        }
        Err(error) => format!("(cannot read {}: {error})", log.display()),
    }
}

/// Runs a system tool for at most `bound`, and returns its output.
pub fn run_tool(program: &str, args: &[&str], bound: Duration) -> anyhow::Result<String> {
    let mut tool = Tool::start(program, args)?;
    let status = tool.process.wait_blocking(bound)?;
    tool.ended(status, args)
}

/// Runs a system tool like [`run_tool`], without blocking the thread.
pub async fn tool(program: &str, args: &[&str], bound: Duration) -> anyhow::Result<String> {
    let mut tool = Tool::start(program, args)?;
    let status = tool.process.wait(bound).await?;
    tool.ended(status, args)
}

struct Tool {
    process: Process,
    /// An unnamed file, so that nothing remains if this process is killed.
    _log: File,
}

impl Tool {
    fn start(program: &str, args: &[&str]) -> anyhow::Result<Self> {
        let log = tempfile::tempfile().context("create a file for the tool's output")?;
        let process = Process::spawn(ProcessSpec {
            name: program.to_owned(),
            program: PathBuf::from(program),
            args: args.iter().map(OsString::from).collect(),
            env: BTreeMap::new(),
            log: PathBuf::from(format!("/proc/self/fd/{}", log.as_raw_fd())),
        })?;
        Ok(Self { process, _log: log })
    }

    fn ended(&self, status: ExitStatus, args: &[&str]) -> anyhow::Result<String> {
        let output = self.process.output().context("read the tool's output")?;
        if !status.success() {
            bail!("{} {} exited with {status}: {}", self.process.name, args.join(" "), output.trim());
        }
        Ok(output)
    }
}

fn read_from(path: &Path, start: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn pidfd(child: &Child) -> anyhow::Result<OwnedFd> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a process id")?;
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).context("open a descriptor of the new process")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Duration = Duration::from_secs(60);

    fn sleeper(dir: &Path, script: &str) -> ProcessSpec {
        ProcessSpec {
            name: "sleeper".to_owned(),
            program: PathBuf::from("/bin/sh"),
            args: ["-c", script].into_iter().map(OsString::from).collect(),
            env: BTreeMap::new(),
            log: dir.join("log"),
        }
    }

    #[tokio::test]
    async fn child_that_ignores_sigterm_is_killed_after_grace_period() {
        let dir = tempfile::tempdir().unwrap();
        let script = "trap '' TERM; echo ready; while :; do sleep 1; done";
        let mut process = Process::spawn(sleeper(dir.path(), script)).unwrap();
        let seen = async {
            let mut tick = tokio::time::interval(Duration::from_millis(5));
            while !process.output().unwrap().contains("ready") {
                tick.tick().await;
            }
        };
        tokio::time::timeout(BOUND, seen).await.unwrap();
        assert_eq!(process.stop(Duration::from_millis(100)).await.unwrap(), Ending::Killed);
    }

    #[test]
    fn dropping_a_process_ends_its_child() {
        let dir = tempfile::tempdir().unwrap();
        let process = Process::spawn(sleeper(dir.path(), "exec sleep 600")).unwrap();
        let record = process.record().unwrap();
        assert!(record.is_running());
        drop(process);
        assert!(!record.is_running());
    }
}

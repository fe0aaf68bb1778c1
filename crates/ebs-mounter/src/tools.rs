//! Runs child processes. A program runs by absolute path, with a cleared environment, typed arguments and no shell, in
//! its own process group. Its output goes to an anonymous file, so that the program neither blocks nor dies when the
//! driver no longer reads. A program that changes a disk is never killed; one that only reads may be.

pub(crate) mod memory;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::MemfdFlags;

use crate::os;
use memory::{Container, raise_oom_score};

const DIRECTORIES: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
/// How many bytes of a program's output are kept: the last ones, which contain the reason for a failure.
const OUTPUT_BYTES: u64 = 16 * 1024;
/// How often a long-running change is logged.
const REPORT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Program {
    Blkid,
    E2fsck,
    Mke2fs,
    MkfsXfs,
    Resize2fs,
    XfsGrowfs,
}

impl Program {
    pub(crate) const ALL: [Self; 6] =
        [Self::Blkid, Self::E2fsck, Self::Mke2fs, Self::MkfsXfs, Self::Resize2fs, Self::XfsGrowfs];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Blkid => "blkid",
            Self::E2fsck => "e2fsck",
            Self::Mke2fs => "mke2fs",
            Self::MkfsXfs => "mkfs.xfs",
            Self::Resize2fs => "resize2fs",
            Self::XfsGrowfs => "xfs_growfs",
        }
    }
}

/// Why a program gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    #[error("{0} is not installed in /usr/sbin, /sbin, /usr/bin or /bin")]
    Missing(&'static str),
    #[error("run {program}")]
    Run { program: &'static str, source: io::Error },
    /// A program that only reads took longer than its time limit and was killed.
    #[error("{program} did not exit within {} s and was killed; the disk may be hung", bound.as_secs())]
    TooSlow { program: &'static str, bound: Duration },
    /// Signal 9 ended the program. The driver never kills a program that changes a disk, so the kernel or a person did.
    #[error("{program} was killed by signal 9, which the kernel sends when memory runs short: {output}")]
    Killed { program: &'static str, output: String },
    #[error("{program} failed ({ending}): {output}")]
    Failed { program: &'static str, ending: String, output: String },
}

impl ToolError {
    /// True if mke2fs or mkfs.xfs could not open the device exclusively, and thus has written nothing.
    pub(crate) fn reports_busy_device(&self) -> bool {
        let is_busy =
            |output: &str| ["in use by the system", "Device or resource busy"].iter().any(|t| output.contains(t));
        matches!(self, Self::Failed { output, .. } if is_busy(output))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) program: Program,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(&'static str, OsString)>,
}

impl Call {
    pub(crate) fn new<A: Into<OsString>>(program: Program, args: impl IntoIterator<Item = A>) -> Self {
        Self { program, args: args.into_iter().map(Into::into).collect(), env: Vec::new() }
    }

    pub(crate) fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.env.push((name, value.into()));
        self
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Finished {
    pub(crate) program: &'static str,
    status: ExitStatus,
    /// The end of the program's standard output and standard error, trimmed.
    pub(crate) output: String,
}

impl Finished {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub(crate) fn ending(&self) -> String {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("killed by signal {signal}"),
            (None, None) => "no exit code".to_owned(),
        }
    }

    /// True if signal 9, which the kernel's OOM killer sends, ended the program.
    pub(crate) fn was_killed(&self) -> bool {
        self.status.signal() == Some(libc::SIGKILL)
    }

    pub(crate) fn into_error(self) -> ToolError {
        if self.was_killed() {
            return ToolError::Killed { program: self.program, output: self.output };
        }
        ToolError::Failed { program: self.program, ending: self.ending(), output: self.output }
    }

    pub(crate) fn successful(self) -> Result<Self, ToolError> {
        if self.status.success() { Ok(self) } else { Err(self.into_error()) }
    }
}

/// A running program that changes a disk. The program keeps running if this value is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    program: &'static str,
    child: tokio::process::Child,
    output: File,
}

impl Running {
    pub(crate) async fn end(mut self) -> Result<Finished, ToolError> {
        let program = self.program;
        let mut waited = Duration::ZERO;
        loop {
            match tokio::time::timeout(REPORT, self.child.wait()).await {
                Ok(ended) => return finished(program, ended, &self.output),
                Err(_elapsed) => {
                    waited += REPORT;
                    let seconds = waited.as_secs();
                    tracing::info!(program, seconds, "tool still running; the driver never kills it");
                }
            }
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Tools {
    found: BTreeMap<Program, PathBuf>,
    container: Container,
}

impl Tools {
    /// Searches the fixed directories for every program. `cgroups` is the mount point of the cgroup file system.
    pub(crate) fn find(cgroups: PathBuf) -> Self {
        let find = |program: Program| {
            let places = DIRECTORIES.iter().map(|directory| Path::new(directory).join(program.name()));
            places.into_iter().find(|path| path.is_file()).map(|path| (program, path))
        };
        let found = Program::ALL.into_iter().filter_map(find).collect();
        Self { found, container: Container::new(cgroups) }
    }

    pub(crate) fn missing(&self) -> Vec<&'static str> {
        Program::ALL.iter().filter(|program| !self.found.contains_key(program)).map(|program| program.name()).collect()
    }

    /// Runs a program that only reads, and kills it after `bound`.
    pub(crate) async fn read(&self, call: Call, bound: Duration) -> Result<Finished, ToolError> {
        let (mut child, output) = self.start(&call, None)?;
        let program = call.program.name();
        match tokio::time::timeout(bound, child.wait()).await {
            Ok(ended) => finished(program, ended, &output),
            Err(_elapsed) => {
                // A child that hangs in the kernel dies when its system call returns. Do not wait for that.
                if let Err(error) = child.start_kill() {
                    tracing::warn!(program, %error, "failed to kill a hung program");
                }
                Err(ToolError::TooSlow { program, bound })
            }
        }
    }

    /// Runs a program that changes a disk. Waits without a limit. The program survives a dropped future.
    pub(crate) async fn change(&self, call: Call) -> Result<Finished, ToolError> {
        let (child, output) = self.start(&call, None)?;
        Running { program: call.program.name(), child, output }.end().await
    }

    /// Starts a program that changes the held disk. The program inherits the descriptor, so that the disk's name cannot
    /// pass to another disk while the program runs, even if this process is killed. After an error, the program has not
    /// run.
    pub(crate) fn begin(&self, call: &Call, disk: &Arc<File>) -> Result<Running, ToolError> {
        let (child, output) = self.start(call, Some(disk))?;
        Ok(Running { program: call.program.name(), child, output })
    }

    fn start(&self, call: &Call, inherited: Option<&Arc<File>>) -> Result<(tokio::process::Child, File), ToolError> {
        let program = call.program.name();
        let path = self.found.get(&call.program).ok_or(ToolError::Missing(program))?;
        let failed = |source: io::Error| ToolError::Run { program, source };
        let output = rustix::fs::memfd_create(program, MemfdFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
        let output = File::from(output);
        self.container.clear_oom_group();
        tracing::debug!(program, args = ?call.args, "starting");
        #[expect(clippy::disallowed_methods, reason = "this is the one module that starts children")]
        let mut command = tokio::process::Command::new(path);
        if let Some(file) = inherited {
            os::inherit_descriptor(&mut command, Arc::clone(file));
        }
        let child = command
            .args(&call.args)
            .env_clear()
            .env("LC_ALL", "C")
            .envs(call.env.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .process_group(0)
            .kill_on_drop(false)
            .stdin(Stdio::null())
            .stdout(Stdio::from(output.try_clone().map_err(failed)?))
            .stderr(Stdio::from(output.try_clone().map_err(failed)?))
            .spawn()
            .map_err(failed)?;
        if let Some(process) = child.id() {
            raise_oom_score(process);
        }
        Ok((child, output))
    }
}

fn finished(program: &'static str, ended: io::Result<ExitStatus>, output: &File) -> Result<Finished, ToolError> {
    let failed = |source| ToolError::Run { program, source };
    let status = ended.map_err(failed)?;
    let output = end_of(output).map_err(failed)?;
    tracing::debug!(program, %status, "ended");
    Ok(Finished { program, status, output })
}

fn end_of(output: &File) -> io::Result<String> {
    let length = output.metadata()?.len();
    let start = length.saturating_sub(OUTPUT_BYTES);
    let mut bytes = vec![0; usize::try_from(length - start).map_err(io::Error::other)?];
    output.read_exact_at(&mut bytes, start)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns tools that run another program of this machine as `blkid`.
    fn with_blkid(path: &str) -> Tools {
        assert!(Path::new(path).exists(), "this test needs {path}");
        Tools {
            found: BTreeMap::from([(Program::Blkid, PathBuf::from(path))]),
            container: Container::new(PathBuf::from("/no-cgroups")),
        }
    }

    #[tokio::test]
    async fn tool_process_has_a_cleared_environment() {
        let call = Call::new(Program::Blkid, [] as [&str; 0]).env("MKE2FS_CONFIG", "/x");
        let ended = with_blkid("/usr/bin/env").change(call).await.unwrap().successful().unwrap();
        let mut lines: Vec<&str> = ended.output.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["LC_ALL=C", "MKE2FS_CONFIG=/x"]);
    }

    #[tokio::test]
    async fn memory_oom_group_is_cleared_before_each_tool_starts() {
        let cgroup = tempfile::tempdir().unwrap();
        let group = cgroup.path().join("memory.oom.group");
        std::fs::write(cgroup.path().join("cgroup.procs"), format!("{}\n", std::process::id())).unwrap();
        let container = Container::new(cgroup.path().to_owned());
        let tools = Tools { container, ..with_blkid("/usr/bin/env") };
        // Without cgroup v2, a process has no `memory.oom.group` file.
        let has_v2 = std::fs::read_to_string("/proc/self/cgroup").unwrap().lines().any(|line| line.starts_with("0::"));
        let run =
            async || tools.change(Call::new(Program::Blkid, [] as [&str; 0])).await.unwrap().successful().unwrap();
        run().await;
        assert!(!group.exists(), "cgroup v1");
        for _ in 0..2 {
            std::fs::write(&group, "1\n").unwrap();
            run().await;
            assert_eq!(std::fs::read_to_string(&group).unwrap().trim() == "0", has_v2);
        }
    }

    #[tokio::test]
    async fn only_the_end_of_long_tool_output_is_kept() {
        let call = Call::new(Program::Blkid, ["1", "200000"]);
        let ended = with_blkid("/usr/bin/seq").change(call).await.unwrap();
        assert!(ended.output.len() <= 16 * 1024 && ended.output.ends_with("\n200000"));
    }

    #[tokio::test]
    async fn read_only_tool_is_killed_at_its_time_limit() {
        let call = Call::new(Program::Blkid, ["1000"]);
        let outcome = with_blkid("/usr/bin/sleep").read(call, Duration::from_millis(20)).await;
        assert!(matches!(outcome, Err(ToolError::TooSlow { program: "blkid", .. })), "{outcome:?}");
    }

    #[tokio::test]
    async fn tool_that_changes_a_disk_survives_the_drop_of_its_future() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        let proof = directory.path().join("proof");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        // The child waits until the test opens the fifo for writing, after the call's future has been dropped.
        let call = Call::new(Program::Blkid, [fifo.as_os_str(), proof.as_os_str()]);
        let tools = with_blkid("/usr/bin/cp");
        let dropped = tokio::time::timeout(Duration::from_millis(50), tools.change(call)).await;
        assert!(dropped.is_err());
        tokio::task::spawn_blocking(move || std::fs::write(fifo, "written")).await.unwrap().unwrap();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        while std::fs::read_to_string(&proof).unwrap_or_default() != "written" {
            assert!(tokio::time::Instant::now() < deadline, "the child died with its future");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn tool_error_contains_exit_code_and_output() {
        let call = Call::new(Program::Blkid, ["/nonexistent-directory"]);
        let error = with_blkid("/usr/bin/ls").change(call).await.unwrap().successful().unwrap_err().to_string();
        assert!(error.starts_with("blkid failed (exit code 2): ") && error.contains("nonexistent"), "{error}");
    }

    #[tokio::test]
    async fn error_for_a_killed_tool_mentions_memory() {
        let call = Call::new(Program::Blkid, ["-c", "echo half; kill -9 $$"]);
        let error = with_blkid("/bin/sh").change(call).await.unwrap().successful().unwrap_err();
        assert!(matches!(&error, ToolError::Killed { program: "blkid", output } if output == "half"), "{error:?}");
        assert!(error.to_string().contains("signal 9") && error.to_string().contains("memory"), "{error}");
    }

    #[tokio::test]
    async fn tool_has_its_own_process_group_and_the_highest_oom_score() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        let held = Arc::new(File::open(&directory).unwrap());
        // The child waits until the fifo has a writer.
        let running = with_blkid("/usr/bin/cat").begin(&Call::new(Program::Blkid, [fifo.as_os_str()]), &held).unwrap();
        let process = running.child.id().unwrap();
        let read = |of: &str, file: &str| std::fs::read_to_string(format!("/proc/{of}/{file}")).unwrap();
        let score = |of: &str| read(of, "oom_score_adj").trim().to_owned();
        assert!(score(&process.to_string()) == "1000" && score("self") != "1000");
        let group = |of: &str| {
            let after_name = read(of, "stat").rsplit_once(')').unwrap().1.to_owned();
            after_name.split_whitespace().nth(2).unwrap().parse::<u32>().unwrap()
        };
        assert!(group(&process.to_string()) == process && group("self") != process);
        tokio::task::spawn_blocking(move || std::fs::write(fifo, "")).await.unwrap().unwrap();
        running.end().await.unwrap().successful().unwrap();
    }

    #[tokio::test]
    async fn error_names_the_missing_program() {
        let tools = Tools { found: BTreeMap::new(), ..with_blkid("/usr/bin/env") };
        let outcome = tools.change(Call::new(Program::MkfsXfs, ["x"])).await;
        assert!(matches!(outcome, Err(ToolError::Missing("mkfs.xfs"))));
        assert_eq!(tools.missing().len(), Program::ALL.len());
    }
}

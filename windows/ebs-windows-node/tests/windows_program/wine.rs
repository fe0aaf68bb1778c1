//! A Windows installation under Wine for one test, and its programs. Wine treats SIGINT as Ctrl-C in a console: it
//! calls the console handlers of the program.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::process::{Process, ProcessSpec, run_tool};
use rustix::process::Signal;
use tempfile::TempDir;

const PROGRAMS: &str = "EBS_TEST_WINDOWS_PROGRAMS";
const PREFIX: &str = "EBS_TEST_WINE_PREFIX";
/// The timeout for a program's start or end under Wine on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Formats a path of this machine as a Windows path on the drive `drive`.
pub(crate) fn windows_path(drive: char, path: &Path) -> String {
    format!("{drive}:{}", path.display()).replace('/', r"\")
}

fn variable(name: &str) -> anyhow::Result<String> {
    std::env::var(name).with_context(|| format!("{name} is not set: scripts/windows does"))
}

/// A Windows installation for this test only, because pipes have machine-wide names. Dropping it ends all of its
/// programs.
pub(crate) struct Windows {
    prefix: TempDir,
    server: String,
}

impl Windows {
    /// Copies the prefix that `scripts/setup windows` has created.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let (original, wine) = (PathBuf::from(variable(PREFIX)?), PathBuf::from(variable("EBS_WINE")?));
        let beside = original.parent().context("a directory for prefixes")?;
        let prefix = tempfile::Builder::new().prefix("wine-prefix-").tempdir_in(beside)?;
        for entry in std::fs::read_dir(&original)? {
            let (from, to) = (entry?.path(), prefix.path());
            // Use hard links, except for files that Wine overwrites in place.
            let how = if from.extension().is_some_and(|extension| extension == "reg") { "-a" } else { "-al" };
            run_tool("/bin/cp", &[how, &from.display().to_string(), &to.display().to_string()], PATIENCE)?;
        }
        let server = wine.with_file_name("wineserver64").display().to_string();
        let windows = Self { prefix, server };
        // Keep Wine's server running: otherwise it would end with its last program, and reject a program that starts at
        // that time.
        windows.tell_server("--persistent=600")?;
        Ok(windows)
    }

    fn tell_server(&self, what: &str) -> anyhow::Result<()> {
        let prefix = format!("WINEPREFIX={}", self.prefix.path().display());
        run_tool("/usr/bin/env", &[&prefix, &self.server, what], PATIENCE).map(drop)
    }

    pub(crate) fn drive_c(&self) -> PathBuf {
        self.prefix.path().join("drive_c")
    }

    /// Starts `program`, which is an absolute path or a file in the directory of the programs. Its log is in `dir`.
    pub(crate) fn start(
        &self,
        program: &str,
        arguments: &[String],
        more: &BTreeMap<String, String>,
        dir: &Path,
    ) -> anyhow::Result<Wine> {
        let program = PathBuf::from(variable(PROGRAMS)?).join(program);
        let name = program.file_stem().and_then(|stem| stem.to_str()).context("a program's name")?.to_owned();
        let runner = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/windows-program").canonicalize()?;
        let args = std::iter::once(program.into_os_string()).chain(arguments.iter().map(OsString::from));
        let prefix = self.prefix.path().display().to_string();
        // Start the program without a wrapper process, so that signals reach it directly.
        let own = [("WINE", variable("EBS_WINE")?), ("WINEPREFIX", prefix), ("LIMIT", "none".to_owned())];
        let mut env = more.clone();
        env.extend(own.map(|(name, value)| (name.to_owned(), value)));
        let process = Process::spawn(ProcessSpec {
            log: dir.join(format!("{name}.log")),
            name,
            program: runner,
            args: args.collect(),
            env,
        })?;
        Ok(Wine(process))
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        // A server that has already ended does not respond.
        let _ = self.tell_server("--kill");
    }
}

pub(crate) struct Wine(Process);

impl Wine {
    pub(crate) async fn said(&mut self, words: &str) -> anyhow::Result<String> {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let text = self.0.output()?;
            if let Some((_, rest)) = text.lines().find_map(|line| line.split_once(words)) {
                return Ok(rest.to_owned());
            }
            if let Some(status) = self.0.ended()? {
                anyhow::bail!("it ended with {status}:\n{text}");
            }
            ensure!(tokio::time::Instant::now() < end, "it does not say {words:?}:\n{text}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) fn press_control_c(&self) -> anyhow::Result<()> {
        self.0.signal(Signal::INT)
    }

    pub(crate) async fn exit_code(&mut self) -> anyhow::Result<Option<i32>> {
        Ok(self.0.wait(PATIENCE).await?.code())
    }

    pub(crate) fn output(&self) -> anyhow::Result<String> {
        Ok(self.0.output()?)
    }

    pub(crate) fn log(&self) -> String {
        self.0.log_tail(60)
    }
}

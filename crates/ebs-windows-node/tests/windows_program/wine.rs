//! A program under Wine. SIGINT is to Wine what Ctrl-C in a console is to Windows: it asks the handlers of the program.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::process::{Process, ProcessSpec};
use rustix::process::Signal;

/// Has the programs for Windows, and the machine that they run on.
const PROGRAMS: &str = "EBS_TEST_WINDOWS_PROGRAMS";
const PREFIX: &str = "EBS_TEST_WINE_PREFIX";
/// For a start or an end under Wine on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// As Windows writes a path of this machine, on the drive `drive`.
pub(crate) fn windows_path(drive: char, path: &Path) -> String {
    format!("{drive}:{}", path.display()).replace('/', r"\")
}

fn variable(name: &str) -> anyhow::Result<String> {
    std::env::var(name).with_context(|| format!("{name} is not set: scripts/windows does"))
}

/// The drive `C:` of the programs.
pub(crate) fn drive_c() -> anyhow::Result<PathBuf> {
    Ok(PathBuf::from(variable(PREFIX)?).join("drive_c"))
}

/// The program, running; it ends when this is dropped.
pub(crate) struct Wine(Process);

impl Wine {
    /// Starts `program`, of the directory with programs where it is no absolute path; its log is `NAME.log` in `dir`.
    pub(crate) fn start(
        name: &str,
        program: &str,
        arguments: &[String],
        more: &BTreeMap<String, String>,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        let program = PathBuf::from(variable(PROGRAMS)?).join(program);
        let runner = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/windows-program").canonicalize()?;
        let args = std::iter::once(program.into_os_string()).chain(arguments.iter().map(OsString::from));
        // Signals are for the program, and nobody between.
        let mut env = more.clone();
        let own = [("WINE", variable("EBS_WINE")?), ("WINEPREFIX", variable(PREFIX)?), ("LIMIT", "none".to_owned())];
        env.extend(own.map(|(name, value)| (name.to_owned(), value)));
        let process = Process::spawn(ProcessSpec {
            name: name.to_owned(),
            program: runner,
            args: args.collect(),
            env,
            log: dir.join(format!("{name}.log")),
        })?;
        Ok(Self(process))
    }

    /// The rest of the first line with these words, once there is one.
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

    /// Presses Ctrl-C.
    pub(crate) fn press_control_c(&self) -> anyhow::Result<()> {
        self.0.signal(Signal::INT)
    }

    /// Its exit code, once it has ended by itself.
    pub(crate) async fn exit_code(&mut self) -> anyhow::Result<Option<i32>> {
        Ok(self.0.wait(PATIENCE).await?.code())
    }

    /// All that it has said.
    pub(crate) fn output(&self) -> anyhow::Result<String> {
        Ok(self.0.output()?)
    }

    pub(crate) fn log(&self) -> String {
        self.0.log_tail(60)
    }
}

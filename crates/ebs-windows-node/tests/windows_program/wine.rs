//! A program under Wine, with a console that nobody looks at: what a person types there arrives as on Windows.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::process::{Process, ProcessSpec};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Has the programs for Windows.
const PROGRAMS: &str = "EBS_TEST_WINDOWS_PROGRAMS";
/// For a start or an end under Wine on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// As Windows writes a path of this machine, on the drive `drive`.
pub(crate) fn windows_path(drive: char, path: &Path) -> String {
    format!("{drive}:{}", path.display()).replace('/', r"\")
}

/// The program, running; it ends when this is dropped.
pub(crate) struct Wine {
    process: Process,
    console: File,
}

impl Wine {
    /// Starts `program` of the directory with programs; its log is `NAME.log` in `dir`.
    pub(crate) fn start(
        name: &str,
        program: &str,
        arguments: &[String],
        more: &BTreeMap<String, String>,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        let variable = |name| std::env::var(name).with_context(|| format!("{name} is not set: scripts/windows does"));
        let program = PathBuf::from(variable(PROGRAMS)?).join(program);
        let runner = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/windows-program").canonicalize()?;
        let console = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&console)?;
        unlockpt(&console)?;
        let terminal = ptsname(&console, Vec::new())?.into_string()?;
        // A child of the tests' process reads nothing by itself: the shell gives it the terminal.
        let arguments = [
            OsString::from("-c"),
            OsString::from(r#"exec "$@" <"$0""#),
            terminal.into(),
            runner.into_os_string(),
            program.into_os_string(),
        ]
        .into_iter()
        .chain(arguments.iter().map(OsString::from));
        let mut env = BTreeMap::from([("WINE".to_owned(), variable("EBS_WINE")?)]);
        env.extend(more.clone());
        let process = Process::spawn(ProcessSpec {
            name: name.to_owned(),
            program: "/bin/sh".into(),
            args: arguments.collect(),
            env,
            log: dir.join(format!("{name}.log")),
        })?;
        Ok(Self { process, console: File::from(console) })
    }

    /// The rest of the first line with these words, once there is one.
    pub(crate) async fn said(&mut self, words: &str) -> anyhow::Result<String> {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let text = self.process.output()?;
            if let Some((_, rest)) = text.lines().find_map(|line| line.split_once(words)) {
                return Ok(rest.to_owned());
            }
            if let Some(status) = self.process.ended()? {
                anyhow::bail!("it ended with {status}:\n{text}");
            }
            ensure!(tokio::time::Instant::now() < end, "it does not say {words:?}:\n{text}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Types Ctrl-C.
    pub(crate) fn press_control_c(&mut self) -> anyhow::Result<()> {
        Ok(self.console.write_all(b"\x03")?)
    }

    /// Its exit code, once it has ended by itself.
    pub(crate) async fn exit_code(&mut self) -> anyhow::Result<Option<i32>> {
        Ok(self.process.wait(PATIENCE).await?.code())
    }

    pub(crate) fn log(&self) -> String {
        self.process.log_tail(60)
    }
}

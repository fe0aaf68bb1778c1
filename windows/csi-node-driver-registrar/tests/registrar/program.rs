//! The registrar program as a process.

#[cfg(target_os = "linux")]
pub(crate) use on_linux::{Sandbox, program};
#[cfg(windows)]
pub(crate) use on_windows::Registrar;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_csi-node-driver-registrar");

#[cfg(target_os = "linux")]
mod on_linux {
    use std::collections::BTreeMap;
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    use anyhow::ensure;
    use ebs_testkit::process::{Process, ProcessSpec};
    use ebs_testkit::run_dir::OwnDir;

    use crate::{BOUND, eventually};

    /// A node: the directory of the driver, the kubelet's plugin directory, and logs.
    pub(crate) struct Sandbox {
        dir: OwnDir,
    }

    impl Sandbox {
        pub(crate) fn new() -> anyhow::Result<Self> {
            let dir = OwnDir::new("registrar-")?;
            std::fs::create_dir(dir.path().join("reg"))?;
            Ok(Self { dir })
        }

        pub(crate) fn path(&self) -> &Path {
            self.dir.path()
        }

        pub(crate) fn driver(&self) -> PathBuf {
            self.path().join("csi.sock")
        }

        pub(crate) fn registration(&self) -> PathBuf {
            self.path().join("reg")
        }

        pub(crate) fn socket(&self, name: &str) -> PathBuf {
            self.registration().join(format!("{name}-reg.sock"))
        }

        pub(crate) fn start(&self, name: &str, more: &[&str]) -> anyhow::Result<Process> {
            let mut args = vec![
                format!("--csi-address={}", self.driver().display()),
                format!("--kubelet-registration-path={}", self.driver().display()),
                format!("--plugin-registration-path={}", self.registration().display()),
                "--v=5".to_owned(),
            ];
            args.extend(more.iter().map(|arg| (*arg).to_owned()));
            program(self.path(), name, args)
        }
    }

    pub(crate) fn program(dir: &Path, name: &str, args: impl IntoIterator<Item = String>) -> anyhow::Result<Process> {
        Process::spawn(ProcessSpec {
            name: name.to_owned(),
            program: PathBuf::from(super::PROGRAM),
            args: args.into_iter().map(OsString::from).collect(),
            env: BTreeMap::new(),
            log: dir.join(format!("{name}.log")),
        })
    }

    /// Waits for `words` in the log, and returns the text after them up to the next space.
    pub(crate) async fn said(process: &Process, words: &str) -> anyhow::Result<String> {
        eventually(words, async || {
            let output = process.output().ok()?;
            let (_, rest) = output.split_once(words)?;
            rest.contains('\n').then(|| rest.split([' ', '\n']).next().unwrap_or_default().to_owned())
        })
        .await
    }

    pub(crate) async fn ends_with(process: &mut Process, code: i32) -> anyhow::Result<String> {
        let status = process.wait(BOUND).await?;
        let output = process.output()?;
        ensure!(status.code() == Some(code), "{status}, and not {code}: {output}");
        Ok(output)
    }
}

#[cfg(target_os = "linux")]
pub(crate) use on_linux::{ends_with, said};

#[cfg(windows)]
mod on_windows {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    use anyhow::Context;

    /// A child process whose log lines are read as they arrive. Dropping it kills the process.
    pub(crate) struct Registrar {
        child: Child,
        lines: std::io::Lines<BufReader<std::process::ChildStderr>>,
    }

    impl Registrar {
        pub(crate) fn start(args: &[String]) -> anyhow::Result<Self> {
            #[expect(clippy::disallowed_methods, reason = "ebs-testkit, which starts children, is for Linux")]
            let mut command = Command::new(super::PROGRAM);
            let mut child = command.args(args).stderr(Stdio::piped()).spawn().context("start the registrar")?;
            let lines = BufReader::new(child.stderr.take().context("its log")?).lines();
            Ok(Self { child, lines })
        }

        pub(crate) fn said(&mut self, words: &str) -> anyhow::Result<String> {
            for line in self.lines.by_ref() {
                let line = line.context("its log")?;
                if let Some((_, rest)) = line.split_once(words) {
                    return Ok(rest.split(' ').next().unwrap_or_default().to_owned());
                }
            }
            anyhow::bail!("it has ended and never said {words:?}")
        }

        pub(crate) fn exit_code(&mut self) -> anyhow::Result<Option<i32>> {
            Ok(self.child.wait()?.code())
        }
    }

    impl Drop for Registrar {
        fn drop(&mut self) {
            let _ended_before = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

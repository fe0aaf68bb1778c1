//! The simulator and the driver as processes, for the bench.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ebs_testkit::control::Control;
use ebs_testkit::process::{Process, ProcessSpec};

pub(crate) type Env = BTreeMap<String, String>;

#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// The directory for state, logs and results.
    pub(crate) dir: PathBuf,
    bin_dir: PathBuf,
}

impl Places {
    /// Returns the directories. The defaults are `name` in cargo's target directory, and this program's directory.
    pub(crate) fn new(name: &str, dir: Option<PathBuf>, bin_dir: Option<PathBuf>) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("path of this program")?;
        let beside = own.parent().context("find the directory of this program")?;
        let target = beside.parent().unwrap_or(beside);
        let dir = std::path::absolute(dir.unwrap_or_else(|| target.join(name))).context("resolve the directory")?;
        Ok(Self { dir, bin_dir: bin_dir.unwrap_or_else(|| beside.to_owned()) })
    }

    pub(crate) fn simulator(&self) -> PathBuf {
        self.bin_dir.join("ebs-sim")
    }

    pub(crate) fn driver(&self) -> PathBuf {
        self.bin_dir.join("aws-ebs-csi-driver")
    }

    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.log"))
    }
}

/// Starts a driver on a socket. It is not ready yet.
pub(crate) fn spawn_driver(
    program: &Path,
    args: &[&str],
    socket: &Path,
    env: &Env,
    log: PathBuf,
) -> anyhow::Result<Process> {
    let endpoint = format!("--endpoint=unix://{}", socket.display());
    spawn(program, args.iter().copied().chain([endpoint.as_str()]), env.clone(), log)
}

/// Starts a program. It gets the bench's own variables of libfaketime, so that all clocks of a run have the same speed.
fn spawn<'a>(
    program: &Path,
    args: impl Iterator<Item = &'a str>,
    mut env: Env,
    log: PathBuf,
) -> anyhow::Result<Process> {
    let of_clock = |name: &str| name == "LD_PRELOAD" || name.starts_with("FAKETIME");
    env.extend(std::env::vars().filter(|(name, _)| of_clock(name)));
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Process::spawn(ProcessSpec { name, program: program.to_owned(), args: args.map(Into::into).collect(), env, log })
}

#[derive(Debug)]
pub(crate) struct Simulator {
    pub(crate) process: Process,
    env_file: PathBuf,
}

impl Simulator {
    /// Starts the simulator with its state in `dir`. Returns before the simulator is ready.
    pub(crate) fn spawn(program: &Path, dir: &Path, args: &[&str], log: PathBuf) -> anyhow::Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
        let env_file = dir.join("env");
        let own = [format!("--state-dir={}", dir.display()), format!("--env-file={}", env_file.display())];
        let args = own.iter().map(String::as_str).chain(args.iter().copied());
        Ok(Self { process: spawn(program, args, Env::new(), log)?, env_file })
    }

    /// Waits until the simulator has written its env file. Returns the variables of a client.
    pub(crate) async fn ready(&mut self, bound: Duration) -> anyhow::Result<Env> {
        let deadline = tokio::time::Instant::now() + bound;
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        while !self.env_file.exists() {
            tick.tick().await;
            if let Some(status) = self.process.ended()? {
                bail!("ebs-sim exited with {status} while starting:\n{}", self.process.log_tail(20));
            }
            ensure!(tokio::time::Instant::now() < deadline, "ebs-sim is not ready after {bound:?}");
        }
        env_of_file(&self.env_file)
    }
}

/// Returns the variables of an env file, which has lines `export NAME='value'`.
pub(crate) fn env_of_file(env_file: &Path) -> anyhow::Result<Env> {
    let text = fs::read_to_string(env_file);
    Ok(parse_env(&text.with_context(|| format!("read the simulator's env file {}", env_file.display()))?))
}

fn parse_env(text: &str) -> Env {
    let lines = text.lines().filter_map(|line| line.strip_prefix("export ")?.split_once('='));
    let unquoted = |value: &str| {
        let inner = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).unwrap_or(value);
        inner.replace(r"'\''", "'")
    };
    lines.map(|(name, value)| (name.to_owned(), unquoted(value))).collect()
}

pub(crate) fn variable(env: &Env, name: &str) -> anyhow::Result<String> {
    env.get(name).cloned().with_context(|| format!("{name} in the env file"))
}

pub(crate) fn control_of(env: &Env) -> anyhow::Result<Control> {
    Ok(Control::new(&variable(env, "EBS_SIM_CONTROL")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn env_file_is_parsed_as_a_shell_parses_it() {
        let env = parse_env("# ready\nexport A='it'\\''s'\nexport B='http://127.0.0.1:1'\nexport C=plain\n");
        let pairs: Vec<(&str, &str)> = env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("A", "it's"), ("B", "http://127.0.0.1:1"), ("C", "plain")]);
    }
}

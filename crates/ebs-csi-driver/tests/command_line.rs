//! Tests hundreds of combinations of command line and environment by the program's exit code and output. The rows of
//! `tests/cli/*.tsv` are the combinations. This file adds pairs of flags.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ebs_sim::{Server, ServerConfig};
use ebs_testkit::process::{Process, ProcessSpec};
use rustix::process::Signal;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
/// Timeout of every wait, long enough for a busy machine.
const BOUND: Duration = Duration::from_secs(120);
/// Number of processes that run at once.
const AT_ONCE: usize = 6;

const MORE_TRIES: usize = 5;

/// How a process is expected to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    With(i32),
    /// The process serves, and exits with 0 after SIGTERM.
    WhenTold,
}

#[derive(Debug, Clone)]
struct Row {
    place: String,
    ends: Ends,
    says: Vec<String>,
    env: Vec<String>,
    args: Vec<String>,
}

impl Row {
    fn parse(place: String, line: &str) -> anyhow::Result<Self> {
        let [ends, says, env, args] = line.split('\t').collect::<Vec<_>>()[..] else {
            bail!("{place}: not four columns")
        };
        let ends = match ends {
            "serves" => Ends::WhenTold,
            code => Ends::With(code.parse().with_context(|| format!("{place}: an exit code"))?),
        };
        let argument = |word: &str| if word == "''" { String::new() } else { word.replace("\\s", " ") };
        Ok(Self {
            place,
            ends,
            says: says.split(" & ").map(str::to_owned).collect(),
            env: env.split_whitespace().filter(|word| *word != "-").map(str::to_owned).collect(),
            args: args.split_whitespace().map(argument).collect(),
        })
    }

    fn all(file: &str, text: &str) -> anyhow::Result<Vec<Self>> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
        lines.map(|(n, line)| Self::parse(format!("{file}:{}", n + 1), line)).collect()
    }

    /// Returns the environment of a process. Nothing in it refers to another machine.
    fn environment(
        &self,
        simulator: &BTreeMap<String, String>,
        dir: &Path,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        let closed = "http://127.0.0.1:1";
        let mut env: BTreeMap<String, String> = [
            ("AWS_EC2_METADATA_SERVICE_ENDPOINT", closed),
            ("AWS_ENDPOINT_URL", closed),
            ("AWS_ACCESS_KEY_ID", "EBSTESTSACCESSKEY001"),
            ("AWS_SECRET_ACCESS_KEY", "made-up-for-tests-of-the-command-line"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        for word in &self.env {
            if word == "sim" {
                env.extend(simulator.clone());
                continue;
            }
            let (name, value) = word.split_once('=').with_context(|| format!("{}: {word}", self.place))?;
            env.insert(name.to_owned(), value.replace("{dir}", &dir.display().to_string()));
        }
        Ok(env)
    }

    /// Runs the row. Repeats the run if the metadata service did not answer in time, which happens on a busy machine.
    async fn run(&self, simulator: &BTreeMap<String, String>) -> anyhow::Result<()> {
        let mut ended = self.run_once(simulator).await;
        for _ in 0..MORE_TRIES {
            let too_slow = ended.as_ref().is_err_and(|error| format!("{error:#}").contains("identify this machine"));
            if !(too_slow && self.ends == Ends::WhenTold) {
                break;
            }
            ended = self.run_once(simulator).await;
        }
        ended
    }

    async fn run_once(&self, simulator: &BTreeMap<String, String>) -> anyhow::Result<()> {
        let dir = tempfile::Builder::new().prefix("cli-").tempdir().context("a directory for the row")?;
        let place = |word: &String| word.replace("{dir}", &dir.path().display().to_string()).into();
        let mut process = Process::spawn(ProcessSpec {
            name: "driver".to_owned(),
            program: DRIVER.into(),
            args: self.args.iter().map(place).collect(),
            env: self.environment(simulator, dir.path())?,
            log: dir.path().join("log"),
        })?;
        let serves = until_it_serves(&mut process).await?;
        if serves {
            process.signal(Signal::TERM)?;
        }
        let code = process.wait(BOUND).await?.code();
        let wanted = match self.ends {
            Ends::With(code) => code,
            Ends::WhenTold => 0,
        };
        let output = process.output()?;
        ensure!(serves == (self.ends == Ends::WhenTold), "serves: {serves}:\n{output}");
        ensure!(code == Some(wanted), "ended with {code:?}, not {wanted}:\n{output}");
        for part in &self.says {
            ensure!(output.contains(part.as_str()), "does not say {part:?}:\n{output}");
        }
        ensure!(!output.contains("panicked"), "a panic:\n{output}");
        let socket = dir.path().join("csi.sock");
        ensure!(!socket.exists(), "the socket is left");
        Ok(())
    }
}

/// Waits until the process serves with all its services or has exited. Returns whether it serves.
async fn until_it_serves(process: &mut Process) -> anyhow::Result<bool> {
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    let seen = async {
        loop {
            tick.tick().await;
            if process.ended()?.is_some() {
                return anyhow::Ok(false);
            }
            if process.output()?.contains("serving CSI") {
                return Ok(true);
            }
        }
    };
    tokio::time::timeout(BOUND, seen).await.context("it neither serves nor ends")?
}

/// Runs all rows, several at once, and reports all failed rows.
async fn run_all(rows: Vec<Row>) -> anyhow::Result<()> {
    let dir = tempfile::tempdir().context("a directory for the simulator")?;
    let simulator = Server::start(ServerConfig::new(dir.path().join("sim"))).await.context("the simulator")?;
    let (env, places) = (Arc::new(simulator.env()), Arc::new(Semaphore::new(AT_ONCE)));
    let (mut running, count) = (JoinSet::new(), rows.len());
    for row in rows {
        let (env, places) = (Arc::clone(&env), Arc::clone(&places));
        running.spawn(async move {
            let _place = places.acquire_owned().await.context("never closed")?;
            let told = row.args.join(" ");
            row.run(&env).await.with_context(|| format!("{}: {} {told}", row.place, row.env.join(" ")))
        });
    }
    let ended = running.join_all().await;
    simulator.shutdown().await.context("stop the simulator")?;
    let wrong: Vec<String> = ended.into_iter().filter_map(|row| row.err()).map(|error| format!("{error:#}")).collect();
    ensure!(wrong.is_empty(), "{} of {count} rows are wrong:\n\n{}", wrong.len(), wrong.join("\n\n"));
    Ok(())
}

/// The rows cover every mode and every syntax of flags.
#[tokio::test]
async fn valid_command_lines_are_accepted() -> anyhow::Result<()> {
    run_all(Row::all("accepted.tsv", include_str!("cli/accepted.tsv"))?).await
}

/// The program exits with 2, names the invalid part, and changes nothing.
#[tokio::test]
async fn invalid_command_lines_exit_with_2() -> anyhow::Result<()> {
    run_all(Row::all("refused.tsv", include_str!("cli/refused.tsv"))?).await
}

/// With the arguments of the official chart, the driver serves, and exits with 0 on SIGTERM. The driver exits with 1
/// when it cannot start, and with 2 on invalid variables.
#[tokio::test]
async fn driver_starts_with_chart_arguments_or_reports_the_cause() -> anyhow::Result<()> {
    run_all(Row::all("started.tsv", include_str!("cli/started.tsv"))?).await
}

//! The test executables that cargo builds, and the documentation's tests.

use std::ffi::OsString;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use cargo_metadata::{Artifact, Message};
use ebs_testkit::process::{Process, ProcessSpec};

/// They are built already; this is for a machine that is very busy.
const CARGO_BOUND: Duration = Duration::from_secs(30 * 60);
/// Suites that take a minute or more, the slowest first: a run is over soonest when these begin first.
const SLOW: [&str; 15] = [
    "csi_sanity",
    "stopped",
    "port",
    "model_over_sdk",
    "chart",
    "node_on_disk",
    "sim",
    "iam",
    "crash",
    "demo_interrupted",
    "volume_life",
    "labeler",
    "health",
    "bad_input",
    "documentation",
];

/// Suites that run when nothing else does. The model's, which only computes, is over soonest so. Beside others a cycle of the node
/// torture takes ten times as long, most of it spent waiting for the kernel's loop devices, and the cycles that its bugs need are not
/// reached within a bound; one of its planted bugs also formats whatever disk has a loop device's number by now, which could be another
/// suite's.
const ALONE: [&str; 2] = ["port", "torture"];

/// Where the torture keeps its files, where it is there: it makes and removes many, and ext4 looks at every inode that was freed within
/// the last seconds before it gives one (`recently_deleted`), which takes more time than all else that it does.
const IN_MEMORY: &str = "/dev/shm";

/// Suites that mostly wait, for a slow EC2 or for EC2's word to be final: their tests all run at once, however few cores there are.
const MOSTLY_WAITING: [&str; 1] = ["csi_sanity"];

/// What runs as one process.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Suite {
    /// For people: the package and the target.
    pub(super) name: String,
    /// A path, or a name that is looked up in `PATH`.
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    /// Where it runs: the directory of its package, as with `cargo test`.
    pub(super) directory: PathBuf,
}

impl Suite {
    /// The name of its target.
    fn target(&self) -> &str {
        self.name.rsplit(' ').next().unwrap_or_default()
    }

    /// Nothing else may run beside it.
    pub(super) fn runs_alone(&self) -> bool {
        self.name.contains(" test ") && ALONE.contains(&self.target())
    }

    /// The directory for temporary files, where it is not the system's.
    pub(super) fn temporary_files(&self) -> Option<&'static str> {
        (self.target() == "torture" && self.runs_alone() && Path::new(IN_MEMORY).is_dir()).then_some(IN_MEMORY)
    }

    /// The value of `RUST_TEST_THREADS`, where it is not one for each core.
    pub(super) fn threads(&self) -> Option<&'static str> {
        MOSTLY_WAITING.contains(&self.target()).then_some("8")
    }
}

/// All suites of the workspace, the slow ones first.
///
/// # Errors
/// When cargo cannot build them; the error has what it printed.
pub(super) async fn suites(logs: &Path) -> anyhow::Result<Vec<Suite>> {
    let log = logs.join("cargo.log");
    let words = ["cargo", "test", "--workspace", "--locked", "--no-run", "--message-format", "json"];
    let spec = ProcessSpec {
        name: "cargo".to_owned(),
        program: PathBuf::from("/usr/bin/env"),
        args: words.map(OsString::from).into(),
        env: std::env::vars().collect(),
        log: log.clone(),
    };
    let status = Process::spawn(spec)?.wait(CARGO_BOUND).await?;
    let printed = std::fs::read(&log).context("read what cargo printed")?;
    let mut suites = Vec::new();
    let mut said = String::new();
    for message in Message::parse_stream(BufReader::new(printed.as_slice())) {
        match message.context("read what cargo printed")? {
            Message::CompilerArtifact(artifact) => suites.extend(suite_of(artifact)),
            Message::CompilerMessage(message) => said.push_str(&message.to_string()),
            Message::TextLine(line) => said.extend([line.as_str(), "\n"]),
            _ => {}
        }
    }
    ensure!(status.success(), "cargo cannot build the tests ({status}):\n{said}");
    ensure!(!suites.is_empty(), "cargo names no test executable:\n{said}");
    suites.push(documentation()?);
    suites.sort_by_key(|suite| SLOW.iter().position(|slow| *slow == suite.target()).unwrap_or(SLOW.len()));
    Ok(suites)
}

fn suite_of(artifact: Artifact) -> Option<Suite> {
    let program = artifact.executable.filter(|_| artifact.profile.test)?;
    let directory = artifact.manifest_path.parent()?;
    let package = directory.file_name()?;
    let kind = artifact.target.kind.iter().map(ToString::to_string).collect::<Vec<_>>().join("+");
    let name = format!("{package} {kind} {}", artifact.target.name);
    Some(Suite { name, program: program.into_std_path_buf().into(), args: Vec::new(), directory: directory.into() })
}

fn documentation() -> anyhow::Result<Suite> {
    let words = ["test", "--workspace", "--locked", "--doc", "--quiet"];
    let directory = std::env::current_dir().context("the working directory")?;
    Ok(Suite {
        name: "documentation".to_owned(),
        program: "cargo".into(),
        args: words.map(OsString::from).into(),
        directory,
    })
}

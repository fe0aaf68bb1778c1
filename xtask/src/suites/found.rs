//! The test executables that cargo builds, and the documentation tests.

use std::ffi::OsString;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use cargo_metadata::{Artifact, Message};
use ebs_testkit::process::{Process, ProcessSpec};

/// They are already built; this is for a very busy machine.
const CARGO_BOUND: Duration = Duration::from_secs(30 * 60);
/// Suites that take a minute or more, slowest first: the run ends soonest if these begin first.
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

/// Suites that run alone. The model only computes, so it ends soonest alone. Concurrently with others, a cycle of the
/// node torture takes ten times as long, mostly waiting for the kernel's loop devices, and does not reach the cycles
/// that its bugs need. One of its planted bugs also formats the disk that has a loop device's number now, which could
/// be another suite's.
const ALONE: [&str; 2] = ["port", "torture"];

/// The directory of the torture's files, if it exists. The torture creates and removes many files. ext4 checks every
/// inode that was freed within the last seconds before it reuses one (`recently_deleted`), which would take more time
/// than everything else.
const IN_MEMORY: &str = "/dev/shm";

/// Suites that mostly wait, for a slow EC2 or until EC2's reads are final. All of their tests run concurrently on any
/// number of cores.
const MOSTLY_WAITING: [&str; 1] = ["csi_sanity"];

/// A suite: one process.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Suite {
    /// For people: the package and the target.
    pub(super) name: String,
    /// A path, or a name that is searched in `PATH`.
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    /// The working directory: the directory of its package, as with `cargo test`.
    pub(super) directory: PathBuf,
}

impl Suite {
    /// Returns the name of its target.
    fn target(&self) -> &str {
        self.name.rsplit(' ').next().unwrap_or_default()
    }

    /// Returns whether it must run alone.
    pub(super) fn runs_alone(&self) -> bool {
        self.name.contains(" test ") && ALONE.contains(&self.target())
    }

    /// Returns the directory for temporary files, if it is not the system's.
    pub(super) fn temporary_files(&self) -> Option<&'static str> {
        (self.target() == "torture" && self.runs_alone() && Path::new(IN_MEMORY).is_dir()).then_some(IN_MEMORY)
    }

    /// Returns the value of `RUST_TEST_THREADS`, if it is not the number of cores.
    pub(super) fn threads(&self) -> Option<&'static str> {
        MOSTLY_WAITING.contains(&self.target()).then_some("8")
    }
}

/// Returns all suites of the workspace, the slow ones first.
///
/// # Errors
/// cargo cannot build them. The error has its output.
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
    let printed = std::fs::read(&log).context("read cargo's output")?;
    let mut suites = Vec::new();
    let mut said = String::new();
    for message in Message::parse_stream(BufReader::new(printed.as_slice())) {
        match message.context("read cargo's output")? {
            Message::CompilerArtifact(artifact) => suites.extend(suite_of(artifact)),
            Message::CompilerMessage(message) => said.push_str(&message.to_string()),
            Message::TextLine(line) => said.extend([line.as_str(), "\n"]),
            _ => {}
        }
    }
    ensure!(status.success(), "build the tests with cargo ({status}):\n{said}");
    ensure!(!suites.is_empty(), "cargo lists no test executable:\n{said}");
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

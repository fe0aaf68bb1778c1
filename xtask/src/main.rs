//! The workspace's own tools, such as `cargo xtask tidy`. See `cargo xtask help`.

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod demo;
mod iam;
mod simulator;
mod suites;
mod tidy;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tools of this workspace")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check cycles of modules, file lengths, names and the crate map
    Tidy,
    /// Print the smallest policy for the driver's role that allows the given features
    Iam(iam::IamArgs),
    /// Run the tests of the workspace, several executables in parallel; `make test` builds their programs first
    Test(suites::TestArgs),
    /// Run a volume's whole lifecycle against the simulated EC2; `make demo` builds the programs first
    Demo(demo::DemoArgs),
    /// Measure calls, added latency and memory of volume lifecycles under load; `make bench` builds release programs first
    Bench(bench::BenchArgs),
}

fn main() -> ExitCode {
    let ended = match Arguments::parse().task {
        Task::Tidy => tidy::run(),
        Task::Iam(arguments) => iam::run(&arguments),
        Task::Test(arguments) => suites::run(&arguments),
        Task::Bench(arguments) => bench::run(arguments).map(|()| ExitCode::SUCCESS),
        Task::Demo(arguments) => demo::run(arguments).map(|()| ExitCode::SUCCESS),
    };
    ended.unwrap_or_else(|error| {
        // Only the chain of causes, because a missing requirement needs no backtrace.
        let _ = writeln!(std::io::stderr(), "Error: {error:#}");
        ExitCode::FAILURE
    })
}

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
    /// Check what the compiler cannot: circles of modules, file lengths, names, the crate map
    Tidy,
    /// Print the least policy for the driver's role that allows what the given features do
    Iam(iam::IamArgs),
    /// The tests of the workspace, several executables at once; `make test` builds what they need first
    Test(suites::TestArgs),
    /// One volume's whole life through the driver against the simulated EC2; `make demo` builds what it needs first
    Demo(demo::DemoArgs),
    /// Volume lives under load: calls spent, latency added, memory; `make bench` builds release programs first
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

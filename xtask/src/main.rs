//! The workspace's own tools: `cargo xtask tidy` and its like. See `cargo xtask help`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod demo;
mod tidy;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tools of this workspace")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check what the compiler cannot: who depends on whom, file lengths, names, the catalogue of rules
    Tidy,
    /// One volume's whole life through the driver against the simulated EC2; `make demo` builds what it needs first
    Demo(demo::DemoArgs),
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().task {
        Task::Tidy => tidy::run(),
        Task::Demo(arguments) => demo::run(arguments).map(|()| ExitCode::SUCCESS),
    }
}

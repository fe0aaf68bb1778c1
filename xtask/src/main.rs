//! The workspace's own tools: `cargo xtask tidy` and its like. See `cargo xtask help`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().task {
        Task::Tidy => tidy::run(),
    }
}

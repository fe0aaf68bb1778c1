//! The demo and the bench of this workspace. See `cargo xtask help`.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

mod bench;
mod demo;
mod plots;
mod programs;
mod record;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tools of this workspace")]
enum Task {
    /// Run a volume's whole lifecycle against the simulated EC2; `make demo` builds the programs first
    Demo(demo::DemoArgs),
    /// Measure calls, added latency and memory of volume lifecycles under load; `make bench` builds release programs first
    Bench(Box<bench::BenchArgs>),
    /// Draw the plots of the recorded results
    Plots(plots::PlotsArgs),
}

fn main() -> ExitCode {
    let ended = match Task::parse() {
        Task::Bench(arguments) => bench::run(*arguments),
        Task::Demo(arguments) => demo::run(arguments),
        Task::Plots(arguments) => plots::draw(&arguments.dir),
    };
    let Err(error) = ended else { return ExitCode::SUCCESS };
    // Print only the chain of causes: an error because of a missing requirement needs no backtrace.
    let _ = writeln!(std::io::stderr(), "Error: {error:#}");
    ExitCode::FAILURE
}

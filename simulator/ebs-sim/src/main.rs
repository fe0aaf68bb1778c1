//! The simulator as a process. It reads the command line, writes the env file, and ends after a signal.

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use component_base::signals::Signals;
use ebs_sim::Server;
use ebs_sim::cli::Cli;
use ebs_sim::env_file::EnvFile;
use tracing_subscriber::EnvFilter;

/// Exit code after a second signal.
const CUT_SHORT: i32 = 1;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let config = match cli.config() {
        Ok(config) => config,
        Err(error) => {
            tracing::error!("{:#}", anyhow::Error::from(error));
            return ExitCode::from(2);
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "failed to start the runtime");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(&cli, config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: &Cli, config: ebs_sim::ServerConfig) -> anyhow::Result<()> {
    for warning in cli.warnings() {
        tracing::warn!("{warning}");
    }
    let mut signals = Signals::listen().context("listen for signals")?;
    let env_file = EnvFile::claim(&cli.env_file)?;
    let server = tokio::select! {
        server = Server::start(config) => server?,
        name = signals.next() => anyhow::bail!("stopped by {name} before the simulator was ready"),
    };
    let env = server.env();
    if let Err(error) = env_file.write(&env) {
        server.shutdown().await.context("shut down after failing to write the env file")?;
        return Err(error.into());
    }
    let of = |name: &str| env.get(name).cloned().unwrap_or_default();
    tracing::info!(
        ec2 = of("AWS_EC2_ENDPOINT"),
        imds = of("AWS_EC2_METADATA_SERVICE_ENDPOINT"),
        control = of("EBS_SIM_CONTROL"),
        instance = of("EBS_SIM_INSTANCE_ID"),
        env_file = %cli.env_file.display(),
        "ready"
    );
    tokio::select! {
        name = signals.next() => tracing::info!(signal = name, "ending"),
        () = server.end_wanted() => tracing::info!("ending after POST /shutdown of the control API"),
    }
    env_file.remove(&env);
    tokio::select! {
        result = server.shutdown() => result?,
        name = signals.next() => {
            tracing::warn!(signal = name, "ending immediately, leaving devices for the next run to remove");
            std::process::exit(CUT_SHORT);
        }
    }
    tracing::info!("ended");
    Ok(())
}

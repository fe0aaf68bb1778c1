//! `cargo xtask bench`: open-loop load of volume lifecycles on a CSI driver with the simulated EC2.
//!
//! A life is CreateVolume, ControllerPublishVolume, a period of use, ControllerUnpublishVolume, DeleteVolume. Lives
//! begin at the rates of their case, whether or not earlier ones have ended. [`figures`] describes the computed values,
//! and [`ideal`] describes the wait that no client can avoid.

mod case;
mod figures;
mod ideal;
mod life;
mod node;
mod process;
mod process_stat;
mod report;
mod stage;
pub(crate) mod volumes;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, ensure};
use tokio::task::JoinSet;

use crate::plots;
use crate::programs::Places;
use crate::record::{self, Conditions, Driver, Latency, Load, LoadPoint, Volumes};
use case::{Case, CaseName};
use report::{Outcome, missed, say, write_json};
use stage::Subject;

/// The RPCs of a volume lifecycle, in order.
pub(crate) const RPCS: [&str; 4] =
    ["CreateVolume", "ControllerPublishVolume", "ControllerUnpublishVolume", "DeleteVolume"];

/// The arguments of the bench.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct BenchArgs {
    /// Number of volume lifecycles in the steady and the competitor case
    #[arg(long, env = "LIVES", default_value_t = 500, value_name = "N")]
    lives: u32,

    /// Lifecycles started per second
    #[arg(long, default_value_t = 4.0, value_name = "PER_SECOND")]
    rate: f64,

    /// Cases to run: burst first, the others with lifecycles in parallel
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [CaseName::Burst, CaseName::Steady, CaseName::Competitor, CaseName::Day])]
    cases: Vec<CaseName>,

    /// Number of concurrent lifecycles in the burst case
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    burst: u32,

    /// Number of lifecycles in the day case; a smaller number shortens the quiet hours
    #[arg(long, default_value_t = 2_000, value_name = "N")]
    day_lives: u32,

    /// Lifecycles started per second in the case load, one run each
    #[arg(long, value_delimiter = ',', default_values_t = [0.25, 0.5, 1.0, 2.0, 4.0, 5.0], value_name = "PER_SECOND")]
    loads: Vec<f64>,

    /// Seconds in which lifecycles of the case load begin
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    load_seconds: u32,

    /// Numbers of volumes at which the case volumes measures; EC2's limits permit 5 new volumes per second
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 5_000, 10_000, 20_000], value_name = "N")]
    volumes: Vec<u32>,

    /// Number of measured lifecycles at each number of volumes
    #[arg(long, default_value_t = 200, value_name = "N")]
    point_lives: u32,

    /// Socket of another CSI driver to compare with ours, which must use the simulator of --sim-env
    #[arg(long, value_name = "PATH", requires = "sim_env")]
    endpoint: Option<PathBuf>,

    /// Env file of the simulator that the other driver uses (ebs-sim --env-file)
    #[arg(long, value_name = "FILE", requires = "endpoint")]
    sim_env: Option<PathBuf>,

    /// Program of another driver to compare with ours in the case `process`
    #[arg(long, env = "REFERENCE", value_name = "FILE")]
    reference: Option<PathBuf>,

    /// Directory for state, logs and the results [default: bench in cargo's target directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Directory whose records and plots this run replaces [default: none]
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,

    /// Commit of the measured driver, for the records
    #[arg(long, env = "GIT_COMMIT", default_value = "", value_name = "COMMIT")]
    commit: String,

    /// A condition of this run that a reader of the plots must know
    #[arg(long, default_value = "", value_name = "TEXT")]
    note: String,

    /// Directory with the programs ebs-sim and aws-ebs-csi-driver [default: this program's directory]
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,

    /// Print missed targets without failing
    #[arg(long)]
    no_check: bool,
}

/// Runs the cases and writes `results.json`.
///
/// # Errors
/// A process does not start, a volume lifecycle does not end, or a volume is left behind; without `--no-check`, also if
/// our driver misses a target.
pub(crate) fn run(args: BenchArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.context("start the runtime")?.block_on(perform(args))
}

/// Runs the cases without volume lifecycles, and returns their missed targets.
async fn without_lives(args: &BenchArgs, places: &Places) -> anyhow::Result<Vec<String>> {
    let mut all_missed = Vec::new();
    if args.cases.contains(&CaseName::Node) {
        let own = places.clone();
        let figures = tokio::task::spawn_blocking(|| node::play(own)).await??;
        write_json(&places.dir.join("node.json"), &figures)?;
        say(&figures.text());
        all_missed.extend(missed("node", &figures.verdicts()));
    }
    if args.cases.contains(&CaseName::Process) {
        let figures = process::play(places, args.reference.as_deref()).await?;
        write_json(&places.dir.join("process.json"), &figures)?;
        for figures in &figures {
            say(&figures.text());
            all_missed.extend(figures.missed());
        }
    }
    if args.cases.contains(&CaseName::Volumes) {
        let points = volumes::play(args, places).await?;
        write_json(&places.dir.join("volumes.json"), &points)?;
        if let Some(plots) = &args.plots {
            record::write(plots, &Volumes { conditions: conditions(args), points })?;
        }
    }
    Ok(all_missed)
}

fn conditions(args: &BenchArgs) -> Conditions {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let date = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let date = date.split('T').next().unwrap_or_default().to_owned();
    Conditions { date, commit: args.commit.chars().take(8).collect(), cores, note: args.note.clone() }
}

/// Records the figures that the plots show.
fn record_lives(args: &BenchArgs, plots: &Path, outcomes: &[Outcome]) -> anyhow::Result<()> {
    let conditions = conditions(args);
    let points: Vec<LoadPoint> = outcomes
        .iter()
        .filter(|o| o.conditions.name == CaseName::Load && o.subject == "ours")
        .map(Outcome::load_point)
        .collect();
    if !points.is_empty() {
        record::write(plots, &Load { conditions: conditions.clone(), points })?;
    }
    let steady = outcomes.iter().filter(|o| o.conditions.name == CaseName::Steady);
    let drivers: Vec<Driver> = steady.map(|outcome| outcome.driver(&conditions)).collect();
    if !drivers.is_empty() {
        record::write(plots, &Latency::read(plots)?.with(drivers))?;
    }
    Ok(())
}

async fn perform(args: BenchArgs) -> anyhow::Result<()> {
    let places = Places::new("bench", args.dir.clone(), args.bin_dir.clone())?;
    fs::create_dir_all(&places.dir).with_context(|| format!("make {}", places.dir.display()))?;
    let mut missed = without_lives(&args, &places).await?;
    let (first, together): (Vec<Case>, Vec<Case>) =
        args.cases.iter().flat_map(|name| name.cases(&args)).partition(Case::all_at_once);
    let mut outcomes = Vec::new();
    for cases in first.into_iter().map(|case| vec![case]).chain([together]) {
        outcomes.extend(side_by_side(&args, &places, cases).await?);
    }
    outcomes.sort_by_key(|outcome| (outcome.case.clone(), outcome.subject));
    if !outcomes.is_empty() {
        let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
        let results = places.dir.join("results.json");
        let whole = serde_json::json!({
            "lives": args.lives, "rate_per_second": args.rate, "burst": args.burst, "cores": cores, "outcomes": outcomes,
        });
        write_json(&results, &whole)?;
        let texts: String = outcomes.iter().map(Outcome::text).collect();
        say(&format!("{texts}{}all results: {}\n", report::ratios(&outcomes), results.display()));
        if let Some(plots) = &args.plots {
            record_lives(&args, plots, &outcomes)?;
        }
    }
    if let Some(plots) = &args.plots {
        plots::draw(plots)?;
    }
    missed.extend(outcomes.iter().flat_map(Outcome::missed));
    ensure!(args.no_check || missed.is_empty(), "missed: {}", missed.join("; "));
    Ok(())
}

async fn side_by_side(args: &BenchArgs, places: &Places, cases: Vec<Case>) -> anyhow::Result<Vec<Outcome>> {
    let mut tasks = JoinSet::new();
    for case in cases.clone() {
        let subject = Subject::Ours(places.clone());
        tasks.spawn(async move { Ok(vec![stage::play(case, subject).await?]) });
    }
    if let Some((socket, sim_env)) = args.endpoint.clone().zip(args.sim_env.clone()) {
        // The other driver has only one simulator, so its cases run one after the other, concurrently with ours.
        tasks.spawn(async move {
            let subject = Subject::Other { socket, sim_env };
            let mut outcomes = Vec::new();
            for case in cases {
                outcomes.push(stage::play(case, subject.clone()).await?);
            }
            anyhow::Ok(outcomes)
        });
    }
    let mut outcomes = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        outcomes.extend(ended.context("case panicked")??);
    }
    Ok(outcomes)
}

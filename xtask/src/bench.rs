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

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use tokio::task::JoinSet;

use crate::programs::Places;
use case::{Case, CaseName};
use report::{Outcome, missed, say, write_json};
use stage::Subject;

/// The arguments of the bench.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct BenchArgs {
    /// Number of volume lifecycles in the steady and the competitor case
    #[arg(long, env = "LIVES", default_value_t = 500, value_name = "N")]
    lives: u32,

    /// Lifecycles started per second
    #[arg(long, default_value_t = 4.0, value_name = "PER_SECOND")]
    rate: f64,

    /// Cases to run: burst first, the others in parallel
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [CaseName::Burst, CaseName::Steady, CaseName::Competitor, CaseName::Day])]
    cases: Vec<CaseName>,

    /// Number of concurrent lifecycles in the burst case
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    burst: u32,

    /// Number of lifecycles in the day case; a smaller number shortens the quiet hours
    #[arg(long, default_value_t = 2_000, value_name = "N")]
    day_lives: u32,

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
    Ok(all_missed)
}

async fn perform(args: BenchArgs) -> anyhow::Result<()> {
    let places = Places::new("bench", args.dir.clone(), args.bin_dir.clone())?;
    fs::create_dir_all(&places.dir).with_context(|| format!("make {}", places.dir.display()))?;
    let mut missed = without_lives(&args, &places).await?;
    let (first, together): (Vec<Case>, Vec<Case>) =
        args.cases.iter().filter_map(|name| name.case(&args)).partition(Case::all_at_once);
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

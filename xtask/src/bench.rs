//! `cargo xtask bench`: open-loop load of volume lifecycles on a CSI driver with the simulated EC2.
//!
//! A life is CreateVolume, ControllerPublishVolume, a while of use, ControllerUnpublishVolume, DeleteVolume. Lives
//! begin at the rates of their case whether earlier ones have ended or not, so they overlap. Every case has a separate
//! simulator and driver. The simulator's ledger has the driver's calls, and the bench measures the callers' waits.
//! [`figures`] describes the computed values, and [`ideal`] the wait that no client can avoid.

mod case;
mod figures;
mod ideal;
mod life;
mod node;
mod process;
mod process_stat;
mod report;
mod stage;

use std::path::PathBuf;

use anyhow::{Context, bail};
use tokio::task::JoinSet;

use case::{Case, CaseName};
use report::Outcome;
use stage::{Places, Subject};

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

    /// For the case `process`: kubeconfig of a cluster, for rows with a Kubernetes client
    #[arg(long, value_name = "FILE", requires = "node_name")]
    kubeconfig: Option<PathBuf>,

    /// For the case `process`: name of a node of that cluster
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    node_name: Option<String>,

    /// Do not measure our own driver
    #[arg(long, requires = "endpoint")]
    only_endpoint: bool,

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
/// A process does not start, a life does not end, or a volume is left behind. Without `--no-check`, also if our driver
/// misses a target.
pub(crate) fn run(args: BenchArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.context("start the runtime")?.block_on(perform(args))
}

/// Runs the case without lives, and returns its missed targets.
fn of_node(args: &BenchArgs, places: &Places) -> anyhow::Result<Vec<String>> {
    if !args.cases.contains(&CaseName::Node) || args.only_endpoint {
        return Ok(Vec::new());
    }
    let figures = node::play(places.clone())?;
    report::write_json(&places.log("node.json"), &figures)?;
    report::say(&figures.text());
    Ok(figures.missed())
}

/// Runs the case about the program itself, and returns its missed targets.
async fn of_process(args: &BenchArgs, places: &Places) -> anyhow::Result<Vec<String>> {
    if !args.cases.contains(&CaseName::Process) {
        return Ok(Vec::new());
    }
    // Stopped at the end of this function.
    let mut own_cluster = None;
    let kubernetes = match args.kubeconfig.clone().zip(args.node_name.clone()) {
        None if std::env::var_os(ebs_testkit::kube_api::API_SERVER).is_some() => {
            let (cluster, kubeconfig, node) = process::cluster_of_its_own().await?;
            own_cluster = Some(cluster);
            Some((kubeconfig, node))
        }
        given => given,
    };
    let programs = process::Programs { places: places.clone(), reference: args.reference.clone(), kubernetes };
    let figures = process::play(&programs).await?;
    drop(own_cluster);
    report::write_json(&places.log("process.json"), &figures)?;
    figures.iter().for_each(|figures| report::say(&figures.text()));
    Ok(figures.iter().flat_map(process::ProcessFigures::missed).collect())
}

async fn perform(args: BenchArgs) -> anyhow::Result<()> {
    let places = Places::of(args.dir.clone(), args.bin_dir.clone())?;
    let of_process = of_process(&args, &places).await?;
    let (of_node_args, of_node_places) = (args.clone(), places.clone());
    let mut missed = tokio::task::spawn_blocking(move || of_node(&of_node_args, &of_node_places)).await??;
    let (first, together): (Vec<Case>, Vec<Case>) =
        args.cases.iter().filter_map(|name| name.case(&args)).partition(|case| case.all_at_once());
    let mut outcomes = Vec::new();
    for case in first {
        outcomes.extend(side_by_side(subjects(&args, &places, vec![case])).await?);
    }
    outcomes.extend(side_by_side(subjects(&args, &places, together)).await?);
    outcomes.sort_by_key(|outcome| (outcome.case.clone(), outcome.subject.clone()));
    if !outcomes.is_empty() {
        report::write(&places.results(), &args, &outcomes)?;
        report::print(&places.results(), &outcomes);
    }
    missed.extend(of_process);
    missed.extend(outcomes.iter().filter(|o| o.is_ours()).flat_map(Outcome::missed));
    if !args.no_check && !missed.is_empty() {
        bail!("missed: {}", missed.join("; "));
    }
    Ok(())
}

fn subjects(args: &BenchArgs, places: &Places, cases: Vec<Case>) -> Vec<(Case, Subject)> {
    let mut subjects = Vec::new();
    for case in cases {
        if let (Some(socket), Some(sim_env)) = (&args.endpoint, &args.sim_env) {
            subjects.push((case.clone(), Subject::Other { socket: socket.clone(), sim_env: sim_env.clone() }));
        }
        if !args.only_endpoint {
            subjects.push((case, Subject::Ours(places.clone())));
        }
    }
    subjects
}

async fn side_by_side(subjects: Vec<(Case, Subject)>) -> anyhow::Result<Vec<Outcome>> {
    // Another driver has one simulator: its cases run sequentially, concurrently with ours.
    let (others, ours): (Vec<_>, Vec<_>) = subjects.into_iter().partition(|(_, s)| matches!(s, Subject::Other { .. }));
    let mut tasks = JoinSet::new();
    for (case, subject) in ours {
        tasks.spawn(async move { Ok(vec![stage::play(case, subject).await?]) });
    }
    tasks.spawn(async move {
        let mut outcomes = Vec::new();
        for (case, subject) in others {
            outcomes.push(stage::play(case, subject).await?);
        }
        anyhow::Ok(outcomes)
    });
    let mut outcomes = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        outcomes.extend(ended.context("case panicked")??);
    }
    Ok(outcomes)
}

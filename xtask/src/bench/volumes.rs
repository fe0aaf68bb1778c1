//! The case `volumes`: the controller's memory, processor time and EC2 calls as the number of its volumes grows.
//!
//! The driver itself creates the volumes at the pace of EC2's limits, and attaches a quarter of them to many instances.
//! At each number of volumes, the case measures volume lifecycles and then a listing of all volumes. The measured process
//! has created every volume itself. A restarted controller remembers no volume.

use std::time::Duration;

use anyhow::{Context, ensure};
use csi_proto::csi;
use ebs_testkit::control::State;
use ebs_testkit::csi_client::refused;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::BenchArgs;
use super::case::{Judged, Phase, per_second};
use super::figures::{TrafficFigures, traffic};
use super::life::{self, Site};
use super::process_stat::{Usage, reset_peak};
use super::stage::{self, CASE_BOUND, INSTANCE_TYPE, QUIET, Running, ZONES, whole_ledger};
use crate::programs::{Places, variable};

/// Number of instances that hold the attached volumes: 50 each when there are 20,000 volumes.
const INSTANCES: u32 = 100;
/// How long the driver is idle before its memory is measured.
const IDLE: Duration = Duration::from_secs(3);

/// The figures at one number of volumes. Memory is in MiB, processor time in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) volumes: u32,
    /// The memory of the driver without load, and the part of it that no other process shares.
    pub(crate) resident: f64,
    pub(crate) private: f64,
    /// The driver's processor time per volume lifecycle.
    pub(crate) cpu_per_life: f64,
    pub(crate) mutating_per_life: f64,
    pub(crate) spare_per_life: f64,
    pub(crate) describes_per_life: f64,
    /// The driver's processor time for a listing of all volumes, the number of EC2 calls, and the peak of the resident
    /// memory.
    pub(crate) list_cpu: f64,
    pub(crate) list_calls: u64,
    pub(crate) list_peak: f64,
    /// The simulator's processor time per volume lifecycle, which is not a cost of the driver.
    pub(crate) simulator_cpu_per_life: f64,
}

impl Point {
    pub(super) fn text(&self) -> String {
        format!(
            "\nvolumes: {}: resident {:.1} MiB, of which {:.1} MiB are private.\n  Per lifecycle: {:.2} ms of CPU time, {:.3} mutating calls, {:.3} spare calls, {:.3} describes, simulator {:.2} ms.\n  Listing of all volumes: {:.0} ms of CPU time, {} calls, peak {:.1} MiB\n",
            self.volumes,
            self.resident,
            self.private,
            self.cpu_per_life,
            self.mutating_per_life,
            self.spare_per_life,
            self.describes_per_life,
            self.simulator_cpu_per_life,
            self.list_cpu,
            self.list_calls,
            self.list_peak,
        )
    }
}

/// Runs the case. `args.volumes` are the numbers of volumes to measure at, in ascending order.
pub(super) async fn play(args: &BenchArgs, places: &Places) -> anyhow::Result<Vec<Point>> {
    ensure!(args.volumes.is_sorted(), "--volumes: numbers are not in ascending order; sort them");
    let running = stage::start("volumes", places).await?;
    let points = measure(args, &running).await.context("bench case volumes");
    running.stop().await?;
    points
}

async fn measure(args: &BenchArgs, running: &Running) -> anyhow::Result<Vec<Point>> {
    running.set_exact_timing().await?;
    let ec2 = variable(&running.env, "AWS_ENDPOINT_URL_EC2")?;
    running.control.run_instances(&ec2, INSTANCES, INSTANCE_TYPE, ZONES[0]).await?;
    let own = running.nodes()?;
    let all_run = |state: &State| state.instances.iter().all(|instance| instance.state == "running");
    let state = running.control.until(CASE_BOUND, "wait until all instances run", all_run).await?;
    let launched = state.instances.into_iter().filter(|instance| own.iter().all(|(id, _)| *id != instance.id));
    let launched = launched.map(|instance| (instance.id, ZONES[0])).collect();
    let workers = Some(super::case::WORKERS);
    let keeping = Site::new(&running.client, "pvc-kept", launched, workers);
    let (mut points, mut exist) = (Vec::new(), 0);
    for volumes in args.volumes.iter().copied() {
        life::keep(&keeping, exist..volumes, CASE_BOUND).await?;
        exist = volumes;
        let living = Site::new(&running.client, &format!("pvc-{volumes}"), own.clone(), workers);
        let point = point(args, running, living, volumes).await?;
        super::report::say(&point.text());
        points.push(point);
    }
    Ok(points)
}

async fn point(args: &BenchArgs, running: &Running, site: Site, volumes: u32) -> anyhow::Result<Point> {
    sleep(IDLE).await;
    let idle = Usage::of(running.driver_pid)?;
    let from = running.control.position().await?;
    let simulator = running.simulator_pid.context("find the simulator's process")?;
    let simulator_before = Usage::of(simulator)?;
    let every = per_second(args.rate);
    let phase = Phase { name: "lives", lives: args.point_lives, every, judged: Judged::No };
    life::all(site, &[phase], CASE_BOUND).await?;
    sleep(QUIET).await;
    let per_life = |seconds: f64| seconds * 1_000.0 / f64::from(args.point_lives.max(1));
    let (after, simulator_after) = (Usage::of(running.driver_pid)?, Usage::of(simulator)?);
    let calls = whole_ledger(&running.control, from).await?.calls;
    let TrafficFigures { mutating_per_life, spare_per_life, describes_per_life, .. } =
        traffic(&calls, args.point_lives);
    let listing = list(running, volumes).await?;
    Ok(Point {
        volumes,
        resident: idle.resident,
        private: idle.own,
        cpu_per_life: per_life(after.cpu_seconds - idle.cpu_seconds),
        mutating_per_life,
        spare_per_life,
        describes_per_life,
        list_cpu: listing.cpu_seconds * 1_000.0,
        list_calls: listing.calls,
        list_peak: listing.peak,
        simulator_cpu_per_life: per_life(simulator_after.cpu_seconds - simulator_before.cpu_seconds),
    })
}

struct Listing {
    cpu_seconds: f64,
    calls: u64,
    peak: f64,
}

/// Lists all volumes like an orchestrator that sets no page length. Checks that every volume is listed once.
async fn list(running: &Running, expected: u32) -> anyhow::Result<Listing> {
    reset_peak(running.driver_pid)?;
    let (from, before) = (running.control.position().await?, Usage::of(running.driver_pid)?);
    let (mut ids, mut token) = (std::collections::BTreeSet::new(), String::new());
    loop {
        let request = csi::ListVolumesRequest { max_entries: 0, starting_token: token };
        let page = running.client.controller().list_volumes(request).await.map_err(refused)?.into_inner();
        ids.extend(page.entries.into_iter().filter_map(|entry| entry.volume).map(|volume| volume.volume_id));
        if page.next_token.is_empty() {
            break;
        }
        token = page.next_token;
    }
    let listed = u32::try_from(ids.len()).context("a number of volumes")?;
    ensure!(listed == expected, "ListVolumes returned {listed} of {expected} volumes");
    let after = Usage::of(running.driver_pid)?;
    let calls = running.control.position().await? - from;
    Ok(Listing { cpu_seconds: after.cpu_seconds - before.cpu_seconds, calls, peak: after.peak })
}

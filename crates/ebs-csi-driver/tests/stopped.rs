//! SIGTERM during every mutating RPC, two hundred times: the driver exits with 0, a new one starts, the client calls
//! again, and the final state is as if nothing had happened.
//!
//! A volume goes through its whole life on a real loop device. In each of its thirteen RPCs the driver receives SIGTERM
//! at a random moment within the time that the RPC took in earlier lives. The test prints the seed, and
//! `EBS_STOPPED_SEED` repeats it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use csi_proto::csi;
use ebs_ec2::SplitMix64;
use ebs_testkit::content;
use ebs_testkit::control::Timing;
use ebs_testkit::csi_client::{Access, CsiClient, new_volume};
use ebs_testkit::on_node::VolumeOnNode;
use ebs_testkit::world::{STOP_BOUND, World, with_mounts};
use rustix::process::Signal;
use tokio::net::{TcpListener, UnixStream};
use tokio::time::Instant;
use tonic::Status;

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
/// Timeout of a call with all its repetitions, on a busy machine.
const BOUND: Duration = Duration::from_secs(180);
/// Lives, and how many of them run in parallel, with thirteen stops each.
const LIVES: usize = 16;
const SIDE_BY_SIDE: usize = 16;
/// The sidecars' first pause between two calls, shortened. The result does not depend on it.
const PAUSE: Duration = Duration::from_millis(100);
/// Assumed duration of an RPC that has not been measured yet.
const FIRST_GUESS: Duration = Duration::from_millis(150);
/// Minimum percentage of stops that must come before the answer. Half are aimed there.
const IN_THE_MIDDLE: usize = 15;
/// A wait for proof of what EC2 did takes up to 15 s, and the machine may be busy.
const GRACE: &str = "--shutdown-timeout=90s";
/// Maximum number of starts when the driver does not find its region or instance, and the text of that error.
const STARTS: usize = 10;
const NO_METADATA: &str = "identify this machine";
const MIB: u64 = 1 << 20;

/// Every action of EC2 takes some time, so that a stop can interrupt it.
const TIMING: Timing = Timing {
    create_ms: Some(80),
    attach_ms: Some(120),
    detach_ms: Some(120),
    snapshot_ms: Some(100),
    modify_ms: Some(80),
};

/// The moments of the stops, by RPC.
#[derive(Debug, Default)]
struct Tally {
    /// The latest duration of the RPC.
    took: BTreeMap<&'static str, Duration>,
    /// All stops, and the stops before the answer.
    stops: BTreeMap<&'static str, (usize, usize)>,
}

impl Tally {
    fn add(&mut self, rpc: &'static str, took: Duration, moment: Duration) {
        self.took.insert(rpc, took.min(Duration::from_secs(5)));
        let (all, inside) = self.stops.entry(rpc).or_default();
        *all += 1;
        *inside += usize::from(moment < took);
    }
}

/// One life: its world, its random numbers, and the results shared by all lives.
struct Life {
    world: World,
    chance: SplitMix64,
    tally: Arc<Mutex<Tally>>,
}

impl Life {
    fn moment(&mut self, rpc: &str) -> Duration {
        let usual = self.tally.lock().expect("no holder panics").took.get(rpc).copied().unwrap_or(FIRST_GUESS);
        // Up to a quarter longer, for stops just after the answer.
        let micros = u64::try_from(usual.as_micros()).unwrap_or(u64::MAX).saturating_mul(5) / 4;
        Duration::from_micros(self.chance.below(micros.max(1)))
    }

    /// Calls, stops the driver in the meantime, starts another one, and calls again until it succeeds. Two successful
    /// answers must be equal.
    async fn stopped_in<T: Debug + PartialEq>(
        &mut self,
        rpc: &'static str,
        call: impl AsyncFn(CsiClient) -> Result<T, Status>,
    ) -> anyhow::Result<T> {
        let moment = self.moment(rpc);
        let (client, began) = (self.world.client().clone(), Instant::now());
        let calling = async {
            let answer = call(client).await;
            (answer, began.elapsed())
        };
        let stopping = async {
            tokio::time::sleep(moment).await;
            self.world.signal_driver(Signal::TERM)
        };
        let ((first, took), told) = tokio::join!(calling, stopping);
        told?;
        let (code, output) = self.world.driver_ended(STOP_BOUND).await.with_context(|| rpc.to_owned())?;
        ensure!(code == Some(0), "stopped {moment:?} into {rpc} the driver ended with {code:?}:\n{output}");
        ensure!(!self.world.socket().exists(), "{rpc}: the socket is left");
        self.tally.lock().expect("no holder panics").add(rpc, took, moment);
        if let Err(status) = &first {
            let may_be = [tonic::Code::Unavailable, tonic::Code::Aborted, tonic::Code::Cancelled, tonic::Code::Unknown];
            ensure!(may_be.contains(&status.code()), "stopped {moment:?} into {rpc}: {status:?}");
        }
        self.start_again().await?;
        let again = self.until_good(rpc, &call).await?;
        if let Ok(first) = first {
            ensure!(first == again, "{rpc}: answered {first:?}, and after the restart {again:?}");
        }
        Ok(again)
    }

    /// On a busy machine the metadata service may not answer in time. The driver then exits, and the kubelet starts
    /// another one.
    async fn start_again(&mut self) -> anyhow::Result<()> {
        for _ in 0..STARTS {
            match self.world.start_driver().await {
                Err(error) if format!("{error:#}").contains(NO_METADATA) => {}
                other => return other,
            }
        }
        bail!("the metadata service was too slow {STARTS} times")
    }

    async fn until_good<T>(&self, rpc: &str, call: &impl AsyncFn(CsiClient) -> Result<T, Status>) -> anyhow::Result<T> {
        let deadline = Instant::now() + BOUND;
        loop {
            match call(self.world.client().clone()).await {
                Ok(answer) => return Ok(answer),
                Err(status) if Instant::now() > deadline => bail!("{rpc} does not succeed any more: {status:?}"),
                Err(status) => {
                    let passes = [tonic::Code::Unavailable, tonic::Code::Aborted];
                    ensure!(passes.contains(&status.code()), "{rpc} after the restart: {status:?}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Creates, attaches and uses the volume.
    async fn comes(&mut self, name: &str) -> anyhow::Result<VolumeOnNode> {
        let access = Access::Mount("xfs".to_owned());
        let create = new_volume(name, 1, &access);
        let volume =
            self.stopped_in("CreateVolume", async |c: CsiClient| c.create_volume(create.clone()).await).await?;
        let mut volume = self.world.on_node(volume, &access).await?;
        let base = volume.clone();
        let attach = async |client: CsiClient| {
            let mut volume = over(&base, &client);
            volume.attach().await.map(|()| volume.publish_context)
        };
        volume.publish_context = self.stopped_in("ControllerPublishVolume", attach).await?;
        self.stopped_in("NodeStageVolume", async |c: CsiClient| over(&volume, &c).stage().await).await?;
        self.stopped_in("NodePublishVolume", async |c: CsiClient| over(&volume, &c).publish().await).await?;
        Ok(volume)
    }

    /// Expands the volume, raises its throughput, and creates and deletes a snapshot.
    async fn changes(&mut self, volume: &mut VolumeOnNode) -> anyhow::Result<()> {
        let base = volume.clone();
        let expand = async |client: CsiClient| {
            let mut volume = over(&base, &client);
            volume.expand_in_ec2(2).await.map(|node_too| (node_too, volume.volume.capacity_bytes))
        };
        let (_, bytes) = self.stopped_in("ControllerExpandVolume", expand).await?;
        volume.volume.capacity_bytes = bytes;
        let grown = volume.clone();
        self.stopped_in("NodeExpandVolume", async |c: CsiClient| over(&grown, &c).expand_on_node().await).await?;
        let id = volume.id().to_owned();
        let modify = async |client: CsiClient| {
            let request = csi::ControllerModifyVolumeRequest {
                volume_id: id.clone(),
                mutable_parameters: [("throughput".to_owned(), "200".to_owned())].into(),
                ..Default::default()
            };
            client.controller().controller_modify_volume(request).await.map(drop)
        };
        self.stopped_in("ControllerModifyVolume", modify).await?;
        let name = format!("snapshot-{id}");
        let take = async |client: CsiClient| {
            client.create_snapshot(&name, &id).await.map(|snapshot| (snapshot.snapshot_id, snapshot.size_bytes))
        };
        let (snapshot, _) = self.stopped_in("CreateSnapshot", take).await?;
        self.world.client().snapshot_ready(&name, &id, BOUND).await?;
        self.stopped_in("DeleteSnapshot", async |c: CsiClient| c.delete_snapshot(&snapshot).await).await
    }

    async fn goes(&mut self, volume: &VolumeOnNode) -> anyhow::Result<()> {
        self.stopped_in("NodeUnpublishVolume", async |c: CsiClient| over(volume, &c).unpublish().await).await?;
        self.stopped_in("NodeUnstageVolume", async |c: CsiClient| over(volume, &c).unstage().await).await?;
        self.stopped_in("ControllerUnpublishVolume", async |c: CsiClient| over(volume, &c).detach().await).await?;
        self.stopped_in("DeleteVolume", async |c: CsiClient| c.delete_volume(volume.id()).await).await
    }

    /// Runs the whole life. Nothing of it remains, and EC2 did everything once.
    async fn live(mut self, name: &str) -> anyhow::Result<()> {
        self.start_again().await?;
        let mut volume = self.comes(name).await?;
        let file = volume.target.join("data");
        let written = content::write_file(&file, 1, MIB)?;
        self.changes(&mut volume).await?;
        ensure!(content::hash_file(&file)? == written, "the data are others now");
        volume.set_client(self.world.client());
        let (total, _) = volume.stats().await?;
        ensure!(total > 3 * i64::try_from(MIB)? * 512, "{total} bytes: the file system did not grow");
        self.goes(&volume).await?;
        let calls = self.world.calls_since(0).await?;
        // CreateVolume may be sent twice with one client token. EC2 then returns the existing volume.
        for action in ["AttachVolume", "CreateSnapshot", "DeleteSnapshot", "DeleteVolume"] {
            ensure!(calls.done(action) == 1, "{action} was done more than once: {}", calls.summary());
        }
        ensure!(calls.done("ModifyVolume") == 2, "two changes: {}", calls.summary());
        self.world.finish().await
    }
}

/// Returns the same volume with another client.
fn over(volume: &VolumeOnNode, client: &CsiClient) -> VolumeOnNode {
    let mut volume = volume.clone();
    volume.set_client(client);
    volume
}

fn seed() -> u64 {
    let asked = std::env::var("EBS_STOPPED_SEED").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or_else(|| RandomState::new().hash_one("seed"))
}

/// Runs the lives whose number has this remainder, in sequence, in their own mount namespace.
fn some_lives(rest: usize, seed: u64, tally: &Arc<Mutex<Tally>>) {
    let tally = Arc::clone(tally);
    with_mounts(move || async move {
        for life in (0..LIVES).filter(|life| life % SIDE_BY_SIDE == rest) {
            let world = World::builder(DRIVER).loop_devices().timing(TIMING).arg(GRACE).start_without_driver().await?;
            let chance = SplitMix64::new(seed ^ u64::try_from(life)?.wrapping_mul(0x9e37_79b9));
            let lived = Life { world, chance, tally: Arc::clone(&tally) }.live(&format!("pvc-stopped-{life}")).await;
            lived.with_context(|| format!("life {life}, EBS_STOPPED_SEED={seed}"))?;
        }
        Ok(())
    });
}

/// Prints a line to the suite's output, also when all tests pass.
fn say(line: &str) {
    // A closed standard output cannot be reported.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// The driver exits with 0 within its grace period, and the client's retry finishes everything: one volume, one
/// attachment, one file system with its data, one snapshot, each created once.
#[test]
fn retry_finishes_every_rpc_that_sigterm_interrupted() {
    let (seed, tally) = (seed(), Arc::new(Mutex::new(Tally::default())));
    say(&format!("EBS_STOPPED_SEED={seed}"));
    std::thread::scope(|threads| {
        for rest in 0..SIDE_BY_SIDE {
            let tally = &tally;
            threads.spawn(move || some_lives(rest, seed, tally));
        }
    });
    let tally = tally.lock().expect("no holder panics");
    let (all, inside) = tally.stops.values().fold((0, 0), |(a, i), (all, inside)| (a + all, i + inside));
    for (rpc, (all, inside)) in &tally.stops {
        let took = tally.took[rpc];
        say(&format!("{rpc}: {all} stops, {inside} before the answer, which took {took:?} the last time"));
    }
    assert_eq!((tally.stops.len(), all), (13, LIVES * 13));
    assert!(inside * 100 >= all * IN_THE_MIDDLE, "only {inside} of {all} stops came in the middle of their RPC");
}

#[tokio::test]
async fn sigint_drains_and_second_signal_ends_at_once() -> anyhow::Result<()> {
    let held = Timing { create_ms: Some(600_000), ..Timing::default() };
    for (first, second) in [(Signal::INT, Signal::TERM), (Signal::TERM, Signal::INT), (Signal::INT, Signal::INT)] {
        let mut world = World::builder(DRIVER).timing(held).arg("--shutdown-timeout=1h").start().await?;
        let client = world.client().clone();
        let request = new_volume("pvc-signals", 1, &Access::Block);
        let signals = async {
            let seen = |state: &ebs_testkit::control::State| !state.volumes_named("pvc-signals").is_empty();
            world.control().until(BOUND, "the volume is being created", seen).await?;
            world.signal_driver(first)?;
            world.until_logged("it stops", |log| log.contains("stopping: rejecting new requests")).await?;
            ensure!(world.driver()?.ended()?.is_none(), "the first signal did not wait for running work");
            world.signal_driver(second)?;
            world.driver_ended(STOP_BOUND).await
        };
        let (answer, ended) = tokio::join!(client.create_volume(request), signals);
        let (code, output) = ended?;
        ensure!(answer.is_err() && code == Some(1), "{first:?}, {second:?}: {code:?}\n{output}");
        ensure!(output.contains("second signal") && !world.socket().exists(), "{output}");
        world.control().advance(Duration::from_secs(600)).await?;
        world.start_driver().await?;
        let volume = world.client().create_volume(new_volume("pvc-signals", 1, &Access::Block)).await?;
        world.client().delete_volume(&volume.volume_id).await?;
        world.finish().await?;
    }
    Ok(())
}

/// While the driver determines its location, Identity answers and Probe reports not ready. A signal ends the driver
/// with 0, and a waiting call fails with an error that invites a retry.
#[tokio::test]
async fn starting_driver_serves_identity_and_stops_at_once() -> anyhow::Result<()> {
    // A metadata service that accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await?;
    let endpoint = format!("http://{}", silent.local_addr()?);
    let mut world = World::builder(DRIVER)
        .mode("node")
        .env("AWS_EC2_METADATA_SERVICE_ENDPOINT", &endpoint)
        .start_without_driver()
        .await?;
    world.spawn_driver()?;
    let socket = world.socket().to_owned();
    let mut tick = tokio::time::interval(Duration::from_millis(5));
    let there = async {
        // The socket file exists shortly before the driver listens on it.
        while UnixStream::connect(&socket).await.is_err() {
            tick.tick().await;
        }
    };
    tokio::time::timeout(BOUND, there).await.context("no socket")?;
    let client = CsiClient::lazy(&socket);
    let info = client.identity().get_plugin_info(csi::GetPluginInfoRequest {}).await?.into_inner();
    ensure!(info.name == "ebs.csi.aws.com", "{info:?}");
    ensure!(!client.probe().await?, "ready before it knows where it is");
    let (early, ended) = tokio::join!(client.node_info(), async {
        world.until_logged("the call has come", |log| log.contains("starting")).await?;
        world.signal_driver(Signal::TERM)?;
        world.driver_ended(STOP_BOUND).await
    });
    let (code, output) = ended?;
    ensure!(code == Some(0), "{code:?}\n{output}");
    let status = early.err().context("nobody could have answered")?;
    ensure!(status.code() == tonic::Code::Unavailable, "{status:?}");
    ensure!(!socket.exists(), "the socket is left");
    world.finish().await
}

//! Tests the process on SIGTERM and SIGINT: it drains operations, stops at once on a second signal, and stops while it
//! starts.

use std::time::Duration;

use anyhow::{Context, ensure};
use csi_proto::csi;
use ebs_testkit::control::{State, Timing};
use ebs_testkit::csi_client::{Access, CsiClient, new_volume};
use ebs_testkit::world::{STOP_BOUND, World};
use rustix::process::Signal;
use tokio::net::{TcpListener, UnixStream};

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
/// Timeout of every wait, long enough for a busy machine.
const BOUND: Duration = Duration::from_secs(180);
/// How long EC2 takes to create a volume: no creation ends before the test advances the time.
const HELD: Duration = Duration::from_secs(600);

/// Starts a driver whose volumes EC2 does not finish creating until the test advances the time.
async fn with_held_creations(shutdown_timeout: &str) -> anyhow::Result<World> {
    let held = Timing { create_ms: Some(600_000), ..Timing::default() };
    World::builder(DRIVER).timing(held).arg(&format!("--shutdown-timeout={shutdown_timeout}")).start().await
}

/// Sends a signal while the driver creates a volume, and waits until the driver rejects new requests.
async fn signal_during_creation(world: &World, name: &str, signal: Signal) -> anyhow::Result<()> {
    let seen = |state: &State| !state.volumes_named(name).is_empty();
    world.control().until(BOUND, "the volume is being created", seen).await?;
    world.signal_driver(signal)?;
    world.until_logged("it stops", |log| log.contains("stopping: rejecting new requests")).await
}

/// On SIGTERM the driver drains: it finishes the running creation and returns its response, removes the socket file,
/// and exits with 0.
#[tokio::test]
async fn driver_finishes_mutations_on_sigterm_and_exits_with_0() -> anyhow::Result<()> {
    let mut world = with_held_creations("180s").await?;
    let client = world.client().clone();
    let request = new_volume("pvc-drain", 4, &Access::Block);
    let signalled = async {
        signal_during_creation(&world, "pvc-drain", Signal::TERM).await?;
        world.control().advance(HELD).await
    };
    let (answer, sent) = tokio::join!(client.create_volume(request.clone()), signalled);
    sent?;
    let volume = answer.context("the running request was answered")?;
    let (code, output) = world.driver_ended(STOP_BOUND).await?;
    ensure!(code == Some(0), "the driver ended with {code:?}: {output}");
    ensure!(!world.socket().exists(), "the socket file is left");
    world.start_driver().await?;
    ensure!(world.client().create_volume(request).await? == volume, "the volume is another one now");
    world.client().delete_volume(&volume.volume_id).await?;
    world.finish().await
}

#[tokio::test]
async fn driver_drains_on_sigint_and_exits_at_once_on_a_second_signal() -> anyhow::Result<()> {
    for (first, second) in [(Signal::INT, Signal::TERM), (Signal::TERM, Signal::INT), (Signal::INT, Signal::INT)] {
        // Without the second signal, the driver would wait for an hour.
        let mut world = with_held_creations("1h").await?;
        let client = world.client().clone();
        let request = new_volume("pvc-signals", 1, &Access::Block);
        let signals = async {
            signal_during_creation(&world, "pvc-signals", first).await?;
            ensure!(world.driver()?.ended()?.is_none(), "the first signal did not wait for running work");
            world.signal_driver(second)?;
            world.driver_ended(STOP_BOUND).await
        };
        let (answer, ended) = tokio::join!(client.create_volume(request), signals);
        let (code, output) = ended?;
        ensure!(answer.is_err() && code == Some(1), "{first:?}, {second:?}: {code:?}\n{output}");
        ensure!(output.contains("second signal") && !world.socket().exists(), "{output}");
        world.control().advance(HELD).await?;
        world.start_driver().await?;
        let volume = world.client().create_volume(new_volume("pvc-signals", 1, &Access::Block)).await?;
        world.client().delete_volume(&volume.volume_id).await?;
        world.finish().await?;
    }
    Ok(())
}

/// While the driver determines its location, Identity answers and Probe reports not ready. On a signal the driver exits
/// with 0, and a waiting call fails with an error that asks for a retry.
#[tokio::test]
async fn starting_driver_serves_identity_and_exits_on_a_signal() -> anyhow::Result<()> {
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
        // The socket file appears shortly before the driver listens on the socket.
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
    let status = early.err().context("no service could have answered")?;
    ensure!(status.code() == tonic::Code::Unavailable, "{status:?}");
    ensure!(!socket.exists(), "the socket is left");
    world.finish().await
}

//! Tests of the proxy's life cycle, from the opening of the pipes to the end of the last call.

use std::time::Duration;

use csi_proto::csi_proxy::Group;
use csi_proxy::{DRAIN_LIMIT, MemoryPipes, Proxy, ProxyError};
use tokio::task::{JoinSet, spawn_blocking};
use tokio_util::sync::CancellationToken;
use winstorage::fake::{Effect, FakeHost, Gate};

use super::machine::{BLANK, Records, Running, machine, parts, serve};
use super::wire;

async fn format_at_a_gate() -> (Running, Gate, JoinSet<Result<Vec<u8>, tonic::Status>>) {
    let (host, gate) = (machine(), Gate::default());
    host.inject("format_ntfs", 0, Effect::Hold(gate.clone()));
    let running = serve(host, "disk/v1,volume/v1").await;
    let channel = running.channel(Group::Volume, "v1".parse().unwrap()).await;
    let mut calls = JoinSet::new();
    calls.spawn(async move {
        let mut message = vec![0x0a, u8::try_from(BLANK.len()).unwrap()];
        message.extend_from_slice(BLANK.as_bytes());
        wire::call(&channel, "/v1.Volume/FormatVolume", message).await
    });
    let reached = gate.clone();
    assert!(spawn_blocking(move || reached.wait_reached()).await.unwrap(), "the format never began");
    (running, gate, calls)
}

#[tokio::test]
async fn format_continues_after_its_client_has_disconnected() {
    let (mut running, gate, mut calls) = format_at_a_gate().await;
    calls.abort_all();
    assert!(calls.join_next().await.unwrap().is_err());
    gate.open();
    running.stop.cancel();
    running.ended().await.unwrap();
    let ends: Vec<_> = running.records.all().into_iter().filter(|record| record["event"] == "call").collect();
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert_eq!((ends[0]["method"].as_str(), ends[0]["code"].as_str()), (Some("FormatVolume"), Some("OK")));
}

#[tokio::test]
async fn stop_lets_running_calls_finish_and_reply() {
    let (mut running, gate, mut calls) = format_at_a_gate().await;
    let _silent = running.pipes.open(r"\\.\pipe\csi-proxy-disk-v1").unwrap();
    running.stop.cancel();
    let opening = tokio::time::timeout(Duration::from_secs(60), async {
        while running.pipes.open(r"\\.\pipe\csi-proxy-disk-v1").is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    opening.await.expect("pipes close with the stop");
    gate.open();
    calls.join_next().await.unwrap().unwrap().expect("the format is answered");
    running.ended().await.unwrap();
}

#[tokio::test]
async fn hung_call_delays_the_stop_by_20_seconds() {
    let (mut running, gate, _calls) = format_at_a_gate().await;
    running.stop.cancel();
    // Wait until the proxy has closed its pipes and waits only for the call.
    while running.pipes.open(r"\\.\pipe\csi-proxy-disk-v1").is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let ended = {
        let mut ended = std::pin::pin!(running.ended());
        loop {
            tokio::select! {
                ended = &mut ended => break ended,
                () = tokio::time::advance(Duration::from_secs(1)) => tokio::task::yield_now().await,
            }
        }
    };
    assert!(matches!(ended, Err(ProxyError::Drain { calls: 1 })), "{ended:?}");
    assert!(began.elapsed() >= DRAIN_LIMIT && began.elapsed() < DRAIN_LIMIT * 2, "{:?}", began.elapsed());
    gate.open();
}

#[tokio::test]
async fn pipe_that_fails_to_open_closes_all_pipes_and_is_named() {
    let pipes = MemoryPipes::default();
    let taken = [r"\\.\pipe\csi-proxy-smb-v1", r"\\.\pipe\csi-proxy-disk-v1beta2"];
    taken.iter().for_each(|pipe| pipes.take(pipe));
    let parts = parts(&machine(), "", &Records::default());
    let error = Proxy::open(&pipes, parts, CancellationToken::new()).await.err().expect("two are taken");
    let text = error.to_string();
    assert!(taken.iter().all(|pipe| text.contains(pipe)) && text.contains("group smb, version v1"), "{text}");
    for pipe in pipes.names() {
        assert!(pipes.open(&pipe).is_err(), "{pipe} is still open");
    }
}

#[tokio::test]
async fn failure_of_one_pipe_service_stops_all_others() {
    let mut running = serve(machine(), "").await;
    assert!(running.pipes.fail(r"\\.\pipe\csi-proxy-volume-v2alpha1"));
    let error = running.ended().await.unwrap_err();
    assert!(matches!(&error, ProxyError::Serve(all) if all.len() == 1), "{error:?}");
    assert!(error.to_string().contains("group volume, version v2alpha1"), "{error}");
    assert!(running.stop.is_cancelled());
}

#[tokio::test]
async fn startup_fails_if_the_metrics_address_is_unavailable() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let parts =
        csi_proxy::Parts { metrics_bind_address: address.parse().ok(), ..parts(&machine(), "", &Records::default()) };
    let error = Proxy::open(&MemoryPipes::default(), parts, CancellationToken::new()).await.err().expect("it is taken");
    assert!(error.to_string().contains(&address), "{error}");
}

/// The request SetDiskState(1, offline) as bytes.
const OFFLINE: [u8; 2] = [0x08, 1];
const SET_STATE: &str = "/v1.Disk/SetDiskState";

struct HungDisk {
    host: FakeHost,
    running: Running,
    gate: Gate,
    channel: tonic::transport::Channel,
    calls: JoinSet<Result<Vec<u8>, tonic::Status>>,
}

impl HungDisk {
    async fn new() -> Self {
        let (host, gate) = (machine(), Gate::default());
        host.inject("set_online", 0, Effect::Hold(gate.clone()));
        let running = serve(host.clone(), "disk/v1").await;
        let channel = running.channel(Group::Disk, "v1".parse().unwrap()).await;
        let mut hung = Self { host, running, gate, channel, calls: JoinSet::new() };
        hung.ask();
        let reached = hung.gate.clone();
        assert!(spawn_blocking(move || reached.wait_reached()).await.unwrap(), "the change never began");
        hung
    }

    fn ask(&mut self) {
        let channel = self.channel.clone();
        self.calls.spawn(async move { wire::call(&channel, SET_STATE, OFFLINE.into()).await });
    }

    async fn end(mut self) {
        self.gate.open();
        while let Some(call) = self.calls.join_next().await {
            call.unwrap().expect("it had its turn");
        }
        self.running.stop.cancel();
        self.running.ended().await.unwrap();
    }
}

#[tokio::test]
async fn hung_disk_occupies_only_one_thread() {
    let hung = HungDisk::new().await;
    let mut again = JoinSet::new();
    for _ in 0..3 {
        let channel = hung.running.channel(Group::Disk, "v1".parse().unwrap()).await;
        for _ in 0..16 {
            let channel = channel.clone();
            again.spawn(
                async move { wire::call_within(&channel, SET_STATE, OFFLINE.into(), Duration::from_secs(1)).await },
            );
        }
    }
    while let Some(refused) = again.join_next().await {
        refused.unwrap().unwrap_err();
    }
    let other = hung.running.channel(Group::Disk, "v1".parse().unwrap()).await;
    let listed = wire::call(&other, "/v1.Disk/ListDiskIDs", Vec::new());
    // The timeout is shorter than the time for which the gate holds the call, and longer than a busy machine needs.
    let listed = tokio::time::timeout(Duration::from_secs(45), listed).await;
    listed.expect("the hung disk has taken all threads").unwrap();
    hung.end().await;
}

#[tokio::test]
async fn second_waiter_for_a_disk_is_rejected_naming_the_holder() {
    let mut hung = HungDisk::new().await;
    hung.ask();
    hung.ask();
    let refused = tokio::time::timeout(Duration::from_secs(45), hung.calls.join_next()).await;
    let refused = refused.expect("one is refused at once").unwrap().unwrap().unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted, "{refused}");
    assert!(refused.message().contains("disk 1 is in use by SetDiskState(offline)"), "{refused}");
    hung.end().await;
}

#[tokio::test]
async fn deadline_ends_the_wait_for_a_disk() {
    let hung = HungDisk::new().await;
    wire::call_within(&hung.channel, SET_STATE, OFFLINE.into(), Duration::from_millis(50)).await.unwrap_err();
    let ended = async {
        loop {
            let late = hung.running.records.all().into_iter().find(|record| record["code"] == "DeadlineExceeded");
            if let Some(late) = late {
                break late;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let late = tokio::time::timeout(Duration::from_secs(45), ended).await.expect("its wait ends");
    assert!(late["error"].as_str().unwrap().contains("SetDiskState(offline)"), "{late}");
    let host = hung.host.clone();
    hung.end().await;
    assert_eq!(host.calls("set_online"), 1);
}

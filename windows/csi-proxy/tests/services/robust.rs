//! Tests that misbehaving clients do not harm the process.

use std::time::Duration;

use csi_proto::csi_proxy::{ConnectError, Group, connect};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};
use tonic::Code;
use winstorage::fake::Effect;

use super::machine::{machine, serve};
use super::wire;

const BOUND: Duration = Duration::from_secs(60);

#[tokio::test]
async fn method_of_another_pipe_is_unimplemented() {
    let running = serve(machine(), "").await;
    let channel = running.channel(Group::Disk, "v1".parse().unwrap()).await;
    let unknown: Vec<&str> =
        "/v1.Disk/Format /v1beta2.Disk/SetAttachState /v1.Volume/FormatVolume /v1.Disk /x /v1.Disk/Exec"
            .split(' ')
            .collect();
    for path in &unknown {
        let status = wire::call(&channel, path, Vec::new()).await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented, "{path}: {status}");
    }
    let records = running.records.all();
    assert_eq!(records.len(), unknown.len());
    assert!(records.iter().all(|record| record["code"] == "Unimplemented"), "{records:?}");
}

#[tokio::test]
async fn disabled_group_or_version_has_no_pipe() {
    let running = serve(machine(), "disk/v1,volume").await;
    assert_eq!(running.pipes.names().len(), 7, "{:?}", running.pipes.names());
    assert_eq!(running.pipes.open(r"\\.\pipe\csi-proxy-smb-v1").unwrap_err().raw_os_error(), Some(2));
    let missing = connect(&running.pipes, Group::Smb, Group::Smb.versions()).await.unwrap_err();
    assert!(matches!(missing, ConnectError::NotServed { group: Group::Smb, .. }), "{missing}");
    let newest = connect(&running.pipes, Group::Disk, Group::Disk.versions()).await.unwrap();
    assert_eq!(newest.version.to_string(), "v1");
}

#[tokio::test]
async fn panic_in_a_call_ends_only_that_call() {
    let host = machine();
    host.inject("rescan", 0, Effect::Meanwhile(Box::new(|_| panic!("a bug of tests"))));
    let running = serve(host, "disk/v1").await;
    let channel = running.channel(Group::Disk, "v1".parse().unwrap()).await;
    let status = wire::call(&channel, "/v1.Disk/Rescan", Vec::new()).await.unwrap_err();
    assert_eq!(status.code(), Code::Internal, "{status}");
    wire::call(&channel, "/v1.Disk/Rescan", Vec::new()).await.unwrap();
    let codes: Vec<_> = running.records.all().iter().map(|record| record["code"].clone()).collect();
    assert!(codes.contains(&"Internal".into()) && codes.contains(&"OK".into()), "{codes:?}");
    let page = running.page().await;
    let counted = "grpc_server_handled_total{grpc_code=\"Internal\",grpc_method=\"Rescan\",grpc_service=\"v1.Disk\"";
    assert!(page.contains(counted), "{page}");
}

#[tokio::test]
async fn malformed_input_ends_at_most_its_connection() {
    let running = serve(machine(), "disk/v1,filesystem/v1").await;
    let channel = running.channel(Group::Filesystem, "v1".parse().unwrap()).await;
    for message in [vec![0xff; 40], vec![0x0a, 0x7f], vec![0x0a, 2, 0xff, 0xfe], vec![0x08, 1]] {
        let status = wire::call(&channel, "/v1.Filesystem/Mkdir", message).await.unwrap_err();
        assert_eq!(status.code(), Code::Internal, "{status}");
    }
    // A message just below the limit of 4 MiB is read, and then rejected because the path is too long. A message above
    // the limit is not read.
    let path = |bytes: usize| {
        let mut message = vec![0x0a];
        prost_length(&mut message, bytes);
        message.extend(std::iter::repeat_n(b'x', bytes));
        message
    };
    let long = wire::call(&channel, "/v1.Filesystem/Mkdir", path((4 << 20) - 100)).await.unwrap_err();
    assert_eq!(long.code(), Code::Unknown);
    let too_long = wire::call(&channel, "/v1.Filesystem/Mkdir", path(5 << 20)).await.unwrap_err();
    assert_eq!(too_long.code(), Code::OutOfRange, "{too_long}");
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0; 100],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ] {
        let mut stream = running.pipes.open(r"\\.\pipe\csi-proxy-disk-v1").unwrap();
        stream.write_all(garbage).await.unwrap();
        let mut rest = Vec::new();
        timeout(BOUND, stream.read_to_end(&mut rest)).await.expect("the connection ends").unwrap();
    }
    wire::call(&channel, "/v1.Filesystem/Mkdir", Vec::new()).await.unwrap_err();
    let disks = running.channel(Group::Disk, "v1".parse().unwrap()).await;
    wire::call(&disks, "/v1.Disk/Rescan", Vec::new()).await.unwrap();
    let outcomes = running.records.all().iter().filter(|record| record["event"] == "call").count();
    assert_eq!(outcomes, 8, "{}", running.records.text().chars().take(2_000).collect::<String>());
}

fn prost_length(message: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        message.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    message.push(u8::try_from(length).unwrap());
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_silent_connections_do_not_block_clients() {
    let running = serve(machine(), "disk/v1").await;
    let silent: Vec<_> = (0..500).map(|_| running.pipes.open(r"\\.\pipe\csi-proxy-disk-v1").unwrap()).collect();
    let channel = running.channel(Group::Disk, "v1".parse().unwrap()).await;
    wire::call(&channel, "/v1.Disk/Rescan", Vec::new()).await.unwrap();
    let began = Instant::now();
    for mut connection in silent {
        let mut rest = Vec::new();
        // The server may already have sent its settings.
        connection.read_to_end(&mut rest).await.unwrap();
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(110) && took < Duration::from_secs(180), "{took:?}");
    wire::call(&channel, "/v1.Disk/Rescan", Vec::new()).await.unwrap();
}

/// csi-proxy's own Go client sends these bytes through grpc-go.
#[tokio::test]
async fn authority_with_the_path_of_a_pipe_is_accepted() {
    let stream = include_bytes!("../../../../crates/grpc-authority/src/tests/recorded/grpc-go-1.83-pipe.bin");
    let running = serve(machine(), "disk/v1").await;
    let mut connection = running.pipes.open(r"\\.\pipe\csi-proxy-disk-v1").unwrap();
    connection.write_all(stream).await.unwrap();
    let end = Instant::now() + BOUND;
    // The recording contains six calls of a CSI client. This pipe supports none of them, and each reply reports that.
    while running.records.all().len() < 6 {
        assert!(Instant::now() < end, "{}", running.records.text());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let records = running.records.all();
    assert!(records.iter().all(|record| record["code"] == "Unimplemented"), "{records:?}");
    assert!(records[0]["method"].as_str().unwrap().starts_with("/csi.v1."), "{records:?}");
}

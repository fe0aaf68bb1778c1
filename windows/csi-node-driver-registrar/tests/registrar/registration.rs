//! Tests of the driver's registration with the kubelet.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::process::Signal;

use crate::BOUND;
use crate::fake_driver::{FakeDriver, Says};
use crate::fake_kubelet::FakeKubelet;
use crate::program::{Sandbox, ends_with};

const NAME: &str = "ebs.csi.aws.com";

#[tokio::test]
async fn kubelet_finds_and_registers_the_driver() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    let driver = FakeDriver::at(&sandbox.driver(), Says::Name(NAME))?;
    let mut registrar = sandbox.start("registrar", &[])?;
    let mut kubelet = FakeKubelet::watching(&sandbox.registration());
    let mut met = kubelet.meet().await?;
    ensure!(met.socket == sandbox.socket(NAME), "{}", met.socket.display());
    let info = met.register().await?;
    ensure!(info.endpoint == sandbox.driver().to_string_lossy() && info.name == NAME, "{info:?}");
    ensure!(info.supported_versions == ["1.0.0"], "{info:?}");
    ensure!(driver.asked() == 1, "asked {} times", driver.asked());
    registrar.signal(Signal::TERM)?;
    let output = ends_with(&mut registrar, 0).await?;
    ensure!(output.contains("the kubelet has registered the driver"), "{output}");
    Ok(())
}

#[tokio::test]
async fn kubelet_gets_response_before_rejected_registrar_ends() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    let _driver = FakeDriver::at(&sandbox.driver(), Says::Name(NAME))?;
    for round in ["first", "second"] {
        let mut registrar = sandbox.start(round, &[])?;
        let mut kubelet = FakeKubelet::watching(&sandbox.registration());
        // The kubelet may first find the socket of the previous round, which has no listener.
        let mut met = kubelet.meet().await?;
        met.info().await?;
        met.notify(Some("no CSINode \"x\" yet")).await.context("the refusal has no answer")?;
        let output = ends_with(&mut registrar, 1).await?;
        ensure!(output.contains(r#"error="no CSINode \"x\" yet""#), "{output}");
        ensure!(sandbox.socket(NAME).exists(), "the socket has gone: a kubelet would forget a driver that serves");
    }
    Ok(())
}

#[tokio::test]
async fn stop_signal_removes_the_socket_and_exits_with_code_0() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    let _driver = FakeDriver::at(&sandbox.driver(), Says::Name(NAME))?;
    for (name, signal) in [("term", Signal::TERM), ("int", Signal::INT)] {
        let mut registrar = sandbox.start(name, &[])?;
        let mut met = FakeKubelet::watching(&sandbox.registration()).meet().await?;
        met.register().await?;
        registrar.signal(signal)?;
        let output = ends_with(&mut registrar, 0).await?;
        ensure!(!sandbox.socket(NAME).exists(), "the socket is still there: {output}");
        drop(met);
    }
    Ok(())
}

#[tokio::test]
async fn bad_connections_do_not_prevent_serving_the_kubelet() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    let _driver = FakeDriver::at(&sandbox.driver(), Says::Name(NAME))?;
    let mut registrar = sandbox.start("registrar", &[])?;
    let mut kubelet = FakeKubelet::watching(&sandbox.registration());
    let mut first = kubelet.meet().await?;
    first.register().await?;
    let connect = || UnixStream::connect(&first.socket);
    let _idle: Vec<UnixStream> = (0..20).map(|_| connect()).collect::<Result<_, _>>()?;
    for _ in 0..100 {
        drop(connect()?);
    }
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut garbage = vec![0xff; 100_000];
    garbage[..preface.len()].copy_from_slice(preface);
    let http1 = b"GET / HTTP/1.1\r\n\r\n";
    for bytes in [&preface[..10], &preface[..], &http1[..], &garbage[..], &[0; 64][..], &[0xff; 3][..]] {
        let mut stream = connect()?;
        stream.set_read_timeout(Some(Duration::from_millis(50)))?;
        // The registrar may close the connection before everything is written.
        let _written = stream.write_all(bytes);
        let _answer = stream.read(&mut [0; 1024]);
    }
    let info = first.info().await?;
    ensure!(info.name == NAME, "{info:?}");
    kubelet.forget();
    let again = kubelet.meet().await?.register().await?;
    ensure!(again == info, "{again:?}");
    registrar.signal(Signal::TERM)?;
    registrar.wait(BOUND).await?;
    Ok(())
}

/// grpc-go 1.20 sends the path of the socket as the authority. The bytes were recorded from calls to a driver. The
/// registrar replies to each call and resets none.
#[tokio::test]
async fn socket_path_as_grpc_authority_is_accepted() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    let _driver = FakeDriver::at(&sandbox.driver(), Says::Name(NAME))?;
    let _registrar = sandbox.start("registrar", &[])?;
    let socket = FakeKubelet::watching(&sandbox.registration()).meet().await?.socket;
    let mut connection = UnixStream::connect(socket)?;
    connection.set_read_timeout(Some(BOUND))?;
    connection
        .write_all(include_bytes!("../../../../crates/grpc-authority/src/tests/recorded/grpc-go-1.20-path.bin"))?;
    let mut replies = 0;
    while replies < 6 {
        let mut head = [0; 9];
        connection.read_exact(&mut head)?;
        let [high, middle, low, kind, ..] = head;
        let mut payload = vec![0; usize::try_from(u32::from_be_bytes([0, high, middle, low]))?];
        connection.read_exact(&mut payload)?;
        ensure!(kind != 3, "a stream was reset: {payload:?}");
        replies += usize::from(kind == 1);
    }
    Ok(())
}

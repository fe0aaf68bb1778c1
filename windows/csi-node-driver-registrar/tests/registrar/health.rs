//! Tests of the HTTP pages.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixListener;

use anyhow::{Context, ensure};
use ebs_testkit::process::Process;

use crate::fake_driver::{FakeDriver, Says};
use crate::fake_kubelet::FakeKubelet;
use crate::program::{Sandbox, said};
use crate::{BOUND, eventually};

const NAME: &str = "ebs.csi.aws.com";

fn get(address: &str, path: &str) -> anyhow::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(BOUND))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).context("a status")?;
    let (_, text) = answer.split_once("\r\n\r\n").context("a body")?;
    Ok((status, text.to_owned()))
}

async fn page(address: &str, path: &'static str) -> anyhow::Result<(u16, String)> {
    let address = address.to_owned();
    tokio::task::spawn_blocking(move || get(&address, path)).await?
}

async fn address(registrar: &Process) -> anyhow::Result<String> {
    let address = said(registrar, "\"serving /healthz\" address=").await?;
    Ok(address.trim_matches('"').replace("[::]", "127.0.0.1"))
}

#[tokio::test]
async fn healthz_checks_the_registration_socket() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    let _driver = FakeDriver::at(&sandbox.driver(), Says::Name(NAME))?;
    let registrar = sandbox.start("registrar", &["--http-endpoint=127.0.0.1:0", "--timeout=2s"])?;
    let pages = address(&registrar).await?;
    let is = async |status: u16, text: &str| {
        let mut last = None;
        let seen = eventually("the answer", async || {
            let answer = page(&pages, "/healthz").await.ok()?;
            let is_it = answer.0 == status && answer.1.contains(text);
            last = Some(answer);
            is_it.then_some(())
        })
        .await;
        seen.with_context(|| format!("{status} {text:?}, but {last:?}"))
    };
    is(200, "ok").await?;
    ensure!(page(&pages, "/healthz").await? == (200, "ok".to_owned()));
    // Move the socket together with its directory, so that the registrar cannot restore it.
    let aside = sandbox.path().join("aside");
    std::fs::rename(sandbox.registration(), &aside)?;
    is(404, "registration socket does not exist").await?;
    std::fs::write(sandbox.registration(), "no directory")?;
    is(500, "read /").await?;
    std::fs::remove_file(sandbox.registration())?;
    std::fs::rename(&aside, sandbox.registration())?;
    is(200, "ok").await?;

    // From here on, files of other processes replace the socket. The test renames them to the socket's path, so that
    // the path always exists.
    let beside = sandbox.path().join("beside");
    std::fs::write(&beside, "")?;
    std::fs::rename(&beside, sandbox.socket(NAME))?;
    is(500, "is not a socket").await?;
    let silent = UnixListener::bind(&beside)?;
    std::fs::rename(&beside, sandbox.socket(NAME))?;
    is(500, "no reply within 2s").await?;
    drop(silent);
    is(500, "reach the registration socket: ").await?;
    let other = Sandbox::new()?;
    let _another = FakeDriver::at(&other.driver(), Says::Name("other.csi.example"))?;
    let _of_another = other.start("other", &[])?;
    let met = FakeKubelet::watching(&other.registration()).meet().await?;
    std::fs::rename(&met.socket, sandbox.socket(NAME))?;
    is(500, "belongs to driver \"other.csi.example\"").await?;
    Ok(())
}

#[tokio::test]
async fn pprof_pages_exist_only_with_enable_pprof() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    let _driver = FakeDriver::at(&sandbox.driver(), Says::Name(NAME))?;
    for (name, flags, status) in
        [("without", &["--http-endpoint=:0"][..], 404), ("with", &["--http-endpoint=:0", "-enable-pprof"], 200)]
    {
        let registrar = sandbox.start(name, flags)?;
        let pages = address(&registrar).await?;
        let overview = page(&pages, "/debug/pprof/").await?;
        ensure!(overview.0 == status && overview.1.contains("VmRSS:") == (status == 200), "{overview:?}");
        ensure!(page(&pages, "/healthz").await? == (200, "ok".to_owned()));
        for missing in ["/metrics", "/debug", "/debug/pprof", "/debug/pprof/no"] {
            ensure!(page(&pages, missing).await?.0 == 404, "{missing}");
        }
        ensure!(page(&pages, "/debug/pprof/heap").await?.0 == if status == 200 { 501 } else { 404 });
        ensure!(page(&pages, "/debug/pprof/cmdline").await?.1.contains("enable-pprof") == (status == 200));
    }
    Ok(())
}

#[tokio::test]
async fn taken_http_port_does_not_prevent_registration() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    let _driver = FakeDriver::at(&sandbox.driver(), Says::Name(NAME))?;
    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
    let http = format!("--http-endpoint={}", taken.local_addr()?);
    let registrar = sandbox.start("registrar", &[&http])?;
    FakeKubelet::watching(&sandbox.registration()).meet().await?.register().await?;
    said(&registrar, "failed to listen for /healthz").await?;
    drop(taken);
    let pages = address(&registrar).await?;
    ensure!(page(&pages, "/healthz").await? == (200, "ok".to_owned()));
    Ok(())
}

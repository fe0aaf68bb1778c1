//! The unmodified gRPC clients that users run, on Linux: the proxy serves a local socket instead of pipes, and handles
//! their requests with the same code. The programs are in `tests/acceptance/clients` at the root.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use csi_proxy::{Peer, Proxy, ProxyError, Transport};
use ebs_testkit::process::{Process, ProcessSpec};
use futures_util::{Stream, stream};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::machine::{Records, machine, parts};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const PIPE: &str = "csi-proxy-system-v1alpha1";
/// The call of the clients, and the start of its response: field 1, a string.
const CALL: [&str; 2] = ["/v1alpha1.System/GetBIOSSerialNumber", "ec2-firmware"];
const ALL_OF_THEM: Duration = Duration::from_secs(300);

/// A directory with a socket for each pipe.
struct Sockets(PathBuf);

impl Transport for Sockets {
    type Stream = UnixStream;

    fn listen(
        &self,
        pipe: &str,
    ) -> io::Result<impl Stream<Item = io::Result<(UnixStream, Peer)>> + Send + Unpin + 'static> {
        let listener = UnixListener::bind(self.0.join(pipe.rsplit('\\').next().unwrap_or(pipe)))?;
        Ok(Box::pin(stream::unfold(listener, |listener| async move {
            let accepted = listener.accept().await.map(|(connection, _)| (connection, Peer::default()));
            Some((accepted, listener))
        })))
    }
}

/// A running proxy with its directory.
struct Served {
    directory: tempfile::TempDir,
    records: Records,
    _proxy: JoinSet<Result<(), ProxyError>>,
}

async fn served() -> anyhow::Result<Served> {
    let directory = tempfile::tempdir()?;
    let (records, stop) = (Records::default(), CancellationToken::new());
    let parts = parts(&machine(), "system", &records);
    let proxy = Proxy::open(&Sockets(directory.path().to_owned()), parts, stop).await?;
    let mut running = JoinSet::new();
    running.spawn(proxy.run());
    Ok(Served { directory, records, _proxy: running })
}

impl Served {
    /// Runs a client to its end and returns its output. The client must succeed.
    async fn run(&self, name: &str, program: PathBuf, first: &[&Path]) -> anyhow::Result<String> {
        let log = self.directory.path().join(format!("{name}.log"));
        let socket = self.directory.path().join(PIPE).into_os_string();
        let args = first.iter().map(OsString::from).chain([socket]).chain(CALL.map(OsString::from)).collect();
        let spec = ProcessSpec { name: name.to_owned(), program, args, env: BTreeMap::new(), log };
        let mut client = Process::spawn(spec)?;
        let status = client.wait(ALL_OF_THEM).await?;
        let output = client.output()?;
        ensure!(status.success(), "{name}: {status}\n{output}");
        Ok(output)
    }
}

fn set_up(variable: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    path.with_context(|| {
        format!("this test needs {variable}: run it with `make interop` or `make test`, which set it up")
    })
}

/// This holds for any dial target, also the path of a pipe, and each call is recorded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_go_versions_of_seven_years_are_served() -> anyhow::Result<()> {
    let served = served().await?;
    let programs = std::fs::read_dir(set_up("EBS_TEST_GRPC_CLIENTS")?)?;
    let programs: Vec<PathBuf> = programs.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<_>>()?;
    let (mut versions, mut ways) = (0, 0);
    for program in programs {
        let name = program.file_name().context("a name")?.to_string_lossy().into_owned();
        if name.starts_with("grpc-go-") {
            let output = served.run(&name, program, &[]).await?;
            let tried = output.matches("\nok ").count();
            ensure!(tried >= 19, "{name} has tried little: {output}");
            versions += 1;
            ways += tried;
        }
    }
    ensure!(versions >= 6, "only {versions} versions of grpc-go");
    // Each dial target makes forty times two calls.
    let calls =
        served.records.all().iter().filter(|record| record["event"] == "call" && record["code"] == "OK").count();
    ensure!(calls == ways * 80, "{calls} records of {ways} ways to dial");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_core_is_served() -> anyhow::Result<()> {
    let served = served().await?;
    let script = Path::new(ROOT).join("tests/acceptance/clients/grpcio_clients.py");
    let output = served.run("grpcio", set_up("EBS_TEST_GRPCIO_PYTHON")?, &[Path::new("-B"), &script]).await?;
    ensure!(output.matches("\nok ").count() == 11, "{output}");
    Ok(())
}

//! The program under test, as a process.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use csi_proto::csi_proxy::{Group, connect, pipes};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep};

pub(crate) const LIMIT: Duration = Duration::from_secs(120);

static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// Serialises the tests, because their pipes have the same names.
pub(crate) async fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().await
}

pub(crate) async fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "it has not come within {LIMIT:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) async fn connected(group: Group, version: &str) -> tonic::transport::Channel {
    let (version, end) = (version.parse().unwrap(), Instant::now() + LIMIT);
    loop {
        match connect(&pipes(), group, &[version]).await {
            Ok(found) => return found.channel,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the path of the proxy with a fake machine. It is an example of this crate, which cargo builds together with
/// the tests.
pub(crate) fn path() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(std::path::Path::parent).unwrap();
    profile.join("examples").join("csi-proxy-on-a-fake.exe")
}

pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new(fault: &str) -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        let machine = r#"{"tree": {"C:\\work": "directory", "C:\\var\\lib\\kubelet\\a": "directory", "C:\\var\\lib\\kubelet\\mount": "directory"},
            "bios_serial": "ec2", "shares": [{"root": "\\\\host\\share"}],
            "services": [{"name": "spooler", "state": "Running", "start_mode": "Auto"}],
            "disks": [
            {"number": 1, "serial": "vol0123456789abcdef0_00000001.", "page83": "naa.5000", "size": 10737418240, "online": true},
            {"number": 3, "style": "gpt", "online": true, "size": 10737418240, "partitions": [{"number": 1, "kind": "data",
             "size": 10000000000, "volume": {"id": "\\\\?\\Volume{33333333-3333-3333-3333-333333333333}\\"}}]}],
            "faults": [FAULT]}"#;
        std::fs::write(files.path("machine.json"), machine.replace("FAULT", fault)).unwrap();
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn arguments(&self, others: &[&str]) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec![
            format!("--host=fake:{}", self.path("machine.json").display()).into(),
            format!("--log_file={}", self.path("log").display()).into(),
            format!("--audit-log={}", self.path("audit").display()).into(),
            "--logtostderr=false".into(),
        ];
        arguments.extend(others.iter().map(OsString::from));
        arguments
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub(crate) fn records(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path("audit")).unwrap_or_default();
        // The last line may be incomplete, so ignore lines that are not valid JSON.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

/// A running proxy. Dropping it kills the process.
pub(crate) struct Program {
    child: Child,
    files: Files,
}

impl Program {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with(Files::new(""), arguments)
    }

    pub(crate) fn start_with(files: Files, arguments: &[&str]) -> Self {
        let child = command(&files.arguments(arguments)).spawn().unwrap();
        Self { child, files }
    }

    pub(crate) fn run_to_end(arguments: &[&str]) -> (Option<i32>, String) {
        let files = Files::new("");
        let arguments: Vec<OsString> =
            files.arguments(&[]).into_iter().take(1).chain(arguments.iter().map(OsString::from)).collect();
        let mut child = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        (child.wait().unwrap().code(), text)
    }

    pub(crate) fn log(&self) -> String {
        self.files.log()
    }

    pub(crate) fn records(&self) -> Vec<Value> {
        self.files.records()
    }

    pub(crate) async fn metrics(&self) -> String {
        let address = eventually(|| {
            let log = self.log();
            let (_, rest) = log.split_once("Metrics on http://")?;
            Some(rest.split_once("/metrics")?.0.to_owned())
        })
        .await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).await.unwrap();
        page
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(arguments: &[OsString]) -> Command {
    let mut command = process(path());
    command.args(arguments);
    command
}

pub(crate) fn go_clients(arguments: &[&str]) -> Command {
    let program =
        std::env::var_os("EBS_TEST_CSI_PROXY_CLIENTS").expect("run `scripts/setup windows`, or `make windows`");
    let mut command = process(program.into());
    command.args(arguments).stdout(Stdio::piped());
    command
}

#[expect(clippy::disallowed_methods, reason = "the one place of these tests that starts processes")]
fn process(program: PathBuf) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

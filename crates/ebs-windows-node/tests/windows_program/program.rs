//! The driver's program for Windows, under Wine: started, asked over loopback, and its machine in memory with it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use csi_proto::csi;
use csi_proto::csi::node_client::NodeClient;
use csi_proto::csi::node_server::Node;
use ebs_testkit::process::{Process, ProcessSpec};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::attached::Machine;

/// Names the program, with a machine in memory.
const PROGRAM: &str = "EBS_TEST_WINDOWS_DRIVER";
/// For a start under Wine on a busy machine.
const START: Duration = Duration::from_secs(120);

/// As Windows writes a path of this machine: its drive is that of a machine in memory.
fn windows_path(path: &Path) -> String {
    format!("C:{}", path.display()).replace('/', r"\")
}

/// The program, running; it ends when this is dropped.
pub(crate) struct Program {
    process: Process,
    port_file: PathBuf,
    endpoint: String,
}

impl Program {
    /// Starts it and waits until it serves.
    pub(crate) async fn start(dir: &Path, env: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        let program = std::env::var(PROGRAM).with_context(|| format!("{PROGRAM} is not set: scripts/windows does"))?;
        let wine = std::env::var("EBS_WINE").context("EBS_WINE is not set: scripts/windows does")?;
        let runner = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/windows-program").canonicalize()?;
        let machine = dir.join("machine.json");
        std::fs::write(&machine, r#"{"virtual_time": true}"#)?;
        let arguments = [
            program,
            "node".to_owned(),
            "--endpoint=tcp://127.0.0.1:0".to_owned(),
            "--windows-host-process=true".to_owned(),
            "--metadata-sources=imds".to_owned(),
            format!("--csi-mount-point-prefix={}", windows_path(dir)),
            format!("--host=fake:Z:{}", machine.display()),
            "-v=4".to_owned(),
        ];
        let imds = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
        let endpoint = env.get(imds).context("the simulator has a metadata service")?.clone();
        let mut process = Process::spawn(ProcessSpec {
            name: "the driver for Windows".to_owned(),
            program: runner,
            args: arguments.map(OsString::from).into(),
            env: [(imds.to_owned(), endpoint), ("WINE".to_owned(), wine)].into(),
            log: dir.join("driver.log"),
        })?;
        let end = tokio::time::Instant::now() + START;
        let endpoint = loop {
            let text = process.log_tail(200);
            let line = text.lines().find(|line| line.contains("serving CSI"));
            let address = line.and_then(|line| Some(line.split_once("tcp://")?.1.trim_matches('"').to_owned()));
            if let Some(address) = address {
                break format!("http://{}", address.split(['"', ' ']).next().unwrap_or_default());
            }
            if let Some(status) = process.ended()? {
                anyhow::bail!("the driver ended with {status}:\n{text}");
            }
            ensure!(tokio::time::Instant::now() < end, "the driver does not serve:\n{text}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        Ok(Self { process, port_file: dir.join("machine.json.port"), endpoint })
    }

    pub(crate) fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    pub(crate) fn log(&self) -> String {
        self.process.log_tail(60)
    }

    /// Its machine.
    pub(crate) fn machine(&self) -> anyhow::Result<Remote> {
        let port = std::fs::read_to_string(&self.port_file).context("the port of the machine")?;
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port.trim().parse()?))?;
        stream.set_read_timeout(Some(START))?;
        Ok(Remote(Arc::new(Mutex::new(BufReader::new(stream)))))
    }
}

/// The machine of the program, asked line by line.
#[derive(Clone)]
pub(crate) struct Remote(Arc<Mutex<BufReader<TcpStream>>>);

impl Remote {
    fn ask(&self, request: &str) -> String {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stream.get_mut().write_all(format!("{request}\n").as_bytes()).expect("the program listens");
        let mut answer = String::new();
        stream.read_line(&mut answer).expect("the program answers");
        answer.trim().to_owned()
    }

    fn tell(&self, request: &str) {
        assert_eq!(self.ask(request), "done", "{request}");
    }

    /// The kubelet's part: the directory of what is published.
    pub(crate) fn make_directory(&self, path: &Path) -> anyhow::Result<()> {
        let answer = self.ask(&format!("directory {}", windows_path(path)));
        ensure!(answer == "done", "{answer}");
        Ok(())
    }
}

impl Machine for Remote {
    fn attach(&self, number: u32, serial: &str, size: u64) {
        self.tell(&format!("attach {number} {serial} {size}"));
    }

    fn detach(&self, number: u32) {
        self.tell(&format!("detach {number}"));
    }

    fn resize(&self, number: u32, size: u64) {
        self.tell(&format!("resize {number} {size}"));
    }

    fn is_online(&self, number: u32) -> bool {
        self.ask(&format!("online {number}")) == "true"
    }

    fn formats(&self, number: u32) -> usize {
        self.ask(&format!("formats {number}")).parse().expect("a number")
    }

    fn has(&self, path: &str) -> bool {
        self.ask(&format!("exists {}", windows_path(Path::new(path)))) == "true"
    }
}

/// Hands each call on to the program.
#[derive(Clone)]
pub(crate) struct Forward(NodeClient<Channel>);

impl Forward {
    pub(crate) async fn to(endpoint: String) -> anyhow::Result<Self> {
        let channel = Channel::from_shared(endpoint)?.connect().await.context("connect to the driver")?;
        Ok(Self(NodeClient::new(channel)))
    }
}

macro_rules! forwarded {
    ($($method:ident: $request:ident => $response:ident;)+) => {
        #[tonic::async_trait]
        impl Node for Forward {
            $(async fn $method(&self, request: Request<csi::$request>) -> Result<Response<csi::$response>, Status> {
                self.0.clone().$method(request.into_inner()).await
            })+
        }
    };
}

forwarded! {
    node_stage_volume: NodeStageVolumeRequest => NodeStageVolumeResponse;
    node_unstage_volume: NodeUnstageVolumeRequest => NodeUnstageVolumeResponse;
    node_publish_volume: NodePublishVolumeRequest => NodePublishVolumeResponse;
    node_unpublish_volume: NodeUnpublishVolumeRequest => NodeUnpublishVolumeResponse;
    node_expand_volume: NodeExpandVolumeRequest => NodeExpandVolumeResponse;
    node_get_volume_stats: NodeGetVolumeStatsRequest => NodeGetVolumeStatsResponse;
    node_get_volume_health: NodeGetVolumeHealthRequest => NodeGetVolumeHealthResponse;
    node_get_storage_health: NodeGetStorageHealthRequest => NodeGetStorageHealthResponse;
    node_get_capabilities: NodeGetCapabilitiesRequest => NodeGetCapabilitiesResponse;
    node_get_info: NodeGetInfoRequest => NodeGetInfoResponse;
}

//! The programs of a Windows node under Wine with a fake machine. The driver runs as a host process or uses csi-proxy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use winstorage::fake::control::Remote;

use crate::attached::Machine;
use crate::wine::{Windows, Wine, windows_path};

const IMDS: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";

const FAKE: &str = "examples/aws-ebs-csi-driver-on-a-fake.exe";

pub(crate) struct Driver {
    pub(crate) wine: Wine,
    address: String,
}

impl Driver {
    pub(crate) async fn as_host_process(
        windows: &Windows,
        dir: &Path,
        env: &BTreeMap<String, String>,
    ) -> anyhow::Result<(Self, OtherMachine)> {
        std::fs::write(dir.join("machine.json"), r#"{"virtual_time": true}"#)?;
        let machine = format!("--host=fake:{}", windows_path('Z', &dir.join("machine.json")));
        let driver = Self::start(windows, dir, FAKE, env, &["--windows-host-process=true".to_owned(), machine]).await?;
        Ok((driver, OtherMachine::of(&dir.join("machine.json.port"))?))
    }

    /// Starts the driver as in a container, with the csi-proxy of this machine, and waits until it serves.
    pub(crate) async fn over_csi_proxy(
        windows: &Windows,
        machine: &OtherMachine,
        dir: &Path,
        env: &BTreeMap<String, String>,
    ) -> anyhow::Result<Self> {
        let machine = format!("--host=of:{}", windows_path('Z', &machine.port_file));
        Self::start(windows, dir, FAKE, env, &[machine]).await
    }

    pub(crate) async fn start(
        windows: &Windows,
        dir: &Path,
        program: &str,
        env: &BTreeMap<String, String>,
        more: &[String],
    ) -> anyhow::Result<Self> {
        let mut arguments = vec![
            "node".to_owned(),
            "--endpoint=tcp://127.0.0.1:0".to_owned(),
            "--metadata-sources=imds".to_owned(),
            format!("--csi-mount-point-prefix={}", windows_path('C', dir)),
            "-v=4".to_owned(),
        ];
        arguments.extend_from_slice(more);
        let endpoint = env.get(IMDS).context("the simulator has a metadata service")?.clone();
        let env = BTreeMap::from([(IMDS.to_owned(), endpoint)]);
        let mut wine = windows.start(program, &arguments, &env, dir)?;
        let address = wine.said("serving CSI\" endpoint=\"tcp://").await?;
        let address = address.split('"').next().unwrap_or_default().to_owned();
        Ok(Self { address, wine })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

pub(crate) async fn csi_proxy(windows: &Windows, dir: &Path, fault: &str) -> anyhow::Result<(Wine, OtherMachine)> {
    std::fs::write(dir.join("machine.json"), format!(r#"{{"faults": [{fault}]}}"#))?;
    let arguments = [
        format!("--host=fake:{}", windows_path('Z', &dir.join("machine.json"))),
        format!("--working-dir={}", windows_path('C', dir)),
        "--api-groups=disk/v1,volume/v1,filesystem/v1".to_owned(),
    ];
    let mut wine = windows.start("examples/csi-proxy-on-a-fake.exe", &arguments, &BTreeMap::new(), dir)?;
    wine.said("Serving 3 pipes").await?;
    Ok((wine, OtherMachine::of(&dir.join("machine.json.port"))?))
}

#[derive(Clone)]
pub(crate) struct OtherMachine {
    remote: Arc<Remote>,
    port_file: PathBuf,
}

impl OtherMachine {
    fn of(port_file: &Path) -> anyhow::Result<Self> {
        let remote = Arc::new(Remote::connect(port_file).context("the machine of the program")?);
        Ok(Self { remote, port_file: port_file.to_owned() })
    }

    /// Creates the directory of a published volume, as the kubelet does.
    pub(crate) fn make_directory(&self, path: &Path) -> anyhow::Result<()> {
        let answer = self.ask(&format!("directory {}", windows_path('C', path)));
        ensure!(answer == "done", "{answer}");
        Ok(())
    }

    pub(crate) fn calls(&self, step: &str) -> usize {
        self.ask(&format!("calls {step}")).parse().expect("a number")
    }
}

impl Machine for OtherMachine {
    fn ask(&self, request: &str) -> String {
        self.remote.ask(request).expect("the program answers")
    }

    fn path(&self, here: &str) -> String {
        windows_path('C', Path::new(here))
    }
}

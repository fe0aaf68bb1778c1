//! The unmodified gRPC clients that users run, at the registration socket. The programs are in `tests/acceptance/clients` at
//! the root.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::process::{Process, ProcessSpec};

use crate::fake_driver::{FakeDriver, Says};
use crate::fake_kubelet::FakeKubelet;
use crate::program::Sandbox;

const NAME: &str = "ebs.csi.aws.com";
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The call of the clients instead of a driver's services, and the start of its response: field 1, a string.
const CALL: [&str; 2] = ["/pluginregistration.Registration/GetInfo", "CSIPlugin"];
const ALL_OF_THEM: Duration = Duration::from_secs(300);

fn set_up(variable: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    path.with_context(|| {
        format!("this test needs {variable}: run it with `make test` or scripts/test, which set it up")
    })
}

async fn run(dir: &Path, name: &str, program: PathBuf, args: Vec<OsString>) -> anyhow::Result<String> {
    let log = dir.join(format!("{name}.log"));
    let mut client = Process::spawn(ProcessSpec { name: name.to_owned(), program, args, env: BTreeMap::new(), log })?;
    let status = client.wait(ALL_OF_THEM).await?;
    let output = client.output()?;
    ensure!(status.success(), "{name}: {status}\n{output}");
    Ok(output)
}

/// Starts a registrar with a registered driver, and returns the registration socket.
async fn registered(sandbox: &Sandbox) -> anyhow::Result<(FakeDriver, Process, PathBuf)> {
    let driver = FakeDriver::at(&sandbox.driver(), Says::Name(NAME))?;
    let registrar = sandbox.start("registrar", &[])?;
    let mut met = FakeKubelet::watching(&sandbox.registration()).meet().await?;
    met.register().await?;
    Ok((driver, registrar, met.socket))
}

/// grpc-go is the kubelet's gRPC library. This holds for any form of the dial target.
#[tokio::test]
async fn grpc_go_versions_of_seven_years_are_served() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    let (_driver, _registrar, socket) = registered(&sandbox).await?;
    let programs = std::fs::read_dir(set_up("EBS_TEST_GRPC_CLIENTS")?)?;
    let programs: Vec<PathBuf> = programs.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<_>>()?;
    let mut versions = 0;
    for program in programs {
        let name = program.file_name().context("a name")?.to_string_lossy().into_owned();
        if name.starts_with("grpc-go-") {
            let args = [socket.as_os_str()].into_iter().map(OsString::from).chain(CALL.map(OsString::from));
            let output = run(sandbox.path(), &name, program, args.collect()).await?;
            ensure!(output.matches("\nok ").count() >= 19, "{name} has tried little: {output}");
            versions += 1;
        }
    }
    ensure!(versions >= 6, "only {versions} versions of grpc-go");
    Ok(())
}

#[tokio::test]
async fn grpc_core_is_served() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    let (_driver, _registrar, socket) = registered(&sandbox).await?;
    let script = Path::new(ROOT).join("tests/acceptance/clients/grpcio_clients.py");
    let args = ["-B".into(), script.into_os_string(), socket.into_os_string()];
    let args = args.into_iter().chain(CALL.map(OsString::from)).collect();
    let output = run(sandbox.path(), "grpcio", set_up("EBS_TEST_GRPCIO_PYTHON")?, args).await?;
    ensure!(output.matches("\nok ").count() == 11, "{output}");
    Ok(())
}

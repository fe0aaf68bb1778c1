//! Tests unmodified gRPC clients on the driver's socket. Most of them send the socket's path, in one form or another,
//! as the `:authority` of their requests. Their source is in `tests/acceptance/clients` at the root.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::process::{Process, ProcessSpec};
use ebs_testkit::world::World;

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const BOUND: Duration = Duration::from_secs(300);

/// Returns the path in a variable that `make test` sets.
fn set_up(variable: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    path.with_context(|| {
        format!("this test needs {variable}: run it with `make test` or scripts/test, which set it up")
    })
}

/// Runs a client until it exits and returns its output. Fails unless the client succeeds.
async fn run(dir: &Path, name: &str, program: PathBuf, args: Vec<OsString>) -> anyhow::Result<String> {
    let log = dir.join(format!("{name}.log"));
    let mut client = Process::spawn(ProcessSpec { name: name.to_owned(), program, args, env: BTreeMap::new(), log })?;
    let status = client.wait(BOUND).await?;
    let output = client.output()?;
    ensure!(status.success(), "{name}: {status}\n{output}");
    Ok(output)
}

/// The clients dial unix targets and send various authorities. With a custom dialer, the target is a path, a path in a
/// URI, an address or empty.
#[tokio::test]
async fn old_and_new_grpc_go_clients_are_served_with_any_target() -> anyhow::Result<()> {
    let programs = std::fs::read_dir(set_up("EBS_TEST_GRPC_CLIENTS")?)?;
    let programs: Vec<PathBuf> = programs.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<_>>()?;
    let world = World::builder(DRIVER).mode("controller").start().await?;
    let mut versions = 0;
    for program in programs {
        let name = program.file_name().context("a name")?.to_string_lossy().into_owned();
        // The name ends with `newest`, or with `v` and the version.
        if let Some(version) = name.strip_prefix("grpc-go-") {
            let output = run(world.dir(), &name, program, vec![world.socket().into()]).await?;
            let says = format!("grpc-go {}", version.trim_start_matches('v'));
            ensure!(version == "newest" || output.starts_with(&says), "{name} is another: {output}");
            ensure!(output.matches("\nok ").count() >= 19, "{name} has tried little: {output}");
            versions += 1;
        }
    }
    ensure!(versions >= 6, "only {versions} versions of grpc-go");
    world.finish().await
}

/// grpc-core is the gRPC library of C++ and Python. It always sends the socket's path as the authority.
#[tokio::test]
async fn grpc_core_client_is_served_with_any_target() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).mode("controller").start().await?;
    let script = Path::new(ROOT).join("tests/acceptance/clients/grpcio_clients.py");
    let args = vec!["-B".into(), script.into(), world.socket().into()];
    let output = run(world.dir(), "grpcio", set_up("EBS_TEST_GRPCIO_PYTHON")?, args).await?;
    ensure!(output.matches("\nok ").count() == 11, "{output}");
    world.finish().await
}

/// grpcurl reads the driver's name and capabilities, and creates and deletes a volume.
#[tokio::test]
async fn grpcurl_calls_the_driver_with_our_proto_files() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).mode("controller").start().await?;
    let program = set_up("EBS_TEST_GRPC_CLIENTS")?.join("grpcurl");
    let proto = Path::new(ROOT).join("proto");
    let call = async |nth: usize, method: &str, request: &str| {
        let socket = world.socket().to_string_lossy().into_owned();
        let mut args: Vec<OsString> = vec!["-plaintext".into(), "-import-path".into(), proto.clone().into()];
        args.extend(["-proto", "csi.proto", "-d", request, "-authority", &socket].map(OsString::from));
        args.extend([format!("unix://{socket}"), method.to_owned()].map(OsString::from));
        run(world.dir(), &format!("grpcurl-{nth}"), program.clone(), args).await
    };
    let info = call(0, "csi.v1.Identity/GetPluginInfo", "{}").await?;
    ensure!(info.contains(r#""name": "ebs.csi.aws.com""#), "{info}");
    let capabilities = call(1, "csi.v1.Controller/ControllerGetCapabilities", "{}").await?;
    ensure!(capabilities.contains("CREATE_DELETE_VOLUME"), "{capabilities}");
    let request = r#"{"name": "by-grpcurl", "capacity_range": {"required_bytes": 1073741824},
        "volume_capabilities": [{"mount": {}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}}]}"#;
    let created = call(2, "csi.v1.Controller/CreateVolume", request).await?;
    let id =
        created.split('"').find(|word| word.starts_with("vol-")).with_context(|| format!("no volume: {created}"))?;
    call(3, "csi.v1.Controller/DeleteVolume", &format!(r#"{{"volume_id": "{id}"}}"#)).await?;
    world.finish().await
}

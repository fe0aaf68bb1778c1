//! The process: its modes without Kubernetes, the services of each mode, its shutdown, and its errors at start.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, ensure};
use csi_proto::csi;
use csi_proto::csi::plugin_capability::{Type, service};
use ebs_testkit::csi_client::Access;
use ebs_testkit::process::{Process, ProcessSpec};
use ebs_testkit::world::World;
use tonic::Code;

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const BOUND: Duration = Duration::from_secs(120);

/// Runs the driver with arguments that make it exit at once. Returns its exit code and its complete output.
async fn run(args: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
    run_with(args, &[]).await
}

/// Runs it with these variables.
async fn run_with(args: &[&str], env: &[(&str, &str)]) -> anyhow::Result<(Option<i32>, String)> {
    let dir = tempfile::tempdir()?;
    let mut process = Process::spawn(ProcessSpec {
        name: "driver".to_owned(),
        program: DRIVER.into(),
        args: args.iter().map(Into::into).collect(),
        env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        log: dir.path().join("log"),
    })?;
    let status = process.wait(BOUND).await?;
    Ok((status.code(), process.output()?))
}

/// The controller needs no metadata when AWS_REGION is set.
#[tokio::test]
async fn controller_mode_serves_no_node_and_needs_no_metadata() -> anyhow::Result<()> {
    let world = World::builder(DRIVER)
        .mode("controller")
        .env("AWS_REGION", "us-west-2")
        .without_env("AWS_EC2_METADATA_SERVICE_ENDPOINT")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .start()
        .await?;
    ensure!(world.client().probe().await?, "not ready");
    let request = csi::ControllerGetCapabilitiesRequest {};
    let answer = world.client().controller().controller_get_capabilities(request).await?.into_inner();
    ensure!(!answer.capabilities.is_empty(), "a controller without capabilities");
    let status = world.client().node_info().await.err().context("controller mode answered for a node")?;
    ensure!(status.code() == Code::Unimplemented, "{status:?}");
    world.finish().await
}

/// A controller that knows its region needs no cluster, so its log has no line about taints or a missing cluster.
#[tokio::test]
async fn controller_logs_nothing_about_taints() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).mode("controller").env("AWS_REGION", "us-west-2").start().await?;
    let log = std::fs::read_to_string(&world.driver_spec().log)?;
    ensure!(!log.contains("taint") && !log.contains("Kubernetes"), "{log}");
    world.finish().await
}

/// A node service without the permission to mount starts, because its other calls work.
#[tokio::test]
async fn node_without_mount_permission_logs_warning() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).mode("node").start_without_driver().await?;
    let spec = world.driver_spec().clone();
    let dropped = ["--bounding-set=-all", "--inh-caps=-all", DRIVER];
    let args = dropped.into_iter().map(Into::into).chain(spec.args.clone()).collect();
    let mut driver = Process::spawn(ProcessSpec { program: "/usr/bin/setpriv".into(), args, ..spec })?;
    let mut tick = tokio::time::interval(Duration::from_millis(50));
    let serving = async {
        while !driver.output()?.contains("serving CSI") {
            tick.tick().await;
            ensure!(driver.ended()?.is_none(), "the driver ended:\n{}", driver.log_tail(20));
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(BOUND, serving).await.context("not serving")??;
    let log = driver.output()?;
    ensure!(log.lines().any(|line| line.starts_with('W') && line.contains("CAP_SYS_ADMIN")), "{log}");
    driver.stop(BOUND).await?;
    world.finish().await
}

/// Node mode needs no AWS credentials.
#[tokio::test]
async fn node_mode_serves_no_controller_and_calls_no_ec2() -> anyhow::Result<()> {
    let world = World::builder(DRIVER)
        .mode("node")
        .without_env("AWS_ACCESS_KEY_ID")
        .without_env("AWS_SECRET_ACCESS_KEY")
        .start()
        .await?;
    ensure!(world.client().probe().await?, "not ready");
    let info = world.client().node_info().await?;
    let segments = info.accessible_topology.context("a topology")?.segments;
    ensure!(info.node_id == world.driver_spec().env["EBS_SIM_INSTANCE_ID"], "node id {}", info.node_id);
    ensure!(segments.get("topology.kubernetes.io/zone").is_some_and(|zone| zone == "us-west-2a"), "{segments:?}");
    ensure!(info.max_volumes_per_node > 0, "0 volumes would mean no limit");
    let request = csi::ControllerGetCapabilitiesRequest {};
    let status = world.client().controller().controller_get_capabilities(request).await.err();
    let status = status.context("node mode answered for a controller")?;
    ensure!(status.code() == Code::Unimplemented, "{status:?}");
    let calls = world.calls_since(0).await?;
    ensure!(calls.calls.is_empty(), "a node called EC2: {}", calls.summary());
    world.finish().await
}

#[tokio::test]
async fn mode_all_serves_both_and_is_default() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).mode("--logging-format=json").start().await?;
    let identity = world.client().identity().get_plugin_info(csi::GetPluginInfoRequest {}).await?.into_inner();
    ensure!(identity.name == "ebs.csi.aws.com" && !identity.vendor_version.is_empty(), "{identity:?}");
    let request = csi::GetPluginCapabilitiesRequest {};
    let answer = world.client().identity().get_plugin_capabilities(request).await?.into_inner();
    let services: Vec<service::Type> = answer
        .capabilities
        .iter()
        .filter_map(|capability| match capability.r#type {
            Some(Type::Service(service)) => Some(service.r#type()),
            _ => None,
        })
        .collect();
    ensure!(services.contains(&service::Type::ControllerService), "{services:?}");
    ensure!(services.contains(&service::Type::VolumeAccessibilityConstraints), "{services:?}");
    world.client().node_info().await?;
    world.client().controller().controller_get_capabilities(csi::ControllerGetCapabilitiesRequest {}).await?;
    world.finish().await
}

/// `--enable-node-local-volumes` makes the controller resolve handles `local-ebs://` among the node's devices. Without
/// it they are rejected.
#[tokio::test]
async fn node_local_volumes_are_published_when_enabled() -> anyhow::Result<()> {
    for (arg, says) in [
        ("--enable-node-local-volumes=false", "--enable-node-local-volumes=true"),
        ("--enable-node-local-volumes=true", "root device"),
    ] {
        let world = World::builder(DRIVER).mode("controller").arg(arg).start().await?;
        let request = csi::ControllerPublishVolumeRequest {
            volume_id: "local-ebs://dev/xvda".to_owned(),
            node_id: world.driver_spec().env["EBS_SIM_INSTANCE_ID"].clone(),
            volume_capability: Some(Access::Mount("xfs".to_owned()).capability()),
            ..Default::default()
        };
        let status = world.client().controller().controller_publish_volume(request).await.err().context(arg)?;
        ensure!(status.code() == Code::InvalidArgument && status.message().contains(says), "{arg}: {status:?}");
        world.finish().await?;
    }
    Ok(())
}

/// Usage errors concern mode, flag, value, endpoint and reserved tag.
#[tokio::test]
async fn usage_error_exits_with_2_and_names_the_mistake() -> anyhow::Result<()> {
    for (args, named) in [
        (&["controler"][..], "controler"),
        (&["node", "--no-such-flag"], "no-such-flag"),
        (&["node", "--volume-attach-limit=many"], "volume-attach-limit"),
        (&["all", "--endpoint=http://127.0.0.1:1"], "http"),
        (&["all", "--endpoint=tcp://0.0.0.0:1"], "0.0.0.0"),
        (&["node", "--volume-attach-limit=3", "--reserved-volume-attachments=3"], "reserved-volume-attachments"),
        (&["controller", "--extra-tags=kubernetes.io/a=b"], "kubernetes.io/a"),
    ] {
        let (code, output) = run(args).await?;
        ensure!(code == Some(2), "{args:?} ended with {code:?}: {output}");
        ensure!(output.contains(named), "{args:?} does not name {named}: {output}");
    }
    Ok(())
}

#[tokio::test]
async fn version_and_help_exit_with_0() -> anyhow::Result<()> {
    for args in [&["--version"][..], &["--help"]] {
        let (code, output) = run(args).await?;
        ensure!(code == Some(0) && !output.trim().is_empty(), "{args:?} ended with {code:?}: {output}");
    }
    Ok(())
}

#[tokio::test]
async fn node_without_metadata_exits_with_1_and_names_sources() -> anyhow::Result<()> {
    let mut world = World::builder(DRIVER)
        .mode("node")
        .env("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1")
        .start_without_driver()
        .await?;
    world.spawn_driver()?;
    let (code, output) = world.driver_ended(BOUND).await?;
    ensure!(code == Some(1), "ended with {code:?}: {output}");
    ensure!(output.to_lowercase().contains("metadata") && output.contains("127.0.0.1:1"), "{output}");
    world.finish().await
}

#[tokio::test]
async fn invalid_endpoint_variable_exits_with_2_and_is_named() -> anyhow::Result<()> {
    for variable in ["AWS_EC2_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_SAGEMAKER_ENDPOINT"] {
        let dir = tempfile::tempdir()?;
        let socket = dir.path().join("csi.sock");
        let mut process = Process::spawn(ProcessSpec {
            name: "driver".to_owned(),
            program: DRIVER.into(),
            args: vec!["controller".into(), format!("--endpoint=unix://{}", socket.display()).into()],
            env: BTreeMap::from(
                [("AWS_REGION", "us-west-2"), (variable, "127.0.0.1:4566")].map(|(k, v)| (k.into(), v.into())),
            ),
            log: dir.path().join("log"),
        })?;
        let code = process.wait(BOUND).await?.code();
        let output = process.output()?;
        ensure!(code == Some(2), "{variable}: {code:?}\n{output}");
        ensure!(output.contains(variable) && output.contains("https://"), "{output}");
        ensure!(!socket.exists(), "the socket was left behind");
    }
    Ok(())
}

/// The driver exits with code 2. Other settings of `GODEBUG` are accepted.
#[tokio::test]
async fn request_for_fips_mode_is_rejected_in_every_mode() -> anyhow::Result<()> {
    for mode in ["all", "controller", "node", "metadataLabeler", "pre-stop-hook"] {
        let (code, said) = run_with(&[mode], &[("GODEBUG", "http2debug=1,fips140=only")]).await?;
        ensure!(code == Some(2) && said.contains("GODEBUG") && said.contains("FIPS"), "{mode}: {code:?}: {said}");
    }
    let (code, said) = run_with(&["controller", "--version"], &[("GODEBUG", "fips140=off,x=1")]).await?;
    ensure!(code == Some(0), "{code:?}: {said}");
    Ok(())
}

//! Checks that the driver writes no secret. Each secret that the driver receives contains a canary, and all of the
//! driver's output is enabled. The tests search everything that the driver writes or returns.

use std::collections::HashMap;
use std::fmt::Debug;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, ensure};
use axum::Router;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use csi_proto::csi;
use csi_proto::modify::ModifyVolumePropertiesRequest;
use csi_proto::modify::modify_client::ModifyClient;
use ebs_testkit::collector::Collector;
use ebs_testkit::csi_client::{Access, CsiClient, GIB, new_volume};
use ebs_testkit::pages::Pages;
use ebs_testkit::world::{World, WorldBuilder, with_mounts};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");

/// A text that is part of each secret and occurs nowhere else.
const CANARY: &str = "cAnArY";

/// Parts of signed requests. The driver must not write these either.
const PROOFS: [&str; 5] = ["AWS4-HMAC-SHA256", "Signature=", "ecurity-Token", "WebIdentityToken=", "SecretAccessKey"];

const BOUND: Duration = Duration::from_secs(120);

fn canary(kind: &str) -> String {
    format!("{CANARY}-{kind}")
}

fn secrets() -> HashMap<String, String> {
    [("key", "csi-key"), ("password", "csi-password")].map(|(key, kind)| (key.to_owned(), canary(kind))).into()
}

/// Starts a collector in its own directory below `dir`. Configures a controller with all of its output enabled and with
/// these variables, which contain its credentials.
async fn controller_with(
    dir: &Path,
    name: &str,
    variables: &[(&str, &str)],
) -> anyhow::Result<(Collector, WorldBuilder)> {
    let own = dir.join(name);
    std::fs::create_dir(&own)?;
    let collector = Collector::start(&own, &[]).await?;
    let mut world = talkative("controller", &collector);
    let is_set = |key: &&str| variables.iter().any(|(name, _)| name == key);
    for key in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"].into_iter().filter(|key| !is_set(key)) {
        world = world.without_env(key);
    }
    for (name, value) in variables {
        world = world.env(name, value);
    }
    Ok((collector, world))
}

/// Configures a driver with all of its output enabled.
fn talkative(mode: &str, collector: &Collector) -> WorldBuilder {
    let mut world = World::builder(DRIVER).mode(mode);
    for arg in ["--v=9", "--enable-otel-tracing", "--http-endpoint=127.0.0.1:0"] {
        world = world.arg(arg);
    }
    if mode != "node" {
        world = world.arg("--aws-sdk-debug-log");
    }
    world
        .env("RUST_LOG", "trace")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://{}", collector.address))
        .env("OTEL_EXPORTER_OTLP_HEADERS", &format!("authorization=Bearer {}", canary("otlp-header")))
        .env("OTEL_BSP_SCHEDULE_DELAY", "50")
}

/// Everything that the driver has written or returned.
#[derive(Default)]
struct Said(Vec<(String, String)>);

impl Said {
    fn add(&mut self, what: &str, text: impl Into<String>) {
        self.0.push((what.to_owned(), text.into()));
    }

    /// Adds a response, or the text and details of a status.
    fn answer<T: Debug>(&mut self, rpc: &str, answer: Result<T, tonic::Status>) -> Option<T> {
        self.add(rpc, format!("{answer:?}"));
        answer.ok()
    }

    /// Adds the driver's log, pages and files, and the data that the collector received.
    async fn add_all_of(&mut self, world: &World, collector: &Collector) -> anyhow::Result<()> {
        let pages = Pages::of(world, 1).await?;
        for page in ["/metrics", "/healthz", "/readyz"] {
            self.add(page, format!("{:?}", pages.get(page).await?));
        }
        self.add("the log", std::fs::read_to_string(&world.driver_spec().log)?);
        self.add("the collector", without_headers(collector)?);
        self.add_files(&world.dir().join("csi"))
    }

    fn add_files(&mut self, dir: &Path) -> anyhow::Result<()> {
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            self.add("a name", entry.path().display().to_string());
            if kind.is_dir() {
                self.add_files(&entry.path())?;
            } else if kind.is_file() {
                self.add(&entry.path().display().to_string(), String::from_utf8_lossy(&std::fs::read(entry.path())?));
            }
        }
        Ok(())
    }

    fn holds_no_secret(&self) -> anyhow::Result<()> {
        for (what, text) in &self.0 {
            for secret in PROOFS.into_iter().chain([CANARY]) {
                let line = text.lines().find(|line| line.contains(secret));
                ensure!(line.is_none(), "{secret} is in {what}: {line:?}");
            }
        }
        Ok(())
    }

    /// Checks that the log contains these words. A search of an incomplete log would not find the canaries.
    fn log_is_complete(&self, words: &[&str]) -> anyhow::Result<()> {
        let log: String = self.0.iter().filter(|(what, _)| what == "the log").map(|(_, text)| text.as_str()).collect();
        for word in words {
            ensure!(log.contains(word), "{word} is not in the log:\n{log}");
        }
        Ok(())
    }
}

/// Returns the spans that the collector received, without the request headers: the driver sends the collector's own
/// credentials in them.
fn without_headers(collector: &Collector) -> anyhow::Result<String> {
    let messages = collector.messages()?;
    ensure!(
        messages
            .iter()
            .all(|message| message.headers["authorization"] == [format!("Bearer {}", canary("otlp-header"))]),
        "the header is in use: {messages:?}"
    );
    Ok(messages.iter().map(|message| format!("{:?}{:?}", message.resource, message.spans)).collect())
}

/// An HTTP server in this process that answers by method and path, and records the requests.
struct Answers {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
    _serving: JoinSet<()>,
}

impl Answers {
    async fn start(answer: fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&asked);
        let app = Router::new().fallback(move |method: Method, uri: Uri, headers: HeaderMap, body: String| {
            let line = format!("{method} {uri} ");
            kept.lock().expect("no test panics here").push(format!("{line}{headers:?}{body}"));
            let found = answer(&line);
            let status = if found.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
            let headers = [("x-aws-ec2-metadata-token-ttl-seconds", "300")];
            std::future::ready((status, headers, found.unwrap_or_default()))
        });
        let mut serving = JoinSet::new();
        serving.spawn(async move { drop(axum::serve(listener, app).await) });
        Ok(Self { address, asked, _serving: serving })
    }

    /// Checks that the server received a request with the text.
    async fn was_shown(&self, text: &str) -> anyhow::Result<()> {
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        let seen = async {
            while !self.asked.lock().expect("no test panics here").iter().any(|request| request.contains(text)) {
                tick.tick().await;
            }
        };
        tokio::time::timeout(BOUND, seen).await.with_context(|| format!("{text} was never used: {:?}", self.asked))
    }
}

/// Calls every RPC with secrets, for a volume from its creation to its deletion. Some of the calls fail.
async fn all_rpcs(world: &World, said: &mut Said) -> anyhow::Result<()> {
    let access = Access::Mount("ext4".to_owned());
    let (mut controller, node) = (world.client().controller(), world.client().node());
    for wrong in ["secretToken", "password"] {
        let mut request = new_volume("pvc-wrong", 1, &access);
        request.parameters.insert(wrong.to_owned(), canary("parameter"));
        request.secrets = secrets();
        said.answer("CreateVolume", controller.create_volume(request).await);
    }
    let request = csi::CreateVolumeRequest { secrets: secrets(), ..new_volume("pvc-1", 1, &access) };
    let volume = said.answer("CreateVolume", controller.create_volume(request).await).context("a volume")?;
    let mut volume = volume.into_inner().volume.context("a volume")?;
    volume.volume_context.insert("apiToken".to_owned(), canary("context"));
    let id = volume.volume_id.clone();
    let mut on_node = world.on_node(volume, &access).await?;
    let request = csi::ValidateVolumeCapabilitiesRequest {
        volume_id: id.clone(),
        volume_capabilities: vec![access.capability()],
        secrets: secrets(),
        ..Default::default()
    };
    said.answer("Validate", controller.validate_volume_capabilities(request).await);
    let request = csi::ControllerPublishVolumeRequest { secrets: secrets(), ..on_node.attach_request() };
    let published = said.answer("ControllerPublish", controller.controller_publish_volume(request).await);
    on_node.publish_context = published.context("attached")?.into_inner().publish_context;
    let request = csi::NodeStageVolumeRequest { secrets: secrets(), ..on_node.stage_request() };
    let invalid = csi::NodeStageVolumeRequest { staging_target_path: "nowhere".to_owned(), ..request.clone() };
    said.answer("NodeStage", world.client().stage(invalid).await);
    said.answer("NodeStage", world.client().stage(request).await).context("staged")?;
    let request = csi::NodePublishVolumeRequest { secrets: secrets(), ..on_node.publish_request() };
    said.answer("NodePublish", node.clone().node_publish_volume(request).await).context("published")?;
    let request = csi::ControllerExpandVolumeRequest {
        volume_id: id.clone(),
        capacity_range: Some(csi::CapacityRange { required_bytes: 2 * GIB, limit_bytes: 0 }),
        secrets: secrets(),
        ..Default::default()
    };
    said.answer("ControllerExpand", controller.controller_expand_volume(request).await);
    let request = csi::NodeExpandVolumeRequest {
        volume_id: id.clone(),
        volume_path: on_node.target.display().to_string(),
        staging_target_path: on_node.staging.display().to_string(),
        secrets: secrets(),
        ..Default::default()
    };
    said.answer("NodeExpand", node.clone().node_expand_volume(request).await);
    snapshots_and_changes(world, &id, said).await?;
    on_node.unpublish().await?;
    on_node.unstage().await?;
    let request = csi::ControllerUnpublishVolumeRequest {
        volume_id: id.clone(),
        node_id: on_node.node_id.clone(),
        secrets: secrets(),
    };
    said.answer("ControllerUnpublish", controller.controller_unpublish_volume(request).await).context("detached")?;
    let request = csi::DeleteVolumeRequest { volume_id: id, secrets: secrets() };
    said.answer("DeleteVolume", controller.delete_volume(request).await).context("deleted")?;
    Ok(())
}

async fn snapshots_and_changes(world: &World, volume: &str, said: &mut Said) -> anyhow::Result<()> {
    let mut controller = world.client().controller();
    let request = csi::CreateSnapshotRequest {
        source_volume_id: volume.to_owned(),
        name: "snapshot-1".to_owned(),
        secrets: secrets(),
        ..Default::default()
    };
    let snapshot = said.answer("CreateSnapshot", controller.create_snapshot(request).await).context("a snapshot")?;
    let snapshot_id = snapshot.into_inner().snapshot.context("a snapshot")?.snapshot_id;
    let request = csi::ListSnapshotsRequest { secrets: secrets(), ..Default::default() };
    said.answer("ListSnapshots", controller.list_snapshots(request).await);
    let request = csi::GetSnapshotRequest { snapshot_id: snapshot_id.clone(), secrets: secrets() };
    said.answer("GetSnapshot", controller.get_snapshot(request).await);
    let request = csi::ControllerModifyVolumeRequest {
        volume_id: volume.to_owned(),
        secrets: secrets(),
        mutable_parameters: [("iops".to_owned(), "4000".to_owned()), ("privateKey".to_owned(), canary("mutable"))]
            .into(),
    };
    said.answer("ControllerModify", controller.controller_modify_volume(request).await);
    let socket = world.socket().to_owned();
    let connector = tower::service_fn(move |_: tonic::transport::Uri| {
        let socket = socket.clone();
        async move { tokio::net::UnixStream::connect(socket).await.map(hyper_util::rt::TokioIo::new) }
    });
    let endpoint = tonic::transport::Endpoint::from_static("http://csi.invalid").timeout(BOUND);
    let mut modify = ModifyClient::new(endpoint.connect_with_connector_lazy(connector));
    let request = ModifyVolumePropertiesRequest {
        name: volume.to_owned(),
        parameters: [("token".to_owned(), canary("modify"))].into(),
        ..Default::default()
    };
    said.answer("ModifyVolumeProperties", modify.modify_volume_properties(request).await);
    world.control().refuse_all("UnauthorizedOperation", 403).await?;
    let request = csi::DeleteSnapshotRequest { snapshot_id: snapshot_id.clone(), secrets: secrets() };
    said.answer("DeleteSnapshot", controller.delete_snapshot(request.clone()).await);
    world.control().no_faults().await?;
    said.answer("DeleteSnapshot", controller.delete_snapshot(request).await).context("deleted")?;
    Ok(())
}

/// The driver's log, pages, traces, responses and files contain neither CSI secrets, nor AWS credentials from the
/// environment, nor the values of fields that may hold secrets. All output is enabled.
#[test]
fn no_output_contains_secrets_of_requests_or_environment() {
    with_mounts(|| async {
        let dir = tempfile::tempdir()?;
        let collector = Collector::start(dir.path(), &[]).await?;
        let kubeconfig = dir.path().join("kubeconfig");
        std::fs::write(&kubeconfig, kubeconfig_with_token())?;
        let world = talkative("all", &collector)
            .env("AWS_ACCESS_KEY_ID", &format!("AKIA{CANARY}0000000000"))
            .env("AWS_SECRET_ACCESS_KEY", &canary("secret-key"))
            .env("AWS_SESSION_TOKEN", &canary("session-token"))
            .loop_devices()
            .arg(&format!("--kubeconfig={}", kubeconfig.display()))
            .start()
            .await?;
        let mut said = Said::default();
        all_rpcs(&world, &mut said).await?;
        collector.span("csi.v1.Controller/DeleteVolume", ("rpc.grpc.status_code", "0")).await?;
        said.add_all_of(&world, &collector).await?;
        said.holds_no_secret()?;
        said.log_is_complete(&["request to AWS", "Action=CreateVolume", "device identified", "reply from AWS"])?;
        world.finish().await
    });
}

fn kubeconfig_with_token() -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:1'}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{token: {}}}}}]\n",
        canary("kubeconfig")
    )
}

/// Makes a few calls with credentials from a source other than the environment. Some of them fail.
async fn a_few_calls(world: &World, said: &mut Said) -> anyhow::Result<()> {
    let request = csi::CreateVolumeRequest { secrets: secrets(), ..new_volume("pvc-1", 1, &Access::Block) };
    let volume = said.answer("CreateVolume", world.client().create_volume(request).await).context("a volume")?;
    world.control().refuse_all("AuthFailure", 401).await?;
    said.answer("DeleteVolume", world.client().delete_volume(&volume.volume_id).await);
    world.control().no_faults().await?;
    said.answer("DeleteVolume", world.client().delete_volume(&volume.volume_id).await).context("deleted")
}

/// Returns STS's answer to a web identity token.
fn sts(line: &str) -> Option<String> {
    line.starts_with("POST / ").then(|| {
        format!(
            "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
             <AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIA{CANARY}00000000000</AccessKeyId>\
             <SecretAccessKey>{0}-secret</SecretAccessKey><SessionToken>{0}-session</SessionToken>\
             <Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>\
             </AssumeRoleWithWebIdentityResponse>",
            canary("sts")
        )
    })
}

fn credentials(kind: &str) -> String {
    format!(
        "{{\"Code\":\"Success\",\"Type\":\"AWS-HMAC\",\"LastUpdated\":\"2020-01-01T00:00:00Z\",\
         \"AccessKeyId\":\"ASIA{CANARY}00000000000\",\"SecretAccessKey\":\"{0}-secret\",\"Token\":\"{0}-session\",\
         \"Expiration\":\"2099-01-01T00:00:00Z\"}}",
        canary(kind)
    )
}

fn container(line: &str) -> Option<String> {
    line.starts_with("GET /credentials ").then(|| credentials("container"))
}

fn imds(line: &str) -> Option<String> {
    let path = line.split(' ').nth(1)?;
    match path {
        "/latest/api/token" => Some(canary("imds-token")),
        "/latest/dynamic/instance-identity/document" => Some(
            "{\"instanceId\":\"i-0123456789abcdef0\",\"instanceType\":\"m5.large\",\"region\":\"us-west-2\",\
             \"availabilityZone\":\"us-west-2a\"}"
                .to_owned(),
        ),
        "/latest/meta-data/network/interfaces/macs" => Some("0e:49:61:0f:c3:11/".to_owned()),
        "/latest/meta-data/block-device-mapping" => Some("ami\nroot".to_owned()),
        "/latest/meta-data/iam/security-credentials/" => Some("role".to_owned()),
        "/latest/meta-data/iam/security-credentials/role" => Some(credentials("imds")),
        _ => None,
    }
}

/// The secrets are web identity tokens, STS's answers, the credentials of containers and instances, and the tokens that
/// protect these credential sources.
#[tokio::test]
async fn no_output_contains_secrets_of_other_credential_sources() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let token = dir.path().join("token");
    std::fs::write(&token, canary("web-identity"))?;
    let token = token.display().to_string();
    let (sts, container, imds) =
        (Answers::start(sts).await?, Answers::start(container).await?, Answers::start(imds).await?);
    let imds_url = format!("http://{}", imds.address);
    let (sts_url, container_url) =
        (format!("http://{}", sts.address), format!("http://{}/credentials", container.address));
    let authorization = canary("container-token");
    let web_identity: &[(&str, &str)] = &[
        ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/driver"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", &token),
        ("AWS_ENDPOINT_URL_STS", &sts_url),
    ];
    let pod_identity: &[(&str, &str)] = &[
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &container_url),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", &authorization),
    ];
    let instance_role: &[(&str, &str)] = &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &imds_url)];
    for (variables, server, shown) in [
        (web_identity, &sts, "web-identity"),
        (pod_identity, &container, "container-token"),
        (instance_role, &imds, "imds-token"),
    ] {
        let (collector, world) = controller_with(dir.path(), shown, variables).await?;
        let world = world.start().await?;
        let mut said = Said::default();
        a_few_calls(&world, &mut said).await?;
        server.was_shown(&canary(shown)).await?;
        collector.span("csi.v1.Controller/CreateVolume", ("rpc.grpc.status_code", "0")).await?;
        said.add_all_of(&world, &collector).await?;
        said.holds_no_secret()?;
        said.log_is_complete(&["request to AWS"])?;
        world.finish().await?;
    }
    Ok(())
}

/// Answers like a credential source whose error contains a secret. The reply to a request for EC2's own host contains
/// none, because EC2's real answers are not secret.
fn garbage(line: &str) -> Option<String> {
    if line.contains("ec2.test.invalid") {
        return Some("<html>no</html>".to_owned());
    }
    Some(format!("<Error><Code>Garbage</Code><Message>{}</Message></Error>", canary("garbage")))
}

/// The credential sources return invalid data, and the proxy has a password.
#[tokio::test]
async fn no_output_contains_secrets_if_credentials_or_proxy_fail() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let token = dir.path().join("token");
    std::fs::write(&token, canary("web-identity"))?;
    let garbage = Answers::start(garbage).await?;
    let (url, token) = (format!("http://{}", garbage.address), token.display().to_string());
    let full_uri = format!("{url}/credentials");
    let proxy = format!("http://user:{}@{}", canary("proxy"), garbage.address);
    let authorization = canary("container-token");
    let cases: [&[(&str, &str)]; 4] = [
        &[
            ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/driver"),
            ("AWS_WEB_IDENTITY_TOKEN_FILE", &token),
            ("AWS_ENDPOINT_URL_STS", &url),
        ],
        &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &full_uri), ("AWS_CONTAINER_AUTHORIZATION_TOKEN", &authorization)],
        &[
            ("HTTP_PROXY", &proxy),
            ("AWS_EC2_ENDPOINT", "http://ec2.test.invalid"),
            ("AWS_ACCESS_KEY_ID", "AKIAcAnArY0000000000"),
            ("AWS_SECRET_ACCESS_KEY", &authorization),
        ],
        &[
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/credentials"),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "cAnArY\n"),
        ],
    ];
    for (case, variables) in cases.into_iter().enumerate() {
        let (collector, world) = controller_with(dir.path(), &case.to_string(), variables).await?;
        let world = world.env("AWS_REGION", "us-west-2").env("AWS_EC2_METADATA_DISABLED", "true");
        let mut world = world.start_without_driver().await?;
        world.spawn_driver()?;
        let failed = "health check of EC2 failed";
        world.until_logged(failed, |log| log.contains(failed)).await?;
        let mut said = Said::default();
        let volume = csi::CreateVolumeRequest { secrets: secrets(), ..new_volume("pvc-1", 1, &Access::Block) };
        let request = CsiClient::within(volume, Duration::from_secs(20));
        said.answer("CreateVolume", world.client().controller().create_volume(request).await);
        said.add_all_of(&world, &collector).await?;
        world.stop_driver().await?;
        said.add("the log", std::fs::read_to_string(&world.driver_spec().log)?);
        said.holds_no_secret().with_context(|| format!("case {case}"))?;
        world.finish().await?;
    }
    garbage.was_shown("ec2.test.invalid").await?;
    garbage.was_shown(&canary("container-token")).await?;
    garbage.was_shown(&canary("web-identity")).await
}

#[tokio::test]
async fn error_for_an_endpoint_with_a_password_hides_the_password() -> anyhow::Result<()> {
    let variables = ["AWS_EC2_ENDPOINT", "AWS_ENDPOINT_URL_EC2", "AWS_ENDPOINT_URL", "AWS_SAGEMAKER_ENDPOINT"];
    for variable in variables {
        let url = format!("http://user:{}@127.0.0.1:1", canary("endpoint"));
        let mut world = World::builder(DRIVER).mode("controller").arg("--v=9").env("RUST_LOG", "trace");
        for other in variables.into_iter().filter(|other| *other != variable) {
            world = world.without_env(other);
        }
        let mut world = world.env(variable, &url).start_without_driver().await?;
        world.spawn_driver()?;
        let (code, output) = world.driver_ended(BOUND).await?;
        ensure!(!output.contains(CANARY), "{variable}: {output}");
        ensure!(code == Some(2) && output.contains(variable), "{variable}: {code:?}: {output}");
        world.finish().await?;
    }
    Ok(())
}

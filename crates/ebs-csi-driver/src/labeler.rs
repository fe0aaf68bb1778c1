//! Mode `metadataLabeler`, which labels Nodes. It serves no CSI and binds no CSI socket.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use component_base::signals::Signals;
use ebs_aws::AwsEc2;
use ebs_kubernetes::{Connections, LabelerOptions, Times};
use ebs_telemetry::MetricsConfig;
use tokio::task::JoinSet;

use crate::cli::Settings;
use crate::environment::environment;
use crate::machine::Sources;
use crate::observers::Counting;
use crate::version::{COMMIT, VERSION};
use crate::{compose, kubernetes};

const USER_AGENT: &str = "metadataLabeler";

const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Labels nodes while this process is the leader, until SIGTERM or SIGINT, and then releases the lease.
pub(crate) async fn run(settings: &Settings, mut signals: Signals) -> anyhow::Result<()> {
    tracing::info!(version = VERSION, mode = "metadataLabeler", "starting");
    let mut background = JoinSet::new();
    let config = MetricsConfig { version: VERSION, commit: COMMIT, ..MetricsConfig::default() };
    let pages =
        compose::serve_pages(settings.http.as_ref(), config, "the labeler is starting", &mut background).await?;
    let counting = Arc::new(Counting::new(Arc::clone(&pages.metrics)));
    let (connections, ec2, options) = tokio::select! {
        built = build(settings, Arc::clone(&counting)) => built?,
        signal = signals.next() => {
            tracing::info!(signal, "stopped before labeling");
            return Ok(());
        }
    };
    pages.readiness.set_ready();
    let stop = async {
        let signal = signals.next().await;
        tracing::info!(signal, "stopping: releasing the lease");
    };
    Box::pin(ebs_kubernetes::label_nodes(connections, ec2, counting, options, stop)).await?;
    tracing::info!("stopped");
    Ok(())
}

async fn build(
    settings: &Settings,
    counting: Arc<Counting>,
) -> anyhow::Result<(Connections, Arc<AwsEc2>, LabelerOptions)> {
    let connect = async || kubernetes::connect(settings.kubeconfig.as_ref()).await;
    let needed = "connect to Kubernetes, which mode metadataLabeler requires";
    let work = connect().await.map_err(|reason| anyhow!(reason)).context(needed)?;
    let lease = connect().await.map_err(|reason| anyhow!(reason)).context(needed)?;
    let kinds = settings.metadata_sources.clone();
    let sources = Sources { kinds, driver: settings.driver.clone(), cluster: Ok(work.clone()) };
    let extra = settings.user_agent_extra.as_ref().map(|extra| format!("{extra}-{USER_AGENT}"));
    let user_agent = extra.unwrap_or_else(|| USER_AGENT.to_owned());
    let config = compose::aws_config(&sources.region().await?, Some(user_agent), settings.log_aws_bodies)?;
    let ec2 = AwsEc2::connect(&config, counting).await.context("create the EC2 client")?;
    tracing::info!(
        region = config.region,
        ec2_endpoint = config.ec2_endpoint,
        kubernetes = work.server(),
        "EC2 client created"
    );
    let options = LabelerOptions {
        driver: settings.driver.clone(),
        namespace: environment("POD_NAMESPACE").unwrap_or_else(|| lease.namespace().to_owned()),
        host: std::fs::read_to_string(HOST_NAME).context("read the host name")?.trim().to_owned(),
        times: Times::default(),
        release_within: settings.shutdown_timeout,
    };
    Ok((Connections { work, lease }, Arc::new(ec2), options))
}

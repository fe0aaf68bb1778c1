//! Puts the driver together for its role: who it is, the EC2 it talks to, the services it offers.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use ebs_aws::{AwsConfig, AwsEc2};
use ebs_cloud::{Cloud, CloudConfig, CloudError, CloudErrorKind};
use ebs_driver::config::Mode;
use ebs_driver::controller::{ControllerOptions, ControllerService};
use ebs_driver::identity::{AlwaysHealthy, HealthCheck, IdentityService, Readiness};
use ebs_driver::node::{NodeOptions, NodeService};
use ebs_driver::operation::Operations;
use ebs_driver::server::{self, Bound, Opening, RpcObserver};
use ebs_metadata::{Imds, NodeMetadata};
use ebs_mounter::{Mounter, MounterConfig};
use ebs_telemetry::{Metrics, MetricsConfig, Pages};
use tokio::task::JoinSet;
use tonic::service::Routes;

use crate::cli::{NodeSettings, Settings};
use crate::health;
use crate::observers::{Counting, Detaches, EXPECTED_ACTIONS, NodeVolumes};
use crate::version::VERSION;

/// What the reference driver's SDK reads and this driver does not (`ebs-cloud.md` E26).
const IGNORED_VARIABLES: [&str; 2] = ["AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS"];

/// What answers from the first moment: the socket, and who the driver is.
pub(crate) struct Front {
    pub(crate) bound: Bound,
    pub(crate) routes: Routes,
    pub(crate) observer: Arc<dyn RpcObserver>,
    /// For the other services.
    pub(crate) opening: Opening,
}

/// What the services are put together with.
pub(crate) struct Foundation {
    pages: Pages,
    counting: Arc<Counting>,
    detaches: Arc<Detaches>,
    volumes: Arc<NodeVolumes>,
    health: Ec2Health,
    probe: Readiness<Ec2Health>,
    background: JoinSet<()>,
}

/// A driver that works.
pub(crate) struct Driver {
    /// All services besides Identity.
    pub(crate) services: Routes,
    /// To be drained at the end.
    pub(crate) operations: Vec<Operations>,
    /// Ends with the driver.
    pub(crate) background: JoinSet<()>,
}

/// The EC2 behind Probe, once the driver knows where it is; a node service has none.
#[derive(Clone, Default)]
struct Ec2Health(Arc<OnceLock<Option<Arc<Cloud<AwsEc2>>>>>);

impl Ec2Health {
    fn is(&self, cloud: Option<Arc<Cloud<AwsEc2>>>) {
        self.0.get_or_init(|| cloud);
    }
}

impl HealthCheck for Ec2Health {
    fn is_known(&self) -> bool {
        self.0.get().is_some()
    }

    async fn check(&self) -> Result<(), CloudError> {
        match self.0.get() {
            Some(Some(cloud)) => cloud.check().await,
            Some(None) => AlwaysHealthy.check().await,
            None => Err(CloudErrorKind::Unavailable.error("the driver is still starting")),
        }
    }
}

/// Takes the socket, so that a second driver on it fails before it touches anything, and begins to serve the pages.
///
/// # Errors
/// The socket cannot be taken.
pub(crate) fn open(settings: &Settings) -> anyhow::Result<(Front, Foundation)> {
    let driver = &settings.driver;
    let bound =
        server::bind(&driver.endpoint, driver.endpoint_mode).context("the driver cannot listen for CSI requests")?;
    let (detaches, volumes) = (Arc::new(Detaches::default()), Arc::new(NodeVolumes::default()));
    let pages = Pages {
        metrics: Arc::new(Metrics::new(metrics_config(settings, &detaches, &volumes))),
        readiness: ebs_telemetry::Readiness::starting("the driver is starting"),
    };
    let mut background = JoinSet::new();
    if let Some(endpoint) = settings.http.clone() {
        background.spawn(ebs_telemetry::serve(endpoint, pages.clone()));
    }
    let counting = Arc::new(Counting::new(Arc::clone(&pages.metrics)));
    let health = Ec2Health::default();
    let probe = Readiness::new(health.clone());
    let (routes, opening) = server::early(IdentityService::new(driver, probe.clone()));
    let front = Front { bound, routes, observer: Arc::clone(&counting) as _, opening };
    Ok((front, Foundation { pages, counting, detaches, volumes, health, probe, background }))
}

/// Finds out where the driver is and puts its services together.
///
/// Cancellation: nothing was begun that would have to be undone.
pub(crate) async fn build(settings: &Settings, foundation: Foundation) -> anyhow::Result<Driver> {
    let Foundation { pages, counting, detaches, volumes, health, probe, mut background } = foundation;
    let whoami = whoami(settings).await?;
    let cloud = cloud(settings, &whoami, Arc::clone(&counting)).await?;
    if let Some(cloud) = &cloud {
        detaches.of(cloud);
    }
    let operations = [Operations::new(), Operations::new()];
    let controller = cloud.clone().map(|cloud| controller(settings, cloud, operations[0].clone()));
    let node = node(settings, whoami, operations[1].clone())?;
    if let Some(node) = &node {
        volumes.of(node);
        background.spawn(node.clone().watch_health());
    }
    health.is(cloud);
    let shown = health::Shown { readiness: pages.readiness, metrics: pages.metrics };
    background.spawn(health::watch(health, probe, shown, Arc::clone(&counting.health_in_doubt)));
    Ok(Driver { services: server::services(controller, node), operations: operations.to_vec(), background })
}

fn metrics_config(settings: &Settings, detaches: &Arc<Detaches>, volumes: &Arc<NodeVolumes>) -> MetricsConfig {
    let has_controller = settings.driver.mode.has_controller();
    MetricsConfig {
        with_deprecated: settings.deprecated_metrics,
        expected_actions: if has_controller { EXPECTED_ACTIONS.to_vec() } else { Vec::new() },
        checks_health: has_controller,
        detaches: has_controller.then(|| Arc::clone(detaches) as _),
        volumes: settings.node.is_some().then(|| Arc::clone(volumes) as _),
    }
}

/// What is known of where the process runs.
struct Whoami {
    region: String,
    /// None for a controller that is told its region: it asks nobody.
    machine: Option<(Imds, NodeMetadata)>,
}

async fn whoami(settings: &Settings) -> anyhow::Result<Whoami> {
    let region = environment("AWS_REGION");
    if let (Mode::Controller, Some(region)) = (settings.driver.mode, region) {
        return Ok(Whoami { region, machine: None });
    }
    let needed = match settings.driver.mode {
        Mode::Controller => "the region is not known: set AWS_REGION, or let the driver read instance metadata",
        Mode::Node | Mode::All => "what machine this is is not known, and the node service needs it",
    };
    anyhow::ensure!(
        settings.imds_allowed,
        "{needed}; --metadata-sources leaves out imds, the only source of this version: add it"
    );
    let imds = Imds::connect().context(needed)?;
    let metadata = imds.read().await.context(needed)?;
    tracing::info!(
        instance = %metadata.node,
        instance_type = metadata.instance_type,
        region = metadata.region,
        zone = %metadata.zone,
        "this machine, by its metadata service"
    );
    Ok(Whoami { region: metadata.region.clone(), machine: Some((imds, metadata)) })
}

/// The EC2 client and the policy over it; none where nothing would use it (`runtime.md` R-14).
async fn cloud(
    settings: &Settings,
    whoami: &Whoami,
    counting: Arc<Counting>,
) -> anyhow::Result<Option<Arc<Cloud<AwsEc2>>>> {
    if !settings.driver.mode.has_controller() {
        return Ok(None);
    }
    let config = AwsConfig {
        region: whoami.region.clone(),
        ec2_endpoint: environment("AWS_EC2_ENDPOINT"),
        sagemaker_endpoint: environment("AWS_SAGEMAKER_ENDPOINT"),
        user_agent_extra: settings.user_agent_extra.clone(),
        version: VERSION.to_owned(),
        log_bodies: settings.log_aws_bodies,
    };
    for name in IGNORED_VARIABLES.into_iter().filter(|name| environment(name).is_some()) {
        tracing::warn!(
            "{name} has no effect: how often a call is made follows from what EC2 takes, within each request's own bound"
        );
    }
    let observer = Arc::clone(&counting);
    let ec2 = AwsEc2::connect(&config, observer).await.context("the EC2 client cannot be built")?;
    // Only now: an endpoint with a password in it was refused, and must not reach the log.
    tracing::info!(region = config.region, ec2_endpoint = config.ec2_endpoint, "EC2");
    let config = CloudConfig { batching: settings.batching, ..CloudConfig::new(settings.driver.name.clone()) };
    Ok(Some(Arc::new(Cloud::observed(Arc::new(ec2), config, counting))))
}

fn controller(settings: &Settings, cloud: Arc<Cloud<AwsEc2>>, operations: Operations) -> ControllerService<AwsEc2> {
    let options = ControllerOptions {
        driver: settings.driver.name.clone(),
        tags: settings.driver.tags.clone(),
        modification_window: settings.modification_window,
        node_local_volumes: settings.node_local_volumes,
    };
    ControllerService::new(cloud, options, operations)
}

fn node(settings: &Settings, whoami: Whoami, operations: Operations) -> anyhow::Result<Option<NodeService>> {
    let (Some(node), Some((imds, metadata))) = (&settings.node, whoami.machine) else { return Ok(None) };
    let mounter =
        Mounter::new(mounter_config(node, &metadata)).context("the node service cannot start on this machine")?;
    let options = NodeOptions {
        driver: settings.driver.name.clone(),
        metadata,
        limits: node.limits,
        legacy_xfs: node.legacy_xfs,
    };
    Ok(Some(NodeService::new(options, Some(imds), mounter, operations)))
}

fn mounter_config(node: &NodeSettings, metadata: &NodeMetadata) -> MounterConfig {
    MounterConfig {
        simulated_devices: environment("EBS_SIM_DEVICES_DIR").map(PathBuf::from),
        xen: ebs_types::is_xen(&metadata.instance_type),
        ..MounterConfig::new(&node.state_dir)
    }
}

/// An environment variable; empty is the same as absent.
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

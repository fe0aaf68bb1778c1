//! Composes the driver for its mode: its identity, the EC2 client, and its services.

use std::sync::Arc;

use anyhow::Context;
use ebs_aws::{AwsConfig, AwsEc2};
use ebs_cloud::{Cloud, CloudConfig};
use ebs_driver::config::Mode;
use ebs_driver::controller::{ControllerOptions, ControllerService};
use ebs_driver::identity::{IdentityService, Readiness, Starting};
use ebs_driver::not_ec2::NotEc2;
use ebs_driver::operation::Operations;
use ebs_driver::server::{self, Bound, RpcObserver, StartupGate};
use ebs_telemetry::{Listen, Metrics, MetricsConfig, Pages, Tls};
use tokio::task::JoinSet;
use tonic::service::Routes;

use crate::cli::{HttpSettings, Settings};
use crate::environment::environment;
use crate::machine::{Sources, Whereabouts};
use crate::node::{self, System};
use crate::observers::{Counting, Detaches, EXPECTED_ACTIONS, Running};
use crate::version::{COMMIT, VERSION};
use crate::{health, kubernetes};

/// Variables that the reference driver's SDK reads and this driver ignores.
const IGNORED_VARIABLES: [&str; 2] = ["AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS"];

/// The part of the driver that is available before the other services: the socket and Identity.
pub(crate) struct Front {
    pub(crate) bound: Bound,
    pub(crate) routes: Routes,
    pub(crate) observer: Arc<dyn RpcObserver>,
    /// Receives the other services.
    pub(crate) opening: StartupGate,
    /// Makes Probe report ready once the services are available.
    pub(crate) starting: Starting,
}

/// The parts from which the services are built.
pub(crate) struct Foundation {
    pages: Pages,
    shown_later: MetricSources,
    operations: [Operations; 2],
    counting: Arc<Counting>,
    background: JoinSet<()>,
}

/// A complete driver.
pub(crate) struct Driver {
    /// All services except Identity.
    pub(crate) services: Routes,
    /// Drained at shutdown.
    pub(crate) operations: Vec<Operations>,
    /// The node service, if there is one. Finished after the operations.
    pub(crate) node: Option<node::Service>,
    /// Tasks that are cancelled at shutdown.
    pub(crate) background: JoinSet<()>,
    /// Tasks that end the driver with an error.
    pub(crate) fatal: JoinSet<anyhow::Error>,
}

/// Binds the socket, so that a second driver on the same path fails before it changes anything, and starts to serve the
/// pages.
///
/// # Errors
/// The socket cannot be bound, or the certificate of the pages cannot be used.
pub(crate) async fn open(settings: &Settings) -> anyhow::Result<(Front, Foundation)> {
    let driver = &settings.driver;
    let bound = server::bind(&driver.endpoint, driver.endpoint_mode).context("listen for CSI requests")?;
    let operations = [Operations::new(), Operations::new()];
    let shown_later = MetricSources::default();
    let pages = Pages {
        metrics: Arc::new(Metrics::new(shown_later.metrics_config(settings, &operations))),
        readiness: ebs_telemetry::Readiness::starting("the driver is starting"),
    };
    ebs_telemetry::count_panics(&pages.metrics);
    let mut background = JoinSet::new();
    if let Some(listen) = listen(settings.http.as_ref()).await? {
        background.spawn(ebs_telemetry::serve(listen, pages.clone()));
    }
    let counting = Arc::new(Counting::new(Arc::clone(&pages.metrics)));
    let (readiness, starting) = Readiness::starting();
    let (routes, opening) = server::startup_gate(IdentityService::new(driver, readiness));
    let front = Front { bound, routes, observer: Arc::clone(&counting) as _, opening, starting };
    Ok((front, Foundation { pages, shown_later, operations, counting, background }))
}

/// Determines where the driver runs and builds its services.
///
/// Cancellation: safe at any time; nothing has to be undone.
pub(crate) async fn build(settings: &Settings, foundation: Foundation, system: System) -> anyhow::Result<Driver> {
    let Foundation { pages, shown_later, operations, counting, mut background } = foundation;
    let driver = &settings.driver;
    let cluster = kubernetes::connect(settings.kubeconfig.as_ref()).await;
    kubernetes::log_connection(&cluster, settings.kubeconfig.is_some(), driver.mode);
    let sources = Sources { kinds: settings.metadata_sources.clone(), driver: driver.name.clone(), cluster };
    let here = match driver.mode {
        Mode::Controller => sources.region().await?,
        Mode::Node | Mode::All => sources.node().await?,
    };
    let cloud = cloud(settings, &here, Arc::clone(&counting)).await?;
    if let Some(cloud) = &cloud {
        shown_later.detaches.of(cloud);
    }
    let controller = cloud.clone().map(|cloud| controller(settings, cloud, operations[0].clone()));
    let node = match (&settings.node, &here) {
        (Some(node), Whereabouts::Instance(machine)) => {
            let here = node::Here {
                driver: driver.name.clone(),
                machine: Arc::clone(machine),
                operations: operations[1].clone(),
            };
            Some(node::build(node, here, &shown_later.node, &mut background, system).await?)
        }
        _ => None,
    };
    if let (Some(_), Ok(cluster)) = (&settings.node, &sources.cluster) {
        kubernetes::remove_taints(cluster, &driver.name, &mut background);
    }
    match cloud {
        Some(cloud) => {
            let shown = health::Shown { readiness: pages.readiness, metrics: pages.metrics };
            background.spawn(health::watch(cloud, shown, Arc::clone(&counting.health_in_doubt)));
        }
        None => pages.readiness.set_ready(),
    }
    let mut fatal = JoinSet::new();
    let served = node.clone();
    let services = match here {
        Whereabouts::Foreign { name, what } => {
            fatal.spawn(sources.until_instance());
            server::services(controller, Some(NotEc2::service(&name, &what)))
        }
        Whereabouts::Region(_) | Whereabouts::Instance(_) => server::services(controller, served),
    };
    Ok(Driver { services, operations: operations.to_vec(), node, background, fatal })
}

/// Sources that the metrics read on each scrape. The pages are served before these sources exist.
#[derive(Default)]
struct MetricSources {
    detaches: Arc<Detaches>,
    node: node::Shown,
}

impl MetricSources {
    fn metrics_config(&self, settings: &Settings, operations: &[Operations; 2]) -> MetricsConfig {
        let (has_controller, has_node) = (settings.driver.mode.has_controller(), settings.node.is_some());
        MetricsConfig {
            version: VERSION,
            commit: COMMIT,
            with_deprecated: settings.deprecated_metrics,
            expected_actions: if has_controller { EXPECTED_ACTIONS.to_vec() } else { Vec::new() },
            checks_health: has_controller,
            detaches: has_controller.then(|| Arc::clone(&self.detaches) as _),
            volumes: has_node.then(|| self.node.volumes()).flatten(),
            operations: Some(Arc::new(Running(operations.clone()))),
            disks: has_node.then(|| self.node.disks()).flatten(),
        }
    }
}

/// Returns the address for metrics and health, with the certificate loaded now.
pub(crate) async fn listen(http: Option<&HttpSettings>) -> anyhow::Result<Option<Listen>> {
    let Some(HttpSettings { endpoint, tls }) = http.cloned() else { return Ok(None) };
    let tls = match tls {
        Some(files) => Some(Arc::new(Tls::load(files).await.context("load the TLS certificate of the HTTP endpoint")?)),
        None => None,
    };
    Ok(Some(Listen { endpoint, tls }))
}

/// Returns the EC2 client and the policy over it, or `None` where nothing uses it.
async fn cloud(
    settings: &Settings,
    here: &Whereabouts,
    counting: Arc<Counting>,
) -> anyhow::Result<Option<Arc<Cloud<AwsEc2>>>> {
    if !settings.driver.mode.has_controller() {
        return Ok(None);
    }
    let config = AwsConfig {
        region: here.region().context("determine the AWS region: AWS_REGION is not set; set it")?,
        ec2_endpoint: environment("AWS_EC2_ENDPOINT"),
        sagemaker_endpoint: environment("AWS_SAGEMAKER_ENDPOINT"),
        user_agent_extra: settings.user_agent_extra.clone(),
        version: VERSION.to_owned(),
        log_bodies: settings.log_aws_bodies,
    };
    for name in IGNORED_VARIABLES.into_iter().filter(|name| environment(name).is_some()) {
        tracing::warn!(
            "{name} has no effect: the rate limiter of the driver and the time limit of each request determine the retries"
        );
    }
    let observer = Arc::clone(&counting);
    let ec2 = AwsEc2::connect(&config, observer).await.context("create the EC2 client")?;
    // Log the endpoint only here: one with a password has been rejected by now and must not reach the log.
    tracing::info!(name: "v2", region = config.region, ec2_endpoint = config.ec2_endpoint, "EC2 client created");
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

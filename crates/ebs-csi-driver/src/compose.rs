//! Builds the driver for its mode: determines the machine, then creates the EC2 client and the services.

use std::sync::Arc;

use anyhow::Context;
use ebs_aws::{AwsConfig, AwsEc2};
use ebs_cloud::{Cloud, CloudConfig};
use ebs_driver::config::Mode;
use ebs_driver::controller::ControllerService;
use ebs_driver::identity::IdentityService;
use ebs_driver::not_ec2::NotEc2;
use ebs_driver::operation::Operations;
use ebs_driver::server::{self, Bound, RpcObserver, StartupGate};
use ebs_telemetry::{Listen, Metrics, MetricsConfig, Pages, Tls};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::service::Routes;

use crate::cli::{DriverSettings, HttpSettings};
use crate::environment::environment;
use crate::health;
use crate::kubernetes;
use crate::liveness;
use crate::machine::{Location, Sources};
use crate::node::{self, NodeParts, System};
use crate::observers::{Counting, EXPECTED_ACTIONS, pending_detaches};
use crate::version::{COMMIT, VERSION};

/// Variables that the reference driver's SDK reads and this driver ignores.
const IGNORED_VARIABLES: [&str; 2] = ["AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS"];

/// The CSI socket. It serves Identity before the other services exist.
pub(crate) struct Listener {
    pub(crate) bound: Bound,
    pub(crate) routes: Routes,
    pub(crate) observer: Arc<dyn RpcObserver>,
    pub(crate) opening: StartupGate,
    /// Makes Probe report ready once the services are available.
    pub(crate) serves: watch::Sender<bool>,
}

/// A driver that already serves Identity and the metrics pages, and still has to build its other services.
pub(crate) struct Startup {
    pages: Pages,
    controller_operations: Operations,
    node_operations: Operations,
    counting: Arc<Counting>,
    background: JoinSet<()>,
}

pub(crate) struct Driver {
    /// All services except Identity.
    pub(crate) services: Routes,
    pub(crate) operations: [Operations; 2],
    /// The node service, if the mode has one. After the last operation, shutdown waits for its background work.
    pub(crate) node: Option<node::Service>,
    /// Tasks that shutdown cancels.
    pub(crate) background: JoinSet<()>,
    /// Tasks whose result ends the driver with an error.
    pub(crate) fatal: JoinSet<anyhow::Error>,
}

/// Binds the socket first, so that a second driver on the same path fails early, and then serves metrics and health.
pub(crate) async fn open(settings: &DriverSettings) -> anyhow::Result<(Listener, Startup)> {
    let bound = server::bind(&settings.endpoint, settings.endpoint_mode).context("listen for CSI requests")?;
    let (controller_operations, node_operations) = (Operations::new(), Operations::new());
    let has_controller = settings.mode.has_controller();
    let config = MetricsConfig {
        version: VERSION,
        commit: COMMIT,
        with_deprecated: settings.deprecated_metrics,
        expected_actions: if has_controller { EXPECTED_ACTIONS.to_vec() } else { Vec::new() },
        checks_health: has_controller,
    };
    let mut background = JoinSet::new();
    let pages = serve_pages(settings.common.http.as_ref(), config, "the driver is starting", &mut background).await?;
    liveness::serve(settings.common.health.as_ref(), bound.endpoint(), &mut background);
    let operations = [controller_operations.clone(), node_operations.clone()];
    pages.metrics.set_operations(move || operations.iter().flat_map(Operations::ages).collect());
    let counting = Arc::new(Counting::new(Arc::clone(&pages.metrics)));
    let serves = watch::Sender::new(false);
    let identity = IdentityService::new(settings.mode, VERSION, serves.subscribe());
    let (routes, opening) = server::startup_gate(identity);
    let listener = Listener { bound, routes, observer: Arc::clone(&counting) as _, opening, serves };
    Ok((listener, Startup { pages, controller_operations, node_operations, counting, background }))
}

impl Startup {
    /// Determines where the driver runs and builds its services. Cancellation: safe at any time, without cleanup.
    pub(crate) async fn build(mut self, settings: &DriverSettings, system: System) -> anyhow::Result<Driver> {
        let common = &settings.common;
        let cluster = kubernetes::connect(common.kubeconfig.as_ref()).await;
        kubernetes::log_connection(&cluster, common.kubeconfig.is_some(), settings.mode);
        let sources = Sources { kinds: common.metadata_sources.clone(), driver: common.driver.clone(), cluster };
        let location = match settings.mode {
            Mode::Controller => sources.region().await?,
            Mode::Node | Mode::All => sources.node().await?,
        };
        let has_controller = settings.mode.has_controller();
        let cloud = if has_controller { Some(self.cloud(settings, &location).await?) } else { None };
        let controller = cloud.clone().map(|cloud| {
            ControllerService::new(cloud, settings.controller.clone(), self.controller_operations.clone())
        });
        let node = self.node(settings, &location, system).await?;
        if let (Some(_), Ok(cluster)) = (&settings.node, &sources.cluster) {
            kubernetes::remove_taints(cluster, &common.driver, &mut self.background);
        }
        self.follow_health(cloud);
        let mut fatal = JoinSet::new();
        let services = match location {
            Location::NotEc2 { name, what } => {
                fatal.spawn(sources.until_instance());
                server::services(controller, Some(NotEc2::service(&name, &what)))
            }
            Location::Region(_) | Location::Instance(_) => server::services(controller, node.clone()),
        };
        let operations = [self.controller_operations, self.node_operations];
        Ok(Driver { services, operations, node, background: self.background, fatal })
    }

    async fn cloud(&self, settings: &DriverSettings, location: &Location) -> anyhow::Result<Arc<Cloud<AwsEc2>>> {
        let config = aws_config(location, settings.common.user_agent_extra.clone(), settings.common.log_aws_bodies)?;
        for name in IGNORED_VARIABLES.into_iter().filter(|name| environment(name).is_some()) {
            tracing::warn!(
                "{name} has no effect: the rate limiter of the driver and the time limit of each request determine the retries"
            );
        }
        let observer = Arc::clone(&self.counting);
        let ec2 = AwsEc2::connect(&config, observer).await.context("create the EC2 client")?;
        // Log the endpoint only now: `connect` has rejected endpoints with a password, which must not reach the log.
        tracing::info!(name: "v2", region = config.region, ec2_endpoint = config.ec2_endpoint, "EC2 client created");
        let config = CloudConfig { batching: settings.batching, ..CloudConfig::new(settings.common.driver.clone()) };
        let observer = Arc::clone(&self.counting);
        let cloud = Arc::new(Cloud::observed(Arc::new(ec2), config, observer));
        let of_metrics = Arc::clone(&cloud);
        self.pages.metrics.set_detaches(move || pending_detaches(&of_metrics));
        Ok(cloud)
    }

    fn follow_health(&mut self, cloud: Option<Arc<Cloud<AwsEc2>>>) {
        match cloud {
            Some(cloud) => {
                let in_doubt = Arc::clone(&self.counting.health_in_doubt);
                self.background.spawn(health::watch(cloud, self.pages.clone(), in_doubt));
            }
            None => self.pages.readiness.set_ready(),
        }
    }

    /// Builds the node service, if the mode has one and this machine is an EC2 instance.
    async fn node(
        &mut self,
        settings: &DriverSettings,
        location: &Location,
        system: System,
    ) -> anyhow::Result<Option<node::Service>> {
        let (Some(node), Location::Instance(machine)) = (&settings.node, location) else { return Ok(None) };
        let parts = NodeParts {
            driver: settings.common.driver.clone(),
            machine: Arc::clone(machine),
            operations: self.node_operations.clone(),
            metrics: Arc::clone(&self.pages.metrics),
        };
        node::build(node, parts, &mut self.background, system).await.map(Some)
    }
}

/// Loads the certificate and starts to serve metrics and health, if configured. `/readyz` first shows `reason`.
pub(crate) async fn serve_pages(
    http: Option<&HttpSettings>,
    config: MetricsConfig,
    reason: &'static str,
    background: &mut JoinSet<()>,
) -> anyhow::Result<Pages> {
    let readiness = ebs_telemetry::Readiness::starting(reason);
    let pages = Pages { metrics: Arc::new(Metrics::new(config)), readiness };
    ebs_telemetry::count_panics(&pages.metrics);
    if let Some(HttpSettings { endpoint, tls }) = http.cloned() {
        let tls = match tls {
            Some(files) => {
                Some(Arc::new(Tls::load(files).await.context("load the TLS certificate of the HTTP endpoint")?))
            }
            None => None,
        };
        background.spawn(ebs_telemetry::serve(Listen { endpoint, tls }, pages.clone()));
    }
    Ok(pages)
}

pub(crate) fn aws_config(
    location: &Location,
    user_agent_extra: Option<String>,
    log_bodies: bool,
) -> anyhow::Result<AwsConfig> {
    Ok(AwsConfig {
        region: location.region().context("determine the AWS region: AWS_REGION is not set; set it")?,
        ec2_endpoint: environment("AWS_EC2_ENDPOINT"),
        sagemaker_endpoint: environment("AWS_SAGEMAKER_ENDPOINT"),
        user_agent_extra,
        version: VERSION.to_owned(),
        log_bodies,
    })
}

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ebs_cloud::{CloudError, CloudErrorKind};

use super::*;
use crate::config::DriverOptions;

#[derive(Clone, Default)]
struct Switch {
    healthy: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    hangs: bool,
}

impl HealthCheck for Switch {
    async fn check(&self) -> Result<(), CloudError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.hangs {
            std::future::pending::<()>().await;
        }
        let error = || CloudErrorKind::Unavailable.error("EC2 cannot be reached");
        self.healthy.load(Ordering::SeqCst).then_some(()).ok_or_else(error)
    }
}

fn config(mode: Mode) -> DriverConfig {
    DriverConfig::new(&DriverOptions {
        mode,
        version: "v0.1.0".to_owned(),
        endpoint: "unix:///tmp/csi.sock".to_owned(),
        endpoint_mode: "0600".to_owned(),
        extra_tags: Vec::new(),
        extra_volume_tags: Vec::new(),
        cluster_id: String::new(),
        warn_on_invalid_tag: false,
    })
    .expect("valid")
}

async fn probe<H: HealthCheck>(service: &IdentityService<H>) -> Option<bool> {
    service.probe(Request::new(ProbeRequest {})).await.expect("probe never fails").into_inner().ready
}

/// Probe is not ready until the first healthy check and ready from then on, whatever happens later.
///
/// Rule: D-18; controller.md C29; ebs-cloud.md 11
#[tokio::test(start_paused = true)]
async fn probe_is_not_ready_until_the_first_healthy_check_and_ready_from_then_on() {
    let switch = Switch::default();
    let service = IdentityService::new(&config(Mode::Controller), Readiness::new(switch.clone()));
    assert_eq!(probe(&service).await, Some(false));
    switch.healthy.store(true, Ordering::SeqCst);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(probe(&service).await, Some(true));
    switch.healthy.store(false, Ordering::SeqCst);
    tokio::time::advance(Duration::from_secs(100_000)).await;
    assert_eq!(probe(&service).await, Some(true), "a later outage does not show here");
    assert_eq!(switch.asked.load(Ordering::SeqCst), 2);
}

/// A failed health check is not repeated within a second, however many ask.
///
/// Rule: D-18; ebs-cloud.md 11
#[tokio::test(start_paused = true)]
async fn a_failed_check_is_not_repeated_within_a_second() {
    let switch = Switch::default();
    let readiness = Readiness::new(switch.clone());
    let (a, b, c) = tokio::join!(readiness.ask(), readiness.ask(), readiness.ask());
    assert_eq!((a, b, c), (false, false, false));
    assert_eq!(switch.asked.load(Ordering::SeqCst), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(!readiness.ask().await);
    assert_eq!(switch.asked.load(Ordering::SeqCst), 2);
}

/// A health check that hangs does not hang Probe.
///
/// Rule: D-18
#[tokio::test(start_paused = true)]
async fn a_check_that_hangs_does_not_hang_probe() {
    let service = IdentityService::new(&config(Mode::All), Readiness::new(Switch { hangs: true, ..Switch::default() }));
    let answer = tokio::time::timeout(Duration::from_secs(15), probe(&service)).await;
    assert_eq!(answer, Ok(Some(false)));
}

/// A node service is ready at once.
///
/// Rule: controller.md 3
#[tokio::test]
async fn a_node_is_ready_at_once() {
    let service = IdentityService::new(&config(Mode::Node), Readiness::new(AlwaysHealthy));
    assert_eq!(probe(&service).await, Some(true));
}

/// The plugin says its name and version and has no manifest.
///
/// Rule: controller.md 3
#[tokio::test]
async fn the_plugin_says_its_name_and_version() {
    let service = IdentityService::new(&config(Mode::All), Readiness::new(AlwaysHealthy));
    let info = service.get_plugin_info(Request::new(GetPluginInfoRequest {})).await.expect("no error").into_inner();
    assert_eq!((info.name.as_str(), info.vendor_version.as_str()), ("ebs.csi.aws.com", "v0.1.0"));
    assert!(info.manifest.is_empty());
}

/// Plugin capabilities follow the mode and include online expansion.
///
/// Rule: controller.md C29
#[tokio::test]
async fn capabilities_follow_the_mode_and_include_online_expansion() {
    for (mode, controller) in [(Mode::Controller, true), (Mode::All, true), (Mode::Node, false)] {
        let service = IdentityService::new(&config(mode), Readiness::new(AlwaysHealthy));
        let answer = service.get_plugin_capabilities(Request::new(GetPluginCapabilitiesRequest {})).await;
        let got: Vec<Type> =
            answer.expect("no error").into_inner().capabilities.into_iter().filter_map(|c| c.r#type).collect();
        let has = |wanted: service::Type| got.contains(&Type::Service(Service { r#type: wanted.into() }));
        assert_eq!(has(service::Type::ControllerService), controller, "{mode}");
        assert!(has(service::Type::VolumeAccessibilityConstraints));
        let online = VolumeExpansion { r#type: volume_expansion::Type::Online.into() };
        assert!(got.contains(&Type::VolumeExpansion(online)));
    }
}

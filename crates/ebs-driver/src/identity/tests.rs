use std::time::Duration;

use tokio::time::Instant;

use super::*;

fn identity(mode: Mode, serves: &watch::Sender<bool>) -> IdentityService {
    IdentityService::new(mode, "v0.1.0", serves.subscribe())
}

async fn probe(service: &IdentityService) -> Option<bool> {
    service.probe(Request::new(ProbeRequest {})).await.expect("probe never fails").into_inner().ready
}

/// Until then, Probe reports that the driver is not ready.
#[tokio::test(start_paused = true)]
async fn probe_is_ready_once_all_services_are_available() {
    for mode in [Mode::Controller, Mode::Node, Mode::All] {
        let starting = watch::Sender::new(false);
        let service = identity(mode, &starting);
        assert_eq!(probe(&service).await, Some(false), "{mode}");
        starting.send_replace(true);
        assert_eq!(probe(&service).await, Some(true), "{mode}");
    }
}

/// The wait is shorter than a sidecar's timeout.
#[tokio::test(start_paused = true)]
async fn probe_waits_for_a_startup_that_is_about_to_finish() {
    let starting = watch::Sender::new(false);
    let service = identity(Mode::Controller, &starting);
    let began = Instant::now();
    assert_eq!(probe(&service).await, Some(false));
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let soon = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        starting.send_replace(true);
    };
    let (ready, ()) = tokio::join!(probe(&service), soon);
    assert_eq!(ready, Some(true));
}

/// The driver stops before it can serve.
#[tokio::test]
async fn driver_that_never_served_is_not_ready() {
    let starting = watch::Sender::new(false);
    let service = identity(Mode::All, &starting);
    drop(starting);
    assert_eq!(probe(&service).await, Some(false));
}

/// The response has no manifest.
#[tokio::test]
async fn plugin_info_has_name_and_version() {
    let service = identity(Mode::All, &watch::Sender::new(true));
    let info = service.get_plugin_info(Request::new(GetPluginInfoRequest {})).await.expect("no error").into_inner();
    assert_eq!((info.name.as_str(), info.vendor_version.as_str()), ("ebs.csi.aws.com", "v0.1.0"));
    assert!(info.manifest.is_empty());
}

#[tokio::test]
async fn capabilities_depend_on_mode_and_include_online_expansion() {
    for (mode, controller) in [(Mode::Controller, true), (Mode::All, true), (Mode::Node, false)] {
        let service = identity(mode, &watch::Sender::new(true));
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

use std::time::Duration;

use csi_proto::csi::identity_server::Identity;
use csi_proto::csi::plugin_capability::{Service, Type, VolumeExpansion, service, volume_expansion};
use csi_proto::csi::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    PluginCapability, ProbeRequest, ProbeResponse,
};
use ebs_ec2::DriverName;
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::{Request, Response, Status};

use crate::config::Mode;

/// How long a probe waits for the end of startup. A sidecar waits one second for the response, and repeats a failed
/// probe only a second later.
const PATIENCE: Duration = Duration::from_millis(800);

/// Reports the identity and the readiness of the driver. Readiness does not depend on other systems, because a restart
/// does not help in an outage. Decision: `docs/dev/decisions/0024-keep-probe-independent-of-ec2.md`.
#[derive(Debug)]
pub struct IdentityService {
    version: String,
    mode: Mode,
    serves: watch::Receiver<bool>,
}

impl IdentityService {
    /// Creates the service of a driver whose other services are available once `serves` is true.
    pub fn new(mode: Mode, version: &str, serves: watch::Receiver<bool>) -> Self {
        Self { version: version.to_owned(), mode, serves }
    }
}

fn service(service: service::Type) -> PluginCapability {
    PluginCapability { r#type: Some(Type::Service(Service { r#type: service.into() })) }
}

/// Returns the plugin capabilities of a mode. A node process offers no controller service.
fn capabilities(mode: Mode) -> Vec<PluginCapability> {
    let online = VolumeExpansion { r#type: volume_expansion::Type::Online.into() };
    let mut all = Vec::new();
    if mode.has_controller() {
        all.push(service(service::Type::ControllerService));
    }
    all.push(service(service::Type::VolumeAccessibilityConstraints));
    all.push(PluginCapability { r#type: Some(Type::VolumeExpansion(online)) });
    all
}

#[tonic::async_trait]
impl Identity for IdentityService {
    async fn get_plugin_info(
        &self,
        _request: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        tracing::debug!(name: "v6", "request");
        Ok(Response::new(GetPluginInfoResponse {
            name: DriverName::default().to_string(),
            vendor_version: self.version.clone(),
            manifest: std::collections::HashMap::new(),
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _request: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        tracing::debug!(name: "v6", "request");
        Ok(Response::new(GetPluginCapabilitiesResponse { capabilities: capabilities(self.mode) }))
    }

    async fn probe(&self, _request: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        let mut serves = self.serves.clone();
        let started = timeout(PATIENCE, serves.wait_for(|serves| *serves)).await;
        Ok(Response::new(ProbeResponse { ready: Some(matches!(started, Ok(Ok(_)))) }))
    }
}

#[cfg(test)]
mod tests;

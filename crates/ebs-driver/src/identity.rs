//! The Identity service.

mod readiness;

use csi_proto::csi::identity_server::Identity;
use csi_proto::csi::plugin_capability::{Service, Type, VolumeExpansion, service, volume_expansion};
use csi_proto::csi::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    PluginCapability, ProbeRequest, ProbeResponse,
};
use tonic::{Request, Response, Status};

pub use readiness::{Readiness, Starting};

use crate::config::{DriverConfig, Mode};

/// Reports the identity and the readiness of the driver.
#[derive(Debug)]
pub struct IdentityService {
    name: String,
    version: String,
    mode: Mode,
    readiness: Readiness,
}

impl IdentityService {
    /// Creates the service, which reports `readiness`.
    pub fn new(config: &DriverConfig, readiness: Readiness) -> Self {
        Self { name: config.name.to_string(), version: config.version.clone(), mode: config.mode, readiness }
    }
}

fn service(service: service::Type) -> PluginCapability {
    PluginCapability { r#type: Some(Type::Service(Service { r#type: service.into() })) }
}

/// Returns the capabilities of a mode. A node process has no controller, and both support growth of volumes in use.
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
            name: self.name.clone(),
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
        Ok(Response::new(ProbeResponse { ready: Some(self.readiness.ask().await) }))
    }
}

#[cfg(test)]
mod tests;

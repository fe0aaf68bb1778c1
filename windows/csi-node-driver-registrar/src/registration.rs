//! The kubelet's registration service: `pluginregistration.Registration`.

use csi_proto::registration::registration_server::{Registration, RegistrationServer};
use csi_proto::registration::{InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse};
use tokio::sync::mpsc;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::driver_name::DriverName;

const CSI_PLUGIN: &str = "CSIPlugin";
const SUPPORTED_VERSIONS: [&str; 1] = ["1.0.0"];

/// Returns the driver's name and endpoint to the kubelet, and reports when the kubelet rejects the driver.
#[derive(Debug, Clone)]
struct OfDriver {
    info: PluginInfo,
    refusals: mpsc::Sender<String>,
}

/// Returns the service's routes. If the kubelet rejects the driver, the kubelet's error goes to `refusals`.
pub(crate) fn routes(name: &DriverName, endpoint: &str, refusals: mpsc::Sender<String>) -> Routes {
    let info = PluginInfo {
        r#type: CSI_PLUGIN.to_owned(),
        name: name.as_str().to_owned(),
        endpoint: endpoint.to_owned(),
        supported_versions: SUPPORTED_VERSIONS.map(str::to_owned).into(),
    };
    Routes::new(RegistrationServer::new(OfDriver { info, refusals })).prepare()
}

#[tonic::async_trait]
impl Registration for OfDriver {
    async fn get_info(&self, _request: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        tracing::debug!(name: "v5", driver = self.info.name, "GetInfo");
        Ok(Response::new(self.info.clone()))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let RegistrationStatus { plugin_registered, error } = request.into_inner();
        if plugin_registered {
            tracing::info!(
                driver = self.info.name,
                endpoint = self.info.endpoint,
                "the kubelet has registered the driver"
            );
        } else {
            tracing::error!(driver = self.info.name, %error, "the kubelet has not registered the driver");
            // The channel holds one rejection. Further rejections are not needed.
            drop(self.refusals.try_send(error));
        }
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}

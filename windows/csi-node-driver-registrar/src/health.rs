//! `/healthz`: checks that the registration socket answers with the name of this driver.

use std::io;
use std::time::Duration;

use component_base::logs::chain;
use csi_proto::registration::InfoRequest;
use csi_proto::registration::registration_client::RegistrationClient;
use http::StatusCode;
use tokio::time::timeout;

use crate::address::Address;
use crate::channel::channel;
use crate::driver_name::DriverName;
use crate::socket_file::is_socket;
use crate::stream::link;

/// The parameters of the health check, which connects to the socket as the kubelet does.
#[derive(Debug, Clone)]
pub(crate) struct Check {
    pub(crate) address: Address,
    pub(crate) driver: DriverName,
    /// Timeout of the whole check.
    pub(crate) bound: Duration,
}

impl Check {
    pub(crate) async fn answer(&self) -> (StatusCode, String) {
        if let Address::Local(path) = &self.address {
            // Use `symlink_metadata`: Windows treats a socket as a link that cannot be followed, so `metadata` fails
            // there.
            match std::fs::symlink_metadata(path) {
                Ok(metadata) if cfg!(unix) && !is_socket(&metadata) => {
                    return failed(format!("{} is not a socket", path.display()));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return (StatusCode::NOT_FOUND, "registration socket does not exist".to_owned());
                }
                Err(error) => return failed(format!("read {}: {error}", path.display())),
            }
        }
        match timeout(self.bound, self.ask()).await {
            Ok(Ok(name)) if name == self.driver.as_str() => (StatusCode::OK, "ok".to_owned()),
            Ok(Ok(other)) => {
                failed(format!("the registration socket belongs to driver {other:?}, not to {}", self.driver))
            }
            Ok(Err(error)) => failed(format!("reach the registration socket: {error}")),
            Err(_elapsed) => failed(format!("call the registration socket: no reply within {:?}", self.bound)),
        }
    }

    async fn ask(&self) -> Result<String, String> {
        let (state, _) = link();
        let channel = channel(&self.address, state).await.map_err(|error| chain(&error))?;
        let info = RegistrationClient::new(channel).get_info(InfoRequest {}).await;
        info.map(|info| info.into_inner().name).map_err(|status| chain(&status))
    }
}

fn failed(text: String) -> (StatusCode, String) {
    tracing::warn!(reason = text, "health check failed");
    (StatusCode::INTERNAL_SERVER_ERROR, text)
}

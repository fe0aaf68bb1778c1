//! A client of the driver's own socket, which checks the server in the same way as a sidecar does.

use std::io;

use csi_proto::csi::ProbeRequest;
use csi_proto::csi::identity_client::IdentityClient;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tonic::transport::Endpoint as Target;
use tower::service_fn;

use super::{Endpoint, socket};

/// Why a probe of the server failed. The texts contain no paths or addresses, because any client in the cluster can
/// read them.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("the CSI socket accepts no connections")]
    Connect(#[source] tonic::transport::Error),
    #[error("the CSI server does not answer Probe")]
    Call(#[source] tonic::Status),
    #[error("the driver is starting")]
    NotReady,
}

/// Opens a new connection to `endpoint` and calls `Probe`. The caller limits the time.
///
/// Cancellation: dropping the future closes the connection.
pub async fn probe(endpoint: &Endpoint) -> Result<(), ProbeError> {
    let target = Target::from_static("http://localhost");
    let connected = match endpoint {
        Endpoint::Unix(path) => {
            let path = path.clone();
            let connector = service_fn(move |_uri| {
                let path = path.clone();
                async move { socket::connect(&path).await.map(TokioIo::new) }
            });
            target.connect_with_connector(connector).await
        }
        Endpoint::Tcp(address) => {
            let address = *address;
            let connector =
                service_fn(
                    move |_uri| async move { Ok::<_, io::Error>(TokioIo::new(TcpStream::connect(address).await?)) },
                );
            target.connect_with_connector(connector).await
        }
    };
    let channel = connected.map_err(ProbeError::Connect)?;
    let answer = IdentityClient::new(channel).probe(ProbeRequest {}).await.map_err(ProbeError::Call)?;
    // A missing `ready` means ready: see the message `ProbeResponse` of CSI.
    if answer.into_inner().ready.unwrap_or(true) { Ok(()) } else { Err(ProbeError::NotReady) }
}

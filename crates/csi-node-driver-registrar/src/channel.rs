//! gRPC channels to an address.

use std::io;

use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tonic::transport::{Channel, Endpoint, Error};
use tower::service_fn;

use crate::address::Address;
use crate::local;
use crate::stream::{Heard, LinkState};

/// What every server of HTTP/2 sends at least: the head of a frame.
const FRAME_HEAD: usize = 9;

/// Connects to `address`; connects again when it is used after the connection was lost. `state` follows the connection.
///
/// # Errors
/// As the system says: nobody is there, or may be reached.
pub(crate) async fn channel(address: &Address, state: watch::Sender<LinkState>) -> Result<Channel, Error> {
    let address = address.clone();
    let connector = service_fn(move |_uri| {
        let (address, state) = (address.clone(), state.clone());
        async move {
            let stream = local::connect(&address).await?;
            Ok::<_, io::Error>(TokioIo::new(Heard::new(stream, FRAME_HEAD, state)))
        }
    });
    Endpoint::from_static("http://localhost").connect_with_connector(connector).await
}

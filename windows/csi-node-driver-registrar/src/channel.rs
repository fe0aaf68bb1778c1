//! Creates gRPC channels to an address.

use std::io;

use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tonic::transport::{Channel, Endpoint, Error};
use tower::service_fn;

use crate::address::Address;
use crate::local;
use crate::stream::{LinkState, heard};

/// The minimum that every HTTP/2 server sends: the header of a frame.
const FRAME_HEAD: usize = 9;

/// Connects to `address`. The channel reconnects when it is used after the connection was lost. `state` follows the
/// connection.
pub(crate) async fn channel(address: &Address, state: watch::Sender<LinkState>) -> Result<Channel, Error> {
    let address = address.clone();
    let connector = service_fn(move |_uri| {
        let (address, state) = (address.clone(), state.clone());
        async move {
            let stream = local::connect(&address).await?;
            Ok::<_, io::Error>(TokioIo::new(heard(stream, FRAME_HEAD, state)))
        }
    });
    Endpoint::from_static("http://localhost").connect_with_connector(connector).await
}

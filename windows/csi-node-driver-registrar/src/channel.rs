//! Creates gRPC channels to an address.

use std::io;

use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tonic::transport::{Channel, Endpoint, Error};
use tower::service_fn;

use crate::address::Address;
use crate::local;
use crate::stream::{LinkState, heard};

/// The minimum number of bytes that every HTTP/2 server sends: a frame header.
const FRAME_HEAD: usize = 9;

/// Connects to `address`. If the connection is lost, the channel reconnects at its next use. `state` receives the state
/// of the connection.
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

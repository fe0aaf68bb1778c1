//! Services that are still being put together while the socket answers already: what is asked of them waits.
//!
//! Who the driver is can be said at once, and Probe says that it is not ready; so no sidecar runs into a time-out of its
//! connection while the driver asks where it is. A call that comes too early is not refused: the kubelet takes a refused
//! NodeGetInfo for the end of the plugin and has its registrar begin anew.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use csi_proto::csi::identity_server::{Identity, IdentityServer};
use http::{Request, Response};
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::service::{AxumBody, Routes};
use tower::Service;

use crate::status::{Meaning, status};

/// A call that comes before the services waits so long for them, if its client does: longer than all sources of metadata take
/// together.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the other services go once they are there. Dropped without them, it ends the calls that wait.
#[derive(Debug)]
pub struct Opening(watch::Sender<Option<Routes>>);

impl Opening {
    /// From now on the services answer; calls that have waited are theirs.
    pub fn open(self, services: Routes) {
        self.0.send_replace(Some(services));
    }
}

/// Routes on which `identity` answers at once and all other calls wait until [`Opening::open`].
pub fn early<I: Identity>(identity: I) -> (Routes, Opening) {
    let (sender, services) = watch::channel(None);
    let router = Routes::new(IdentityServer::new(identity)).into_axum_router();
    (Routes::from(router.fallback_service(Late { services })), Opening(sender))
}

/// Hands calls on to services that come later.
#[derive(Debug, Clone)]
struct Late {
    services: watch::Receiver<Option<Routes>>,
}

impl Late {
    async fn services(mut self) -> Result<Routes, &'static str> {
        // Dropped when the driver stops before it has started; what was opened stays readable.
        let opened = timeout(PATIENCE, self.services.wait_for(Option::is_some)).await;
        let opened = opened.map_err(|_elapsed| "the driver is still starting; its log says what it waits for")?;
        opened.ok().and_then(|services| services.clone()).ok_or("the driver is stopping, and had not started yet")
    }
}

impl Service<Request<AxumBody>> for Late {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<AxumBody>) -> Self::Future {
        let late = self.clone();
        Box::pin(async move {
            match late.services().await {
                // Routes are always ready.
                Ok(mut services) => services.call(request).await,
                Err(reason) => {
                    Ok(status(Meaning::Unavailable, format!("{reason}; call again with the same request")).into_http())
                }
            }
        })
    }
}

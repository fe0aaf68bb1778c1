//! Lets calls wait on the socket while the driver is still creating its services. Only Identity answers at once, so
//! that no sidecar's connection times out. A failed NodeGetInfo would make the kubelet restart the registrar.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use csi_proto::csi::identity_server::{Identity, IdentityServer};
use http::{Request, Response};
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::service::{AxumBody, Routes};
use tower::Service;

use crate::status::{Meaning, status};
use crate::timeouts;

/// Adds the other services to the socket. When it is dropped before [`StartupGate::open`], the waiting calls fail.
#[derive(Debug)]
pub struct StartupGate(watch::Sender<Option<Routes>>);

impl StartupGate {
    /// Sets the services. From now on they answer all calls, including the waiting ones.
    pub fn open(self, services: Routes) {
        self.0.send_replace(Some(services));
    }
}

/// Returns routes on which `identity` answers at once, and all other calls wait for [`StartupGate::open`].
pub fn startup_gate<I: Identity>(identity: I) -> (Routes, StartupGate) {
    let (sender, services) = watch::channel(None);
    let router = Routes::new(IdentityServer::new(identity)).into_axum_router();
    (Routes::from(router.fallback_service(WaitingCalls { services })), StartupGate(sender))
}

#[derive(Debug, Clone)]
struct WaitingCalls {
    services: watch::Receiver<Option<Routes>>,
}

impl WaitingCalls {
    async fn services(mut self) -> Result<Routes, &'static str> {
        // The wait fails if the driver stops before it has started, because the sender is dropped.
        let opened = timeout(timeouts::STARTUP, self.services.wait_for(Option::is_some)).await;
        let opened = opened.map_err(|_elapsed| "the driver is still starting; its log shows the reason")?;
        opened.ok().and_then(|services| services.clone()).ok_or("the driver is stopping before it has started")
    }
}

impl Service<Request<AxumBody>> for WaitingCalls {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<AxumBody>) -> Self::Future {
        let calls = self.clone();
        Box::pin(async move {
            match calls.services().await {
                // Routes are always ready, so call them without `poll_ready`.
                Ok(mut services) => services.call(request).await,
                Err(reason) => {
                    Ok(status(Meaning::Unavailable, format!("{reason}; call again with the same request")).into_http())
                }
            }
        })
    }
}

//! The layer around every RPC: adds its span, its metrics and its failure line, and isolates panics. The start-up gate
//! answers Identity at once, and lets all other calls wait for their services.
//!
//! tonic enforces the client's `grpc-timeout` around this layer: it drops the request's future, and the operation continues.

use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use csi_proto::csi::identity_server::{Identity, IdentityServer};
use futures_util::FutureExt;
use http::{Request, Response};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tonic::body::Body;
use tonic::service::{AxumBody, Routes};
use tower::Service;
use tracing::Instrument;

use crate::operation::panic_text;
use crate::rpc::Rpc;
use crate::status::{Meaning, ResponseStatus, broken_off, status};
use crate::{request_log, timeouts};

/// Receives the outcome of every RPC.
pub trait RpcObserver: Send + Sync + 'static {
    /// Records an RPC that has ended. Must not block. `rpc` is the method's name or `unknown`, `code` the gRPC code's
    /// name, which is `Canceled` when the client left or its deadline passed.
    fn finished(&self, rpc: &'static str, code: &'static str, took: Duration);
}

#[derive(Clone)]
pub(super) struct RpcService<S> {
    pub(super) inner: S,
    pub(super) observer: Arc<dyn RpcObserver>,
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<S> Service<Request<Body>> for RpcService<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let rpc = method(request.uri().path());
        let mut running = Running { rpc, started: Instant::now(), observer: Some(Arc::clone(&self.observer)) };
        let span = request_log::span(rpc, &request);
        let handled = self.inner.call(request);
        let future = async move {
            let response = match AssertUnwindSafe(handled).catch_unwind().await {
                Ok(Ok(response)) => response,
                Err(panic) => broken_off(&panic_text(panic.as_ref())).into_http(),
            };
            let answer = ResponseStatus::from_headers(response.headers());
            if let Some(message) = &answer.failure {
                request_log::failed(rpc, answer.code, message, answer.definite_fault);
            }
            running.end(&answer);
            Ok(response)
        };
        Box::pin(future.instrument(span))
    }
}

/// A running RPC. If the client leaves, this is dropped before the RPC has ended.
struct Running {
    rpc: &'static str,
    started: Instant,
    observer: Option<Arc<dyn RpcObserver>>,
}

impl Running {
    fn end(&mut self, answer: &ResponseStatus) {
        if let Some(observer) = self.observer.take() {
            observer.finished(self.rpc, answer.code, self.started.elapsed());
            request_log::traced(answer);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.observer.is_some() {
            tracing::info!(rpc = self.rpc, "the client stopped waiting");
        }
        self.end(&ResponseStatus::client_left());
    }
}

fn method(path: &str) -> &'static str {
    Rpc::from_path(path).map_or("unknown", Rpc::name)
}

/// Adds the services other than Identity to the socket. If the gate is dropped before [`StartupGate::open`], the
/// waiting calls fail.
#[derive(Debug)]
pub struct StartupGate(watch::Sender<Option<Routes>>);

impl StartupGate {
    /// Sets the services. From now on they answer all calls, including the waiting ones.
    pub fn open(self, services: Routes) {
        self.0.send_replace(Some(services));
    }
}

/// Returns routes on which `identity` answers immediately, and all other calls wait for [`StartupGate::open`].
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

//! The layer around every RPC: adds its span, its metrics and its failure line, and isolates panics.
//!
//! tonic enforces the client's `grpc-timeout` around this layer: it drops the request's future, and the operation continues.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use http::{Request, Response};
use tokio::time::Instant;
use tonic::body::Body;
use tower::Service;
use tracing::Instrument;

use crate::operation::panic_text;
use crate::request_log;
use crate::rpc::Rpc;
use crate::status::{ResponseStatus, broken_off};

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

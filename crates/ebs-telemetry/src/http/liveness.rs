//! The page of `--health-endpoint`: `/healthz` alone, so that a probe needs no access to metrics.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use component_base::http::{ClearText, HttpEndpoint};

const PATH: &str = "/healthz";

/// Serves `/healthz` until dropped. Each request runs `check`, whose error text any client in the cluster can read.
///
/// Cancellation: dropping the future closes the listener and every connection. A client that disconnects cancels its
/// check.
pub async fn serve_liveness<C, F>(endpoint: HttpEndpoint, check: C)
where
    C: Fn() -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<(), String>> + Send,
{
    match component_base::http::serve(&endpoint, PATH, ClearText, router(check)).await {}
}

pub(super) fn router<C, F>(check: C) -> Router
where
    C: Fn() -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<(), String>> + Send,
{
    let page = async move || match check().await {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not healthy: {reason}\n")),
    };
    Router::new().route(PATH, get(page))
}

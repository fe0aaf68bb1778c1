//! The pages and their paths.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use component_base::metrics::CONTENT_TYPE;
use tower_http::compression::CompressionLayer;

use crate::rate::RateLimit;
use crate::{Metrics, Readiness};

/// The rate limit of `/metrics` for all clients together: the burst, and the requests per second.
pub(super) const METRICS_BURST: u32 = 10;
pub(super) const METRICS_PER_SECOND: u32 = 5;

/// The sources of the pages.
#[derive(Clone)]
pub struct Pages {
    pub metrics: Arc<Metrics>,
    pub readiness: Readiness,
}

impl Pages {
    /// Returns the routes. Only `/metrics` is rate limited, so that scrapes never block a probe of the kubelet.
    pub(super) fn router(self) -> Router {
        let limit = Arc::new(RateLimit::new(METRICS_BURST, METRICS_PER_SECOND));
        let metrics = get(async move |state| metrics(&limit, state).await);
        Router::new()
            .route("/metrics", metrics)
            .layer(CompressionLayer::new())
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(ready))
            .with_state(self)
    }
}

async fn metrics(limit: &RateLimit, State(pages): State<Pages>) -> Response {
    if !limit.admit() {
        return (StatusCode::TOO_MANY_REQUESTS, "too many requests\n").into_response();
    }
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], pages.metrics.scrape().await).into_response()
}

async fn ready(State(pages): State<Pages>) -> impl IntoResponse {
    match pages.readiness.get() {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")),
    }
}

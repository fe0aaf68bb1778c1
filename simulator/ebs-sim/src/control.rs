//! The control API, for tests and scripts: calls, state, faults, timing, and shutdown. Requests and replies are JSON. A
//! rejected request changes nothing, and its reply contains the reason.

mod calls;
mod fault_injection;
mod settings;

use std::sync::Arc;

use axum::body::Body;
use axum::routing::{get, post, put};
use axum::{Router, body};
use http::{Response, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::config::ValidKey;
use crate::engine::Engine;
use crate::http::answer;
use crate::ledger::Ledger;

const MAX_BODY: usize = 1 << 20;

const ROUTES: &[&str] = &[
    "GET /ledger?since=SEQ&limit=N",
    "GET /state",
    "GET /faults",
    "POST /faults",
    "DELETE /faults",
    "DELETE /faults/ID",
    "DELETE /faults?name=NAME",
    "GET /limits",
    "PUT /limits",
    "GET /timing",
    "PUT /timing",
    "GET /consistency",
    "PUT /consistency",
    "PUT /access-key",
    "POST /release",
    "POST /heal",
    "POST /advance",
    "POST /shutdown",
];

#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) engine: Engine,
    pub(crate) key: ValidKey,
    pub(crate) ledger: Arc<Ledger>,
    /// Cancelled by `POST /shutdown`.
    pub(crate) end_wanted: CancellationToken,
}

impl Control {
    pub(crate) fn router(self) -> Router {
        Router::new()
            .route("/", get(async || reply(StatusCode::OK, &json!({ "routes": ROUTES }))))
            .route("/ledger", get(calls::ledger))
            .route("/state", get(calls::state))
            .route("/faults", get(calls::rules).post(calls::add_rules).delete(calls::remove_rules))
            .route("/faults/{id}", axum::routing::delete(calls::remove_rule))
            .route("/limits", get(settings::limits).put(settings::set_limits))
            .route("/timing", get(settings::timing).put(settings::set_timing))
            .route("/consistency", get(fault_injection::consistency).put(fault_injection::set_consistency))
            .route("/access-key", put(settings::set_access_key))
            .route("/release", post(fault_injection::release))
            .route("/heal", post(fault_injection::heal))
            .route("/advance", post(settings::advance))
            .route("/shutdown", post(settings::shutdown))
            .fallback(async || reply(StatusCode::NOT_FOUND, &json!({"error": "route not found", "routes": ROUTES})))
            .with_state(Arc::new(self))
    }
}

fn reply(status: StatusCode, value: &Value) -> Response<Body> {
    answer(status, "application/json", value.to_string())
}

type Answer = Result<Response<Body>, Response<Body>>;

fn done() -> Response<Body> {
    reply(StatusCode::OK, &json!({}))
}

fn refuse(message: impl std::fmt::Display) -> Response<Body> {
    reply(StatusCode::BAD_REQUEST, &json!({"error": message.to_string()}))
}

async fn bytes(body: Body) -> Result<Vec<u8>, Response<Body>> {
    let bytes = body::to_bytes(body, MAX_BODY).await;
    bytes.map(Into::into).map_err(|_| refuse(format!("read body: incomplete, or longer than {MAX_BODY} bytes")))
}

async fn json_of<T: DeserializeOwned>(body: Body, what: &str) -> Result<T, Response<Body>> {
    serde_json::from_slice(&bytes(body).await?).map_err(|error| refuse(format!("parse body as {what}: {error}")))
}

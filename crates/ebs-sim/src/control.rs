//! The control API, for tests and scripts: what was called, what there is, how long things take, and the end.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::routing::{get, post, put};
use axum::{Router, body};
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::api::{SimAttachment, SimInstance, SimSnapshot, SimVolume};
use crate::engine::{Engine, StateView, TimingOverride};
use crate::http::answer;
use crate::ledger::Ledger;
use crate::wire::xml::timestamp;

/// Largest body that is read.
const MAX_BODY: usize = 64 << 10;

/// The control API over an engine.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) engine: Engine,
    pub(crate) ledger: Arc<Ledger>,
    /// Cancelled by `POST /shutdown`.
    pub(crate) end_wanted: CancellationToken,
}

impl Control {
    /// Its routes.
    pub(crate) fn router(self) -> Router {
        Router::new()
            .route("/ledger", get(ledger))
            .route("/state", get(state))
            .route("/timing", put(timing))
            .route("/shutdown", post(shutdown))
            .with_state(Arc::new(self))
    }
}

fn reply(status: StatusCode, value: &Value) -> Response<Body> {
    answer(status, "application/json", value.to_string())
}

fn refuse(message: impl std::fmt::Display) -> Response<Body> {
    reply(StatusCode::BAD_REQUEST, &json!({"error": message.to_string()}))
}

async fn ledger(State(control): State<Arc<Control>>, RawQuery(query): RawQuery) -> Response<Body> {
    let query = query.unwrap_or_default();
    let since = match query.split_once('=') {
        None if query.is_empty() => Ok(0),
        Some(("since", number)) => number.parse().map_err(|_| format!("since={number} is no number")),
        _ => Err(format!("{query:?} is not understood: the one parameter is since=NUMBER")),
    };
    match since {
        Ok(since) => reply(StatusCode::OK, &json!(control.ledger.since(since))),
        Err(message) => refuse(message),
    }
}

async fn state(State(control): State<Arc<Control>>) -> Response<Body> {
    reply(StatusCode::OK, &view(&control.engine.snapshot_of_state().await))
}

async fn timing(State(control): State<Arc<Control>>, body: Body) -> Response<Body> {
    let Ok(bytes) = body::to_bytes(body, MAX_BODY).await else { return refuse("the body cannot be read") };
    match serde_json::from_slice::<TimingOverride>(&bytes) {
        Ok(times) => {
            control.engine.set_timing(times).await;
            tracing::info!(?times, "times changed");
            reply(StatusCode::OK, &json!({}))
        }
        Err(error) => refuse(format!("the body is no set of times in milliseconds: {error}")),
    }
}

async fn shutdown(State(control): State<Arc<Control>>) -> Response<Body> {
    control.end_wanted.cancel();
    reply(StatusCode::ACCEPTED, &json!({}))
}

fn view(state: &StateView) -> Value {
    json!({
        "volumes": state.volumes.iter().map(volume).collect::<Vec<_>>(),
        "snapshots": state.snapshots.iter().map(snapshot).collect::<Vec<_>>(),
        "instances": state.instances.iter().map(instance).collect::<Vec<_>>(),
    })
}

fn volume(v: &SimVolume) -> Value {
    json!({
        "id": v.id, "state": v.state, "size_gib": v.size_gib, "type": v.volume_type, "iops": v.iops,
        "throughput": v.throughput, "zone": v.zone, "snapshot": v.snapshot_id, "source_volume": v.source_volume_id,
        "created": timestamp(v.created), "tags": v.tags,
        "attachments": v.attachments.iter().map(attachment).collect::<Vec<_>>(),
    })
}

fn attachment(a: &SimAttachment) -> Value {
    json!({
        "instance": a.instance_id, "device": a.device, "state": a.state, "loop": a.loop_device,
        "attach_time": timestamp(a.attach_time),
    })
}

fn snapshot(s: &SimSnapshot) -> Value {
    json!({
        "id": s.id, "state": s.state, "volume": s.volume_id, "size_gib": s.size_gib, "progress": s.progress,
        "tags": s.tags,
    })
}

fn instance(i: &SimInstance) -> Value {
    json!({
        "id": i.id, "state": i.state, "type": i.instance_type, "zone": i.zone, "local": i.local,
        "devices": i.devices.iter().map(|d| json!({
            "device": d.device, "volume": d.volume_id, "state": d.state,
        })).collect::<Vec<_>>(),
    })
}

//! Stale reads, stuck attachments and broken devices.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use http::Response;
use http::StatusCode;
use serde_json::json;

use crate::scenario::{Lag, Stuck};

use super::{Control, done, json_of, refuse, reply};

pub(super) async fn consistency(State(control): State<Arc<Control>>) -> Response<Body> {
    let max_lag = control.engine.consistency().max_lag;
    reply(StatusCode::OK, &json!({"max_lag_ms": u64::try_from(max_lag.as_millis()).unwrap_or(u64::MAX)}))
}

pub(super) async fn set_consistency(State(control): State<Arc<Control>>, body: Body) -> Response<Body> {
    match json_of::<Lag>(body, "{\"max_lag_ms\": NUMBER}").await {
        Ok(lag) => match lag.check() {
            Ok(()) => {
                control.engine.set_consistency(lag.consistency());
                done()
            }
            Err(why) => refuse(why),
        },
        Err(refusal) => refusal,
    }
}

pub(super) async fn release(State(control): State<Arc<Control>>, body: Body) -> Response<Body> {
    match json_of::<Stuck>(body, "{\"volume\": ID or \"*\", \"instance\": ID}").await {
        Ok(stuck) => stuck.release(&control.engine).map_or_else(refuse, |()| done()),
        Err(refusal) => refusal,
    }
}

pub(super) async fn heal(State(control): State<Arc<Control>>, body: Body) -> Response<Body> {
    match json_of::<Stuck>(body, "{\"volume\": ID}").await {
        Ok(stuck) => control.engine.heal_device(&stuck.volume).map_or_else(refuse, |()| done()),
        Err(refusal) => refusal,
    }
}

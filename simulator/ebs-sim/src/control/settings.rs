//! Routes for timing, limits, the access key, time and shutdown.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::buckets::Limits;
use crate::config::{AccessKey, TimingOverride};
use crate::wire::xml::timestamp;

use super::{Answer, Control, done, json_of, refuse, reply};

/// Maximum jump of the clock in milliseconds: ten years.
const MAX_LEAP_MS: u64 = 10 * 365 * 24 * 3_600_000;

/// Parses limits, which are a keyword or a JSON object with all limits.
fn given(value: Value) -> Result<Limits, String> {
    let limits: Limits = match value.as_str() {
        Some("default") => Limits::ec2(),
        Some("off") => Limits::off(),
        Some(other) => return Err(format!("invalid limits {other:?}; use \"default\", \"off\" or an object")),
        None => serde_json::from_value(value).map_err(|error| format!("parse limits: {error}"))?,
    };
    limits.check().map_err(|bad| bad.to_string())?;
    Ok(limits)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Leap {
    ms: u64,
}

pub(super) async fn limits(State(control): State<Arc<Control>>) -> Response<Body> {
    let engine = &control.engine;
    reply(StatusCode::OK, &json!({"limits": engine.limits(), "buckets": engine.bucket_levels()}))
}

pub(super) async fn set_limits(State(control): State<Arc<Control>>, body: Body) -> Answer {
    let limits = given(json_of(body, "JSON").await?).map_err(refuse)?;
    tracing::info!(?limits, "limits changed");
    control.engine.set_limits(limits);
    Ok(done())
}

pub(super) async fn timing(State(control): State<Arc<Control>>) -> Response<Body> {
    reply(StatusCode::OK, &json!(control.engine.timing()))
}

pub(super) async fn set_timing(State(control): State<Arc<Control>>, body: Body) -> Answer {
    let times: TimingOverride = json_of(body, "times in milliseconds").await?;
    times.check().map_err(refuse)?;
    control.engine.replace_timing(times);
    tracing::info!(?times, "times changed");
    Ok(done())
}

pub(super) async fn set_access_key(State(control): State<Arc<Control>>, body: Body) -> Answer {
    let key: AccessKey = json_of(body, "{\"id\": ID, \"secret\": SECRET}").await?;
    key.check().map_err(refuse)?;
    tracing::info!(id = key.id, "access key replaced");
    control.key.set(key);
    Ok(done())
}

pub(super) async fn advance(State(control): State<Arc<Control>>, body: Body) -> Answer {
    let Leap { ms } = json_of(body, "{\"ms\": NUMBER}").await?;
    if ms > MAX_LEAP_MS {
        return Err(refuse(format!("ms: {ms} exceeds {MAX_LEAP_MS}, ten years")));
    }
    control.engine.advance(Duration::from_millis(ms));
    Ok(reply(StatusCode::OK, &json!({"now": timestamp(control.engine.now())})))
}

pub(super) async fn shutdown(State(control): State<Arc<Control>>) -> Response<Body> {
    control.end_wanted.cancel();
    reply(StatusCode::ACCEPTED, &json!({}))
}

//! Routes for stale reads, stuck attachments and broken devices.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::json;

use crate::api::Fault;
use crate::config::Consistency;
use crate::engine::Engine;

use super::{Answer, Control, done, json_of, refuse, reply};

const MAX_LAG_MS: u64 = 15_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lag {
    max_lag_ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StuckAttachment {
    /// The volume id, or `*` for all volumes.
    volume: String,
    /// The instance id, needed when the volume is attached to several instances.
    instance: Option<String>,
}

impl StuckAttachment {
    fn release(&self, engine: &Engine) -> Result<(), Fault> {
        if self.volume == "*" {
            engine.release_all();
            return Ok(());
        }
        engine.release_attachment(&self.volume, self.instance.as_deref())
    }
}

pub(super) async fn consistency(State(control): State<Arc<Control>>) -> Response<Body> {
    let max_lag = control.engine.consistency().max_lag;
    reply(StatusCode::OK, &json!({"max_lag_ms": u64::try_from(max_lag.as_millis()).unwrap_or(u64::MAX)}))
}

pub(super) async fn set_consistency(State(control): State<Arc<Control>>, body: Body) -> Answer {
    let Lag { max_lag_ms } = json_of(body, "{\"max_lag_ms\": NUMBER}").await?;
    if max_lag_ms > MAX_LAG_MS {
        return Err(refuse(format!("max_lag_ms: {max_lag_ms} exceeds {MAX_LAG_MS}, EC2's longest lag")));
    }
    control.engine.set_consistency(Consistency { max_lag: Duration::from_millis(max_lag_ms) });
    Ok(done())
}

pub(super) async fn release(State(control): State<Arc<Control>>, body: Body) -> Answer {
    let stuck: StuckAttachment = json_of(body, "{\"volume\": ID or \"*\", \"instance\": ID}").await?;
    stuck.release(&control.engine).map_err(refuse)?;
    Ok(done())
}

pub(super) async fn heal(State(control): State<Arc<Control>>, body: Body) -> Answer {
    let stuck: StuckAttachment = json_of(body, "{\"volume\": ID}").await?;
    control.engine.heal_device(&stuck.volume).map_err(refuse)?;
    Ok(done())
}

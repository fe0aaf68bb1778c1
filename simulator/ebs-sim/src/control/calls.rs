//! Ledger, state and fault rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use http::{Response, StatusCode};
use serde_json::json;

use crate::faults::rules_from_json;
use crate::http::answer;

use super::{Control, bytes, done, refuse, reply, view};

/// Parses the parameters of a query, each of which must be unique and known.
fn parameters<'a>(query: &'a str, known: &[&str]) -> Result<BTreeMap<&'a str, &'a str>, String> {
    let mut found = BTreeMap::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        if !known.contains(&name) {
            return Err(format!("unknown parameter {name:?}; use {}", known.join(", ")));
        }
        if found.insert(name, value).is_some() {
            return Err(format!("duplicate parameter {name}"));
        }
    }
    Ok(found)
}

fn number<T: std::str::FromStr>(found: &BTreeMap<&str, &str>, name: &str, default: T) -> Result<T, String> {
    let given = found.get(name);
    given.map_or(Ok(default), |text| text.parse().map_err(|_| format!("{name}={text} is not a number")))
}

pub(super) async fn ledger(State(control): State<Arc<Control>>, RawQuery(query): RawQuery) -> Response<Body> {
    let query = query.unwrap_or_default();
    let asked = parameters(&query, &["since", "limit"])
        .and_then(|found| Ok((number(&found, "since", 0)?, number(&found, "limit", usize::MAX)?)));
    match asked {
        Ok((since, limit)) => answer(StatusCode::OK, "application/json", control.ledger.page(since, limit)),
        Err(message) => refuse(message),
    }
}

pub(super) async fn state(State(control): State<Arc<Control>>) -> Response<Body> {
    reply(StatusCode::OK, &view::view(&control.engine.snapshot_of_state().await))
}

pub(super) async fn rules(State(control): State<Arc<Control>>) -> Response<Body> {
    reply(StatusCode::OK, &json!({"rules": control.engine.faults().list()}))
}

pub(super) async fn add_rules(State(control): State<Arc<Control>>, body: Body) -> Response<Body> {
    let bytes = match bytes(body).await {
        Ok(bytes) => bytes,
        Err(refusal) => return refusal,
    };
    let set = rules_from_json(&bytes).and_then(|rules| {
        tracing::info!(?rules, "fault rules set");
        control.engine.faults().add_all(rules).map_err(|(at, bad)| format!("rule {}: {bad}", at + 1))
    });
    match set {
        Ok(ids) => reply(StatusCode::OK, &json!({"ids": ids})),
        Err(message) => refuse(message),
    }
}

pub(super) async fn remove_rules(State(control): State<Arc<Control>>, RawQuery(query): RawQuery) -> Response<Body> {
    let query = query.unwrap_or_default();
    let faults = control.engine.faults();
    let name = match parameters(&query, &["name"]) {
        Ok(found) => found.get("name").copied(),
        Err(message) => return refuse(message),
    };
    match name.map(|name| percent_encoding::percent_decode_str(name).decode_utf8_lossy()) {
        None => faults.clear(),
        Some(name) if faults.remove_named(&name) == 0 => return no_rule(&format!("named {name:?}")),
        Some(_) => {}
    }
    done()
}

pub(super) async fn remove_rule(State(control): State<Arc<Control>>, Path(id): Path<String>) -> Response<Body> {
    match id.parse() {
        Ok(number) if control.engine.faults().remove(number) => done(),
        Ok(_) => no_rule(&id),
        Err(_) => refuse(format!("{id:?} is not the number of a rule")),
    }
}

fn no_rule(which: &str) -> Response<Body> {
    reply(StatusCode::NOT_FOUND, &json!({"error": format!("rule {which} not found")}))
}

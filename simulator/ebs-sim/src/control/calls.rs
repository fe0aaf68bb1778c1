//! Routes for the ledger, the state and the fault rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use http::{Response, StatusCode};
use serde_json::json;

use crate::faults::rules_from_json;
use crate::http::answer;
use crate::view;

use super::{Answer, Control, bytes, done, refuse, reply};

/// Parses the parameters of a query string. Each must be unique and known.
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

pub(super) async fn ledger(State(control): State<Arc<Control>>, RawQuery(query): RawQuery) -> Answer {
    let query = query.unwrap_or_default();
    let found = parameters(&query, &["since", "limit"]).map_err(refuse)?;
    let (since, limit) = (number(&found, "since", 0), number(&found, "limit", usize::MAX));
    let page = control.ledger.page(since.map_err(refuse)?, limit.map_err(refuse)?);
    Ok(answer(StatusCode::OK, "application/json", page))
}

pub(super) async fn state(State(control): State<Arc<Control>>) -> Response<Body> {
    reply(StatusCode::OK, &json!(view::State::from(control.engine.snapshot_of_state().await)))
}

pub(super) async fn rules(State(control): State<Arc<Control>>) -> Response<Body> {
    reply(StatusCode::OK, &json!({"rules": control.engine.faults().list()}))
}

pub(super) async fn add_rules(State(control): State<Arc<Control>>, body: Body) -> Answer {
    let rules = rules_from_json(&bytes(body).await?).map_err(refuse)?;
    tracing::info!(?rules, "adding fault rules");
    let ids = control.engine.faults().add_all(rules).map_err(|(at, bad)| refuse(format!("rule {}: {bad}", at + 1)))?;
    Ok(reply(StatusCode::OK, &json!({"ids": ids})))
}

pub(super) async fn remove_rules(State(control): State<Arc<Control>>, RawQuery(query): RawQuery) -> Answer {
    let query = query.unwrap_or_default();
    let faults = control.engine.faults();
    let found = parameters(&query, &["name"]).map_err(refuse)?;
    match found.get("name").map(|name| percent_encoding::percent_decode_str(name).decode_utf8_lossy()) {
        None => faults.clear(),
        Some(name) if faults.remove_named(&name) == 0 => return Err(no_rule(&format!("named {name:?}"))),
        Some(_) => {}
    }
    Ok(done())
}

pub(super) async fn remove_rule(State(control): State<Arc<Control>>, Path(id): Path<String>) -> Answer {
    let number = id.parse().map_err(|_| refuse(format!("{id:?} is not the number of a rule")))?;
    if control.engine.faults().remove(number) { Ok(done()) } else { Err(no_rule(&id)) }
}

fn no_rule(which: &str) -> Response<Body> {
    reply(StatusCode::NOT_FOUND, &json!({"error": format!("rule {which} not found")}))
}

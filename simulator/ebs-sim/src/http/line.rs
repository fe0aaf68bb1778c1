//! The part of a ledger entry that comes from the request.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use http::header::AUTHORIZATION;
use http::request::Parts;

use crate::api::Fault;
use crate::api::query::Params;
use crate::engine::Served;
use crate::ledger::LedgerEntry;
use crate::wire::cluster_nodes;
use crate::wire::decode::signs;

/// An entry without the signature of its request.
pub(super) struct Line(LedgerEntry);

impl Line {
    pub(super) fn of(parts: &Parts, body: &[u8], request_id: &str) -> Self {
        let mut line = LedgerEntry { request_id: request_id.to_owned(), ..LedgerEntry::default() };
        let target = parts.headers.get(cluster_nodes::TARGET).and_then(|value| value.to_str().ok());
        if let Some(target) = target {
            line.action = cluster_nodes::action(target).to_owned();
            line.access_key = access_key(parts, &BTreeMap::new());
            line.parameters = cluster_nodes::texts(body);
            return Self(line);
        }
        let form = form(parts.uri.query().unwrap_or(""), body).unwrap_or_default();
        let mut parameters: BTreeMap<String, String> =
            Params::parse(&form).map(|params| params.as_map().clone()).unwrap_or_default();
        line.access_key = access_key(parts, &parameters);
        parameters.retain(|name, _| name != "Version" && !signs(name));
        line.action = parameters.remove("Action").unwrap_or_default();
        line.dry_run = parameters.get("DryRun").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        line.parameters = parameters;
        Self(line)
    }

    pub(super) fn access_key(&self) -> Option<&str> {
        self.0.access_key.as_deref()
    }

    pub(super) fn answered(self, served: &Served) -> LedgerEntry {
        let outcome = match &served.outcome {
            Some(Ok(())) => "ok",
            Some(Err(fault)) => &fault.code,
            None => "lost",
        };
        let mut line = self.with(served.arrived, served.took, outcome);
        line.faults.clone_from(&served.faults);
        if let Some(audit) = &served.audit {
            line.allowed_by = audit.allowed_by.iter().map(ToString::to_string).collect();
            line.denied = audit.reasons();
        }
        line
    }

    /// Returns the entry of a successful request that needs no engine.
    pub(super) fn entry(self, arrived: SystemTime) -> LedgerEntry {
        self.with(arrived, Duration::ZERO, "ok")
    }

    /// Returns the entry of a call that was rejected before it was executed.
    pub(super) fn refused(self, arrived: SystemTime, fault: &Fault) -> LedgerEntry {
        self.with(arrived, Duration::ZERO, &fault.code)
    }

    fn with(self, arrived: SystemTime, took: Duration, outcome: &str) -> LedgerEntry {
        LedgerEntry { outcome: outcome.to_owned(), ..self.0.timed(arrived, took) }
    }
}

pub(super) fn form(query: &str, body: &[u8]) -> Result<String, Fault> {
    let body = std::str::from_utf8(body)
        .map_err(|_| Fault::with_status(404, "MalformedQueryString", "The body is not UTF-8."))?;
    Ok(format!("{query}&{body}"))
}

/// Returns the id of the access key that signed the request. It is the first part of the credential, in the header or
/// the query string.
fn access_key(parts: &Parts, parameters: &BTreeMap<String, String>) -> Option<String> {
    let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let in_header = header.and_then(|header| header.split_once("Credential=")).map(|(_, rest)| rest);
    let credential = in_header.or_else(|| parameters.get("X-Amz-Credential").map(String::as_str))?;
    let id = credential.split(['/', ',', ' ']).next().filter(|id| !id.is_empty());
    id.map(str::to_owned)
}

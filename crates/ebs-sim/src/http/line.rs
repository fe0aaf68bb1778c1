//! One line of the ledger, as far as the request tells it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use http::header::AUTHORIZATION;
use http::request::Parts;

use crate::api::Fault;
use crate::api::query::Params;
use crate::engine::Served;
use crate::ledger::Answered;
use crate::wire::cluster_nodes;
use crate::wire::decode::signs;

use super::ec2::form;

/// A request, without whatever signs it.
pub(super) struct Line {
    action: String,
    parameters: BTreeMap<String, String>,
    dry_run: bool,
    access_key: Option<String>,
    request_id: String,
}

impl Line {
    pub(super) fn of(parts: &Parts, body: &[u8], request_id: &str) -> Self {
        let target = parts.headers.get(cluster_nodes::TARGET).and_then(|value| value.to_str().ok());
        if let Some(target) = target {
            return Self {
                action: cluster_nodes::action(target).to_owned(),
                parameters: cluster_nodes::texts(body),
                dry_run: false,
                access_key: access_key(parts, &BTreeMap::new()),
                request_id: request_id.to_owned(),
            };
        }
        let form = form(parts.uri.query().unwrap_or(""), body).unwrap_or_default();
        let mut parameters: BTreeMap<String, String> =
            Params::parse(&form).map(|params| params.as_map().clone()).unwrap_or_default();
        let access_key = access_key(parts, &parameters);
        parameters.retain(|name, _| name != "Version" && !signs(name));
        Self {
            action: parameters.remove("Action").unwrap_or_default(),
            dry_run: parameters.get("DryRun").is_some_and(|value| value.eq_ignore_ascii_case("true")),
            parameters,
            access_key,
            request_id: request_id.to_owned(),
        }
    }

    /// Id of the access key that signed the request.
    pub(super) fn access_key(&self) -> Option<&str> {
        self.access_key.as_deref()
    }

    /// The line of a call that went its way.
    pub(super) fn answered(self, served: &Served) -> Answered {
        let outcome = match &served.outcome {
            Some(Ok(())) => "ok",
            Some(Err(fault)) => &fault.code,
            None => "lost",
        };
        let mut answered = self.with(served.arrived, outcome);
        answered.took = served.took;
        answered.faults = served.faults.clone();
        if let Some(audit) = &served.audit {
            answered.allowed_by = audit.allowed_by.iter().map(ToString::to_string).collect();
            answered.denied = audit.reasons();
        }
        answered
    }

    /// The line of a question that needs no engine.
    pub(super) fn told(self, arrived: SystemTime) -> Answered {
        self.with(arrived, "ok")
    }

    /// The line of a call that was refused before it began.
    pub(super) fn refused(self, arrived: SystemTime, fault: &Fault) -> Answered {
        self.with(arrived, &fault.code)
    }

    fn with(self, arrived: SystemTime, outcome: &str) -> Answered {
        Answered {
            arrived,
            took: Duration::ZERO,
            action: self.action,
            parameters: self.parameters,
            outcome: outcome.to_owned(),
            dry_run: self.dry_run,
            access_key: self.access_key,
            request_id: self.request_id,
            faults: Vec::new(),
            allowed_by: Vec::new(),
            denied: Vec::new(),
        }
    }
}

/// The id of the access key that signed the request: the first part of its credential, in header or query.
fn access_key(parts: &Parts, parameters: &BTreeMap<String, String>) -> Option<String> {
    let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let in_header = header.and_then(|header| header.split_once("Credential=")).map(|(_, rest)| rest);
    let credential = in_header.or_else(|| parameters.get("X-Amz-Credential").map(String::as_str))?;
    let id = credential.split(['/', ',', ' ']).next().filter(|id| !id.is_empty());
    id.map(str::to_owned)
}

//! A WMI that answers from a recording, and fails the test if anything else is sent.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use serde::Deserialize;

use super::super::*;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recording {
    pub(super) query: Option<String>,
    #[serde(default)]
    rows: Vec<BTreeMap<String, serde_json::Value>>,
    pub(super) exec: Option<String>,
    namespace: String,
    on: Option<String>,
    #[serde(default)]
    arguments: Vec<(String, String, serde_json::Value)>,
    #[serde(default)]
    returns: BTreeMap<String, serde_json::Value>,
    refused: Option<u32>,
}

#[derive(Clone)]
pub(super) struct Recorded {
    operation: String,
    ahead: Arc<Mutex<VecDeque<Recording>>>,
}

impl Recorded {
    pub(super) fn new(operation: &str, calls: Vec<Recording>) -> Self {
        Self { operation: operation.to_owned(), ahead: Arc::new(Mutex::new(calls.into())) }
    }

    pub(super) fn finish(&self) {
        let left = self.ahead.lock().unwrap();
        assert!(left.is_empty(), "{} did not send {:?}", self.operation, left.front());
    }

    fn next(&self, sent: &str) -> Recording {
        let next = self.ahead.lock().unwrap().pop_front();
        next.unwrap_or_else(|| panic!("{} sends more than is recorded: {sent}", self.operation))
    }
}

fn row(properties: &BTreeMap<String, serde_json::Value>) -> Row {
    let path = properties.get("__PATH").and_then(|path| path.as_str()).map(str::to_owned);
    let mut row = Row::new(path);
    for (name, value) in properties {
        let value = match value {
            serde_json::Value::Bool(flag) => Value::Bool(*flag),
            serde_json::Value::Number(number) => Value::U64(number.as_u64().unwrap()),
            serde_json::Value::String(text) => Value::Text(text.clone()),
            _ => Value::Null,
        };
        row.set(name, value);
    }
    row
}

fn argument((name, value): &(&'static str, Value)) -> (String, String, serde_json::Value) {
    let (kind, value) = match value {
        Value::Null => ("null", serde_json::Value::Null),
        Value::Bool(flag) => ("boolean", (*flag).into()),
        Value::U16(number) => ("uint16", (*number).into()),
        Value::U32(number) => ("uint32", (*number).into()),
        Value::U64(number) => ("uint64", (*number).into()),
        Value::Text(text) => ("string", text.clone().into()),
        Value::Secret(secret) => ("secret", secret.expose().into()),
    };
    ((*name).to_owned(), kind.to_owned(), value)
}

impl Wmi for Recorded {
    fn query(&self, namespace: Namespace, wql: &str) -> Result<Vec<Row>, WmiError> {
        let next = self.next(wql);
        assert_eq!(next.query.as_deref(), Some(wql), "{}", self.operation);
        assert_eq!(next.namespace, format!("{namespace:?}"), "{wql}");
        next.refused.map_or_else(|| Ok(next.rows.iter().map(row).collect()), |code| Err(WmiError::Com(code)))
    }

    fn exec(&self, on: On<'_>, call: Call, arguments: &[(&'static str, Value)]) -> Result<Row, WmiError> {
        let next = self.next(call.name());
        let on = match on {
            On::Class => "class",
            On::Object(path) => path.0.as_str(),
        };
        let sent = (Some(call.name()), Some(on), format!("{:?}", call.class().namespace()));
        assert_eq!(sent, (next.exec.as_deref(), next.on.as_deref(), next.namespace.clone()), "{}", self.operation);
        let arguments: Vec<_> = arguments.iter().map(argument).collect();
        assert_eq!(arguments, next.arguments, "{} in {}", call.name(), self.operation);
        next.refused.map_or_else(|| Ok(row(&next.returns)), |code| Err(WmiError::Com(code)))
    }
}

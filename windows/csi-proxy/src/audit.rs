//! Audit records of calls: the client, the request and the outcome.
//!
//! Each call has exactly one record with its outcome, `"event":"call"`. A mutating call also has a record before it
//! begins, `"event":"begin"` with the same `id`. Begin records show which calls a crash has interrupted.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::log_files::{Output, now};
use crate::peer::Peer;

/// A destination of audit records. A failed write must not fail the call.
pub trait AuditSink: Send + Sync {
    fn record(&self, line: &str);
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Asked {
    pub(crate) group: &'static str,
    pub(crate) version: String,
    pub(crate) method: String,
    /// The fields of the request with secrets hidden, or null if the request could not be decoded.
    pub(crate) request: Value,
    #[serde(serialize_with = "peer")]
    pub(crate) client: Arc<Peer>,
}

fn peer<S: serde::Serializer>(client: &Peer, serializer: S) -> Result<S::Ok, S::Error> {
    client.serialize(serializer)
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outcome {
    pub(crate) code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) native: Option<String>,
}

pub(crate) struct Audit {
    sinks: Vec<Box<dyn AuditSink>>,
    next: AtomicU64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    time: String,
    event: &'static str,
    id: u64,
    #[serde(flatten)]
    asked: &'a Asked,
    #[serde(flatten)]
    outcome: Option<&'a Outcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    milliseconds: Option<u64>,
}

impl Audit {
    pub(crate) fn new(sinks: Vec<Box<dyn AuditSink>>) -> Self {
        Self { sinks, next: AtomicU64::new(1) }
    }

    pub(crate) fn id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn begin(&self, id: u64, asked: &Asked) {
        self.write(&Record { time: now(), event: "begin", id, asked, outcome: None, milliseconds: None });
    }

    pub(crate) fn end(&self, id: u64, asked: &Asked, outcome: &Outcome, took: Duration) {
        let milliseconds = Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        let time = now();
        self.write(&Record { time, event: "call", id, asked, outcome: Some(outcome), milliseconds });
    }

    fn write(&self, record: &Record<'_>) {
        if self.sinks.is_empty() {
            return;
        }
        let line = serde_json::to_string(record).expect("a record has text keys and plain values");
        self.sinks.iter().for_each(|sink| sink.record(&line));
    }
}

#[derive(Debug)]
pub struct IntoLog(pub Output);

impl AuditSink for IntoLog {
    fn record(&self, line: &str) {
        self.0.json_line(line);
    }
}

#[derive(Debug)]
pub struct IntoFile {
    file: Mutex<File>,
    log: Output,
}

impl IntoFile {
    pub fn open(path: &Path, log: Output) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { file: Mutex::new(file), log })
    }
}

impl AuditSink for IntoFile {
    fn record(&self, line: &str) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(format!("{line}\n").as_bytes()) {
            tracing::error!(%error, "failed to write a record to the audit log");
            self.log.json_line(line);
        }
    }
}

//! Records of calls: who has asked for what, and what came of it.
//!
//! Each call leaves exactly one record with its outcome, `"event":"call"`. A call that changes something is announced before
//! it begins, `"event":"begin"` with the same `id`, so that what a crash interrupts is known.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use klog::{Date, Output};
use serde::Serialize;
use serde_json::Value;

use crate::peer::Peer;

/// Where records go. Writing must not fail a call.
pub trait AuditSink: Send + Sync {
    /// Takes one line, without its end.
    fn record(&self, line: &str);
}

/// What is known of a call before it begins.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Asked {
    pub(crate) group: &'static str,
    pub(crate) version: String,
    pub(crate) method: String,
    /// The request's fields, secrets hidden; nothing where it could not be read.
    pub(crate) request: Value,
    #[serde(serialize_with = "peer")]
    pub(crate) client: Arc<Peer>,
}

fn peer<S: serde::Serializer>(client: &Peer, serializer: S) -> Result<S::Ok, S::Error> {
    client.serialize(serializer)
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outcome {
    pub(crate) code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// What Windows itself answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) native: Option<String>,
}

/// The records of this process.
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

    /// The number of a new call.
    pub(crate) fn id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// A call that changes something is about to begin.
    pub(crate) fn begin(&self, id: u64, asked: &Asked) {
        self.write(&Record {
            time: Date::now().to_string(),
            event: "begin",
            id,
            asked,
            outcome: None,
            milliseconds: None,
        });
    }

    /// A call has ended.
    pub(crate) fn end(&self, id: u64, asked: &Asked, outcome: &Outcome, took: Duration) {
        let milliseconds = Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        let time = Date::now().to_string();
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

/// Records among the lines of the log.
#[derive(Debug)]
pub struct IntoLog(pub Output);

impl AuditSink for IntoLog {
    fn record(&self, line: &str) {
        self.0.json_line(line);
    }
}

/// Records in a file of their own.
#[derive(Debug)]
pub struct IntoFile {
    file: Mutex<File>,
    log: Output,
}

impl IntoFile {
    /// Appends to the file; what it does not take goes to `log`.
    ///
    /// # Errors
    ///
    /// That of opening it.
    pub fn open(path: &Path, log: Output) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { file: Mutex::new(file), log })
    }
}

impl AuditSink for IntoFile {
    fn record(&self, line: &str) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(format!("{line}\n").as_bytes()) {
            tracing::error!(%error, "a record of a call could not be written to its file");
            self.log.json_line(line);
        }
    }
}

//! An independent collector of traces: `tests/acceptance/otlp-receiver`, which uses OpenTelemetry's own protocol code
//! for Go.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::process::{Process, ProcessSpec, program};

pub const PROGRAM: &str = "EBS_TEST_OTLP_RECEIVER";

/// Time limit for the collector's start and for the arrival of spans, on a busy machine.
const BOUND: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub struct Collector {
    process: Process,
    /// The address of the collector, for example `127.0.0.1:4317`.
    pub address: String,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Message {
    pub headers: BTreeMap<String, Vec<String>>,
    pub resource: BTreeMap<String, String>,
    pub spans: Vec<SpanSeen>,
}

/// A span, with ids in hexadecimal and attribute values as text.
#[derive(Debug, Clone, Deserialize)]
pub struct SpanSeen {
    pub name: String,
    pub kind: String,
    pub trace: String,
    pub id: String,
    /// Id of the parent span; empty for the first span of a trace.
    pub parent: String,
    pub state: String,
    pub attributes: BTreeMap<String, String>,
    pub failed: bool,
    pub message: String,
    pub nanos: u64,
}

impl Collector {
    /// Starts a collector that writes into `dir`, with these arguments (`-hang`, or `-cert` and `-key`).
    pub async fn start(dir: &Path, args: &[&str]) -> anyhow::Result<Self> {
        let process = Process::spawn(ProcessSpec {
            name: "collector".to_owned(),
            program: program(PROGRAM)?,
            args: args.iter().map(OsString::from).collect(),
            env: BTreeMap::new(),
            log: dir.join("collector.log"),
        })?;
        let mut collector = Self { process, address: String::new() };
        let address = |log: &str| log.split_once('\n').map(|(first, _)| first.to_owned());
        collector.address = collector.until("its address", address).await?;
        Ok(collector)
    }

    pub fn messages(&self) -> anyhow::Result<Vec<Message>> {
        messages(&self.process.output()?)
    }

    pub fn output(&self) -> anyhow::Result<String> {
        Ok(self.process.output()?)
    }

    /// Waits for a span with this name and attribute.
    pub async fn span(&self, name: &str, attribute: (&str, &str)) -> anyhow::Result<SpanSeen> {
        let wanted = |span: &SpanSeen| {
            span.name == name && span.attributes.get(attribute.0).is_some_and(|value| value == attribute.1)
        };
        let found = |log: &str| messages(log).ok()?.into_iter().flat_map(|message| message.spans).find(wanted);
        self.until(&format!("a span {name} with {attribute:?}"), found).await
    }

    async fn until<T>(&self, what: &str, found: impl Fn(&str) -> Option<T>) -> anyhow::Result<T> {
        let mut tick = tokio::time::interval(Duration::from_millis(25));
        let deadline = tokio::time::Instant::now() + BOUND;
        loop {
            tick.tick().await;
            let log = self.process.output()?;
            if let Some(found) = found(&log) {
                return Ok(found);
            }
            if tokio::time::Instant::now() > deadline {
                bail!("{what}: not received by the collector within {BOUND:?}; its log:\n{log}");
            }
        }
    }
}

/// Parses the complete lines after the first line, which contains the address.
fn messages(log: &str) -> anyhow::Result<Vec<Message>> {
    let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().skip(1).map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}

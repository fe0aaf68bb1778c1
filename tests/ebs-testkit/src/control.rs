//! A client of the simulator's control API: its calls, its state and its timing.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The time limit of a response. The simulator is on this machine, which may be busy.
const ANSWER_BOUND: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub struct Control {
    base: String,
    http: Client<HttpConnector, Full<Bytes>>,
}

/// EC2 calls since a position.
#[derive(Debug, Clone, Deserialize)]
pub struct Ledger {
    /// The position of the next read.
    pub next: u64,
    /// The calls, oldest first.
    pub calls: Vec<Call>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Call {
    pub seq: u64,
    pub action: String,
    #[serde(default)]
    pub parameters: BTreeMap<String, Value>,
    /// `ok`, or the error code of EC2.
    pub outcome: String,
    #[serde(default)]
    pub dry_run: bool,
    /// Service time in EC2 in milliseconds, if the simulator reports it.
    #[serde(default, rename = "ms")]
    pub service_ms: Option<f64>,
}

impl Call {
    /// Returns whether the call succeeded and was not a dry run.
    pub fn did_work(&self) -> bool {
        self.outcome == "ok" && !self.dry_run
    }

    pub fn is_read(&self) -> bool {
        self.action.starts_with("Describe")
    }
}

impl Ledger {
    /// Counts the successful calls of an action.
    pub fn done(&self, action: &str) -> usize {
        self.calls.iter().filter(|call| call.action == action && call.did_work()).count()
    }

    /// Returns the mutating calls, also failed ones, without dry runs.
    pub fn mutations(&self) -> Vec<&Call> {
        self.calls.iter().filter(|call| !call.is_read() && !call.dry_run).collect()
    }

    /// Formats the number of calls by action: `CreateVolume 1, DescribeVolumes 2`.
    pub fn summary(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for call in &self.calls {
            *counts.entry(&call.action).or_default() += 1;
        }
        let parts: Vec<String> = counts.into_iter().map(|(action, n)| format!("{action} {n}")).collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
    }
}

#[derive(Debug, Clone, Deserialize)]
pub struct State {
    /// All volumes, including those in state `deleting`.
    pub volumes: Vec<SimVolume>,
    pub snapshots: Vec<SimSnapshot>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct SimVolume {
    pub id: String,
    /// `creating`, `available`, `in-use`, `deleting` or `deleted`.
    pub state: String,
    pub size_gib: u64,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    #[serde(default)]
    pub attachments: Vec<SimAttachment>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct SimAttachment {
    pub instance: String,
    /// The device name in EC2's mapping.
    pub device: String,
    /// `attaching`, `attached`, `detaching`, `busy`.
    pub state: String,
    /// The loop device of the attachment, if it is on this machine.
    #[serde(rename = "loop")]
    pub loop_device: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct SimSnapshot {
    pub id: String,
    /// `pending`, `completed` or `error`.
    pub state: String,
    #[serde(default)]
    pub volume: Option<String>,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}

impl State {
    pub fn volume(&self, id: &str) -> Option<&SimVolume> {
        self.volumes.iter().find(|volume| volume.id == id)
    }

    /// Returns the volumes that are neither deleted nor being deleted.
    pub fn live_volumes(&self) -> Vec<&SimVolume> {
        self.volumes.iter().filter(|volume| !volume.state.starts_with("delet")).collect()
    }

    /// Returns the live volumes with this name in the driver's tag.
    pub fn volumes_named(&self, name: &str) -> Vec<&SimVolume> {
        let named = |volume: &&SimVolume| volume.tags.get("CSIVolumeName").is_some_and(|tag| tag == name);
        self.live_volumes().into_iter().filter(named).collect()
    }
}

/// Delays of EC2 in milliseconds. A missing field keeps its value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Timing {
    /// From CreateVolume to `available`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_ms: Option<u64>,
    /// From AttachVolume to `attached`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attach_ms: Option<u64>,
    /// From DetachVolume to `available`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detach_ms: Option<u64>,
    /// From CreateSnapshot to `completed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_ms: Option<u64>,
    /// From ModifyVolume to `optimizing`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modify_ms: Option<u64>,
}

impl Control {
    /// Creates a client for the control API at `base` (`http://127.0.0.1:PORT`).
    pub fn new(base: &str) -> Self {
        // A connection per request: the simulator may close an idle one at the moment of its next use.
        let http = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http();
        Self { base: base.trim_end_matches('/').to_owned(), http }
    }

    /// Returns the calls with a number of at least `since`.
    pub async fn ledger(&self, since: u64) -> anyhow::Result<Ledger> {
        self.get(&format!("/ledger?since={since}")).await
    }

    /// Returns the end of the ledger. Later calls are read with `ledger(position)`.
    pub async fn position(&self) -> anyhow::Result<u64> {
        Ok(self.ledger(u64::MAX).await?.next)
    }

    pub async fn state(&self) -> anyhow::Result<State> {
        self.get("/state").await
    }

    pub async fn set_timing(&self, timing: Timing) -> anyhow::Result<()> {
        let body = serde_json::to_vec(&timing).context("write the timing")?;
        self.call(http::Method::PUT, "/timing", body).await.map(drop)
    }

    /// Advances EC2's clock: all transitions that are due by then have happened before the next call.
    pub async fn advance(&self, time: Duration) -> anyhow::Result<()> {
        let body = json!({ "ms": milliseconds(time)? }).to_string().into_bytes();
        self.call(http::Method::POST, "/advance", body).await.map(drop)
    }

    /// Simulates another client of the account that uses this fraction of every rate budget, above 0 and at most 1.
    pub async fn compete(&self, fraction: f64) -> anyhow::Result<()> {
        self.add_fault(json!({ "name": "competitor", "effect": { "kind": "eat", "fraction": fraction } })).await
    }

    /// Makes EC2 throttle every call in this interval, measured from now, whatever its buckets hold.
    pub async fn throttle_all(&self, from: Duration, until: Duration) -> anyhow::Result<()> {
        let (from, until) = (milliseconds(from)?, milliseconds(until)?);
        let throttle = json!({ "kind": "throttle" });
        self.add_fault(json!({ "name": "storm", "from_ms": from, "until_ms": until, "effect": throttle })).await
    }

    /// Makes EC2 fail every call with this error, without any effect, until the faults are cleared. `status` is the
    /// HTTP status, 400 to 599.
    pub async fn refuse_all(&self, code: &str, status: u16) -> anyhow::Result<()> {
        let effect = json!({ "kind": "error", "code": code, "status": status });
        self.add_fault(json!({ "name": "refusal", "effect": effect })).await
    }

    async fn add_fault(&self, rule: Value) -> anyhow::Result<()> {
        self.call(http::Method::POST, "/faults", rule.to_string().into_bytes()).await.map(drop)
    }

    /// Clears all faults and the competing client.
    pub async fn no_faults(&self) -> anyhow::Result<()> {
        self.call(http::Method::DELETE, "/faults", Vec::new()).await.map(drop)
    }

    /// Waits at most `bound` until `wanted` is true for EC2's state.
    pub async fn until(&self, bound: Duration, what: &str, wanted: impl Fn(&State) -> bool) -> anyhow::Result<State> {
        let deadline = tokio::time::Instant::now() + bound;
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        loop {
            tick.tick().await;
            let state = self.state().await?;
            if wanted(&state) {
                return Ok(state);
            }
            if tokio::time::Instant::now() > deadline {
                bail!("{what}: condition not met within {bound:?}; EC2 has {state:?}");
            }
        }
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let body = self.call(http::Method::GET, path, Vec::new()).await?;
        serde_json::from_slice(&body)
            .with_context(|| format!("parse the simulator's {path}: {}", String::from_utf8_lossy(&body)))
    }

    async fn call(&self, method: http::Method, path: &str, body: Vec<u8>) -> anyhow::Result<Bytes> {
        let uri = format!("{}{path}", self.base);
        let request = http::Request::builder()
            .method(method)
            .uri(&uri)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .with_context(|| format!("a request for {uri}"))?;
        let exchange = async {
            let response = self.http.request(request).await?;
            let status = response.status();
            anyhow::Ok((status, response.into_body().collect().await?.to_bytes()))
        };
        let answer = tokio::time::timeout(ANSWER_BOUND, exchange).await;
        let (status, body) = answer.with_context(|| format!("{uri}: no reply within {ANSWER_BOUND:?}"))??;
        if !status.is_success() {
            bail!("{uri} returned {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(body)
    }
}

fn milliseconds(time: Duration) -> anyhow::Result<u64> {
    u64::try_from(time.as_millis()).context("a time in milliseconds")
}

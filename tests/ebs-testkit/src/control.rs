//! A client of the simulator's control API: its calls, its state and its timing.

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

pub use ebs_sim::engine::TimingOverride as Timing;
pub use ebs_sim::view::State;
pub use ebs_sim::{LedgerEntry as Call, LedgerPage as Ledger};

/// Time limit of a response. The simulator runs on this machine, which may be busy.
const ANSWER_BOUND: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub struct Control {
    base: String,
    http: Client<HttpConnector, Full<Bytes>>,
}

impl Control {
    /// Creates a client for the control API at `base` (`http://127.0.0.1:PORT`).
    pub fn new(base: &str) -> Self {
        // One connection per request: the simulator may close an idle connection at the moment of its next use.
        let http = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http();
        Self { base: base.trim_end_matches('/').to_owned(), http }
    }

    /// Returns the calls from position `since` on.
    pub async fn ledger(&self, since: u64) -> anyhow::Result<Ledger> {
        self.get(&format!("/ledger?since={since}")).await
    }

    /// Returns the end of the ledger, from which `ledger(position)` returns later calls.
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

    /// Advances EC2's clock. All transitions that become due take place before the next call.
    pub async fn advance(&self, time: Duration) -> anyhow::Result<()> {
        let body = json!({ "ms": milliseconds(time)? }).to_string().into_bytes();
        self.call(http::Method::POST, "/advance", body).await.map(drop)
    }

    /// Simulates another client of the account that uses this fraction of every rate budget, above 0 and at most 1.
    pub async fn compete(&self, fraction: f64) -> anyhow::Result<()> {
        self.add_fault(json!({ "name": "competitor", "effect": { "kind": "eat", "fraction": fraction } })).await
    }

    /// Makes EC2 throttle every call in this interval, measured from now, whatever tokens its buckets hold.
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

    /// Makes EC2 accept only this key. Requests with the previous key get `RequestExpired`.
    pub async fn set_access_key(&self, id: &str, secret: &str, session_token: &str) -> anyhow::Result<()> {
        let key = json!({ "id": id, "secret": secret, "session_token": session_token });
        self.call(http::Method::PUT, "/access-key", key.to_string().into_bytes()).await.map(drop)
    }

    async fn add_fault(&self, rule: Value) -> anyhow::Result<()> {
        self.call(http::Method::POST, "/faults", rule.to_string().into_bytes()).await.map(drop)
    }

    /// Clears all faults and the competing client.
    pub async fn no_faults(&self) -> anyhow::Result<()> {
        self.call(http::Method::DELETE, "/faults", Vec::new()).await.map(drop)
    }

    /// Waits at most `bound` until `wanted` returns true for EC2's state.
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

    /// Starts instances through the EC2 API at `ec2` (`http://127.0.0.1:PORT`), at most 1,000 at a time.
    pub async fn run_instances(&self, ec2: &str, count: u32, instance_type: &str, zone: &str) -> anyhow::Result<()> {
        let query = format!(
            "/?Action=RunInstances&Version=2016-11-15&ImageId=ami-0&MinCount={count}&MaxCount={count}\
             &InstanceType={instance_type}&Placement.AvailabilityZone={zone}"
        );
        Self::new(ec2).call(http::Method::GET, &query, Vec::new()).await.map(drop)
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

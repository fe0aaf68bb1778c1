//! A simulator that is killed repeatedly at random moments never forgets a confirmed change.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::child::simulator;
use crate::support::request::json;
use crate::support::{element, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio::task::JoinSet;

const ROUNDS: usize = 8;
const CLIENTS: u64 = 4;

/// A ready simulator process and its addresses.
struct Running {
    child: Child,
    env: BTreeMap<String, String>,
}

impl Running {
    async fn start(dir: &Path) -> Self {
        let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
        let env_file = dir.join("env");
        let _none = std::fs::remove_file(&env_file);
        let child = simulator(&["--state-dir", &path("state"), "--env-file", &path("env"), "--devices", "none"]);
        let env = until("the env file", async || read_env(env_file.clone())).await;
        Self { child, env }
    }

    fn ec2(&self) -> String {
        self.env["AWS_EC2_ENDPOINT"].strip_prefix("http://").unwrap().to_owned()
    }

    async fn state(&self) -> serde_json::Value {
        json(&self.env["EBS_SIM_CONTROL"], "/state").await
    }
}

fn read_env(file: PathBuf) -> Option<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(file).ok()?;
    let pairs = text.lines().filter_map(|line| line.strip_prefix("export ")?.split_once('='));
    Some(pairs.map(|(name, value)| (name.to_owned(), value.trim_matches('\'').to_owned())).collect())
}

/// Makes a call and returns its reply, or `None` when the connection broke before its end.
async fn call(host: &str, form: &str) -> Option<String> {
    let form = format!("{form}&Version=2016-11-15");
    let head =
        format!("POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", form.len());
    let mut stream = TcpStream::connect(host).await.ok()?;
    stream.write_all(format!("{head}{form}").as_bytes()).await.ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.ok()?;
    let text = String::from_utf8(bytes).ok()?;
    text.trim_end().ends_with('>').then_some(text)
}

/// Results that were confirmed to one client until the simulator was killed.
#[derive(Debug, Default)]
struct Confirmed {
    /// Volumes with their last confirmed tag.
    volumes: BTreeMap<String, u64>,
    /// Volumes that are deleted or may be.
    deleted: BTreeSet<String>,
    confirmed_deletions: BTreeSet<String>,
    calls: usize,
}

/// Makes calls until the simulator is killed. `answered` counts the calls of all clients.
async fn client(host: String, name: String, answered: Arc<AtomicUsize>) -> Confirmed {
    let mut confirmed = Confirmed::default();
    for n in 0_u64.. {
        let create = format!("Action=CreateVolume&AvailabilityZone=us-west-2a&Size=1&ClientToken={name}-{n}");
        let Some(reply) = call(&host, &create).await else { break };
        let id = element(&reply, "volumeId").unwrap_or_else(|| panic!("{reply}")).to_owned();
        confirmed.volumes.insert(id.clone(), u64::MAX);
        confirmed.calls += 1;
        answered.fetch_add(1, Ordering::Relaxed);
        let tag = format!("Action=CreateTags&ResourceId.1={id}&Tag.1.Key=n&Tag.1.Value={n}");
        let Some(reply) = call(&host, &tag).await else { break };
        assert!(reply.contains("<return>true</return>"), "{reply}");
        confirmed.volumes.insert(id.clone(), n);
        confirmed.calls += 1;
        answered.fetch_add(1, Ordering::Relaxed);
        if n % 3 == 0 {
            confirmed.deleted.insert(id.clone());
            let Some(reply) = call(&host, &format!("Action=DeleteVolume&VolumeId={id}")).await else { break };
            assert!(reply.contains("<return>true</return>"), "{reply}");
            confirmed.confirmed_deletions.insert(id);
            confirmed.calls += 1;
            answered.fetch_add(1, Ordering::Relaxed);
        }
    }
    confirmed
}

/// The confirmed changes are volumes, tags, deletions and the ledger.
#[tokio::test]
async fn killed_simulator_forgets_no_confirmed_change() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = Running::start(dir.path()).await;
    let mut calls = 0;
    for round in 0..ROUNDS {
        let (mut clients, answered) = (JoinSet::new(), Arc::<AtomicUsize>::default());
        for n in 0..CLIENTS {
            clients.spawn(client(running.ec2(), format!("c{round}-{n}"), Arc::clone(&answered)));
        }
        // Another moment each time: early in the round, in the middle of it, after several saves.
        let moment = 1 + round * round * 5;
        let reached = async || (answered.load(Ordering::Relaxed) >= moment).then_some(());
        until("the clients got on with their work", reached).await;
        running.child.kill().await.unwrap();
        let confirmed: Vec<Confirmed> = clients.join_all().await;
        running = Running::start(dir.path()).await;
        let state = running.state().await;
        let found: BTreeMap<&str, &serde_json::Value> =
            state["volumes"].as_array().unwrap().iter().map(|v| (v["id"].as_str().unwrap(), v)).collect();
        for confirmed in confirmed {
            calls += confirmed.calls;
            for (id, tag) in &confirmed.volumes {
                if confirmed.deleted.contains(id) {
                    continue;
                }
                let volume = found.get(id.as_str()).unwrap_or_else(|| panic!("round {round}: {id} is forgotten"));
                if *tag != u64::MAX {
                    assert_eq!(volume["tags"]["n"], tag.to_string(), "round {round}: a tag of {id} is forgotten");
                }
            }
            for id in &confirmed.confirmed_deletions {
                assert!(!found.contains_key(id.as_str()), "round {round}: {id} has come back");
            }
        }
    }
    let ledger = json(&running.env["EBS_SIM_CONTROL"], "/ledger?since=0").await;
    let kept = ledger["calls"].as_array().unwrap();
    assert!(kept.len() >= calls, "{} calls were answered, {} are in the ledger", calls, kept.len());
    assert!(kept.iter().enumerate().all(|(n, call)| call["seq"] == n), "numbered without gaps");
}

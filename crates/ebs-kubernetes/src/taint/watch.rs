//! Follows the state of the driver's own Node with a list and a watch of this single object.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use tokio::sync::watch::Sender;
use tokio::time::Instant;

use super::{Seen, TaintRemoval};
use crate::failure::{Failure, FailureKind};
use crate::object::NodeObject;

/// How long one watch lasts. The driver then lists the Node again, in case an event was lost.
const WATCH_SECONDS: u32 = 290;
/// The pause between a watch and the next list.
const AGAIN: Duration = Duration::from_secs(1);
/// The longest pause after a failure.
const LONGEST: Duration = Duration::from_secs(30);
/// How often to read the Node if the account may not watch it.
const POLL: Duration = Duration::from_secs(10);
/// How often to read the Node once a start-up taint is unlikely, if the account may not watch it.
const SELDOM: Duration = Duration::from_secs(60);

pub(super) struct Watcher {
    nodes: Api<NodeObject>,
    node: String,
    eager_until: Instant,
}

impl Watcher {
    pub(super) fn new(taint: &TaintRemoval, eager_until: Instant) -> Self {
        Self { nodes: Api::all(taint.cluster.client()), node: taint.node.clone(), eager_until }
    }

    /// Reports the state of the Node. Never returns.
    pub(super) async fn run(self, seen: &Sender<Seen>) {
        let mut wait = AGAIN;
        let mut said: Option<FailureKind> = None;
        loop {
            let began = Instant::now();
            match self.list_and_watch(seen).await {
                Ok(()) => (wait, said) = (AGAIN, None),
                Err(failure) if failure.is_denied() => {
                    if said.replace(failure.kind) != Some(failure.kind) {
                        let node = &self.node;
                        tracing::info!(node, %failure, "no permission to list and watch this Node, polling it instead");
                    }
                    self.read(seen).await;
                    wait = if Instant::now() < self.eager_until { POLL } else { SELDOM };
                }
                Err(failure) => {
                    if said.replace(failure.kind) != Some(failure.kind) {
                        tracing::info!(node = self.node, %failure, "watch of this Node failed, restarting it");
                    }
                    // If the watch lasted for a while, this failure is a new one: use the shortest pause.
                    wait = if began.elapsed() > LONGEST { AGAIN } else { (wait * 2).min(LONGEST) };
                }
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Lists the Node and watches it until the watch ends. Returns `Ok` if the watch ended normally.
    async fn list_and_watch(&self, seen: &Sender<Seen>) -> Result<(), Failure> {
        let selector = format!("metadata.name={}", self.node);
        // Let the server answer from its cache: after an outage, 5,000 nodes may list at once and must not read etcd.
        let list = ListParams::default().fields(&selector).match_any();
        let list = self.nodes.list(&list).await?;
        let version = list.metadata.resource_version.unwrap_or_default();
        tell(seen, list.items.into_iter().next().map_or(Seen::Absent, Seen::node));

        let params = WatchParams::default().fields(&selector).timeout(WATCH_SECONDS);
        let mut events = pin!(self.nodes.watch(&params, &version).await?);
        while let Some(event) = events.next().await {
            match event? {
                WatchEvent::Added(node) | WatchEvent::Modified(node) => tell(seen, Seen::node(node)),
                WatchEvent::Deleted(_) => tell(seen, Seen::Absent),
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(status) => {
                    let failure = Failure::of(&kube::Error::Api(status));
                    // If the resource version was too old, the next list returns a newer one.
                    return if failure.kind == FailureKind::Expired { Ok(()) } else { Err(failure) };
                }
            }
        }
        Ok(())
    }

    async fn read(&self, seen: &Sender<Seen>) {
        match self.nodes.get_opt(&self.node).await {
            Ok(node) => tell(seen, node.map_or(Seen::Absent, Seen::node)),
            Err(error) => tracing::debug!(node = self.node, failure = %Failure::of(&error), "failed to read this Node"),
        }
    }
}

/// Wakes the remover only if the taints or the uid have changed, because a kubelet updates its Node all the time.
fn tell(seen: &Sender<Seen>, now: Seen) {
    seen.send_if_modified(|before| {
        let differs = *before != now;
        *before = now;
        differs
    });
}

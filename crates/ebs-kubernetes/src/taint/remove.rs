//! Removes the taint once the driver is registered, and retries failures.

use std::time::Duration;

use ebs_ec2::SplitMix64;
use http::Request;
use http::header::CONTENT_TYPE;
use k8s_openapi::api::storage::v1::CSINode;
use kube::api::Api;
use kube::{Client, Resource};
use tokio::sync::watch::{Receiver, Sender};
use tokio::time::Instant;

use super::patch::Removal;
use super::{Seen, TaintRemoval};
use crate::failure::{Failure, FailureKind};
use crate::object::NodeObject;

const FIRST: Duration = Duration::from_secs(2);
/// The longest pause while a taint is likely. Each pause is 1.5 times as long as the previous one.
const LONGEST: Duration = Duration::from_secs(15);
/// The longest pause once a taint is no longer likely, or if the process lacks rights.
const SELDOM: Duration = Duration::from_secs(60);
/// The shortest pause. A change of the Node ends a longer pause early, but not before this time.
const SHORTEST: Duration = Duration::from_secs(1);
/// How many times one attempt reads the Node again because it has changed.
const READS: usize = 3;

pub(super) struct Remover {
    client: Client,
    nodes: Api<NodeObject>,
    csi_nodes: Api<CSINode>,
    node: String,
    driver: String,
    key: String,
    eager_until: Instant,
    random: SplitMix64,
}

#[derive(Debug, PartialEq, Eq)]
enum Attempt {
    /// The taint or the Node no longer exists.
    Gone,
    /// The kubelet has not registered the driver yet.
    NotRegistered,
    /// The Node kept changing, or another Node replaced it.
    Changing,
    Failed(Failure),
}

impl Remover {
    pub(super) fn new(taint: &TaintRemoval, eager_until: Instant) -> Self {
        let client = taint.cluster.client();
        let seed = taint.node.bytes().fold(0, |seed, byte| seed * 31 % 1_000_000_007 + u64::from(byte));
        Self {
            nodes: Api::all(client.clone()),
            csi_nodes: Api::all(client.clone()),
            client,
            node: taint.node.clone(),
            driver: taint.driver.as_str().to_owned(),
            key: taint.key(),
            eager_until,
            random: SplitMix64::new(seed),
        }
    }

    /// Removes the taint whenever the Node has it. Never returns.
    pub(super) async fn run(mut self, seen: &Sender<Seen>) {
        let mut changes = seen.subscribe();
        loop {
            let removal = changes.borrow_and_update().removal(&self.key);
            match removal {
                Some(removal) => self.until_gone(removal, seen, &mut changes).await,
                None => wait_for(&mut changes).await,
            }
        }
    }

    async fn until_gone(&mut self, mut removal: Removal, seen: &Sender<Seen>, changes: &mut Receiver<Seen>) {
        let mut wait = FIRST;
        let mut said = None;
        loop {
            let attempt = self.attempt(removal.clone()).await;
            if attempt == Attempt::Gone {
                // Forget the last state: if the same taint is set again, a watcher that only polls must report it.
                seen.send_if_modified(|now| {
                    let is_old = now.removal(&self.key).as_ref() == Some(&removal);
                    if is_old {
                        *now = Seen::Unknown;
                    }
                    is_old
                });
                return;
            }
            self.say(&attempt, &mut said);
            let is_eager =
                Instant::now() < self.eager_until && !matches!(&attempt, Attempt::Failed(f) if f.is_denied());
            let longest = if is_eager { LONGEST } else { SELDOM };
            self.pause(wait.min(longest), changes).await;
            wait = (wait * 3 / 2).min(longest);
            match changes.borrow_and_update().removal(&self.key) {
                Some(next) => removal = next,
                None => return,
            }
        }
    }

    async fn attempt(&self, mut removal: Removal) -> Attempt {
        match self.is_registered(&removal.uid).await {
            Ok(true) => {}
            Ok(false) => return Attempt::NotRegistered,
            Err(failure) => return Attempt::Failed(failure),
        }
        for _ in 0..READS {
            let Err(failure) = self.patch(&removal).await else {
                let (node, taint, remaining) = (&self.node, &self.key, removal.remaining());
                tracing::info!(node, taint, remaining, "start-up taint removed");
                return Attempt::Gone;
            };
            if !matches!(failure.kind, FailureKind::Stale | FailureKind::NotFound) {
                return Attempt::Failed(failure);
            }
            match self.nodes.get_opt(&self.node).await {
                Ok(None) => return Attempt::Gone,
                Ok(Some(node)) => match Seen::node(node).removal(&self.key) {
                    None => return Attempt::Gone,
                    // Another Node has this name now: first check whether the driver is registered on that Node.
                    Some(next) if next.uid != removal.uid => return Attempt::Changing,
                    // The Node has not changed, so the patch did not fail its own test: an admission policy rejected
                    // it.
                    Some(next) if next == removal => {
                        return Attempt::Failed(Failure { kind: FailureKind::Denied, ..failure });
                    }
                    Some(next) => removal = next,
                },
                Err(error) => return Attempt::Failed(Failure::of(&error)),
            }
        }
        Attempt::Changing
    }

    /// Returns true if the CSINode belongs to this Node, not to a previous one, and has the driver's volume limit.
    async fn is_registered(&self, uid: &str) -> Result<bool, Failure> {
        let Some(csi_node) = self.csi_nodes.get_opt(&self.node).await? else { return Ok(false) };
        let mut owners = csi_node.metadata.owner_references.iter().flatten().filter(|owner| owner.kind == "Node");
        if owners.any(|owner| owner.uid != uid) {
            return Ok(false);
        }
        let driver = csi_node.spec.drivers.into_iter().find(|driver| driver.name == self.driver);
        Ok(driver.and_then(|driver| driver.allocatable?.count).is_some())
    }

    async fn patch(&self, removal: &Removal) -> Result<(), Failure> {
        let path = NodeObject::url_path(&(), None);
        let request = Request::patch(format!("{path}/{}", self.node))
            .header(CONTENT_TYPE, "application/json-patch+json")
            .body(removal.patch().to_string().into_bytes());
        let request = request.map_err(|error| Failure::of(&kube::Error::HttpError(error)))?;
        self.client.request_text(request).await?;
        Ok(())
    }

    /// Waits for this time plus a random part, which spreads the retries of many nodes after a shared outage. A change
    /// of the Node ends the wait early, but not before [`SHORTEST`].
    async fn pause(&mut self, wait: Duration, changes: &mut Receiver<Seen>) {
        let spread = Duration::from_millis(self.random.below(u64::try_from(wait.as_millis() / 4).unwrap_or(u64::MAX)));
        tokio::time::sleep(SHORTEST).await;
        tokio::select! {
            () = tokio::time::sleep((wait + spread).saturating_sub(SHORTEST)) => {}
            () = wait_for(changes) => {}
        }
    }

    /// Logs why the taint remains, once for each reason.
    fn say(&self, attempt: &Attempt, said: &mut Option<&'static str>) {
        let reason = match attempt {
            Attempt::Gone => return,
            Attempt::NotRegistered => "not registered",
            Attempt::Changing => "changing",
            Attempt::Failed(failure) if failure.is_denied() => "denied",
            Attempt::Failed(_) => "failed",
        };
        let is_new = said.replace(reason) != Some(reason);
        let (node, taint) = (&self.node, &self.key);
        match attempt {
            Attempt::Failed(failure) if failure.is_denied() && is_new => tracing::warn!(
                node, taint, %failure,
                "keeping the start-up taint: no permission to get the CSINode or patch the Node; the taint blocks pods \
                 until it is removed"
            ),
            Attempt::Failed(failure) if is_new => {
                tracing::warn!(node, taint, %failure, "failed to remove the start-up taint, retrying");
            }
            Attempt::NotRegistered if is_new => {
                tracing::info!(node, taint, "keeping the start-up taint until the kubelet has registered the driver");
            }
            other => tracing::debug!(node, taint, attempt = ?other, "keeping the start-up taint"),
        }
    }
}

async fn wait_for(changes: &mut Receiver<Seen>) {
    if changes.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

//! Waits until the cluster's VolumeAttachments list no volume of one driver on one node.
//!
//! Attachments cannot be selected by node or attacher. They are listed in pages, keeping only the names of the node's
//! own, and then watched from that version. A list from time to time compensates for a watch that sends no events.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use ebs_ec2::DriverName;
use futures_util::StreamExt;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};

use crate::Cluster;
use crate::failure::{Failure, FailureKind};
use crate::object::AttachmentObject;

/// Attachments per page, about 500 KiB.
const PAGE: u32 = 500;
/// How long to rely on a watch before listing all attachments again. The pod's grace period is half a minute.
const LIST_AGAIN: Duration = Duration::from_secs(10);
/// Time limit that the server sets on the watch. The client's limit is shorter.
const WATCH_SECONDS: u32 = 30;
/// The first pause after a failure.
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(5);

pub(super) struct Attachments {
    api: Api<AttachmentObject>,
    node: String,
    driver: String,
}

/// How a watch ended.
enum Watched {
    /// The watch has seen all own attachments deleted, or the list interval is over. Only a list confirms that none
    /// remains.
    ListNow,
    /// The server ended the watch.
    Ended,
}

/// The names of the node's own VolumeAttachments in one list, and its version.
struct Listed {
    own: BTreeSet<String>,
    version: String,
}

impl Attachments {
    pub(super) fn new(cluster: &Cluster, node: &str, driver: &DriverName) -> Self {
        Self { api: Api::all(cluster.client()), node: node.to_owned(), driver: driver.as_str().to_owned() }
    }

    /// Waits until a list contains none of them.
    pub(super) async fn until_none(&self) {
        let mut wait = FIRST;
        let mut said = None;
        loop {
            let ended = match self.list().await {
                Ok(listed) if listed.own.is_empty() => return,
                Ok(listed) => {
                    if said != Some(listed.own.len()) {
                        said = Some(listed.own.len());
                        tracing::info!(
                            node = self.node,
                            attached = listed.own.len(),
                            "volumes of this driver are still attached"
                        );
                    }
                    let watched = tokio::time::timeout(LIST_AGAIN, self.watch(listed)).await;
                    // The end of the list interval is not a failure.
                    watched.unwrap_or(Ok(Watched::ListNow))
                }
                Err(failure) => Err(failure),
            };
            match ended {
                Ok(Watched::ListNow) => wait = FIRST,
                Ok(Watched::Ended) => tokio::time::sleep(FIRST).await,
                Err(failure) if failure.kind == FailureKind::Expired => tokio::time::sleep(FIRST).await,
                Err(failure) => {
                    tracing::warn!(node = self.node, %failure, "reading the VolumeAttachments failed, retrying");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(LONGEST);
                }
            }
        }
    }

    async fn list(&self) -> Result<Listed, Failure> {
        let mut own = BTreeSet::new();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let list = self.api.list(&page).await?;
            own.extend(list.items.iter().filter(|object| self.is_own(object)).filter_map(name));
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = ListParams::default().limit(PAGE).continue_token(&token),
                None => return Ok(Listed { own, version: list.metadata.resource_version.unwrap_or_default() }),
            }
        }
    }

    /// Follows the changes until no own attachment is left or the watch ends.
    async fn watch(&self, listed: Listed) -> Result<Watched, Failure> {
        let Listed { mut own, version } = listed;
        let params = WatchParams::default().timeout(WATCH_SECONDS);
        let mut events = pin!(self.api.watch(&params, &version).await?);
        while let Some(event) = events.next().await {
            match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) if self.is_own(&object) => {
                    own.extend(name(&object));
                }
                WatchEvent::Deleted(object) => {
                    if let Some(name) = name(&object) {
                        own.remove(&name);
                    }
                }
                WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(status) => return Err(Failure::of(&kube::Error::Api(status))),
            }
            if own.is_empty() {
                return Ok(Watched::ListNow);
            }
        }
        Ok(Watched::Ended)
    }

    fn is_own(&self, object: &AttachmentObject) -> bool {
        object.spec.node_name == self.node && object.spec.attacher == self.driver
    }
}

fn name(object: &AttachmentObject) -> Option<String> {
    object.metadata.name.clone()
}

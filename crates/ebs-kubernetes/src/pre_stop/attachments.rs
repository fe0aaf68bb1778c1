//! Waits until the cluster's VolumeAttachments contain no volume of one driver on one node.
//!
//! The API cannot select attachments by node or attacher, so the hook lists all of them in pages and then watches them.
//! It lists them again from time to time, in case the watch sends no events.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use ebs_ec2::DriverName;
use futures_util::StreamExt;
use kube::api::Api;
use kube::runtime::watcher::{self, Event};
use tokio::time::{Instant, sleep, timeout_at};

use crate::Cluster;
use crate::failure::{Failure, FailureKind};
use crate::object::AttachmentObject;

/// The number of attachments per page. A page is about 500 KiB.
const PAGE: u32 = 500;
/// How long to rely on a watch before listing the attachments again. The pod's grace period is half a minute.
const LIST_AGAIN: Duration = Duration::from_secs(10);
/// The first pause after a failure.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(5);

pub(super) async fn until_none(cluster: &Cluster, node: &str, driver: &DriverName) {
    let mut said = None;
    loop {
        let config = watcher::Config::default().page_size(PAGE);
        let mut events = pin!(watcher::watcher(Api::<AttachmentObject>::all(cluster.client()), config));
        let (mut own, mut listed_at, mut wait) = (BTreeSet::new(), None, FIRST);
        // Leave the watch when it has reported the last deletion: only a new list confirms that no attachment remains.
        while listed_at.is_none() || !own.is_empty() {
            let event = match listed_at {
                Some(at) => timeout_at(at + LIST_AGAIN, events.next()).await.unwrap_or(None),
                None => events.next().await,
            };
            match event {
                None => break,
                Some(Ok(Event::Init)) => (own, listed_at) = (BTreeSet::new(), None),
                Some(Ok(Event::InitApply(object) | Event::Apply(object))) => {
                    if object.spec.node_name == node && object.spec.attacher == driver.as_str() {
                        own.insert(object.metadata.name);
                    }
                }
                Some(Ok(Event::Delete(object))) => drop(own.remove(&object.metadata.name)),
                Some(Ok(Event::InitDone)) if own.is_empty() => return,
                Some(Ok(Event::InitDone)) => {
                    (listed_at, wait) = (Some(Instant::now()), FIRST);
                    if said.replace(own.len()) != Some(own.len()) {
                        tracing::info!(node, attached = own.len(), "volumes of this driver are still attached");
                    }
                }
                Some(Err(error)) => {
                    let failure = Failure::of_watch(&error);
                    if failure.kind != FailureKind::Expired {
                        tracing::warn!(node, %failure, "failed to read the VolumeAttachments, retrying");
                    }
                    sleep(wait).await;
                    wait = (wait * 2).min(LONGEST);
                }
            }
        }
    }
}

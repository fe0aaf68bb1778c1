//! Keeps the roster up to date with watches on Nodes and PersistentVolumes, in pages, while this process is the leader.

use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::roster::Roster;
use crate::Failure;
use crate::object::{NodeObject, VolumeObject};

/// The number of objects per page. A Node can have tens of kilobytes.
const PAGE: u32 = 100;

/// The roster, and how its users learn about changes.
#[derive(Debug)]
pub(super) struct Watched {
    roster: Mutex<Roster>,
    changed: Notify,
}

impl Watched {
    pub(super) fn new(roster: Roster) -> Self {
        Self { roster: Mutex::new(roster), changed: Notify::new() }
    }

    pub(super) fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until both lists are complete and a node is due.
    pub(super) async fn until_due(&self) {
        loop {
            let next = {
                let roster = self.roster();
                roster.next_due().filter(|_| roster.is_complete())
            };
            match next {
                Some(next) if next <= Instant::now() => return,
                Some(next) => tokio::select! {
                    () = tokio::time::sleep_until(next) => {}
                    () = self.changed.notified() => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    /// Keeps the nodes up to date. Never returns: it restarts a failed watch after a pause.
    pub(super) async fn watch_nodes(&self, client: Client) {
        let keep = |roster: &mut Roster, event: &Event<NodeObject>| match event {
            Event::Init => roster.list_of_nodes_begins(),
            Event::InitApply(node) => roster.listed_node(node),
            Event::InitDone => roster.list_of_nodes_ends(),
            Event::Apply(node) => roster.changed_node(node),
            Event::Delete(node) => roster.deleted_node(node),
        };
        self.watch(Api::all(client), "Nodes", keep).await;
    }

    /// Keeps the PersistentVolumes up to date, as [`Self::watch_nodes`] does for nodes.
    pub(super) async fn watch_volumes(&self, client: Client) {
        let keep = |roster: &mut Roster, event: &Event<VolumeObject>| match event {
            Event::Init => roster.list_of_volumes_begins(),
            Event::InitApply(volume) => roster.listed_volume(volume),
            Event::InitDone => roster.list_of_volumes_ends(),
            Event::Apply(volume) => roster.changed_volume(volume),
            Event::Delete(volume) => roster.deleted_volume(volume),
        };
        self.watch(Api::all(client), "PersistentVolumes", keep).await;
    }

    async fn watch<K>(&self, api: Api<K>, what: &str, keep: impl Fn(&mut Roster, &Event<K>))
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let config = watcher::Config::default().page_size(PAGE);
        let mut events = std::pin::pin!(watcher::watcher(api, config).default_backoff());
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    keep(&mut self.roster(), &event);
                    self.changed.notify_one();
                }
                Err(error) => {
                    tracing::warn!(what, reason = %Failure::of_watch(&error), "watch failed, restarting it after a pause");
                }
            }
        }
    }
}

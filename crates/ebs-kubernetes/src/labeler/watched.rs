//! Keeps the roster up to date while this process leads, with paged lists and watches of Nodes and PersistentVolumes.

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

/// The number of objects per page. A Node object can be tens of kilobytes large.
const PAGE: u32 = 100;

/// The roster, and a notification of its changes.
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
            let next = self.roster().next_due();
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

    /// Keeps the roster up to date by watching one kind. Never returns: it restarts a failed watch after a pause.
    pub(super) async fn watch<K>(&self, client: Client, what: &str, apply: fn(&mut Roster, &Event<K>))
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let config = watcher::Config::default().page_size(PAGE);
        let mut events = std::pin::pin!(watcher::watcher(Api::<K>::all(client), config).default_backoff());
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    apply(&mut self.roster(), &event);
                    self.changed.notify_one();
                }
                Err(error) => {
                    tracing::warn!(what, reason = %Failure::of_watch(&error), "watch failed, restarting it after a pause");
                }
            }
        }
    }
}

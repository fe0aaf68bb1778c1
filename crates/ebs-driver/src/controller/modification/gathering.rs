//! The window in which requests for changes of one volume are gathered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ebs_types::Waiters;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::Change;
use super::merge::merged;
use crate::operation::Content;

/// What is not done when nobody waits is kept for those who come again: a client that waits for less than a window would
/// otherwise open one with each attempt. Longer than the pauses of sidecars, which grow to half an hour.
const FOR_THOSE_WHO_RETURN: Duration = Duration::from_secs(3600);

/// What an operation that gathers is for: one request, and those that have joined it.
#[derive(Clone)]
pub(super) struct Gathering {
    change: Change,
    window: Arc<Window>,
}

pub(super) struct Window {
    length: Duration,
    gathered: Mutex<Gathered>,
    /// Growth and another change are in: nothing more is expected.
    complete: Notify,
}

struct Gathered {
    changes: Vec<Change>,
    is_open: bool,
}

impl Gathering {
    /// For a window of that length, which begins when its operation does.
    pub(super) fn begun_by(change: Change, length: Duration) -> Self {
        let gathered = Mutex::new(Gathered { changes: vec![change.clone()], is_open: true });
        Self { change, window: Arc::new(Window { length, gathered, complete: Notify::new() }) }
    }

    pub(super) fn window(&self) -> Arc<Window> {
        Arc::clone(&self.window)
    }
}

impl Content for Gathering {
    fn same(&self, other: &Self) -> bool {
        self.window.gathered_now().changes.contains(&other.change)
    }

    fn takes_in(&self, other: &Self) -> bool {
        let mut gathered = self.window.gathered_now();
        if gathered.changes.contains(&other.change) {
            return true;
        }
        if !gathered.is_open || merged(gathered.changes.iter().chain([&other.change])).is_none() {
            return false;
        }
        gathered.changes.push(other.change.clone());
        if gathered.changes.iter().any(Change::is_growth) && !gathered.changes.iter().all(Change::is_growth) {
            self.window.complete.notify_one();
        }
        true
    }
}

/// Comes back when somebody waits. False: another operation is to run instead, or nobody has come back.
pub(super) async fn is_wanted(waiters: &Waiters) -> bool {
    tokio::select! {
        biased;
        () = waiters.superseded() => false,
        awaited = timeout(FOR_THOSE_WHO_RETURN, waiters.awaited()) => awaited.is_ok(),
    }
}

impl Window {
    /// All that was asked for, in the order in which it came, when the window is over and somebody waits. From then on
    /// nothing more is taken in. `None`: it is not wanted any more.
    pub(super) async fn gathered(&self, waiters: &Waiters) -> Option<Vec<Change>> {
        let is_wanted = tokio::select! {
            biased;
            () = waiters.superseded() => false,
            // Whether it was complete before its time makes no difference.
            _ = timeout(self.length, self.complete.notified()) => is_wanted(waiters).await,
        };
        let mut gathered = self.gathered_now();
        gathered.is_open = false;
        is_wanted.then(|| gathered.changes.clone())
    }

    fn gathered_now(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

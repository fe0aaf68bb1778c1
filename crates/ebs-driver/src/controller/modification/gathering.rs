//! The window in which requests for changes of one volume are gathered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ebs_types::Waiters;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::Change;
use super::merge::merged;
use crate::operation::Content;

/// How long a window stays over for the callers that come back: a client with a deadline shorter than a window would
/// otherwise open one with each attempt. Longer than the pauses of sidecars, which grow to half an hour.
const RETURN: Duration = Duration::from_secs(3600);

/// What an operation that gathers is for: one request, and those that have joined it.
#[derive(Clone)]
pub(super) struct Gathering {
    change: Change,
    caller: Weak<Caller>,
    window: Arc<Window>,
}

/// Held by a request for as long as it waits for its change.
#[derive(Default)]
pub(super) struct Caller(());

pub(super) struct Window {
    length: Duration,
    gathered: Mutex<Gathered>,
    /// Growth and another change are in: nothing more is expected.
    complete: Notify,
}

struct Gathered {
    changes: Vec<Wanted>,
    is_open: bool,
}

/// A change, and the requests for it.
struct Wanted {
    change: Change,
    callers: Vec<Weak<Caller>>,
}

impl Wanted {
    fn has_caller(&self) -> bool {
        self.callers.iter().any(|caller| caller.strong_count() > 0)
    }
}

impl Gathering {
    /// For a window of that length, which begins when its operation does.
    pub(super) fn new(change: Change, caller: &Arc<Caller>, length: Duration) -> Self {
        let caller = Arc::downgrade(caller);
        let first = Wanted { change: change.clone(), callers: vec![caller.clone()] };
        let gathered = Mutex::new(Gathered { changes: vec![first], is_open: true });
        Self { change, caller, window: Arc::new(Window { length, gathered, complete: Notify::new() }) }
    }

    pub(super) fn window(&self) -> Arc<Window> {
        Arc::clone(&self.window)
    }
}

impl Content for Gathering {
    fn same(&self, other: &Self) -> bool {
        self.window.lock().changes.iter().any(|wanted| wanted.change == other.change)
    }

    fn takes_in(&self, other: &Self) -> bool {
        let mut gathered = self.window.lock();
        if let Some(wanted) = gathered.changes.iter_mut().find(|wanted| wanted.change == other.change) {
            wanted.callers.retain(|caller| caller.strong_count() > 0);
            wanted.callers.push(other.caller.clone());
            return true;
        }
        let all = gathered.changes.iter().map(|wanted| &wanted.change);
        if !gathered.is_open || merged(all.chain([&other.change])).is_none() {
            return false;
        }
        gathered.changes.push(Wanted { change: other.change.clone(), callers: vec![other.caller.clone()] });
        let is_growth = |wanted: &Wanted| wanted.change.is_growth();
        if gathered.changes.iter().any(is_growth) && !gathered.changes.iter().all(is_growth) {
            self.window.complete.notify_one();
        }
        true
    }
}

impl Window {
    /// All changes that were asked for, in the order in which they came, once the window is over. From then on the window
    /// takes in no more. `None`: another operation is to run instead, or no caller has come back.
    pub(super) async fn gathered(&self, waiters: &Waiters) -> Option<Vec<Change>> {
        tokio::select! {
            biased;
            () = waiters.superseded() => return None,
            // Whether it was complete before its time makes no difference.
            _ = timeout(self.length, self.complete.notified()) => {}
        }
        if !waiters.any() {
            return self.returned(waiters).await;
        }
        let mut gathered = self.lock();
        gathered.is_open = false;
        Some(gathered.changes.iter().map(|wanted| wanted.change.clone()).collect())
    }

    /// Waits, when no caller waits, until one comes back; the changes that are asked for then. The others are dropped: their
    /// callers may have asked another driver meanwhile, and for something else. `None` as for [`Window::gathered`].
    pub(super) async fn returned(&self, waiters: &Waiters) -> Option<Vec<Change>> {
        tokio::select! {
            biased;
            () = waiters.superseded() => return None,
            awaited = timeout(RETURN, waiters.awaited()) => awaited.ok()?,
        }
        let mut gathered = self.lock();
        gathered.is_open = false;
        gathered.changes.retain(Wanted::has_caller);
        let changes: Vec<Change> = gathered.changes.iter().map(|wanted| wanted.change.clone()).collect();
        (!changes.is_empty()).then_some(changes)
    }

    fn lock(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

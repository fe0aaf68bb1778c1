//! The window that gathers requests for changes of one volume.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ebs_ec2::Waiters;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::Change;
use super::merge::merged;
use crate::operation::Content;
use crate::timeouts;

#[derive(Clone)]
pub(super) struct Gathering {
    change: Change,
    caller: Weak<Caller>,
    window: Arc<Window>,
}

/// A token that a request holds while it waits for its change. Dropping it notifies the window that gathered the
/// change.
#[derive(Default)]
pub(super) struct Caller(Mutex<Option<Arc<Notify>>>);

impl Caller {
    fn report_to(&self, callers_changed: &Arc<Notify>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(callers_changed));
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        if let Some(callers_changed) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner) {
            callers_changed.notify_one();
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    All,
    Some,
    None,
}

pub(super) struct Window {
    length: Duration,
    gathered: Mutex<Gathered>,
    /// Notified when the window has both an expansion and another change, so that it closes early.
    complete: Notify,
    callers_changed: Arc<Notify>,
}

struct Gathered {
    changes: Vec<Wanted>,
    is_open: bool,
}

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
    /// Creates a gathering with a new window, which stays open for `length` after the operation has started.
    pub(super) fn new(change: Change, caller: &Arc<Caller>, length: Duration) -> Self {
        let caller = Arc::downgrade(caller);
        let first = Wanted { change: change.clone(), callers: vec![caller.clone()] };
        let window = Window {
            length,
            gathered: Mutex::new(Gathered { changes: vec![first], is_open: true }),
            complete: Notify::new(),
            callers_changed: Arc::default(),
        };
        window.welcome(&caller);
        Self { change, caller, window: Arc::new(window) }
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
            self.window.welcome(&other.caller);
            return true;
        }
        let all = gathered.changes.iter().map(|wanted| &wanted.change);
        if !gathered.is_open || merged(all.chain([&other.change])).is_none() {
            return false;
        }
        gathered.changes.push(Wanted { change: other.change.clone(), callers: vec![other.caller.clone()] });
        self.window.welcome(&other.caller);
        let is_growth = |wanted: &Wanted| wanted.change.is_growth();
        if gathered.changes.iter().any(is_growth) && !gathered.changes.iter().all(is_growth) {
            self.window.complete.notify_one();
        }
        true
    }
}

impl Window {
    /// Waits until the window closes, then returns the changes whose callers still wait, in request order. If no caller
    /// waits, calls [`Window::returned`]. Returns `None` when superseded or when no caller returns.
    pub(super) async fn gathered(&self, waiters: &Waiters) -> Option<Vec<Change>> {
        tokio::select! {
            biased;
            () = waiters.superseded() => return None,
            _ = timeout(self.length, self.complete.notified()) => {}
        }
        if waiters.any() {
            return self.wanted();
        }
        self.returned(waiters).await
    }

    /// Waits for a caller to return, then up to the length of a window for the others. Drops the changes of callers
    /// that do not return, because they may have asked another driver for something else.
    pub(super) async fn returned(&self, waiters: &Waiters) -> Option<Vec<Change>> {
        let returned = async {
            timeout(timeouts::MODIFICATION_RETURN, waiters.awaited()).await.ok()?;
            let all = async {
                while self.presence() == Presence::Some {
                    self.callers_changed.notified().await;
                }
            };
            // Continue with the callers that have returned within the length of a window, even if others have not.
            let _all_or_not = timeout(self.length, all).await;
            self.wanted()
        };
        tokio::select! {
            biased;
            () = waiters.superseded() => None,
            changes = returned => changes,
        }
    }

    /// Runs `work` with waiters that report a caller only while every caller still waits, so `work` begins no mutation
    /// for a change whose caller has left. Asks `work` to end when some callers have left and others still wait.
    pub(super) async fn while_all_wait<F: Future>(
        &self,
        waiters: &Waiters,
        work: impl FnOnce(Waiters) -> F,
    ) -> F::Output {
        let round = Waiters::default();
        let watch = async {
            loop {
                let here = match self.presence() {
                    Presence::All => Some(round.join()),
                    Presence::None => None,
                    Presence::Some => break,
                };
                self.callers_changed.notified().await;
                drop(here);
            }
        };
        let mut work = std::pin::pin!(work(round.clone()));
        tokio::select! {
            // Poll `watch` first, so that it counts the callers before the work begins.
            biased;
            () = watch => {}
            () = waiters.superseded() => {}
            done = &mut work => return done,
        }
        let _ends = round.supersede();
        work.await
    }

    /// Closes the window and returns the changes whose callers wait. Drops the other changes.
    fn wanted(&self) -> Option<Vec<Change>> {
        let mut gathered = self.lock();
        gathered.is_open = false;
        gathered.changes.retain(Wanted::has_caller);
        let changes: Vec<Change> = gathered.changes.iter().map(|wanted| wanted.change.clone()).collect();
        (!changes.is_empty()).then_some(changes)
    }

    fn presence(&self) -> Presence {
        let gathered = self.lock();
        match gathered.changes.iter().filter(|wanted| wanted.has_caller()).count() {
            0 => Presence::None,
            some if some < gathered.changes.len() => Presence::Some,
            _ => Presence::All,
        }
    }

    /// Notifies the window that the caller has joined, and arranges a notification when it leaves.
    fn welcome(&self, caller: &Weak<Caller>) {
        if let Some(caller) = caller.upgrade() {
            caller.report_to(&self.callers_changed);
        }
        self.callers_changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

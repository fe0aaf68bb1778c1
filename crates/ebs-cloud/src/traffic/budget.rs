//! The budget: one for the process, a queue and a believed bucket for each of EC2's (`decisions.md` D-22).
//!
//! Nobody is refused: a caller waits for its token until its own bound ends or nobody wants the call any more. A
//! throttle costs a caller time and nothing else; its place in the queue it keeps.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ebs_ec2::{ErrorClass, Observer};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::bucket::{Bucket, Token};
use super::caller::{Caller, Turn};
use super::lane::Lane;
use super::queue::{Place, Queue};

/// Shorter waits are not worth telling.
const WORTH_TELLING: Duration = Duration::from_millis(1);
/// How often one who waits looks whether the call is still wanted.
const STILL_WANTED: Duration = Duration::from_secs(1);

/// One of EC2's buckets and who waits for it.
#[derive(Debug)]
struct Line {
    bucket: Bucket,
    queue: Queue,
}

/// All tokens of the process.
pub(crate) struct Budget {
    lines: Mutex<HashMap<Lane, Line>>,
    tickets: AtomicU64,
    observer: Option<Arc<dyn Observer>>,
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("lines", &self.lines).finish_non_exhaustive()
    }
}

impl Budget {
    /// As documented, and all buckets full. The observer is told of waits.
    pub(crate) fn new(observer: Option<Arc<dyn Observer>>) -> Self {
        Self { lines: Mutex::default(), tickets: AtomicU64::new(0), observer }
    }

    fn with<T>(&self, lane: Lane, f: impl FnOnce(&mut Line, Instant) -> T) -> T {
        let now = Instant::now();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines
            .entry(lane)
            .or_insert_with(|| Line { bucket: Bucket::new(lane.documented(), now), queue: Queue::default() });
        f(line, now)
    }

    /// Calls a second that EC2 is believed to take.
    pub(crate) fn rate(&self, lane: Lane) -> f64 {
        self.with(lane, |line, _| line.bucket.rate())
    }

    /// Waits for a token; `None` when the caller's bound ended, or nobody wants the call any more.
    ///
    /// Cancellation: dropping the future gives up the place and no token.
    pub(crate) async fn admit(self: &Arc<Self>, lane: Lane, caller: &Caller) -> Option<Permit> {
        let began = Instant::now();
        let place = Queued::enter(self, lane, caller);
        let permit = place.wait(caller).await;
        let waited = began.elapsed();
        if let Some(observer) = &self.observer
            && waited >= WORTH_TELLING
        {
            observer.waited(lane.action(), waited);
        }
        permit
    }

    /// A token that nobody waits for and nobody will need soon, if there is one.
    pub(crate) fn spare(self: &Arc<Self>, lane: Lane) -> Option<Permit> {
        let token =
            self.with(lane, |line, now| if line.queue.next().is_none() { line.bucket.take_spare(now) } else { None })?;
        Some(Permit { budget: Arc::clone(self), lane, token, used: false })
    }

    fn ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }
}

/// A place in a queue, left when dropped.
struct Queued<'a> {
    budget: &'a Arc<Budget>,
    lane: Lane,
    turn: Turn,
    place: Place,
    bell: Arc<Notify>,
    served: bool,
}

impl<'a> Queued<'a> {
    fn enter(budget: &'a Arc<Budget>, lane: Lane, caller: &Caller) -> Self {
        let bell = Arc::new(Notify::new());
        let place = (caller.ticket(|| budget.ticket()), budget.ticket());
        budget.with(lane, |line, _| line.queue.enter(caller.turn, place, Arc::clone(&bell)));
        Self { budget, lane, turn: caller.turn, place, bell, served: false }
    }

    async fn wait(mut self, caller: &Caller) -> Option<Permit> {
        loop {
            if caller.has_left() {
                return None;
            }
            let not_before = match self.ask() {
                Ok(token) => {
                    return Some(Permit { budget: Arc::clone(self.budget), lane: self.lane, token, used: false });
                }
                Err(not_before) => not_before,
            };
            let now = Instant::now();
            if now >= caller.until {
                return None;
            }
            let look_up = (now + STILL_WANTED).min(caller.until);
            let wake = not_before.map_or(look_up, |at| at.min(look_up));
            tokio::select! {
                () = sleep_until(wake) => {}
                () = self.bell.notified() => {}
            }
        }
    }

    /// A token, or when there may be one; `None`: when the bell rings.
    fn ask(&mut self) -> Result<Token, Option<Instant>> {
        let me = (self.turn, self.place);
        self.budget.with(self.lane, |line, now| {
            if line.queue.next() != Some(me) {
                return Err(None);
            }
            let token = line.bucket.take(now).map_err(Some)?;
            line.queue.served(self.turn, self.place);
            self.served = true;
            Ok(token)
        })
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        if !self.served {
            self.budget.with(self.lane, |line, _| line.queue.leave(self.turn, self.place));
        }
    }
}

/// A token for one call. Dropping it without a word says nothing about EC2's bucket.
#[derive(Debug)]
pub(crate) struct Permit {
    budget: Arc<Budget>,
    lane: Lane,
    token: Token,
    used: bool,
}

impl Permit {
    pub(crate) fn lane(&self) -> Lane {
        self.lane
    }

    /// The call is made: from now on the token is spent.
    pub(crate) fn spend(&mut self) {
        self.used = true;
    }

    /// What became of the call; `None`: success.
    pub(crate) fn report(mut self, error: Option<ErrorClass>) {
        self.used = error != Some(ErrorClass::NotSent);
        let lane = self.lane;
        self.budget.with(lane, |line, now| match error {
            Some(ErrorClass::Throttled) => {
                if line.bucket.throttled(self.token, now) {
                    let per_second = format!("{:.2}", line.bucket.rate());
                    tracing::info!(action = %lane.action(), per_second, "EC2 throttles, calls become slower");
                }
            }
            // Whether EC2 counted it is not known.
            Some(ErrorClass::Ambiguous | ErrorClass::NotSent) => {}
            _ => line.bucket.accepted(self.token, now),
        });
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.used {
            self.budget.with(self.lane, |line, now| line.bucket.give_back(now));
        }
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;

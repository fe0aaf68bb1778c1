//! A desk: all questions of one kind are asked here, together.
//!
//! Whoever wants to see something stands at the desk and is told what each call that was sent *after* it came has
//! shown of it. A clerk, a task of the desk's own, makes the calls while somebody stands there. Who goes does not keep
//! the others from their answers. When the desk is dropped its clerk ends: what it does are questions, which leave
//! nothing behind.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ebs_ec2::{Ec2, Ec2Error, ErrorClass, MAX_FILTER_VALUES};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::board::{Board, Grouping, Next};
use super::caller::Caller;
use super::flight::{self, Answers};
use super::kinds::Kind;
use super::paced::Paced;
use crate::{bounds, pages};

pub(crate) use super::board::First;

/// Calls that one visitor may have been told of and not looked at yet.
const UNREAD: usize = 4;

/// What a call has shown of one thing.
#[derive(Debug)]
pub(crate) struct News<T> {
    /// When the call was sent: after the visitor came.
    pub(crate) sent: Instant,
    /// All that EC2 lists for the key; empty: nothing.
    pub(crate) seen: ebs_ec2::Result<Vec<T>>,
}

struct State<K: Kind> {
    board: Board<K::Key>,
    doors: BTreeMap<u64, mpsc::Sender<News<K::Item>>>,
}

struct Shared<K: Kind, E> {
    ec2: Arc<Paced<E>>,
    state: Mutex<State<K>>,
    changed: Notify,
    alone: bool,
}

/// The desk for one kind of question.
pub(crate) struct Desk<K: Kind, E> {
    shared: Arc<Shared<K, E>>,
    clerk: Mutex<JoinSet<()>>,
}

impl<K: Kind, E> fmt::Debug for Desk<K, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("waiting", &self.shared.state().doors.len()).finish_non_exhaustive()
    }
}

impl<K: Kind, E: Ec2> Desk<K, E> {
    pub(super) fn new(ec2: Arc<Paced<E>>, batching: bool) -> Self {
        let grouping = if batching { Grouping::Together(MAX_FILTER_VALUES) } else { Grouping::Alone };
        let state = State { board: Board::new(grouping, Instant::now()), doors: BTreeMap::new() };
        let shared = Shared { ec2, state: Mutex::new(state), changed: Notify::new(), alone: !batching };
        Self { shared: Arc::new(shared), clerk: Mutex::default() }
    }

    /// Stands at the desk until the visit is dropped. Must be called on a tokio runtime.
    pub(crate) fn visit(&self, key: K::Key, first: First) -> Visit<K, E> {
        let (door, news) = mpsc::channel(UNREAD);
        let id = {
            let mut state = self.shared.state();
            let id = state.board.enter(key, first);
            state.doors.insert(id, door);
            id
        };
        self.shared.changed.notify_one();
        let mut clerk = self.clerk.lock().unwrap_or_else(PoisonError::into_inner);
        // One that has ended broke off: it does not end by itself.
        while clerk.try_join_next().is_some() {}
        if clerk.is_empty() {
            clerk.spawn(run(Arc::clone(&self.shared)));
        }
        Visit { shared: Arc::clone(&self.shared), id, news }
    }
}

/// Somebody at a desk.
pub(crate) struct Visit<K: Kind, E> {
    shared: Arc<Shared<K, E>>,
    id: u64,
    news: mpsc::Receiver<News<K::Item>>,
}

impl<K: Kind, E> Visit<K, E> {
    /// What the next call shows; bound it. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> News<K::Item> {
        match self.news.recv().await {
            Some(news) => news,
            // The door is kept until the visit is dropped.
            None => std::future::pending().await,
        }
    }
}

impl<K: Kind, E> Drop for Visit<K, E> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.board.leave(self.id);
        state.doors.remove(&self.id);
    }
}

impl<K: Kind, E> Shared<K, E> {
    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells one visitor what a call has shown.
    fn tell(&self, id: u64, sent: Instant, seen: ebs_ec2::Result<Vec<K::Item>>) {
        let mut state = self.state();
        if state.board.returned(id, sent)
            && let Some(door) = state.doors.get(&id)
        {
            // Who has not yet looked at earlier news gets the next.
            let _full = door.try_send(News { sent, seen });
        }
    }
}

/// The clerk.
async fn run<K: Kind, E: Ec2>(shared: Arc<Shared<K, E>>) {
    let mut calls = JoinSet::new();
    let mut begun: HashMap<tokio::task::Id, Instant> = HashMap::new();
    loop {
        let rate = shared.ec2.budget().rate(K::LANE);
        let next = {
            let state = shared.state();
            let mut under_way: Vec<Instant> = begun.values().copied().collect();
            under_way.sort();
            state.board.next(Instant::now(), state.board.spacing(rate), &under_way)
        };
        let (wake, is_call) = match next {
            Next::Call(at) => (at, true),
            Next::Nothing => (Instant::now(), false),
        };
        tokio::select! {
            () = sleep_until(wake), if is_call => {
                let promised = if shared.alone { shared.state().board.promise(Instant::now()) } else { None };
                if promised.is_some() || !shared.alone {
                    let call = calls.spawn(call(Arc::clone(&shared), promised));
                    begun.insert(call.id(), Instant::now());
                }
            }
            () = shared.changed.notified() => {}
            Some(ended) = calls.join_next_with_id(), if !calls.is_empty() => {
                let id = match ended { Ok((id, ())) => id, Err(broken) => broken.id() };
                begun.remove(&id);
            }
        }
    }
}

/// One call: waits for its token, and only then takes up who is to be asked for.
async fn call<K: Kind, E: Ec2>(shared: Arc<Shared<K, E>>, promised: Option<u64>) {
    let budget = shared.ec2.budget();
    let caller = Caller::look(bounds::LOOK);
    let Some(permit) = budget.admit(K::LANE, &caller).await else {
        if let Some(id) = promised {
            shared.state().board.break_promise(id);
        }
        return;
    };
    let errand = {
        let rate = budget.rate(K::LANE);
        let mut state = shared.state();
        let (sent, spacing) = (Instant::now(), state.board.spacing(rate));
        Errand { shared: &*shared, visitors: state.board.take(sent, spacing, promised), sent }
    };
    let keys: BTreeSet<K::Key> = errand.visitors.iter().map(|(_, key)| key.clone()).collect();
    if keys.is_empty() {
        return;
    }
    let ec2 = &*shared.ec2;
    let asked = flight::ask::<K, _>(keys.into_iter().collect(), |keys| all_pages::<K, E>(ec2, keys));
    if let Ok(answers) = timeout(bounds::LOOK, caller.with(permit).scope(asked)).await {
        errand.answer(&answers);
    }
}

async fn all_pages<K: Kind, E: Ec2>(ec2: &Paced<E>, keys: Vec<K::Key>) -> ebs_ec2::Result<Vec<K::Item>> {
    let keys = keys.as_slice();
    pages::all(|page| async move { K::page(ec2, keys, &page).await }).await
}

/// A call for those visitors. Whatever becomes of it, each is told.
struct Errand<'a, K: Kind, E> {
    shared: &'a Shared<K, E>,
    visitors: Vec<(u64, K::Key)>,
    sent: Instant,
}

impl<K: Kind, E> Errand<'_, K, E> {
    fn answer(mut self, answers: &Answers<K>) {
        for (id, key) in std::mem::take(&mut self.visitors) {
            let seen = answers.get(&key).cloned().unwrap_or_else(|| Err(unanswered::<K>()));
            self.shared.tell(id, self.sent, seen);
        }
    }
}

impl<K: Kind, E> Drop for Errand<'_, K, E> {
    fn drop(&mut self) {
        for (id, _) in std::mem::take(&mut self.visitors) {
            self.shared.tell(id, self.sent, Err(unanswered::<K>()));
        }
    }
}

fn unanswered<K: Kind>() -> Ec2Error {
    Ec2Error::new(K::LANE.action(), ErrorClass::Ambiguous, "no answer within the time for a look")
}

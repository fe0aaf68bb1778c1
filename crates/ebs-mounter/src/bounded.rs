//! System calls that may block, off the async threads and under a bounded wait.
//!
//! A call that has started cannot be cancelled, and nothing here pretends to: a wait for a *read* ends at its bound with
//! [`Stuck`] while the call stays where it is; a wait for a *change* goes on and says so in the log.
//!
//! Decision: `docs/decisions/0004-bound-every-wait-and-isolate-a-hung-disk.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How long a look may take before the caller hears that it hangs; how often a change that hangs is logged.
const BOUND: Duration = Duration::from_secs(30);

/// The places of looks that no caller waits for any more and that have not come back. Each keeps a thread, so while one hangs nobody
/// starts another one there: the orchestrator asks for statistics every minute, and a hung disk must not eat all threads of
/// the process.
static LEFT: Mutex<BTreeMap<PathBuf, Left>> = Mutex::new(BTreeMap::new());

/// Looks at one place that no caller waits for any more.
struct Left {
    /// How many.
    count: usize,
    /// When the first of them has taken so long that it hangs. Until then the next caller waits for it: its own caller only
    /// left early.
    hangs_from: Instant,
    /// Closes when all have come back.
    back: watch::Sender<()>,
}

fn left() -> MutexGuard<'static, BTreeMap<PathBuf, Left>> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A system call that has not come back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stuck {
    #[error("{step} of {} has not come back within {} s: the disk or the kernel may hang", object.display(), bound.as_secs())]
    Now {
        step: &'static str,
        object: PathBuf,
        /// How long it was waited for.
        bound: Duration,
    },
    /// One before it, so this one was not tried.
    #[error("{step} of {} was not tried, because an earlier call there has not come back: the disk or the kernel may hang", object.display())]
    Before {
        /// What was to be tried.
        step: &'static str,
        object: PathBuf,
    },
}

impl From<Stuck> for std::io::Error {
    fn from(stuck: Stuck) -> Self {
        Self::new(std::io::ErrorKind::TimedOut, stuck)
    }
}

/// How far a look has come. Changed under the lock of [`LEFT`] alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Somebody waits for it.
    Awaited,
    /// Nobody does.
    Left,
    CameBack,
}

/// One look, shared by the thread that it runs on and the caller that waits.
#[derive(Clone)]
struct Look {
    place: PathBuf,
    hangs_from: Instant,
    state: Arc<Mutex<State>>,
}

impl Look {
    fn turn(&self, turn: impl FnOnce(&mut State, &mut BTreeMap<PathBuf, Left>)) {
        let mut left = left();
        turn(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner), &mut left);
    }
}

/// Held by the caller: when it goes before the look has come back, for whatever reason, the look is left.
struct CallerGuard(Look);

impl Drop for CallerGuard {
    fn drop(&mut self) {
        let hangs_from = self.0.hangs_from;
        self.0.turn(|state, left| {
            if *state == State::Awaited {
                *state = State::Left;
                let new = || Left { count: 0, hangs_from, back: watch::Sender::new(()) };
                let place = left.entry(self.0.place.clone()).or_insert_with(new);
                place.count += 1;
                place.hangs_from = place.hangs_from.min(hangs_from);
            }
        });
    }
}

/// Held by the thread: when it goes, also by a panic of the look, the look has come back.
struct ThreadGuard(Look);

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        self.0.turn(|state, left| {
            if *state == State::Left
                && let Some(place) = left.get_mut(&self.0.place)
            {
                place.count -= 1;
                if place.count == 0 {
                    left.remove(&self.0.place);
                }
            }
            *state = State::CameBack;
        });
    }
}

/// Waits for the looks at a place that were left before they came back; false when one of them hangs.
async fn is_free(place: &Path) -> bool {
    loop {
        let waiting = left().get(place).map(|left| (left.hangs_from, left.back.subscribe()));
        let Some((hangs_from, mut back)) = waiting else { return true };
        // Nothing is ever sent: the end of the channel is the answer.
        if tokio::time::timeout_at(hangs_from, back.changed()).await.is_err() {
            return false;
        }
    }
}

/// Runs a look at the host. After the bound the caller gets [`Stuck`]; the thread stays with the call until the kernel
/// lets it go. As long as it does not, the place is refused to others. A look whose caller left before the bound is waited
/// for: it hangs when it has reached its bound, and not before.
pub(crate) async fn reading<T, E, F>(step: &'static str, object: &Path, look: F) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Stuck> + Send + 'static,
    F: FnOnce() -> Result<T, E> + Send + 'static,
{
    reading_within(BOUND, step, object, look).await
}

/// As [`reading`], for looks that are known to take longer.
pub(crate) async fn reading_within<T, E, F>(bound: Duration, step: &'static str, object: &Path, look: F) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Stuck> + Send + 'static,
    F: FnOnce() -> Result<T, E> + Send + 'static,
{
    if !is_free(object).await {
        return Err(Stuck::Before { step, object: object.to_owned() }.into());
    }
    let hangs_from = Instant::now() + bound;
    let shared = Look { place: object.to_owned(), hangs_from, state: Arc::new(Mutex::new(State::Awaited)) };
    let thread = ThreadGuard(shared.clone());
    let _caller = CallerGuard(shared);
    let running = tokio::task::spawn_blocking(move || {
        let _thread = thread;
        look()
    });
    match tokio::time::timeout(bound, running).await {
        Ok(joined) => finished(joined),
        Err(_elapsed) => Err(Stuck::Now { step, object: object.to_owned(), bound }.into()),
    }
}

/// Runs a change to the host and waits until it has ended, however long that is; a warning a bound says that it hangs.
pub(crate) async fn changing<T, F>(step: &'static str, object: &Path, change: F) -> T
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let mut running: JoinHandle<T> = tokio::task::spawn_blocking(change);
    let mut waited = Duration::ZERO;
    loop {
        match tokio::time::timeout(BOUND, &mut running).await {
            Ok(joined) => return finished(joined),
            Err(_elapsed) => {
                waited += BOUND;
                let seconds = waited.as_secs();
                tracing::warn!(step, object = %object.display(), seconds, "still running; it cannot be cancelled");
            }
        }
    }
}

fn finished<T>(joined: Result<T, tokio::task::JoinError>) -> T {
    match joined {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Blocking tasks are cancelled only when the runtime ends, and then nobody polls this.
            Err(cancelled) => panic!("a blocking call was cancelled: {cancelled}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A look that hangs is reported at its bound and not cancelled.
    #[tokio::test]
    async fn a_look_that_hangs_is_reported_at_its_bound_and_not_cancelled() {
        let (release, held) = mpsc::channel::<()>();
        let (done, seen) = mpsc::channel();
        let look = move || {
            let _ = held.recv();
            let _ = done.send("the call came back");
            Ok::<(), Stuck>(())
        };
        let outcome = reading_within(Duration::from_millis(20), "statfs", Path::new("/somewhere"), look).await;
        let message = outcome.unwrap_err().to_string();
        assert!(message.starts_with("statfs of /somewhere has not come back"), "{message}");
        release.send(()).unwrap();
        assert_eq!(seen.recv_timeout(Duration::from_secs(60)), Ok("the call came back"));
    }

    /// While a look hangs, no second one is started at the same place.
    #[tokio::test]
    async fn while_a_look_hangs_no_second_one_is_started_at_the_same_place() {
        let place = Path::new("/hangs/here");
        let (release, held) = mpsc::channel::<()>();
        let (done, seen) = mpsc::channel();
        let hangs = move || {
            let _ = held.recv();
            Ok::<(), Stuck>(())
        };
        assert!(reading_within(Duration::from_millis(20), "statfs", place, hangs).await.is_err());
        let second = move || {
            let _ = done.send(());
            Ok::<(), Stuck>(())
        };
        assert!(reading("statfs", place, second).await.is_err());
        assert_eq!(seen.try_recv(), Err(mpsc::TryRecvError::Disconnected), "the second look was never started");
        release.send(()).unwrap();
        free(place).await;
    }

    fn looks_left_at(place: &Path) -> usize {
        left().get(place).map_or(0, |left| left.count)
    }

    /// Waits until a look at the place is possible again.
    async fn free(place: &Path) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while reading("statfs", place, || Ok::<(), Stuck>(())).await.is_err() {
            assert!(tokio::time::Instant::now() < deadline, "the place is free when the look has come back");
            tokio::task::yield_now().await;
        }
    }

    /// A look whose caller left before the bound keeps its place refused until it comes back.
    #[tokio::test]
    async fn a_look_whose_caller_left_before_the_bound_hangs_until_it_comes_back() {
        let place = Path::new("/hangs/without/a/caller");
        let (release, held) = mpsc::channel::<()>();
        let (begun, started) = mpsc::channel();
        let hangs = move || {
            let _ = begun.send(());
            let _ = held.recv();
            Ok::<(), Stuck>(())
        };
        // The caller leaves before the bound, as a client with a deadline of its own does.
        let look = reading_within(Duration::from_millis(400), "statfs", place, hangs);
        let left = tokio::time::timeout(Duration::from_millis(20), look).await;
        assert!(left.map_or(true, |ended| ended.is_err()));
        started.recv().unwrap();
        let (done, seen) = mpsc::channel();
        let second = move || {
            let _ = done.send(());
            Ok::<(), Stuck>(())
        };
        let message = reading("statfs", place, second).await.map_err(|stuck| stuck.to_string());
        assert!(message.as_ref().is_err_and(|text| text.contains("earlier call")), "{message:?}");
        assert_eq!(seen.try_recv(), Err(mpsc::TryRecvError::Disconnected), "the second look was never started");
        release.send(()).unwrap();
        free(place).await;
    }

    #[tokio::test]
    async fn a_look_whose_caller_left_early_is_waited_for_and_refuses_nobody() {
        let place = Path::new("/left/early");
        let (release, held) = mpsc::channel::<()>();
        let (begun, started) = mpsc::channel();
        let slow = move || {
            let _ = begun.send(());
            let _ = held.recv();
            Ok::<(), Stuck>(())
        };
        let left = tokio::time::timeout(Duration::from_millis(20), reading("statfs", place, slow)).await;
        assert!(left.is_err());
        started.recv().unwrap();
        let next = reading("statfs", place, || Ok::<_, Stuck>("an answer"));
        tokio::pin!(next);
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut next).await.is_err(), "it waits");
        release.send(()).unwrap();
        assert_eq!(next.await, Ok("an answer"));
    }

    /// Of several looks that hang at one place all must come back before it is tried again.
    #[tokio::test]
    async fn of_two_looks_that_hang_at_one_place_both_must_come_back() {
        let place = Path::new("/hangs/twice");
        let look = || {
            let (release, held) = mpsc::channel::<()>();
            let hangs = move || {
                let _ = held.recv();
                Ok::<(), Stuck>(())
            };
            (release, reading_within(Duration::from_millis(20), "statfs", place, hangs))
        };
        let ((first, one), (second, other)) = (look(), look());
        let (one, other) = tokio::join!(one, other);
        assert!(one.is_err() && other.is_err());
        assert_eq!(looks_left_at(place), 2);
        first.send(()).unwrap();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while looks_left_at(place) != 1 {
            assert!(tokio::time::Instant::now() < deadline, "the first has come back");
            tokio::task::yield_now().await;
        }
        assert!(reading("statfs", place, || Ok::<(), Stuck>(())).await.is_err(), "the other one still hangs");
        second.send(()).unwrap();
        free(place).await;
    }

    /// A look that panics has come back.
    #[tokio::test]
    async fn a_look_that_panics_after_its_caller_left_frees_the_place() {
        let place = Path::new("/panics/here");
        let (release, held) = mpsc::channel::<()>();
        let panics = move || -> Result<(), Stuck> {
            let _ = held.recv();
            panic!("on purpose")
        };
        assert!(reading_within(Duration::from_millis(20), "statfs", place, panics).await.is_err());
        assert!(reading("statfs", place, || Ok::<(), Stuck>(())).await.is_err(), "it hangs");
        release.send(()).unwrap();
        free(place).await;
    }

    /// A change that hangs is waited for, whatever its bound.
    #[tokio::test(start_paused = true)]
    async fn a_change_that_hangs_is_waited_for_beyond_every_bound() {
        let (release, held) = mpsc::channel::<()>();
        let change = changing("mount", Path::new("/somewhere"), move || held.recv().is_ok());
        tokio::pin!(change);
        for _ in 0..20 {
            tokio::select! {
                biased;
                _ = &mut change => panic!("the wait ended before the change"),
                () = tokio::time::advance(BOUND) => {}
            }
        }
        release.send(()).unwrap();
        assert!(change.await);
    }
}

//! Runs blocking system calls, which cannot be cancelled, on other threads: a *read* with a bounded wait, a *change*
//! with warnings and no limit. Decision: `docs/dev/decisions/0004-bound-every-wait-and-isolate-a-hung-disk.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How long a read may take before its caller gets an error, and the interval at which a hanging change is logged.
const BOUND: Duration = Duration::from_secs(30);

/// The places of abandoned reads that have not returned. Each such read occupies a thread. While one hangs, no other
/// read starts at its place: reading the statistics of a hung disk must not use up all threads of the process.
static ABANDONED: Mutex<BTreeMap<PathBuf, AbandonedReads>> = Mutex::new(BTreeMap::new());

struct AbandonedReads {
    count: usize,
    /// When the first of these reads counts as hung. Later callers wait until then, because the caller of that read may
    /// have given up earlier.
    hangs_from: Instant,
    /// Closes when all these reads have returned.
    returned: watch::Sender<()>,
}

fn abandoned() -> MutexGuard<'static, BTreeMap<PathBuf, AbandonedReads>> {
    ABANDONED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A system call that has not returned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stuck {
    #[error("{step} {}: the system call has not returned within {} s; the disk or the kernel may be hung", object.display(), bound.as_secs())]
    Now { step: &'static str, object: PathBuf, bound: Duration },
    /// An earlier call at the same place hangs, so this one was not started.
    #[error("{step} {}: skipped because an earlier system call there has not returned; the disk or the kernel may be hung", object.display())]
    Before { step: &'static str, object: PathBuf },
}

impl From<Stuck> for std::io::Error {
    fn from(stuck: Stuck) -> Self {
        Self::new(std::io::ErrorKind::TimedOut, stuck)
    }
}

/// The progress of a read. Changes only under the lock of [`ABANDONED`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Awaited,
    Abandoned,
    Returned,
}

#[derive(Clone)]
struct Read {
    place: PathBuf,
    hangs_from: Instant,
    state: Arc<Mutex<State>>,
}

impl Read {
    fn change(&self, change: impl FnOnce(&mut State, &mut BTreeMap<PathBuf, AbandonedReads>)) {
        let mut abandoned = abandoned();
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner), &mut abandoned);
    }
}

/// Owned by the caller. Abandons the read if it is dropped before the read has returned.
struct CallerGuard(Read);

impl Drop for CallerGuard {
    fn drop(&mut self) {
        let hangs_from = self.0.hangs_from;
        self.0.change(|state, abandoned| {
            if *state == State::Awaited {
                *state = State::Abandoned;
                let new = || AbandonedReads { count: 0, hangs_from, returned: watch::Sender::new(()) };
                let place = abandoned.entry(self.0.place.clone()).or_insert_with(new);
                place.count += 1;
                place.hangs_from = place.hangs_from.min(hangs_from);
            }
        });
    }
}

/// A guard that the reading thread owns. Dropping it records that the read has returned, even after a panic.
struct ThreadGuard(Read);

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        self.0.change(|state, abandoned| {
            if *state == State::Abandoned
                && let Some(place) = abandoned.get_mut(&self.0.place)
            {
                place.count -= 1;
                if place.count == 0 {
                    abandoned.remove(&self.0.place);
                }
            }
            *state = State::Returned;
        });
    }
}

/// Waits until the abandoned reads at a place have returned. Returns false if one of them counts as hung.
async fn is_free(place: &Path) -> bool {
    loop {
        let waiting = abandoned().get(place).map(|reads| (reads.hangs_from, reads.returned.subscribe()));
        let Some((hangs_from, mut returned)) = waiting else { return true };
        // The channel carries no value; it only closes.
        if tokio::time::timeout_at(hangs_from, returned.changed()).await.is_err() {
            return false;
        }
    }
}

/// Runs a read on another thread. After [`BOUND`] the caller gets [`Stuck`], and the thread waits until the kernel
/// returns. Until then, every other read at this place waits until the hung read's limit has passed, and then fails.
pub(crate) async fn reading<T, E, F>(step: &'static str, object: &Path, read: F) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Stuck> + Send + 'static,
    F: FnOnce() -> Result<T, E> + Send + 'static,
{
    reading_within(BOUND, step, object, read).await
}

pub(crate) async fn reading_within<T, E, F>(bound: Duration, step: &'static str, object: &Path, read: F) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Stuck> + Send + 'static,
    F: FnOnce() -> Result<T, E> + Send + 'static,
{
    if !is_free(object).await {
        return Err(Stuck::Before { step, object: object.to_owned() }.into());
    }
    let hangs_from = Instant::now() + bound;
    let shared = Read { place: object.to_owned(), hangs_from, state: Arc::new(Mutex::new(State::Awaited)) };
    let thread = ThreadGuard(shared.clone());
    let _caller = CallerGuard(shared);
    let running = tokio::task::spawn_blocking(move || {
        let _thread = thread;
        read()
    });
    match tokio::time::timeout(bound, running).await {
        Ok(joined) => finished(joined),
        Err(_elapsed) => Err(Stuck::Now { step, object: object.to_owned(), bound }.into()),
    }
}

/// Runs a change and waits until it ends, without a limit. Logs a warning each time another [`BOUND`] has passed.
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
                tracing::warn!(
                    step, object = %object.display(), seconds,
                    "system call still running; it cannot be cancelled"
                );
            }
        }
    }
}

fn finished<T>(joined: Result<T, tokio::task::JoinError>) -> T {
    match joined {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime cancels blocking tasks only when it shuts down, and then it no longer polls this future.
            Err(cancelled) => panic!("a blocking call was cancelled: {cancelled}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Returns a read that reports its start and hangs until the test sends to the first channel.
    fn hanging() -> (mpsc::Sender<()>, mpsc::Receiver<()>, impl FnOnce() -> Result<(), Stuck> + Send + 'static) {
        let (release, held) = mpsc::channel::<()>();
        let (begun, started) = mpsc::channel();
        let read = move || {
            let _ = begun.send(());
            let _ = held.recv();
            Ok(())
        };
        (release, started, read)
    }

    async fn assert_blocked(place: &Path) {
        let (_release, started, read) = hanging();
        let message = reading("statfs", place, read).await.unwrap_err().to_string();
        assert!(message.contains("earlier system call"), "{message}");
        assert_eq!(started.try_recv(), Err(mpsc::TryRecvError::Disconnected), "the second read was never started");
    }

    #[tokio::test]
    async fn hanging_read_fails_at_its_time_limit_and_blocks_its_path() {
        let place = Path::new("/hangs/here");
        let (release, _started, read) = hanging();
        let outcome = reading_within(Duration::from_millis(20), "statfs", place, read).await;
        let message = outcome.unwrap_err().to_string();
        assert!(message.starts_with("statfs /hangs/here: the system call has not returned"), "{message}");
        assert_blocked(place).await;
        release.send(()).expect("it was not cancelled");
        free(place).await;
    }

    fn abandoned_reads_at(place: &Path) -> usize {
        abandoned().get(place).map_or(0, |reads| reads.count)
    }

    async fn free(place: &Path) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while reading("statfs", place, || Ok::<(), Stuck>(())).await.is_err() {
            assert!(tokio::time::Instant::now() < deadline, "the place is free after the read has returned");
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn abandoned_read_blocks_its_path_until_it_returns() {
        let place = Path::new("/hangs/without/a/caller");
        let (release, started, read) = hanging();
        // The caller gives up before the bound, like a client with its own deadline.
        let read = reading_within(Duration::from_millis(400), "statfs", place, read);
        let left = tokio::time::timeout(Duration::from_millis(20), read).await;
        assert!(left.map_or(true, |ended| ended.is_err()));
        started.recv().unwrap();
        assert_blocked(place).await;
        release.send(()).unwrap();
        free(place).await;
    }

    #[tokio::test]
    async fn later_caller_waits_for_a_read_abandoned_before_its_timeout() {
        let place = Path::new("/left/early");
        let (release, started, slow) = hanging();
        let left = tokio::time::timeout(Duration::from_millis(20), reading("statfs", place, slow)).await;
        assert!(left.is_err());
        started.recv().unwrap();
        let next = reading("statfs", place, || Ok::<_, Stuck>("an answer"));
        tokio::pin!(next);
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut next).await.is_err(), "it waits");
        release.send(()).unwrap();
        assert_eq!(next.await, Ok("an answer"));
    }

    #[tokio::test]
    async fn path_is_free_only_after_both_hanging_reads_return() {
        let place = Path::new("/hangs/twice");
        let read = || {
            let (release, _started, hangs) = hanging();
            (release, reading_within(Duration::from_millis(20), "statfs", place, hangs))
        };
        let ((first, one), (second, other)) = (read(), read());
        let (one, other) = tokio::join!(one, other);
        assert!(one.is_err() && other.is_err());
        assert_eq!(abandoned_reads_at(place), 2);
        first.send(()).unwrap();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while abandoned_reads_at(place) != 1 {
            assert!(tokio::time::Instant::now() < deadline, "the first has returned");
            tokio::task::yield_now().await;
        }
        assert!(reading("statfs", place, || Ok::<(), Stuck>(())).await.is_err(), "the other one still hangs");
        second.send(()).unwrap();
        free(place).await;
    }

    #[tokio::test]
    async fn abandoned_read_that_panics_frees_its_path() {
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

    #[tokio::test(start_paused = true)]
    async fn hanging_change_is_awaited_without_a_time_limit() {
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

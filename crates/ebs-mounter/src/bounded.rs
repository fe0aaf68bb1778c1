//! System calls that may block, off the async threads and under a bounded wait.
//!
//! A call that has started cannot be cancelled, and nothing here pretends to: a wait for a *read* ends at its bound with
//! [`Stuck`] while the call stays where it is; a wait for a *change* goes on and says so in the log.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;

/// How long a look may take before the caller hears that it hangs; how often a change that hangs is logged.
const BOUND: Duration = Duration::from_secs(30);

/// What hangs now. Each such look keeps a thread, so nobody starts a second one at the same place: the orchestrator
/// asks for statistics every minute, and a hung disk must not eat all threads of the process.
static HANGING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn hanging() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    HANGING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A system call that has not come back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{step} of {} has not come back within {} s: the disk or the kernel may hang", object.display(), bound.as_secs())]
pub struct Stuck {
    step: &'static str,
    object: PathBuf,
    bound: Duration,
}

impl From<Stuck> for std::io::Error {
    fn from(stuck: Stuck) -> Self {
        Self::new(std::io::ErrorKind::TimedOut, stuck)
    }
}

/// Runs a look at the host. After the bound the caller gets [`Stuck`]; the thread stays with the call until the kernel
/// lets it go.
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
    let stuck = || Stuck { step, object: object.to_owned(), bound };
    if hanging().contains(object) {
        return Err(stuck().into());
    }
    let came_back = Arc::new(AtomicBool::new(false));
    let watched = {
        let (came_back, object) = (Arc::clone(&came_back), object.to_owned());
        move || {
            let seen = look();
            let mut hanging = hanging();
            came_back.store(true, Ordering::SeqCst);
            hanging.remove(&object);
            seen
        }
    };
    match tokio::time::timeout(bound, tokio::task::spawn_blocking(watched)).await {
        Ok(joined) => finished(joined),
        Err(_elapsed) => {
            let mut hanging = hanging();
            // Under the lock: either it has come back, or it will take its entry away when it does.
            if !came_back.load(Ordering::SeqCst) {
                hanging.insert(object.to_owned());
            }
            Err(stuck().into())
        }
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
        assert_eq!(seen.recv_timeout(Duration::from_secs(10)), Ok("the call came back"));
    }

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
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        while reading("statfs", place, || Ok::<(), Stuck>(())).await.is_err() {
            assert!(tokio::time::Instant::now() < deadline, "the place is free when the look has come back");
            tokio::task::yield_now().await;
        }
    }

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

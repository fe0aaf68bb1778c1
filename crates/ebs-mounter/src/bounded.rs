//! System calls that may block, off the async threads and under a bounded wait.
//!
//! A call that has started cannot be cancelled, and nothing here pretends to: a wait for a *read* ends at its bound with
//! [`Stuck`] while the call stays where it is; a wait for a *change* goes on and says so in the log.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinHandle;

/// How long a look may take before the caller hears that it hangs; how often a change that hangs is logged.
const BOUND: Duration = Duration::from_secs(30);

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
    match tokio::time::timeout(bound, tokio::task::spawn_blocking(look)).await {
        Ok(joined) => finished(joined),
        Err(_elapsed) => Err(Stuck { step, object: object.to_owned(), bound }.into()),
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

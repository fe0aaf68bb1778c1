//! A limited number of threads on which operations may block, and a bounded queue for waiting operations.
//!
//! A WMI connection belongs to its thread, so operations never run on a worker of the runtime. The pool never cancels a
//! running operation. It drops a waiting operation when its client's deadline has passed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::{Instant, timeout};

/// The maximum wait of a call without a deadline.
const LONGEST_WAIT: Duration = Duration::from_secs(10 * 60);

#[derive(Debug)]
pub(crate) struct Pool {
    threads: usize,
    queue: usize,
    places: Arc<Semaphore>,
    waiting: Semaphore,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum NotRun {
    #[error("csi-proxy: {threads} operations are running and {queue} are waiting; nothing was done; retry later")]
    Full { threads: usize, queue: usize },
    #[error("csi-proxy: the deadline passed while {threads} operations were running; nothing was done")]
    Late { threads: usize },
    #[error("the operation panicked")]
    Panicked(#[source] JoinError),
}

impl Pool {
    pub(crate) fn new(threads: usize, queue: usize) -> Self {
        Self { threads, queue, places: Arc::new(Semaphore::new(threads)), waiting: Semaphore::new(queue) }
    }

    /// Runs `work` when a thread is free, and passes it how long it has waited. `deadline` limits the wait but not the
    /// work.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        deadline: Option<Duration>,
        work: impl FnOnce(Duration) -> T + Send + 'static,
    ) -> Result<T, NotRun> {
        let began = Instant::now();
        let place = self.place(deadline.unwrap_or(LONGEST_WAIT)).await?;
        let waited = began.elapsed();
        let done = spawn_blocking(move || {
            // Release the place when the work has ended, even if no caller waits for it.
            let _place = place;
            work(waited)
        });
        done.await.map_err(NotRun::Panicked)
    }

    async fn place(&self, deadline: Duration) -> Result<OwnedSemaphorePermit, NotRun> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(place);
        }
        let full = NotRun::Full { threads: self.threads, queue: self.queue };
        let _waiting = self.waiting.try_acquire().map_err(|_| full)?;
        match timeout(deadline, Arc::clone(&self.places).acquire_owned()).await {
            Ok(place) => Ok(place.expect("no code closes it")),
            Err(_) => Err(NotRun::Late { threads: self.threads }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use tokio::task::JoinSet;

    use super::*;

    const BOUND: Duration = Duration::from_secs(60);

    struct Held {
        begun: Receiver<()>,
        end: Sender<()>,
    }

    fn hold(pool: &Arc<Pool>, tasks: &mut JoinSet<Result<Duration, NotRun>>, deadline: Option<Duration>) -> Held {
        let ((tell, begun), (end, told)) = (channel(), channel::<()>());
        let pool = Arc::clone(pool);
        tasks.spawn(async move {
            let work = move |waited| {
                tell.send(()).unwrap();
                told.recv_timeout(BOUND).unwrap();
                waited
            };
            pool.run(deadline, work).await
        });
        Held { begun, end }
    }

    async fn begun(held: Held) -> Held {
        spawn_blocking(move || {
            held.begun.recv_timeout(BOUND).expect("it begins");
            held
        })
        .await
        .unwrap()
    }

    async fn until_waiting(pool: &Pool, count: usize) {
        let waiting = async {
            while pool.waiting.available_permits() != pool.queue - count {
                tokio::task::yield_now().await;
            }
        };
        timeout(BOUND, waiting).await.expect("they wait");
    }

    #[tokio::test]
    async fn full_pool_and_queue_reject_further_work() {
        let (pool, mut tasks) = (Arc::new(Pool::new(2, 1)), JoinSet::new());
        let first = begun(hold(&pool, &mut tasks, None)).await;
        let second = begun(hold(&pool, &mut tasks, None)).await;
        let third = hold(&pool, &mut tasks, None);
        until_waiting(&pool, 1).await;
        let ran = Arc::new(AtomicUsize::new(0));
        let more = Arc::clone(&ran);
        let refused = pool.run(None, move |_| more.fetch_add(1, Ordering::SeqCst)).await.unwrap_err();
        assert!(matches!(refused, NotRun::Full { threads: 2, queue: 1 }), "{refused}");
        assert!(third.begun.try_recv().is_err());
        first.end.send(()).unwrap();
        tasks.join_next().await.unwrap().unwrap().unwrap();
        let third = begun(third).await;
        assert_eq!(ran.load(Ordering::SeqCst), 0, "what was refused is not done later");
        for held in [second, third] {
            held.end.send(()).unwrap();
            tasks.join_next().await.unwrap().unwrap().unwrap();
        }
        assert_eq!((pool.places.available_permits(), pool.waiting.available_permits()), (2, 1));
    }

    #[tokio::test]
    async fn deadline_ends_the_wait_for_a_thread_but_not_running_work() {
        let (pool, mut tasks) = (Arc::new(Pool::new(1, 8)), JoinSet::new());
        let running = begun(hold(&pool, &mut tasks, Some(Duration::from_millis(1)))).await;
        let late = pool.run(Some(Duration::from_millis(20)), |_| panic!("it was not to begin")).await;
        assert!(matches!(late, Err::<(), _>(NotRun::Late { threads: 1 })), "{late:?}");
        assert!(tasks.try_join_next().is_none(), "its deadline has passed and it runs");
        running.end.send(()).unwrap();
        tasks.join_next().await.unwrap().unwrap().unwrap();
        assert!(pool.run(None, |waited| waited < BOUND).await.unwrap());
    }

    #[tokio::test]
    async fn panicking_work_releases_its_pool_thread() {
        let pool = Pool::new(1, 0);
        for _ in 0..3 {
            let ended = pool.run(None, |_| panic!("a bug of tests")).await;
            assert!(matches!(ended, Err::<(), _>(NotRun::Panicked(_))), "{ended:?}");
        }
        assert_eq!(pool.run(None, |_| 7).await.unwrap(), 7);
    }
}

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;

use super::expiring::Expiring;

type Question<V, E> = Arc<OnceCell<Result<V, E>>>;

/// Cached answers by key. Concurrent callers share one request.
#[derive(Debug)]
pub(crate) struct SharedAnswers<K, V, E> {
    known: Expiring<K, V>,
    asking: Mutex<HashMap<K, Question<V, E>>>,
}

impl<K, V, E> Default for SharedAnswers<K, V, E> {
    fn default() -> Self {
        Self { known: Expiring::default(), asking: Mutex::default() }
    }
}

impl<K: Eq + Hash + Clone, V: Clone, E: Clone> SharedAnswers<K, V, E> {
    /// Returns the cached answer, or the one that `ask` returns together with its lifetime. An error is not cached.
    /// Cancellation: if the caller that runs `ask` is dropped, another waiting caller runs its own `ask`.
    pub(crate) async fn get(
        &self,
        key: &K,
        ask: impl Future<Output = Result<(V, Duration), E>> + Send,
    ) -> Result<V, E> {
        let question = {
            let mut asking = self.asking();
            if let Some(value) = self.known.get(key) {
                return Ok(value);
            }
            Arc::clone(asking.entry(key.clone()).or_default())
        };
        let asked = question.get_or_init(|| async {
            let (value, lifetime) = ask.await?;
            self.known.insert(key.clone(), value.clone(), lifetime);
            Ok(value)
        });
        let answer = asked.await.clone();
        let mut asking = self.asking();
        if asking.get(key).is_some_and(|current| Arc::ptr_eq(current, &question)) {
            asking.remove(key);
        }
        answer
    }

    pub(crate) fn cached(&self, key: &K) -> Option<V> {
        self.known.get(key)
    }

    pub(crate) fn set(&self, key: K, value: V, lifetime: Duration) {
        self.known.insert(key, value, lifetime);
    }

    fn asking(&self) -> MutexGuard<'_, HashMap<K, Question<V, E>>> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::task::JoinSet;
    use tokio::time::{sleep, timeout};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_share_a_request_and_errors_are_not_kept() {
        let answers = Arc::new(SharedAnswers::<u32, u32, &str>::default());
        let calls = Arc::new(AtomicU32::new(0));
        for (succeeds, calls_by_now) in [(false, 2), (true, 4), (true, 4)] {
            let mut callers = JoinSet::new();
            for n in 0..100_u32 {
                let (answers, calls) = (Arc::clone(&answers), Arc::clone(&calls));
                callers.spawn(async move {
                    let ask = async {
                        calls.fetch_add(1, Ordering::SeqCst);
                        sleep(SECOND).await;
                        if succeeds { Ok((n % 2, 10 * SECOND)) } else { Err("refused") }
                    };
                    (n % 2, answers.get(&(n % 2), ask).await)
                });
            }
            for (key, answer) in callers.join_all().await {
                assert_eq!(answer, if succeeds { Ok(key) } else { Err("refused") });
            }
            assert_eq!(calls.load(Ordering::SeqCst), calls_by_now);
        }
        sleep(11 * SECOND).await;
        let again = answers.get(&1, async { Ok((7, SECOND)) }).await;
        assert_eq!(again, Ok(7), "what is known ends at its time");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_caller_sends_the_request_when_the_first_leaves() {
        let answers = SharedAnswers::<(), u32, &str>::default();
        let left = timeout(SECOND, answers.get(&(), std::future::pending()));
        let stays = async {
            sleep(SECOND / 2).await;
            answers.get(&(), async { Ok((1, SECOND)) }).await
        };
        let (left, answer) = tokio::join!(left, stays);
        assert!(left.is_err());
        assert_eq!(answer, Ok(1));
    }
}

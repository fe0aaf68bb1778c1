use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A map whose entries expire at a set time, on tokio's clock. Reading an entry does not extend its lifetime.
#[derive(Debug)]
pub(crate) struct Expiring<K, V> {
    entries: Mutex<HashMap<K, (Instant, V)>>,
}

impl<K, V> Default for Expiring<K, V> {
    fn default() -> Self {
        Self { entries: Mutex::default() }
    }
}

impl<K: Eq + Hash, V: Clone> Expiring<K, V> {
    fn live(&self) -> MutexGuard<'_, HashMap<K, (Instant, V)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let now = Instant::now();
        self.live().get(key).filter(|(end, _)| *end > now).map(|(_, value)| value.clone())
    }

    pub(crate) fn insert(&self, key: K, value: V, lifetime: Duration) {
        let now = Instant::now();
        let mut entries = self.live();
        if entries.len() == entries.capacity() {
            entries.retain(|_, (end, _)| *end > now);
        }
        entries.insert(key, (now + lifetime, value));
    }

    /// Changes the value, unless it has expired. Its time of expiry stays the same.
    pub(crate) fn change(&self, key: &K, change: impl FnOnce(&mut V)) {
        let now = Instant::now();
        if let Some((_, value)) = self.live().get_mut(key).filter(|(end, _)| *end > now) {
            change(value);
        }
    }

    pub(crate) fn remove(&self, key: &K) {
        self.live().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn reading_an_entry_does_not_extend_its_lifetime() {
        let map = Expiring::default();
        map.insert("a", 1, Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(map.get(&"a"), Some(1));
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(map.get(&"a"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn changing_an_entry_does_not_extend_its_lifetime() {
        let map = Expiring::default();
        map.insert("a", 1, Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(6)).await;
        map.change(&"a", |value| *value = 2);
        assert_eq!(map.get(&"a"), Some(2));
        tokio::time::advance(Duration::from_secs(6)).await;
        map.change(&"a", |value| *value = 3);
        assert_eq!(map.get(&"a"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn expired_entries_do_not_accumulate() {
        let map = Expiring::default();
        for n in 0..10_000 {
            map.insert(n, (), Duration::from_millis(1));
            tokio::time::advance(Duration::from_millis(2)).await;
        }
        assert!(map.live().len() < 100, "{} entries are kept", map.live().len());
    }
}

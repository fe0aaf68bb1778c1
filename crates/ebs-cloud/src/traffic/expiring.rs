use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A map whose entries expire at a set time, on tokio's clock. Reading an entry does not extend its lifetime.
#[derive(Debug)]
pub(crate) struct Expiring<K, V>(Mutex<Entries<K, V>>);

#[derive(Debug)]
struct Entries<K, V> {
    map: HashMap<K, (Instant, V)>,
    /// When to drop the expired entries next, even if the map has room for more.
    sweep_at: Option<Instant>,
}

impl<K, V> Default for Expiring<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Entries { map: HashMap::new(), sweep_at: None }))
    }
}

/// Drops the entries that `keep` rejects and returns their memory. Afterwards the map has room for as many entries as it
/// has, so that a caller that sweeps only full maps needs a constant time per insertion on average.
pub(crate) fn sweep<K: Eq + Hash, V>(map: &mut HashMap<K, V>, mut keep: impl FnMut(&V) -> bool) {
    map.retain(|_, value| keep(value));
    map.shrink_to(2 * map.len());
    map.reserve(map.len());
}

impl<K: Eq + Hash, V: Clone> Expiring<K, V> {
    fn entries(&self) -> MutexGuard<'_, Entries<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let now = Instant::now();
        self.entries().map.get(key).filter(|(end, _)| *end > now).map(|(_, value)| value.clone())
    }

    pub(crate) fn insert(&self, key: K, value: V, lifetime: Duration) {
        let now = Instant::now();
        let mut entries = self.entries();
        if entries.map.len() == entries.map.capacity() || entries.sweep_at.is_some_and(|at| at <= now) {
            sweep(&mut entries.map, |(end, _)| *end > now);
            entries.sweep_at = None;
        }
        entries.sweep_at.get_or_insert(now + lifetime);
        entries.map.insert(key, (now + lifetime, value));
    }

    /// Changes the value, unless it has expired. Its time of expiry stays the same.
    pub(crate) fn change(&self, key: &K, change: impl FnOnce(&mut V)) {
        let now = Instant::now();
        if let Some((_, value)) = self.entries().map.get_mut(key).filter(|(end, _)| *end > now) {
            change(value);
        }
    }

    pub(crate) fn remove(&self, key: &K) {
        self.entries().map.remove(key);
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
        let kept = map.entries().map.len();
        assert!(kept < 100, "{kept} entries are kept");
    }

    /// Ten thousand volumes are created at once, and an hour later another one.
    #[tokio::test(start_paused = true)]
    async fn memory_of_expired_entries_is_released() {
        let map = Expiring::default();
        let lifetime = Duration::from_secs(10);
        (0..10_000).for_each(|n| map.insert(n, (), lifetime));
        tokio::time::advance(lifetime).await;
        map.insert(10_000, (), lifetime);
        let entries = map.entries();
        assert_eq!(entries.map.len(), 1);
        assert!(entries.map.capacity() < 100, "room for {} entries is kept", entries.map.capacity());
    }

    /// Without room for new entries, each insertion would look at all entries.
    #[tokio::test(start_paused = true)]
    async fn sweep_leaves_room_for_as_many_entries() {
        let map = Expiring::default();
        let mut sweeps = 0;
        for n in 0..20_000 {
            let before = map.entries().map.len();
            map.insert(n, (), Duration::from_millis(7_100));
            sweeps += usize::from(map.entries().map.len() <= before);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert!(sweeps < 10, "{sweeps} sweeps");
    }
}

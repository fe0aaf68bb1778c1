//! The calls that wait for one bucket's tokens, in order. The code is pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;

/// A call with low priority is served after this many calls with high priority, so that none starves.
const MAX_PASSED_OVER: u32 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Mutations, and polls that wait until a mutation takes effect.
    High,
    /// Listings and other background reads.
    Low,
}

/// A position in the queue: the ticket of the call's first try, then the ticket of this try.
pub(super) type Position = (u64, u64);

#[derive(Debug, Default)]
pub(super) struct WaitQueue {
    high: BTreeMap<Position, Arc<Notify>>,
    low: BTreeMap<Position, Arc<Notify>>,
    /// The number of calls with high priority since the last one with low priority.
    passed_over: u32,
}

impl WaitQueue {
    fn of_priority(&mut self, priority: Priority) -> &mut BTreeMap<Position, Arc<Notify>> {
        match priority {
            Priority::High => &mut self.high,
            Priority::Low => &mut self.low,
        }
    }

    pub(super) fn join(&mut self, priority: Priority, position: Position, waker: Arc<Notify>) {
        self.of_priority(priority).insert(position, waker);
    }

    pub(super) fn front(&self) -> Option<(Priority, Position)> {
        let high = self.high.keys().next().map(|position| (Priority::High, *position));
        let low = self.low.keys().next().map(|position| (Priority::Low, *position));
        if self.passed_over >= MAX_PASSED_OVER { low.or(high) } else { high.or(low) }
    }

    pub(super) fn record_served(&mut self, priority: Priority, position: Position) {
        match priority {
            Priority::High if self.low.is_empty() => self.passed_over = 0,
            Priority::High => self.passed_over += 1,
            Priority::Low => self.passed_over = 0,
        }
        self.leave(priority, position);
    }

    pub(super) fn leave(&mut self, priority: Priority, position: Position) {
        self.of_priority(priority).remove(&position);
        if let Some((priority, position)) = self.front()
            && let Some(waker) = self.of_priority(priority).get(&position)
        {
            waker.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(queue: &mut WaitQueue) -> Vec<(Priority, u64)> {
        let mut order = Vec::new();
        while let Some((priority, position)) = queue.front() {
            queue.record_served(priority, position);
            order.push((priority, position.0));
        }
        order
    }

    #[test]
    fn waits_have_priority_over_lists_without_starving_them() {
        let mut queue = WaitQueue::default();
        for n in 0..20 {
            queue.join(Priority::High, (n, n), Arc::default());
        }
        for n in 20..22 {
            queue.join(Priority::Low, (n, n), Arc::default());
        }
        let order = order(&mut queue);
        let high: Vec<u64> =
            order.iter().filter(|(priority, _)| *priority == Priority::High).map(|(_, n)| *n).collect();
        assert_eq!(high, (0..20).collect::<Vec<_>>());
        let lists: Vec<usize> = (0..order.len()).filter(|at| order[*at].0 == Priority::Low).collect();
        assert_eq!(lists, [8, 17]);
    }
}

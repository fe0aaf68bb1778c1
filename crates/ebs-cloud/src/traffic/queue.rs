//! Who waits for tokens of one bucket, in order. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;

use super::caller::Turn;

/// After so many that come first, one of the others has its turn: nobody starves.
const MOST_PASSED_OVER: u32 = 8;

/// A place: earlier callers first, and of one caller the earlier call.
pub(super) type Place = (u64, u64);

/// The queue of one bucket.
#[derive(Debug, Default)]
pub(super) struct Queue {
    first: BTreeMap<Place, Arc<Notify>>,
    spare: BTreeMap<Place, Arc<Notify>>,
    /// How many have gone before since the last of the others.
    passed_over: u32,
}

impl Queue {
    fn line(&mut self, turn: Turn) -> &mut BTreeMap<Place, Arc<Notify>> {
        match turn {
            Turn::First => &mut self.first,
            Turn::Spare => &mut self.spare,
        }
    }

    /// Queues up.
    pub(super) fn enter(&mut self, turn: Turn, place: Place, bell: Arc<Notify>) {
        self.line(turn).insert(place, bell);
    }

    /// Who is next.
    pub(super) fn next(&self) -> Option<(Turn, Place)> {
        let first = self.first.keys().next().map(|place| (Turn::First, *place));
        let spare = self.spare.keys().next().map(|place| (Turn::Spare, *place));
        if self.passed_over >= MOST_PASSED_OVER { spare.or(first) } else { first.or(spare) }
    }

    /// The next one has its token.
    pub(super) fn served(&mut self, turn: Turn, place: Place) {
        match turn {
            Turn::First if self.spare.is_empty() => self.passed_over = 0,
            Turn::First => self.passed_over += 1,
            Turn::Spare => self.passed_over = 0,
        }
        self.leave(turn, place);
    }

    /// Leaves the queue; whoever is next now is told.
    pub(super) fn leave(&mut self, turn: Turn, place: Place) {
        self.line(turn).remove(&place);
        if let Some((turn, place)) = self.next()
            && let Some(bell) = self.line(turn).get(&place)
        {
            bell.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(queue: &mut Queue) -> Vec<(Turn, u64)> {
        let mut order = Vec::new();
        while let Some((turn, place)) = queue.next() {
            queue.served(turn, place);
            order.push((turn, place.0));
        }
        order
    }

    #[test]
    fn waits_go_before_lists_first_come_first_served_and_lists_do_not_starve() {
        let mut queue = Queue::default();
        for n in 0..20 {
            queue.enter(Turn::First, (n, n), Arc::default());
        }
        for n in 20..22 {
            queue.enter(Turn::Spare, (n, n), Arc::default());
        }
        let order = order(&mut queue);
        let firsts: Vec<u64> = order.iter().filter(|(turn, _)| *turn == Turn::First).map(|(_, n)| *n).collect();
        assert_eq!(firsts, (0..20).collect::<Vec<_>>());
        let lists: Vec<usize> = (0..order.len()).filter(|at| order[*at].0 == Turn::Spare).collect();
        assert_eq!(lists, [8, 17]);
    }
}

use proptest::prelude::*;

use super::*;

const PLENTY: f64 = 20.0;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn now_or_later(at: Instant) -> First {
    First { at, patient_from: at }
}

/// Makes one call that takes no time.
fn look(board: &mut Board<u32>, now: Instant) -> Vec<(u64, u32)> {
    let spacing = board.spacing(PLENTY);
    let taken = board.take(now, spacing, None);
    for (id, _) in &taken {
        board.returned(*id, now);
    }
    taken
}

#[test]
fn with_no_call_under_way_a_question_goes_at_once_and_meanwhile_others_collect() {
    let start = Instant::now();
    let mut board = Board::new(Grouping::Together(200), start);
    assert_eq!(board.next(start, board.spacing(PLENTY), &[]), Next::Nothing);
    board.enter(1, now_or_later(start));
    assert_eq!(board.next(start, board.spacing(PLENTY), &[]), Next::Call(start));
    assert_eq!(board.take(start, board.spacing(PLENTY), None).len(), 1);
    for key in 2..50 {
        board.enter(key, now_or_later(start));
    }
    let slow_at = start + SLOW;
    assert_eq!(board.next(start, board.spacing(PLENTY), &[start]), Next::Call(slow_at), "until it returns or is slow");
    board.returned(0, start);
    assert_eq!(board.next(start, board.spacing(PLENTY), &[]), Next::Call(start));
    assert_eq!(board.take(start, board.spacing(PLENTY), None).len(), 49, "they leave together, the first one too");
}

#[test]
fn a_call_asks_for_two_hundred_keys_at_most_and_for_each_once() {
    let start = Instant::now();
    let mut board = Board::new(Grouping::Together(200), start);
    for key in 0..500 {
        board.enter(key, now_or_later(start));
        board.enter(key, now_or_later(start));
    }
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        let taken = look(&mut board, start);
        let keys: BTreeSet<u32> = taken.iter().map(|(_, key)| *key).collect();
        assert_eq!(keys.len(), 200, "there is room, and who is not due costs nothing");
        seen.extend(taken.into_iter().map(|(id, _)| id));
    }
    assert_eq!(seen.len(), 1_000, "nobody is left out");
}

#[test]
fn under_load_calls_keep_their_distance_and_a_small_budget_makes_it_larger() {
    let start = Instant::now();
    let mut board = Board::new(Grouping::Together(200), start);
    for key in 0..100 {
        board.enter(key, now_or_later(start));
    }
    assert_eq!(board.spacing(PLENTY), ms(400));
    assert_eq!(board.spacing(1.0), Duration::from_secs(2));
    let mut now = start;
    let mut calls = Vec::new();
    while now < start + Duration::from_secs(20) {
        board.enter(1_000 + u32::try_from(calls.len()).unwrap(), now_or_later(now));
        let Next::Call(at) = board.next(now, board.spacing(PLENTY), &[]) else { panic!("somebody is always due") };
        now = now.max(at) + Duration::from_nanos(1);
        look(&mut board, now);
        calls.push(now);
    }
    assert!((50..=53).contains(&calls.len()), "{} calls in 20 s", calls.len());
}

#[test]
fn who_has_waited_for_long_is_looked_at_seldom_and_never_forgotten() {
    let start = Instant::now();
    let mut board = Board::new(Grouping::Together(200), start);
    board.enter(1, First { at: start + ms(2_000), patient_from: start + ms(4_000) });
    let mut calls = Vec::new();
    let mut now = start;
    while now < start + Duration::from_secs(120) {
        let Next::Call(at) = board.next(now, board.spacing(PLENTY), &[]) else { panic!("one is always due") };
        now = at;
        look(&mut board, now);
        calls.push(now);
    }
    assert_eq!(calls[0], start + ms(2_000), "not before its usual time");
    let gaps: Vec<Duration> = calls.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps.iter().min(), Some(&ms(400)));
    assert_eq!(gaps.iter().max(), Some(&Duration::from_secs(5)));
    assert!(calls.len() < 40, "{}", calls.len());
}

#[test]
fn a_slow_call_holds_up_nobody_for_more_than_two_seconds_and_its_late_news_still_count() {
    let start = Instant::now();
    let mut board = Board::new(Grouping::Together(200), start);
    let id = board.enter(1, now_or_later(start));
    board.take(start, board.spacing(PLENTY), None);
    let again = start + SLOW;
    assert_eq!(board.next(start, board.spacing(PLENTY), &[start]), Next::Call(again));
    assert_eq!(board.take(again, board.spacing(PLENTY), None).len(), 1);
    assert!(board.returned(id, start), "the first answer, late");
    assert!(board.returned(id, again));
    assert!(!board.returned(id, start), "an older answer than the last is no news");
    let many: Vec<Instant> = (0..MOST_UNDER_WAY).map(|_| start).collect();
    assert_eq!(board.next(again, board.spacing(PLENTY), &many), Next::Nothing, "a silent EC2 is not asked without end");
}

#[test]
fn without_batching_each_is_asked_for_alone_and_at_once() {
    let start = Instant::now();
    let mut board = Board::new(Grouping::Alone, start);
    for key in 0..50 {
        board.enter(key % 2, now_or_later(start));
    }
    let under_way = vec![start; 30];
    for _ in 0..50 {
        assert_eq!(board.next(start, board.spacing(PLENTY), &under_way), Next::Call(start));
        let promised = board.promise(start);
        assert!(promised.is_some());
        assert_eq!(board.take(start, board.spacing(PLENTY), promised).len(), 1);
    }
    assert_eq!(board.next(start, board.spacing(PLENTY), &under_way), Next::Nothing);
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Enter { key: u32, in_ms: u64 },
    Leave(usize),
    Pass(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (0_u32..400, 0_u64..3_000).prop_map(|(key, in_ms)| Event::Enter { key, in_ms }),
        1 => any::<proptest::sample::Index>().prop_map(|i| Event::Leave(i.index(1_000))),
        3 => (1_u64..700).prop_map(Event::Pass),
    ];
    proptest::collection::vec(event, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Calls take 100 ms. Everybody is asked for soon after it is due, and only by calls sent after it came.
    #[test]
    fn nobody_starves_and_nobody_is_told_old_news(events in events()) {
        let start = Instant::now();
        let mut now = start;
        let mut board = Board::new(Grouping::Together(200), start);
        let mut present: BTreeMap<u64, (Instant, First)> = BTreeMap::new();
        let mut under_way: Option<(Instant, Vec<(u64, u32)>)> = None;
        for event in events {
            let until = match event {
                Event::Enter { key, in_ms } => {
                    let first = First { at: now + ms(in_ms), patient_from: now + ms(4_000) };
                    present.insert(board.enter(key, first), (now, first));
                    now
                }
                Event::Leave(n) => {
                    if let Some(id) = present.keys().copied().nth(n % present.len().max(1)) {
                        present.remove(&id);
                        board.leave(id);
                    }
                    now
                }
                Event::Pass(time) => now + ms(time),
            };
            loop {
                let lands = under_way.as_ref().map(|(sent, _)| *sent + ms(100));
                let flying: Vec<Instant> = under_way.iter().map(|(sent, _)| *sent).collect();
                let leaves = match board.next(now, board.spacing(PLENTY), &flying) {
                    Next::Call(at) if under_way.is_none() => Some(at.max(now)),
                    _ => None,
                };
                match (lands, leaves) {
                    (Some(at), _) if at <= until => {
                        now = at;
                        let (sent, taken) = under_way.take().unwrap();
                        for (id, _) in taken {
                            if board.returned(id, sent) {
                                prop_assert!(present[&id].0 <= sent, "told of a call sent before it came");
                            }
                        }
                    }
                    (_, Some(at)) if at <= until => {
                        now = at + Duration::from_nanos(1);
                        let taken = board.take(now, board.spacing(PLENTY), None);
                        prop_assert!(!taken.is_empty());
                        under_way = Some((now, taken));
                    }
                    _ => break,
                }
            }
            now = now.max(until);
            for (id, (_, first)) in &present {
                let asked = board.entries[id].asked;
                let since = asked.unwrap_or(first.at);
                // The longest interval, and a few calls of others before.
                prop_assert!(now.saturating_duration_since(since) <= LONGEST + ms(2_000), "forgotten");
            }
        }
    }
}

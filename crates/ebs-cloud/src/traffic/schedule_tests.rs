use proptest::prelude::*;

use super::*;

const PLENTY: f64 = 20.0;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn begin() -> (Instant, PollSchedule<u32>) {
    let now = Instant::now();
    (now, PollSchedule::new(Grouping::Batched(200), now))
}

fn next(schedule: &PollSchedule<u32>, now: Instant, in_flight: &[Instant]) -> NextCall {
    schedule.next_call(now, schedule.spacing(PLENTY), in_flight)
}

fn send(schedule: &mut PollSchedule<u32>, now: Instant) -> Vec<(u64, u32)> {
    schedule.start_batch(now, schedule.spacing(PLENTY))
}

fn now_or_later(at: Instant) -> PollTimes {
    PollTimes { first: at, back_off_from: at }
}

/// Makes one call that returns at once.
fn poll(schedule: &mut PollSchedule<u32>, now: Instant) -> Vec<(u64, u32)> {
    let taken = send(schedule, now);
    for (id, _) in &taken {
        schedule.finish(*id, now);
    }
    taken
}

#[test]
fn first_call_starts_at_once_and_others_wait_to_share_the_next() {
    let (start, mut schedule) = begin();
    assert_eq!(next(&schedule, start, &[]), NextCall::Idle);
    schedule.add(1, now_or_later(start));
    assert_eq!(next(&schedule, start, &[]), NextCall::At(start));
    assert_eq!(send(&mut schedule, start).len(), 1);
    for key in 2..50 {
        schedule.add(key, now_or_later(start));
    }
    let slow_at = start + SLOW_CALL;
    assert_eq!(next(&schedule, start, &[start]), NextCall::At(slow_at), "until it returns or is slow");
    schedule.finish(0, start);
    assert_eq!(next(&schedule, start, &[]), NextCall::At(start));
    assert_eq!(send(&mut schedule, start).len(), 49, "they leave together, the first one too");
}

#[test]
fn call_has_at_most_200_distinct_keys() {
    let (start, mut schedule) = begin();
    for key in 0..500 {
        schedule.add(key, now_or_later(start));
        schedule.add(key, now_or_later(start));
    }
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        let taken = poll(&mut schedule, start);
        let keys: BTreeSet<u32> = taken.iter().map(|(_, key)| *key).collect();
        assert_eq!(keys.len(), 200, "there is room, and who is not due costs nothing");
        seen.extend(taken.into_iter().map(|(id, _)| id));
    }
    assert_eq!(seen.len(), 1_000, "no subscriber is missing");
}

#[test]
fn calls_are_spaced_under_load_and_further_at_a_low_rate() {
    let (start, mut schedule) = begin();
    for key in 0..100 {
        schedule.add(key, now_or_later(start));
    }
    assert_eq!(schedule.spacing(PLENTY), ms(400));
    assert_eq!(schedule.spacing(1.0), Duration::from_secs(2));
    let mut now = start;
    let mut calls = Vec::new();
    while now < start + Duration::from_secs(20) {
        schedule.add(1_000 + u32::try_from(calls.len()).unwrap(), now_or_later(now));
        let NextCall::At(at) = next(&schedule, now, &[]) else { panic!("a subscriber is always due") };
        now = now.max(at) + Duration::from_nanos(1);
        poll(&mut schedule, now);
        calls.push(now);
    }
    assert!((50..=53).contains(&calls.len()), "{} calls in 20 s", calls.len());
}

#[test]
fn long_wait_is_polled_rarely_but_forever() {
    let (start, mut schedule) = begin();
    schedule.add(1, PollTimes { first: start + ms(2_000), back_off_from: start + ms(4_000) });
    let mut calls = Vec::new();
    let mut now = start;
    while now < start + Duration::from_secs(120) {
        let NextCall::At(at) = next(&schedule, now, &[]) else { panic!("one is always due") };
        now = at;
        poll(&mut schedule, now);
        calls.push(now);
    }
    assert_eq!(calls[0], start + ms(2_000), "not before its usual time");
    let gaps: Vec<Duration> = calls.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps.iter().min(), Some(&ms(400)));
    assert_eq!(gaps.iter().max(), Some(&Duration::from_secs(5)));
    assert!(calls.len() < 40, "{}", calls.len());
}

#[test]
fn slow_call_delays_the_next_briefly_and_its_reply_is_used() {
    let (start, mut schedule) = begin();
    let id = schedule.add(1, now_or_later(start));
    send(&mut schedule, start);
    let again = start + SLOW_CALL;
    assert_eq!(next(&schedule, start, &[start]), NextCall::At(again));
    assert_eq!(send(&mut schedule, again).len(), 1);
    assert!(schedule.finish(id, start), "the first answer, late");
    assert!(schedule.finish(id, again));
    assert!(!schedule.finish(id, start), "an older result than the last is not delivered");
    let many: Vec<Instant> = (0..MAX_IN_FLIGHT).map(|_| start).collect();
    assert_eq!(next(&schedule, again, &many), NextCall::Idle, "a silent EC2 is not asked without end");
}

/// The hanging calls are not all sent at the same time, and each one times out after 20 s.
#[test]
fn hanging_calls_delay_a_subscriber_by_at_most_8_s() {
    let (start, mut schedule) = begin();
    let mut in_flight: Vec<Instant> = Vec::new();
    let mut calls = Vec::new();
    for second in 0..300 {
        let now = start + Duration::from_secs(second);
        schedule.add(u32::try_from(second).unwrap(), now_or_later(now));
        in_flight.retain(|sent| now < *sent + Duration::from_secs(20));
        if matches!(next(&schedule, now, &in_flight), NextCall::At(at) if at <= now) {
            assert!(!send(&mut schedule, now).is_empty(), "a subscriber is always due");
            in_flight.push(now);
            calls.push(now);
        }
    }
    let longest = calls.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert_eq!(longest, Some(Duration::from_secs(8)));
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Add { key: u32, in_ms: u64 },
    Remove(usize),
    Pass(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (0_u32..400, 0_u64..3_000).prop_map(|(key, in_ms)| Event::Add { key, in_ms }),
        1 => any::<proptest::sample::Index>().prop_map(|i| Event::Remove(i.index(1_000))),
        3 => (1_u64..700).prop_map(Event::Pass),
    ];
    proptest::collection::vec(event, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Calls take 100 ms. Each subscriber gets a poll soon after the poll is due, and only observations of calls that
    /// were sent after the subscription.
    #[test]
    fn every_subscriber_gets_fresh_observations_in_time(events in events()) {
        let (start, mut schedule) = begin();
        let mut now = start;
        let mut present: BTreeMap<u64, (Instant, PollTimes)> = BTreeMap::new();
        let mut in_flight: Option<(Instant, Vec<(u64, u32)>)> = None;
        for event in events {
            let until = match event {
                Event::Add { key, in_ms } => {
                    let times = PollTimes { first: now + ms(in_ms), back_off_from: now + ms(4_000) };
                    present.insert(schedule.add(key, times), (now, times));
                    now
                }
                Event::Remove(n) => {
                    if let Some(id) = present.keys().copied().nth(n % present.len().max(1)) {
                        present.remove(&id);
                        schedule.remove(id);
                    }
                    now
                }
                Event::Pass(time) => now + ms(time),
            };
            loop {
                let lands = in_flight.as_ref().map(|(sent, _)| *sent + ms(100));
                let in_flight_since: Vec<Instant> = in_flight.iter().map(|(sent, _)| *sent).collect();
                let leaves = match next(&schedule, now, &in_flight_since) {
                    NextCall::At(at) if in_flight.is_none() => Some(at.max(now)),
                    _ => None,
                };
                match (lands, leaves) {
                    (Some(at), _) if at <= until => {
                        now = at;
                        let (sent, taken) = in_flight.take().unwrap();
                        for (id, _) in taken {
                            if schedule.finish(id, sent) {
                                prop_assert!(present[&id].0 <= sent, "an observation of a call sent before it came");
                            }
                        }
                    }
                    (_, Some(at)) if at <= until => {
                        now = at + Duration::from_nanos(1);
                        let taken = send(&mut schedule, now);
                        prop_assert!(!taken.is_empty());
                        in_flight = Some((now, taken));
                    }
                    _ => break,
                }
            }
            now = now.max(until);
            for (id, (_, times)) in &present {
                let polled = schedule.entries[id].polled;
                let since = polled.unwrap_or(times.first);
                // Allow for the longest interval and for a few earlier calls for other subscribers.
                prop_assert!(now.saturating_duration_since(since) <= MAX_INTERVAL + ms(2_000), "forgotten");
            }
        }
    }
}

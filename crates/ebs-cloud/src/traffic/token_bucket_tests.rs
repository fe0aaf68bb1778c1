use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;

use super::*;

const CREATE: BucketSize = BucketSize { capacity: 100.0, per_second: 5.0 };

/// The real bucket, at EC2.
struct Ec2Bucket {
    size: BucketSize,
    tokens: f64,
    at: Instant,
}

impl Ec2Bucket {
    fn new(size: BucketSize, now: Instant) -> Self {
        Self { size, tokens: size.capacity, at: now }
    }

    fn accepts(&mut self, now: Instant) -> bool {
        let passed = now.duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * self.size.per_second).min(self.size.capacity);
        self.at = now;
        if self.tokens < 1.0 {
            return false;
        }
        self.tokens -= 1.0;
        true
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Share {
    accepted: u32,
    throttled: u32,
}

impl Share {
    fn throttled_percent(self) -> f64 {
        100.0 * f64::from(self.throttled) / f64::from(self.accepted + self.throttled)
    }
}

/// For `seconds`, simulates drivers on one account that always have calls to make. Returns each driver's share of the
/// calls in the second half. A call reaches EC2 after 5 to 105 ms, and its answer takes another 200 ms.
fn contend(ec2: BucketSize, drivers: &mut [TokenBucket], start: Instant, seconds: u64) -> Vec<Share> {
    let mut bucket = Ec2Bucket::new(ec2, start);
    let mut shares = vec![Share::default(); drivers.len()];
    let (half, end) = (start + Duration::from_secs(seconds / 2), start + Duration::from_secs(seconds));
    let mut chance = 1_u64;
    // A driver has three kinds of events: it takes a token, its call reaches EC2, and it receives the answer.
    let mut events: BinaryHeap<Reverse<(Instant, usize, Step)>> = BinaryHeap::new();
    let mut tokens: Vec<Token> = Vec::new();
    events.extend((0..drivers.len()).map(|who| Reverse((start, who, Step::Ask))));
    while let Some(Reverse((now, who, step))) = events.pop()
        && now < end
    {
        match step {
            Step::Ask => match drivers[who].take(now) {
                Err(later) => events.push(Reverse((later, who, Step::Ask))),
                Ok(token) => {
                    tokens.push(token);
                    chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let travels = Duration::from_millis(5 + (chance >> 33) % 100);
                    events.push(Reverse((now + travels, who, Step::Arrive(tokens.len() - 1))));
                    events.push(Reverse((now, who, Step::Ask)));
                }
            },
            Step::Arrive(call) => {
                let accepted = bucket.accepts(now);
                events.push(Reverse((now + Duration::from_millis(200), who, Step::Hear(call, accepted))));
                let share = &mut shares[who];
                match accepted {
                    _ if now < half => {}
                    true => share.accepted += 1,
                    false => share.throttled += 1,
                }
            }
            Step::Hear(call, true) => drivers[who].record_accepted(tokens[call], now),
            Step::Hear(call, false) => {
                drivers[who].record_throttled(tokens[call], now);
            }
        }
    }
    shares
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Ask,
    Arrive(usize),
    Hear(usize, bool),
}

/// EC2 throttles at most 5 % of each driver's calls.
#[test]
fn two_drivers_on_one_account_reach_equal_shares() {
    let start = Instant::now();
    let fresh = TokenBucket::new(CREATE, start);
    let mut starved = fresh.clone();
    starved.rate = 0.1;
    starved.tokens.clear();
    for mut drivers in [[fresh.clone(), fresh.clone()], [fresh, starved]] {
        let shares = contend(CREATE, &mut drivers, start, 4_000);
        let all = f64::from(shares[0].accepted + shares[1].accepted);
        for share in &shares {
            let part = f64::from(share.accepted) / all;
            assert!((0.38..=0.62).contains(&part), "one of two drivers got {part:.2} of all: {shares:?}");
            assert!(share.throttled_percent() <= 5.0, "{:.1} % throttled", share.throttled_percent());
        }
        assert!(all / 2_000.0 >= 0.85 * CREATE.per_second, "only {} a second of 5 were used", all / 2_000.0);
    }
}

#[test]
fn halved_ec2_rate_is_used_with_at_most_5_percent_throttles() {
    let start = Instant::now();
    for documented in
        [CREATE, BucketSize { capacity: 50.0, per_second: 5.0 }, BucketSize { capacity: 100.0, per_second: 20.0 }]
    {
        let halved = BucketSize { capacity: documented.capacity / 2.0, per_second: documented.per_second / 2.0 };
        let mut driver = [TokenBucket::new(documented, start)];
        let share = contend(halved, &mut driver, start, 4_000)[0];
        assert!(share.throttled_percent() <= 5.0, "{:.1} % throttled of {documented:?}", share.throttled_percent());
        let used = f64::from(share.accepted) / 2_000.0;
        assert!(used >= 0.85 * halved.per_second, "only {used:.2} a second of {documented:?}");
    }
}

#[test]
fn rate_recovers_after_other_clients_stop() {
    let start = Instant::now();
    let mut driver = [TokenBucket::new(CREATE, start)];
    contend(BucketSize { capacity: 10.0, per_second: 0.5 }, &mut driver, start, 1_000);
    assert!(driver[0].rate() < 1.0, "{}", driver[0].rate());
    contend(CREATE, &mut driver, start + Duration::from_secs(1_000), 400);
    assert!(driver[0].rate() > 4.5, "{}", driver[0].rate());
}

#[test]
fn throttles_of_one_burst_decrease_the_rate_once() {
    let start = Instant::now();
    let mut bucket = TokenBucket::new(CREATE, start);
    let mut now = start;
    let tokens: Vec<Token> = (0..10)
        .map(|_| {
            now += Duration::from_secs(1);
            bucket.take(now).unwrap()
        })
        .collect();
    for (n, token) in tokens.iter().enumerate() {
        now += Duration::from_millis(10);
        assert_eq!(bucket.record_throttled(*token, now), n == 0);
    }
    assert!((bucket.rate() - 3.5).abs() < 0.01, "{}", bucket.rate());
    assert!(bucket.take(now).is_err(), "a throttle empties the bucket");
}

/// Calls may reach EC2 closer together than they were sent, so EC2 sometimes throttles one even without other clients.
/// Such a throttle leaves the rate unchanged. A second throttle soon after it comes from other clients.
#[test]
fn single_throttle_keeps_the_rate_but_a_second_decreases_it() {
    let start = Instant::now();
    let mut bucket = TokenBucket::new(CREATE, start);
    let mut now = start;
    let last_token = |bucket: &mut TokenBucket, now: &mut Instant| {
        loop {
            match bucket.take(*now) {
                Ok(token) if token.scarce => return token,
                Ok(_) => {}
                Err(later) => *now = later,
            }
        }
    };
    for _ in 0..3 {
        let token = last_token(&mut bucket, &mut now);
        assert!(!bucket.record_throttled(token, now), "a lone throttle is jitter");
        assert!((bucket.rate() - CREATE.per_second).abs() < 1e-9, "{}", bucket.rate());
        assert!(bucket.take(now).is_err(), "the bucket is still empty");
        now += LONE_THROTTLE_TIME;
    }
    let token = last_token(&mut bucket, &mut now);
    assert!(!bucket.record_throttled(token, now));
    let token = last_token(&mut bucket, &mut now);
    assert!(bucket.record_throttled(token, now), "a second one within seconds is not");
    assert!(bucket.rate() < CREATE.per_second * 0.8, "{}", bucket.rate());
}

/// Only a call that waited for its token shows that EC2 supports a higher rate.
#[test]
fn calls_without_a_wait_do_not_raise_the_rate() {
    let start = Instant::now();
    let mut bucket = TokenBucket::new(CREATE, start);
    let token = bucket.take(start).unwrap();
    bucket.record_throttled(token, start);
    let mut idle = bucket.clone();
    for n in 1..30 {
        let now = start + Duration::from_secs(n);
        let token = bucket.take(now).unwrap();
        bucket.record_accepted(token, now);
        idle.refill(now);
    }
    assert!(bucket.rate() < 4.0, "{}", bucket.rate());
    assert!((bucket.rate() - idle.rate()).abs() < 1e-9, "{} idle, {} used", idle.rate(), bucket.rate());
}

#[test]
fn documented_rate_returns_after_10_minutes_without_throttles() {
    let start = Instant::now();
    for calls in [0, 1, 5] {
        let mut bucket = TokenBucket::new(CREATE, start);
        let mut now = start;
        let token = bucket.take(now).unwrap();
        while bucket.rate() > CREATE.per_second / 10.0 {
            now += Duration::from_millis(1);
            bucket.record_throttled(Token { at: now, ..token }, now);
        }
        for _ in 0..calls {
            now += Duration::from_secs(60);
            let token = bucket.take(now).unwrap();
            bucket.record_accepted(token, now);
            assert!(bucket.rate() < CREATE.per_second, "not at once");
        }
        bucket.refill(now + Duration::from_secs(600 - 60 * calls));
        assert!((bucket.rate() - CREATE.per_second).abs() < 1e-9, "{} after {calls} calls", bucket.rate());
    }
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Take,
    Accept,
    Throttle,
    GiveBack,
    Pass(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => Just(Event::Take),
        3 => Just(Event::Accept),
        1 => Just(Event::Throttle),
        1 => Just(Event::GiveBack),
        4 => (0_u64..3_000).prop_map(Event::Pass),
    ];
    proptest::collection::vec(event, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// After a throttle, the estimated bucket is empty.
    #[test]
    fn estimate_never_exceeds_the_documented_rate(events in events()) {
        let start = Instant::now();
        let mut now = start;
        let mut bucket = TokenBucket::new(CREATE, start);
        let mut flying: Vec<Token> = Vec::new();
        let (mut taken, mut returned) = (0_u32, 0_u32);
        for event in events {
            match event {
                Event::Take => match bucket.take(now) {
                    Ok(token) => {
                        taken += 1;
                        flying.push(token);
                    }
                    Err(later) => prop_assert!(later > now && later <= now + Duration::from_secs(11)),
                },
                Event::Accept => if let Some(token) = flying.pop() { bucket.record_accepted(token, now) },
                Event::Throttle => if let Some(token) = flying.pop() {
                    bucket.record_throttled(token, now);
                    prop_assert!(bucket.take(now).is_err());
                },
                Event::GiveBack => if flying.pop().is_some() {
                    bucket.refund(now);
                    returned += 1;
                },
                Event::Pass(ms) => now += Duration::from_millis(ms),
            }
            prop_assert!((0.1 - 1e-9..=5.0).contains(&bucket.rate()), "{}", bucket.rate());
            let most = 100.0 + 5.0 * now.duration_since(start).as_secs_f64() + f64::from(returned);
            prop_assert!(f64::from(taken) <= most + 1e-6, "{taken} of {most}");
        }
    }
}

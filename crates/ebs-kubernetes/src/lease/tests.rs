use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::task::JoinSet;

use super::*;
use crate::fake::{Ask, FakeApi, Fault, LEASES, Times};

const NAME: &str = "metadata-labeler-ebs-csi-aws-com";
const REQUESTS: [Ask; 3] = [Ask::Get, Ask::Create, Ask::Replace];

/// Makes every request fail with this fault.
fn break_with(api: &FakeApi, fault: Fault) {
    REQUESTS.iter().for_each(|ask| api.fault(*ask, LEASES, fault, Times::Always));
}

fn requests(api: &FakeApi) -> usize {
    REQUESTS.iter().map(|ask| api.asked(*ask, LEASES).len()).sum()
}

fn put(api: &FakeApi, lease: &Lease) {
    api.put(LEASES, NAME, serde_json::to_value(lease).unwrap());
}

fn config(who: &str) -> LeaseConfig {
    LeaseConfig { identity: who.to_owned(), ..LeaseConfig::new("metadata-labeler-ebs.csi.aws.com", "host") }
}

fn contender(api: &FakeApi, who: &str) -> Election {
    Election::new(api.cluster().client(), "default", config(who))
}

fn lease(api: &FakeApi) -> Lease {
    serde_json::from_value(api.object(LEASES, NAME).expect("a lease")).unwrap()
}

fn spec(api: &FakeApi) -> LeaseSpec {
    lease(api).spec.expect("a spec")
}

#[test]
fn lease_name_is_valid_and_each_process_has_its_own_identity() {
    let (one, other) = (LeaseConfig::new("metadata-labeler-ebs.csi.aws.com", "host.local."), config("b"));
    assert_eq!(one.name, "metadata-labeler-ebs-csi-aws-com");
    assert!(one.identity.starts_with("host-local-X-"), "{}", one.identity);
    assert_ne!(one.identity, LeaseConfig::new("", "host.local.").identity);
    assert_eq!(object_name(""), "X");
    assert!(other.renew_deadline < other.duration);
}

#[tokio::test(start_paused = true)]
async fn first_contender_creates_and_holds_the_lease() {
    let api = FakeApi::default();
    let mut one = contender(&api, "one");
    one.acquire().await;
    let taken = spec(&api);
    assert_eq!(taken.holder_identity.as_deref(), Some("one"));
    assert_eq!((taken.lease_duration_seconds, taken.lease_transitions), (Some(15), Some(0)));
    assert!(taken.acquire_time.is_some() && taken.acquire_time == taken.renew_time);
}

#[tokio::test(start_paused = true)]
async fn renewed_lease_is_not_taken_by_another_process() {
    let api = FakeApi::default();
    let (mut one, mut two) = (contender(&api, "one"), contender(&api, "two"));
    one.acquire().await;
    let before = requests(&api);
    tokio::select! {
        lost = one.hold() => panic!("{lost}"),
        () = tokio::time::sleep(Duration::from_secs(100)) => {}
    }
    let renewals = requests(&api) - before;
    assert!((18..=20).contains(&renewals), "{renewals}");
    tokio::select! {
        lost = one.hold() => panic!("{lost}"),
        () = two.acquire() => panic!("two leaders at once"),
        () = tokio::time::sleep(Duration::from_mins(10)) => {}
    }
    assert_eq!(spec(&api).lease_transitions, Some(0));
}

/// The time stamps in the lease do not matter.
#[tokio::test(start_paused = true)]
async fn lease_expires_by_the_clock_of_the_waiting_process() {
    for stamp in ["1970-01-01T00:00:00Z", "2999-01-01T00:00:00Z"] {
        let api = FakeApi::default();
        let (mut one, mut two) = (contender(&api, "one"), contender(&api, "two"));
        one.acquire().await;
        let stamp: Timestamp = stamp.parse().unwrap();
        let mut old = lease(&api);
        old.spec.as_mut().unwrap().renew_time = Some(MicroTime(stamp));
        put(&api, &old);
        let gone = Instant::now();
        two.acquire().await;
        let waited = gone.elapsed();
        assert!((Duration::from_secs(15)..Duration::from_secs(30)).contains(&waited), "{waited:?}");
        let taken = spec(&api);
        assert_eq!((taken.holder_identity.as_deref(), taken.lease_transitions), (Some("two"), Some(1)));
    }
}

#[tokio::test(start_paused = true)]
async fn holder_that_cannot_renew_stops_before_the_next_begins() {
    let api = FakeApi::default();
    for fault in [Fault::Code(500), Fault::Hang] {
        let mut one = contender(&api, "one");
        let began = Instant::now();
        one.acquire().await;
        break_with(&api, fault);
        let lost = one.hold().await;
        assert!(matches!(lost, LostLease::NotRenewed { .. }), "{lost}");
        assert_eq!(began.elapsed(), Duration::from_secs(10));
        api.clear_faults();
    }
    let other = api.another();
    let (mut one, mut two) = (contender(&other, "one"), contender(&api, "two"));
    one.acquire().await;
    other.cut();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        drop(one.hold().await);
        Instant::now()
    });
    let begins = async move {
        two.acquire().await;
        Instant::now()
    };
    tasks.spawn(begins);
    let times = tasks.join_all().await;
    let gap = *times.iter().max().unwrap() - *times.iter().min().unwrap();
    assert!(gap >= Duration::from_secs(4), "{gap:?} between the two leaders");
}

#[tokio::test(start_paused = true)]
async fn holder_keeps_the_lease_through_a_short_outage() {
    let api = FakeApi::default();
    let mut one = contender(&api, "one");
    one.acquire().await;
    let trouble = async {
        for _ in 0..20 {
            break_with(&api, Fault::Code(500));
            tokio::time::sleep(Duration::from_secs(4)).await;
            api.clear_faults();
            tokio::time::sleep(Duration::from_millis(5300)).await;
        }
    };
    tokio::select! {
        lost = one.hold() => panic!("{lost}"),
        () = trouble => {}
    }
}

/// All other writes name a version that is out of date, so the API server rejects them.
#[tokio::test(start_paused = true)]
async fn only_one_of_many_contenders_gets_the_lease() {
    let api = FakeApi::default();
    let leads = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for who in 0..8 {
        let (mut election, leads) = (contender(&api, &format!("c{who}")), Arc::clone(&leads));
        tasks.spawn(async move {
            election.acquire().await;
            leads.fetch_add(1, Ordering::Relaxed);
            drop(election.hold().await);
        });
    }
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(leads.load(Ordering::Relaxed), 1);
}

/// A process that does not hold the lease does not release it.
#[tokio::test(start_paused = true)]
async fn released_lease_is_free_at_once() {
    let api = FakeApi::default();
    let (mut one, mut two) = (contender(&api, "one"), contender(&api, "two"));
    one.acquire().await;
    two.release().await.unwrap();
    assert_eq!(spec(&api).holder_identity.as_deref(), Some("one"));
    one.release().await.unwrap();
    assert_eq!(spec(&api).holder_identity.as_deref(), Some(""));
    let began = Instant::now();
    two.acquire().await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    // The previous holder must not release the next holder's lease.
    one.release().await.unwrap();
    assert_eq!(spec(&api).holder_identity.as_deref(), Some("two"));
}

#[tokio::test(start_paused = true)]
async fn holder_notices_a_lost_lease_and_does_not_retake_it() {
    let api = FakeApi::default();
    let mut one = contender(&api, "one");
    one.acquire().await;
    // Another process takes the lease without waiting for the expiry, as an administrator may do.
    put(&api, &held_by("two", 15));
    let lost = one.hold().await;
    assert!(matches!(&lost, LostLease::Taken { holder, .. } if holder == "two"), "{lost}");
    one.release().await.unwrap();
    assert_eq!(spec(&api).holder_identity.as_deref(), Some("two"));
}

fn held_by(holder: &str, seconds: i32) -> Lease {
    let spec = LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(seconds),
        ..LeaseSpec::default()
    };
    let metadata = ObjectMeta { resource_version: Some("0".to_owned()), ..ObjectMeta::default() };
    Lease { metadata, spec: Some(spec) }
}

/// The API server stores a write at once but answers late. Other processes count from the write, so the holder must
/// count from its earlier request, after acquiring as well as after renewing.
#[tokio::test(start_paused = true)]
async fn lease_time_counts_from_request_not_response() {
    let api = FakeApi::default();
    put(&api, &held_by("", 15));
    api.delay_answers_to_writes(Duration::from_secs(9));
    let mut one = contender(&api, "one");
    let asked = Instant::now();
    one.acquire().await;
    assert!(asked.elapsed() >= Duration::from_secs(9));
    break_with(&api, Fault::Hang);
    let lost = one.hold().await;
    assert!(matches!(lost, LostLease::NotRenewed { .. }), "{lost}");
    assert_eq!(asked.elapsed(), Duration::from_secs(10), "taken");

    api.clear_faults();
    api.delay_answers_to_writes(Duration::ZERO);
    put(&api, &held_by("", 15));
    let mut two = contender(&api, "two");
    two.acquire().await;
    api.delay_answers_to_writes(Duration::from_secs(4));
    let before = requests(&api);
    let renewal = async {
        while requests(&api) == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let asked = Instant::now();
        tokio::time::sleep(Duration::from_secs(1)).await;
        break_with(&api, Fault::Hang);
        asked
    };
    let (lost, asked) = tokio::join!(two.hold(), renewal);
    assert!(matches!(lost, LostLease::NotRenewed { .. }), "{lost}");
    let led = asked.elapsed();
    assert!(led <= Duration::from_secs(10), "was the leader for {led:?} after its last renewal was sent");
}

#[tokio::test(start_paused = true)]
async fn lease_is_renewed_at_once_after_a_late_response() {
    let api = FakeApi::default();
    api.delay_answers_to_writes(Duration::from_secs(9));
    let mut one = contender(&api, "one");
    one.acquire().await;
    api.delay_answers_to_writes(Duration::ZERO);
    tokio::select! {
        lost = one.hold() => panic!("{lost}"),
        () = tokio::time::sleep(Duration::from_mins(1)) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn waiter_honours_the_lease_duration_that_its_holder_wrote() {
    for (seconds, atleast, atmost) in [(60, 60, 80), (3, 3, 15)] {
        let api = FakeApi::default();
        put(&api, &held_by("the reference", seconds));
        let mut one = contender(&api, "one");
        let began = Instant::now();
        one.acquire().await;
        let waited = began.elapsed();
        let bounds = Duration::from_secs(atleast)..Duration::from_secs(atmost);
        assert!(bounds.contains(&waited), "waited {waited:?} for a lease of {seconds} s");
    }
}

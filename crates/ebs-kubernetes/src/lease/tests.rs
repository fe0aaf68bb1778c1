use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use kube::core::Status;
use tokio::task::JoinSet;

use super::*;

/// An API server with one lease. It fails, hangs and counts requests as a test sets it.
#[derive(Debug, Default)]
struct Server {
    lease: Mutex<Option<Lease>>,
    versions: AtomicU32,
    requests: AtomicU32,
    /// How the server answers: normally, with errors, or never.
    mood: Mutex<Mood>,
    /// The delay of responses to writes.
    answer_to_writes_after: Mutex<Duration>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Mood {
    #[default]
    Well,
    Failing,
    Hanging,
}

/// A contender's connection to the server, which can be cut on its own.
#[derive(Debug, Clone, Default)]
struct Way {
    server: Arc<Server>,
    cut: Arc<Mutex<bool>>,
}

fn refused(code: u16, reason: &str) -> Failure {
    Failure::from(kube::Error::Api(Status::failure("as the test wants", reason).with_code(code).boxed()))
}

impl Way {
    fn to(server: &Arc<Server>) -> Self {
        Self { server: Arc::clone(server), cut: Arc::default() }
    }

    fn cut(&self, cut: bool) {
        *self.cut.lock().unwrap() = cut;
    }

    async fn admitted(&self) -> Result<(), Failure> {
        self.server.requests.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(20)).await;
        let mood = *self.server.mood.lock().unwrap();
        if *self.cut.lock().unwrap() || mood == Mood::Hanging {
            std::future::pending::<()>().await;
        }
        if mood == Mood::Failing { Err(refused(500, "InternalError")) } else { Ok(()) }
    }

    fn stored(&self, lease: &Lease) -> Lease {
        let mut stored = lease.clone();
        let version = self.server.versions.fetch_add(1, Ordering::Relaxed) + 1;
        stored.metadata.resource_version = Some(version.to_string());
        *self.server.lease.lock().unwrap() = Some(stored.clone());
        stored
    }

    async fn answered(&self, stored: Lease) -> Lease {
        let late = *self.server.answer_to_writes_after.lock().unwrap();
        tokio::time::sleep(late).await;
        stored
    }
}

impl LeaseStore for Way {
    async fn get(&self) -> Result<Option<Lease>, Failure> {
        self.admitted().await?;
        Ok(self.server.lease.lock().unwrap().clone())
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, Failure> {
        self.admitted().await?;
        if self.server.lease.lock().unwrap().is_some() {
            return Err(refused(409, "AlreadyExists"));
        }
        let stored = self.stored(lease);
        Ok(self.answered(stored).await)
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, Failure> {
        self.admitted().await?;
        let is_current = self
            .server
            .lease
            .lock()
            .unwrap()
            .as_ref()
            .is_some_and(|current| current.metadata.resource_version == lease.metadata.resource_version);
        if !is_current {
            return Err(refused(409, "Conflict"));
        }
        let stored = self.stored(lease);
        Ok(self.answered(stored).await)
    }
}

fn config(who: &str) -> LeaseConfig {
    LeaseConfig { identity: who.to_owned(), ..LeaseConfig::new("metadata-labeler-ebs.csi.aws.com", "host") }
}

fn contender(way: &Way, who: &str) -> Election<Way> {
    Election::new(way.clone(), config(who))
}

fn spec(server: &Server) -> LeaseSpec {
    server.lease.lock().unwrap().clone().expect("a lease").spec.expect("a spec")
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

/// The lease contains the holder, the duration and the time of acquisition.
#[tokio::test(start_paused = true)]
async fn first_contender_creates_and_holds_the_lease() {
    let server = Arc::new(Server::default());
    let mut one = contender(&Way::to(&server), "one");
    one.acquire().await;
    let taken = spec(&server);
    assert_eq!(taken.holder_identity.as_deref(), Some("one"));
    assert_eq!((taken.lease_duration_seconds, taken.lease_transitions), (Some(15), Some(0)));
    assert!(taken.acquire_time.is_some() && taken.acquire_time == taken.renew_time);
}

/// The holder needs one request every 5 s.
#[tokio::test(start_paused = true)]
async fn renewed_lease_is_not_taken_by_another() {
    let server = Arc::new(Server::default());
    let (mut one, mut two) = (contender(&Way::to(&server), "one"), contender(&Way::to(&server), "two"));
    one.acquire().await;
    let before = server.requests.load(Ordering::Relaxed);
    tokio::select! {
        lost = one.hold() => panic!("{lost}"),
        () = tokio::time::sleep(Duration::from_secs(100)) => {}
    }
    let renewals = server.requests.load(Ordering::Relaxed) - before;
    assert!((18..=20).contains(&renewals), "{renewals}");
    tokio::select! {
        lost = one.hold() => panic!("{lost}"),
        () = two.acquire() => panic!("two leaders at once"),
        () = tokio::time::sleep(Duration::from_mins(10)) => {}
    }
    assert_eq!(spec(&server).lease_transitions, Some(0));
}

/// The time stamps in the lease do not matter.
#[tokio::test(start_paused = true)]
async fn expired_lease_is_taken_by_the_clock_of_the_waiter() {
    for stamp in ["1970-01-01T00:00:00Z", "2999-01-01T00:00:00Z"] {
        let server = Arc::new(Server::default());
        let (mut one, mut two) = (contender(&Way::to(&server), "one"), contender(&Way::to(&server), "two"));
        one.acquire().await;
        let stamp: Timestamp = stamp.parse().unwrap();
        server.lease.lock().unwrap().as_mut().unwrap().spec.as_mut().unwrap().renew_time = Some(MicroTime(stamp));
        let gone = Instant::now();
        two.acquire().await;
        let waited = gone.elapsed();
        assert!((Duration::from_secs(15)..Duration::from_secs(30)).contains(&waited), "{waited:?}");
        let taken = spec(&server);
        assert_eq!((taken.holder_identity.as_deref(), taken.lease_transitions), (Some("two"), Some(1)));
    }
}

/// Covers an API server that fails, hangs or is unreachable for the holder.
#[tokio::test(start_paused = true)]
async fn holder_that_cannot_renew_stops_before_another_begins() {
    let server = Arc::new(Server::default());
    for mood in [Mood::Failing, Mood::Hanging] {
        let mut one = contender(&Way::to(&server), "one");
        let began = Instant::now();
        one.acquire().await;
        *server.mood.lock().unwrap() = mood;
        let lost = one.hold().await;
        assert!(matches!(lost, LostLease::NotRenewed { .. }), "{lost}");
        assert_eq!(began.elapsed(), Duration::from_secs(10));
        *server.mood.lock().unwrap() = Mood::Well;
    }
    let way = Way::to(&server);
    let (mut one, mut two) = (contender(&way, "one"), contender(&Way::to(&server), "two"));
    one.acquire().await;
    way.cut(true);
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
async fn short_outage_does_not_lose_the_lease() {
    let server = Arc::new(Server::default());
    let mut one = contender(&Way::to(&server), "one");
    one.acquire().await;
    let trouble = async {
        for _ in 0..20 {
            *server.mood.lock().unwrap() = Mood::Failing;
            tokio::time::sleep(Duration::from_secs(4)).await;
            *server.mood.lock().unwrap() = Mood::Well;
            tokio::time::sleep(Duration::from_millis(5300)).await;
        }
    };
    tokio::select! {
        lost = one.hold() => panic!("{lost}"),
        () = trouble => {}
    }
}

/// The other's write names a version that no longer exists.
#[tokio::test(start_paused = true)]
async fn one_of_many_concurrent_contenders_gets_the_lease() {
    let server = Arc::new(Server::default());
    let leads = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for who in 0..8 {
        let (mut election, leads) = (contender(&Way::to(&server), &format!("c{who}")), Arc::clone(&leads));
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
    let server = Arc::new(Server::default());
    let (mut one, mut two) = (contender(&Way::to(&server), "one"), contender(&Way::to(&server), "two"));
    one.acquire().await;
    two.release().await.unwrap();
    assert_eq!(spec(&server).holder_identity.as_deref(), Some("one"));
    one.release().await.unwrap();
    assert_eq!(spec(&server).holder_identity.as_deref(), Some(""));
    let began = Instant::now();
    two.acquire().await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    // A second release does not release the lease of the next holder.
    one.release().await.unwrap();
    assert_eq!(spec(&server).holder_identity.as_deref(), Some("two"));
}

/// The holder learns it with its next renewal.
#[tokio::test(start_paused = true)]
async fn holder_learns_that_it_lost_the_lease_and_does_not_retake_it() {
    let server = Arc::new(Server::default());
    let way = Way::to(&server);
    let mut one = contender(&way, "one");
    one.acquire().await;
    // By a process that does not wait for the expiry, as an administrator may.
    way.stored(&held_by("two", 15));
    let lost = one.hold().await;
    assert!(matches!(&lost, LostLease::Taken { holder, .. } if holder == "two"), "{lost}");
    one.release().await.unwrap();
    assert_eq!(spec(&server).holder_identity.as_deref(), Some("two"));
}

/// Returns a lease of this holder with this duration in seconds.
fn held_by(holder: &str, seconds: i32) -> Lease {
    let spec = LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(seconds),
        ..LeaseSpec::default()
    };
    let metadata = ObjectMeta { resource_version: Some("0".to_owned()), ..ObjectMeta::default() };
    Lease { metadata, spec: Some(spec) }
}

/// The API server stores a write at once and answers late. Others count from the write, so the holder counts from its
/// request, both after acquiring and after renewing.
#[tokio::test(start_paused = true)]
async fn lease_time_counts_from_request_not_response() {
    let server = Arc::new(Server::default());
    *server.lease.lock().unwrap() = Some(held_by("", 15));
    *server.answer_to_writes_after.lock().unwrap() = Duration::from_secs(9);
    let mut one = contender(&Way::to(&server), "one");
    let asked = Instant::now();
    one.acquire().await;
    assert!(asked.elapsed() >= Duration::from_secs(9));
    *server.mood.lock().unwrap() = Mood::Hanging;
    let lost = one.hold().await;
    assert!(matches!(lost, LostLease::NotRenewed { .. }), "{lost}");
    assert_eq!(asked.elapsed(), Duration::from_secs(10), "taken");

    *server.mood.lock().unwrap() = Mood::Well;
    *server.answer_to_writes_after.lock().unwrap() = Duration::ZERO;
    *server.lease.lock().unwrap() = Some(held_by("", 15));
    let mut two = contender(&Way::to(&server), "two");
    two.acquire().await;
    *server.answer_to_writes_after.lock().unwrap() = Duration::from_secs(4);
    let before = server.requests.load(Ordering::Relaxed);
    let renewal = async {
        while server.requests.load(Ordering::Relaxed) == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let asked = Instant::now();
        tokio::time::sleep(Duration::from_secs(1)).await;
        *server.mood.lock().unwrap() = Mood::Hanging;
        asked
    };
    let (lost, asked) = tokio::join!(two.hold(), renewal);
    assert!(matches!(lost, LostLease::NotRenewed { .. }), "{lost}");
    let led = asked.elapsed();
    assert!(led <= Duration::from_secs(10), "was the leader for {led:?} after its last renewal was sent");
}

#[tokio::test(start_paused = true)]
async fn lease_with_late_response_is_renewed_at_once() {
    let server = Arc::new(Server::default());
    *server.answer_to_writes_after.lock().unwrap() = Duration::from_secs(9);
    let mut one = contender(&Way::to(&server), "one");
    one.acquire().await;
    *server.answer_to_writes_after.lock().unwrap() = Duration::ZERO;
    tokio::select! {
        lost = one.hold() => panic!("{lost}"),
        () = tokio::time::sleep(Duration::from_mins(1)) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn lease_of_another_lasts_for_its_own_duration() {
    for (seconds, atleast, atmost) in [(60, 60, 80), (3, 3, 15)] {
        let server = Arc::new(Server::default());
        *server.lease.lock().unwrap() = Some(held_by("the reference", seconds));
        let mut one = contender(&Way::to(&server), "one");
        let began = Instant::now();
        one.acquire().await;
        let waited = began.elapsed();
        let bounds = Duration::from_secs(atleast)..Duration::from_secs(atmost);
        assert!(bounds.contains(&waited), "waited {waited:?} for a lease of {seconds} s");
    }
}

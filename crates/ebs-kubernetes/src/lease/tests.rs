use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use kube::core::Status;
use tokio::task::JoinSet;

use super::*;

/// An API server with one lease, that fails, hangs and counts as a test wants.
#[derive(Debug, Default)]
struct Server {
    lease: Mutex<Option<Lease>>,
    versions: AtomicU32,
    requests: AtomicU32,
    /// What answers are: all is well, errors, or none at all.
    mood: Mutex<Mood>,
    /// What was written is answered so much later.
    answer_to_writes_after: Mutex<Duration>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Mood {
    #[default]
    Well,
    Failing,
    Hanging,
}

/// A contender's way to the server; it can be cut by itself.
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

/// The lease's name is made of the driver's; each process has an identity of its own.
#[test]
fn the_name_has_letters_digits_and_dashes_and_no_two_processes_one_identity() {
    let (one, other) = (LeaseConfig::new("metadata-labeler-ebs.csi.aws.com", "host.local."), config("b"));
    assert_eq!(one.name, "metadata-labeler-ebs-csi-aws-com");
    assert!(one.identity.starts_with("host-local-X-"), "{}", one.identity);
    assert_ne!(one.identity, LeaseConfig::new("", "host.local.").identity);
    assert_eq!(object_name(""), "X");
    assert!(other.renew_deadline < other.duration);
}

/// Who finds no lease makes it, and it says who holds it, for how long and since when.
#[tokio::test(start_paused = true)]
async fn the_first_makes_the_lease_and_holds_it() {
    let server = Arc::new(Server::default());
    let mut one = contender(&Way::to(&server), "one");
    one.acquire().await;
    let taken = spec(&server);
    assert_eq!(taken.holder_identity.as_deref(), Some("one"));
    assert_eq!((taken.lease_duration_seconds, taken.lease_transitions), (Some(15), Some(0)));
    assert!(taken.acquire_time.is_some() && taken.acquire_time == taken.renew_time);
}

/// While the holder renews, nobody else gets the lease; the holder needs one request for it every 5 s.
#[tokio::test(start_paused = true)]
async fn while_it_is_renewed_nobody_else_gets_it() {
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
        () = two.acquire() => panic!("two leads at once"),
        () = tokio::time::sleep(Duration::from_mins(10)) => {}
    }
    assert_eq!(spec(&server).lease_transitions, Some(0));
}

/// A holder that is gone is followed when its lease has lasted its time by the clock of the one who waits, whatever the time
/// stamps in it say.
#[tokio::test(start_paused = true)]
async fn a_holder_that_is_gone_is_followed_by_the_clock_of_the_one_who_waits() {
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

/// A holder that cannot renew stops leading before another may begin, whether the API server fails, hangs or is out of its reach.
#[tokio::test(start_paused = true)]
async fn a_holder_that_cannot_renew_stops_before_another_begins() {
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
    assert!(gap >= Duration::from_secs(4), "the one led until {gap:?} before the other");
}

/// A short trouble of the API server costs nothing: the holder renews in time.
#[tokio::test(start_paused = true)]
async fn a_short_trouble_costs_nothing() {
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

/// Of two that try at once one gets the lease: the other's write names a version that is not there any more.
#[tokio::test(start_paused = true)]
async fn of_many_that_try_at_once_one_gets_it() {
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

/// A lease that is given back is taken at the next attempt, without waiting for its end; one that is not held is not given back.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_back_is_free_at_once() {
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
    // What was given back is not given back for somebody else.
    one.release().await.unwrap();
    assert_eq!(spec(&server).holder_identity.as_deref(), Some("two"));
}

/// A holder whose lease another process has taken learns it with its next renewal, and takes nothing back.
#[tokio::test(start_paused = true)]
async fn who_lost_the_lease_learns_it_and_takes_nothing_back() {
    let server = Arc::new(Server::default());
    let way = Way::to(&server);
    let mut one = contender(&way, "one");
    one.acquire().await;
    // By somebody who does not wait until it has run out, as an administrator may.
    way.stored(&held_by("two", 15));
    let lost = one.hold().await;
    assert!(matches!(&lost, LostLease::Taken { holder, .. } if holder == "two"), "{lost}");
    one.release().await.unwrap();
    assert_eq!(spec(&server).holder_identity.as_deref(), Some("two"));
}

/// A lease of this holder, which says for how many seconds it lasts.
fn held_by(holder: &str, seconds: i32) -> Lease {
    let spec = LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(seconds),
        ..LeaseSpec::default()
    };
    let metadata = ObjectMeta { resource_version: Some("0".to_owned()), ..ObjectMeta::default() };
    Lease { metadata, spec: Some(spec) }
}

/// The API server carries out a write at once and answers late: others count from the write, so the holder counts from its request,
/// whether it took the lease with it or renewed it.
#[tokio::test(start_paused = true)]
async fn a_lease_counts_from_the_request_not_the_answer() {
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
    assert!(led <= Duration::from_secs(10), "led for {led:?} after its last renewal was sent");
}

/// A lease that was answered late is renewed at once, before the time to give it up.
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_answered_late_is_renewed_at_once() {
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

/// Another holder's lease lasts as long as the lease itself says, whatever this process would write.
#[tokio::test(start_paused = true)]
async fn anothers_lease_lasts_as_long_as_it_says() {
    for (seconds, atleast, atmost) in [(60, 60, 80), (3, 3, 15)] {
        let server = Arc::new(Server::default());
        *server.lease.lock().unwrap() = Some(held_by("the reference", seconds));
        let mut one = contender(&Way::to(&server), "one");
        let began = Instant::now();
        one.acquire().await;
        let waited = began.elapsed();
        let bounds = Duration::from_secs(atleast)..Duration::from_secs(atmost);
        assert!(bounds.contains(&waited), "a lease of {seconds} s was waited for {waited:?}");
    }
}

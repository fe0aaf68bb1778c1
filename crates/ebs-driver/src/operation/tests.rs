use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::*;
use crate::status::{IntoStatus, Meaning};
use crate::volume_handle::VolumeHandle;

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the disk is on fire")]
struct Fire;

impl IntoStatus for Fire {
    fn meaning(&self) -> Meaning {
        Meaning::Internal
    }
}

impl Operations {
    /// Returns true while a request waits for the operation under `key`.
    fn is_awaited(&self, key: &Key) -> bool {
        self.slots().get(key).is_some_and(|running| running.waiters.any())
    }
}

fn key() -> Key {
    Key::CreateVolume("pvc-1".to_owned())
}

/// Counts starts and ends of work, and blocks it until the gate opens.
#[derive(Clone, Default)]
struct Gate {
    open: Arc<Notify>,
    started: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Gate {
    async fn pass(self, result: Result<u32, Fire>) -> Result<u32, Fire> {
        self.started.fetch_add(1, Ordering::SeqCst);
        self.open.notified().await;
        self.ended.fetch_add(1, Ordering::SeqCst);
        result
    }

    fn starts(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }

    fn ends(&self) -> usize {
        self.ended.load(Ordering::SeqCst)
    }
}

/// Runs all tasks that are ready. Paused time makes this exact.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

async fn until(what: &str, level: impl Fn() -> bool) {
    for _ in 0..1000 {
        if level() {
            return;
        }
        settle().await;
    }
    panic!("never reached: {what}");
}

async fn run(
    operations: &Operations,
    plan: &'static str,
    gate: &Gate,
    result: Result<u32, Fire>,
) -> Result<u32, OperationError<Fire>> {
    let gate = gate.clone();
    operations.run_exclusive(key(), plan, MINUTE, move |_| gate.pass(result)).await
}

/// The operation runs to its end and holds its key until then.
#[tokio::test(start_paused = true)]
async fn dropped_caller_does_not_drop_the_work() {
    let (operations, gate) = (Operations::new(), Gate::default());
    let caller = tokio::time::timeout(Duration::from_secs(1), run(&operations, "a", &gate, Ok(1))).await;
    assert!(caller.is_err(), "the gate is closed");
    assert_eq!(gate.starts(), 1);
    assert_eq!(operations.running(), [key()]);
    assert!(matches!(run(&operations, "b", &gate, Ok(2)).await, Err(OperationError::Busy(_))));
    gate.open.notify_one();
    until("the work ends", || gate.ends() == 1).await;
    until("the key is free", || operations.running().is_empty()).await;
    assert_eq!(gate.starts(), 1);
}

/// The retry has the same content.
#[tokio::test(start_paused = true)]
async fn retry_joins_the_running_operation_and_gets_its_result() {
    let (operations, gate) = (Operations::new(), Gate::default());
    let mut callers = JoinSet::new();
    for result in [Ok(7), Ok(8), Err(Fire)] {
        let (operations, gate) = (operations.clone(), gate.clone());
        callers.spawn(async move { run(&operations, "a", &gate, result).await });
        settle().await;
    }
    assert_eq!(gate.starts(), 1);
    gate.open.notify_one();
    while let Some(got) = callers.join_next().await {
        assert_eq!(got.expect("no panic").expect("the first one's result"), 7);
    }
}

#[tokio::test(start_paused = true)]
async fn failure_is_shared_by_all_waiting_callers() {
    let (operations, gate) = (Operations::new(), Gate::default());
    let both = async { tokio::join!(run(&operations, "a", &gate, Err(Fire)), run(&operations, "a", &gate, Ok(1))) };
    let open = async {
        until("started", || gate.starts() == 1).await;
        gate.open.notify_one();
    };
    let ((one, other), ()) = tokio::join!(both, open);
    for got in [one, other] {
        let error = got.expect_err("the work failed");
        assert!(matches!(&error, OperationError::Failed(e) if **e == Fire), "{error:?}");
        assert_eq!(error.meaning(), Meaning::Internal);
    }
}

/// The status is Aborted.
#[tokio::test(start_paused = true)]
async fn different_plan_or_plan_type_under_a_held_key_is_busy() {
    let (operations, gate) = (Operations::new(), Gate::default());
    let (held, _) = tokio::join!(run(&operations, "a", &gate, Ok(1)), async {
        until("started", || gate.starts() == 1).await;
        let other = run(&operations, "b", &gate, Ok(2)).await.expect_err("another plan");
        assert!(matches!(other, OperationError::Busy(_)));
        assert_eq!(other.meaning(), Meaning::InProgress);
        let other = operations.run_exclusive(key(), 1_u8, MINUTE, |_| async { Ok::<u32, Fire>(3) }).await;
        assert!(matches!(other, Err(OperationError::Busy(_))));
        gate.open.notify_one();
    });
    assert_eq!(held.expect("undisturbed"), 1);
}

/// For example a volume and a snapshot with one name.
#[tokio::test(start_paused = true)]
async fn keys_of_different_kinds_never_collide() {
    let operations = Operations::new();
    let nested = {
        let operations = operations.clone();
        move |_| async move {
            operations
                .run_exclusive(Key::CreateSnapshot("pvc-1".to_owned()), "a", MINUTE, |_| async { Ok::<u32, Fire>(2) })
                .await
        }
    };
    let got = operations.run_exclusive(key(), "a", MINUTE, nested).await.expect("no collision");
    assert_eq!(got, 2);
}

/// Every waiting caller gets Aborted.
#[tokio::test(start_paused = true)]
async fn panic_is_an_unknown_outcome_and_frees_the_key() {
    let operations = Operations::new();
    let broken = |_| async {
        settle().await;
        panic!("index out of bounds");
        #[expect(unreachable_code, reason = "gives the future its type")]
        Ok::<u32, Fire>(1)
    };
    let (one, other) = tokio::join!(
        operations.run_exclusive(key(), "a", MINUTE, broken),
        operations.run_exclusive(key(), "a", MINUTE, |_| async { Ok::<u32, Fire>(1) })
    );
    for got in [one, other] {
        let error = got.expect_err("it panicked");
        assert!(
            matches!(&error, OperationError::OutcomeUnknown { cause, .. } if cause.contains("index out of bounds"))
        );
        assert_eq!(error.meaning(), Meaning::InProgress, "never a final code");
    }
    let again = operations.run_exclusive(key(), "a", MINUTE, |_| async { Ok::<u32, Fire>(2) }).await;
    assert_eq!(again.expect("the key is free"), 2);
}

#[tokio::test(start_paused = true)]
async fn bound_ends_the_wait_but_not_the_work() {
    let (operations, gate) = (Operations::new(), Gate::default());
    let start = Instant::now();
    let error = run(&operations, "a", &gate, Ok(1)).await.expect_err("the gate is closed");
    assert!(matches!(error, OperationError::StillRunning { waited: MINUTE, .. }));
    assert_eq!((error.meaning(), start.elapsed().as_secs()), (Meaning::InProgress, 60));
    let (joined, ()) = tokio::join!(run(&operations, "a", &gate, Ok(2)), async { gate.open.notify_one() });
    assert_eq!(joined.expect("joined the first"), 1);
    assert_eq!(gate.starts(), 1);
}

#[tokio::test(start_paused = true)]
async fn work_sees_whether_a_caller_waits() {
    let operations = Operations::new();
    let seen: Arc<Mutex<Option<Waiters>>> = Arc::default();
    let gate = Gate::default();
    let work = {
        let (seen, gate) = (Arc::clone(&seen), gate.clone());
        move |waiters: Waiters| async move {
            *seen.lock().expect("not poisoned") = Some(waiters);
            gate.pass(Ok(1)).await
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), operations.run_exclusive(key(), "a", MINUTE, work)).await;
    let waiters = seen.lock().expect("not poisoned").clone().expect("the work has started");
    assert!(!waiters.any() && !operations.is_awaited(&key()));
    let joined = run(&operations, "a", &gate, Ok(2));
    let (joined, ()) = tokio::join!(joined, async {
        settle().await;
        assert!(waiters.any() && operations.is_awaited(&key()));
        gate.open.notify_one();
    });
    assert_eq!(joined.expect("joined"), 1);
}

#[tokio::test(start_paused = true)]
async fn finished_success_is_not_replayed() {
    let operations = Operations::new();
    let runs = Arc::new(AtomicUsize::new(0));
    for expected in 1..=3 {
        let runs = Arc::clone(&runs);
        let work = move |_| async move { Ok::<usize, Fire>(runs.fetch_add(1, Ordering::SeqCst) + 1) };
        assert_eq!(operations.run_exclusive(key(), "a", MINUTE, work).await.expect("runs"), expected);
    }
}

/// As Unpublish does with a Publish without callers. Meanwhile, no call can join the Publish.
#[tokio::test(start_paused = true)]
async fn run_waits_for_an_operation_without_callers() {
    let (operations, publish, unpublish) = (Operations::new(), Gate::default(), Gate::default());
    let left = tokio::time::timeout(Duration::from_secs(1), run(&operations, "publish", &publish, Ok(1))).await;
    assert!(left.is_err());
    unpublish.open.notify_one();
    let taker = {
        let unpublish = unpublish.clone();
        operations.run(key(), 2_u8, MINUTE, move |_| unpublish.pass(Ok(2)))
    };
    let (taken, ()) = tokio::join!(taker, async {
        settle().await;
        assert_eq!(unpublish.starts(), 0, "not beside the publish");
        let late = run(&operations, "publish", &publish, Ok(3)).await;
        assert!(matches!(late, Err(OperationError::Busy(_))), "no call joins an operation that is to end");
        publish.open.notify_one();
    });
    assert_eq!(taken.expect("ran after the publish"), 2);
    assert_eq!((publish.ends(), unpublish.ends()), (1, 1));
}

/// As Unpublish with a Publish that has a caller.
#[tokio::test(start_paused = true)]
async fn run_does_not_interrupt_an_operation_with_callers() {
    let (operations, gate) = (Operations::new(), Gate::default());
    let (held, ()) = tokio::join!(run(&operations, "publish", &gate, Ok(1)), async {
        until("started", || gate.starts() == 1).await;
        let taker = operations.run(key(), 2_u8, MINUTE, |_| async { Ok::<u32, Fire>(2) }).await;
        assert!(matches!(taker, Err(OperationError::Busy(_))));
        gate.open.notify_one();
    });
    assert_eq!(held.expect("undisturbed"), 1);
}

#[tokio::test(start_paused = true)]
async fn run_waits_no_longer_than_its_timeout() {
    let (operations, gate) = (Operations::new(), Gate::default());
    let _ = tokio::time::timeout(Duration::from_secs(1), run(&operations, "publish", &gate, Ok(1))).await;
    let taker = operations.run(key(), 2_u8, MINUTE, |_| async { Ok::<u32, Fire>(2) }).await;
    assert!(matches!(taker, Err(OperationError::StillRunning { .. })));
    let (joined, ()) = tokio::join!(run(&operations, "publish", &gate, Ok(3)), async { gate.open.notify_one() });
    assert_eq!(joined.expect("can be joined again"), 1);
}

/// Waits for running operations up to its limit.
#[tokio::test(start_paused = true)]
async fn drain_refuses_new_work_and_returns_the_remaining_keys() {
    let (operations, gate) = (Operations::new(), Gate::default());
    let _ = tokio::time::timeout(Duration::from_secs(1), run(&operations, "a", &gate, Ok(1))).await;
    let start = Instant::now();
    assert_eq!(operations.drain(Duration::from_secs(20)).await, [key()]);
    assert_eq!(start.elapsed().as_secs(), 20);
    let other = Key::CreateVolume("pvc-2".to_owned());
    let error =
        operations.run_exclusive(other, "a", MINUTE, |_| async { Ok::<u32, Fire>(1) }).await.expect_err("refused");
    assert!(matches!(error, OperationError::ShuttingDown(_)));
    assert_eq!(error.meaning(), Meaning::Unavailable);
    let (joined, left) = tokio::join!(run(&operations, "a", &gate, Ok(2)), async {
        gate.open.notify_one();
        operations.drain(Duration::from_secs(20)).await
    });
    assert_eq!(joined.expect("running work may still be awaited"), 1);
    assert!(left.is_empty());
}

fn volume_keys() -> (Key, Key, Key, Key) {
    let volume = VolumeHandle::parse("vol-0abc").unwrap();
    let target = |name: &str| Key::NodeTarget { volume: volume.clone(), target: name.into() };
    (Key::NodeVolume(volume.clone()), Key::NodeGrowth(volume.clone()), target("/a"), target("/b"))
}

/// Publishes, unpublishes and growth do not exclude each other.
#[tokio::test(start_paused = true)]
async fn stage_excludes_targets_which_do_not_exclude_each_other() {
    let (whole, growth, a, b) = volume_keys();
    let other = Key::NodeVolume(VolumeHandle::parse("local-ebs://dev/xvdbz").unwrap());
    for (held, wanted, may) in [
        (&whole, &a, false),
        (&a, &whole, false),
        (&growth, &whole, false),
        (&whole, &growth, false),
        (&a, &b, true),
        (&a, &growth, true),
        (&a, &other, true),
    ] {
        let (operations, gate) = (Operations::new(), Gate::default());
        let first = start(&operations, held, &gate);
        until("the first has started", || gate.starts() == 1).await;
        let second = operations.run_exclusive(wanted.clone(), "second", MINUTE, |_| async { Ok::<_, Fire>(2) }).await;
        match second {
            Ok(2) => assert!(may, "{wanted} ran beside {held}"),
            Err(OperationError::Busy(by)) => assert!(!may && by == *held, "{wanted} was refused by {by}"),
            other => panic!("{other:?}"),
        }
        gate.open.notify_one();
        assert_eq!(first.await.unwrap().unwrap(), 1);
    }
}

/// But not for a publish with callers.
#[tokio::test(start_paused = true)]
async fn unstage_waits_for_a_publish_without_callers() {
    let (whole, _, a, _) = volume_keys();
    let (operations, gate) = (Operations::new(), Gate::default());
    let publish = start(&operations, &a, &gate);
    until("the publish has started", || gate.starts() == 1).await;
    let unstage = |operations: Operations| {
        let whole = whole.clone();
        async move { operations.run(whole, "unstage", MINUTE, |_| async { Ok::<_, Fire>(2) }).await }
    };
    assert!(matches!(unstage(operations.clone()).await, Err(OperationError::Busy(by)) if by == a));
    publish.abort();
    until("the publisher has left", || !operations.is_awaited(&a)).await;
    let mut waiting = JoinSet::new();
    waiting.spawn(unstage(operations.clone()));
    settle().await;
    assert_eq!(operations.running(), std::slice::from_ref(&a), "the unstage has begun beside the publish");
    gate.open.notify_one();
    assert_eq!(waiting.join_next().await.unwrap().unwrap().unwrap(), 2);
    assert_eq!(gate.ends(), 1);
}

/// Starts an operation that holds a key until the gate opens, and returns its caller as a task.
fn start(
    operations: &Operations,
    key: &Key,
    gate: &Gate,
) -> tokio::task::JoinHandle<Result<u32, OperationError<Fire>>> {
    let (operations, key, gate) = (operations.clone(), key.clone(), gate.clone());
    #[expect(clippy::disallowed_methods, reason = "the caller of a test, aborted or joined by it")]
    tokio::spawn(async move { operations.run_exclusive(key, "first", MINUTE, |_| gate.pass(Ok(1))).await })
}

#[tokio::test(start_paused = true)]
async fn running_operations_report_their_kind_and_age() {
    let (operations, gate) = (Operations::new(), Gate::default());
    let mut requests = JoinSet::new();
    let (of, held) = (operations.clone(), gate.clone());
    requests.spawn(async move { run(&of, "plan", &held, Ok(1)).await });
    until("it runs", || gate.starts() == 1).await;
    tokio::time::advance(MINUTE / 2).await;
    let ages = operations.ages();
    assert!(matches!(&ages[..], [("CreateVolume", age)] if *age >= MINUTE / 2), "{ages:?}");
    gate.open.notify_one();
    requests.join_next().await.expect("a request").expect("its result").expect("a success");
    assert!(operations.ages().is_empty());
}

#[derive(Debug, thiserror::Error)]
#[error("no caller waits")]
struct Unheard;

impl IntoStatus for Unheard {
    fn meaning(&self) -> Meaning {
        Meaning::InProgress
    }

    fn is_abandoned(&self) -> bool {
        true
    }
}

/// The work has checked its callers and is about to stop when a caller joins it.
#[tokio::test(start_paused = true)]
async fn caller_that_joins_abandoned_work_runs_it_again() {
    let (operations, stops) = (Operations::new(), Arc::new(Notify::new()));
    let runs = Arc::new(AtomicUsize::new(0));
    let call = || {
        let (runs, stops) = (Arc::clone(&runs), Arc::clone(&stops));
        let work = move |_| async move {
            match runs.fetch_add(1, Ordering::SeqCst) {
                0 => {
                    stops.notified().await;
                    Err(Unheard)
                }
                _ => Ok(2),
            }
        };
        operations.run_exclusive(key(), "a", MINUTE, work)
    };
    assert!(tokio::time::timeout(Duration::from_secs(1), call()).await.is_err(), "the first caller leaves");
    let (answer, ()) = tokio::join!(call(), async { stops.notify_one() });
    assert_eq!((answer.expect("it ran again"), runs.load(Ordering::SeqCst)), (2, 2));
}

/// Work that stops for lack of callers while one waits has a bug, and must not run forever.
#[tokio::test(start_paused = true)]
async fn abandoned_work_is_repeated_only_once() {
    let operations = Operations::new();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let work = move |_| async move {
        counted.fetch_add(1, Ordering::SeqCst);
        Err::<u32, _>(Unheard)
    };
    let answer = operations.run_exclusive(key(), "a", MINUTE, work).await;
    assert!(matches!(answer, Err(OperationError::Failed(_))), "{answer:?}");
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

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
        self.slots().running.get(key).is_some_and(|running| running.waiters.any())
    }
}

fn key() -> Key {
    Key::CreateVolume("pvc-1".to_owned())
}

/// Counts how often work starts and ends, and blocks it until the gate opens.
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

async fn done(value: u32) -> Result<u32, Fire> {
    Ok(value)
}

/// Lets all ready tasks run: with paused time, a sleep ends only when no task can continue.
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
    run_at(operations, (key(), plan), gate, result).await
}

async fn run_at(
    operations: &Operations,
    (key, plan): (Key, &'static str),
    gate: &Gate,
    result: Result<u32, Fire>,
) -> Result<u32, OperationError<Fire>> {
    let gate = gate.clone();
    operations.without_takeover().run(key, plan, MINUTE, move |_| gate.pass(result)).await
}

/// Starts an operation whose only caller leaves after a second.
async fn abandon(operations: &Operations, gate: &Gate) {
    let caller = tokio::time::timeout(Duration::from_secs(1), run(operations, "a", gate, Ok(1))).await;
    assert!(caller.is_err(), "the gate is closed");
    assert_eq!((gate.starts(), operations.running()), (1, vec![key()]));
}

/// The operation runs to its end, and holds its key until then.
#[tokio::test(start_paused = true)]
async fn work_continues_after_its_caller_has_left() {
    let (operations, gate) = (Operations::new(), Gate::default());
    abandon(&operations, &gate).await;
    assert!(matches!(run(&operations, "b", &gate, Ok(2)).await, Err(OperationError::Busy(_))));
    gate.open.notify_one();
    until("the work ends", || gate.ends() == 1).await;
    until("the key is free", || operations.running().is_empty()).await;
    assert_eq!(gate.starts(), 1);
}

/// The retries have the same content as the first request.
#[tokio::test(start_paused = true)]
async fn retries_join_the_running_operation_and_get_its_result() {
    for first in [Ok(7), Err(Fire)] {
        let (operations, gate) = (Operations::new(), Gate::default());
        let mut callers = JoinSet::new();
        for result in [first.clone(), Ok(8), Err(Fire)] {
            let (operations, gate) = (operations.clone(), gate.clone());
            callers.spawn(async move { run(&operations, "a", &gate, result).await });
            settle().await;
        }
        assert_eq!(gate.starts(), 1);
        gate.open.notify_one();
        while let Some(got) = callers.join_next().await {
            match (got.expect("no panic"), &first) {
                (Err(error @ OperationError::Failed(_)), Err(Fire)) => assert_eq!(error.meaning(), Meaning::Internal),
                (got, first) => assert_eq!(got.ok(), first.clone().ok()),
            }
        }
    }
}

/// The status is Aborted.
#[tokio::test(start_paused = true)]
async fn held_key_is_busy_for_a_different_plan_or_plan_type() {
    let (operations, gate) = (Operations::new(), Gate::default());
    let (held, _) = tokio::join!(run(&operations, "a", &gate, Ok(1)), async {
        until("started", || gate.starts() == 1).await;
        let other = run(&operations, "b", &gate, Ok(2)).await.expect_err("another plan");
        assert!(matches!(other, OperationError::Busy(_)));
        assert_eq!(other.meaning(), Meaning::InProgress);
        let other = operations.run(key(), 1_u8, MINUTE, |_| done(3)).await;
        assert!(matches!(other, Err(OperationError::Busy(_))));
        gate.open.notify_one();
    });
    assert_eq!(held.expect("undisturbed"), 1);
}

/// The keys belong, for example, to a volume and a snapshot with the same name.
#[tokio::test(start_paused = true)]
async fn keys_of_different_kinds_never_collide() {
    let operations = Operations::new();
    let inner = operations.clone();
    let nested =
        move |_| async move { inner.run(Key::CreateSnapshot("pvc-1".to_owned()), "a", MINUTE, |_| done(2)).await };
    assert_eq!(operations.run(key(), "a", MINUTE, nested).await.expect("no collision"), 2);
}

/// Every waiting caller gets the code Aborted.
#[tokio::test(start_paused = true)]
async fn panic_frees_the_key_and_leaves_the_outcome_unknown() {
    let operations = Operations::new();
    let broken = |_| async {
        settle().await;
        panic!("index out of bounds");
        #[expect(unreachable_code, reason = "gives the future its type")]
        Ok::<u32, Fire>(1)
    };
    let (one, other) =
        tokio::join!(operations.run(key(), "a", MINUTE, broken), operations.run(key(), "a", MINUTE, |_| done(1)));
    for got in [one, other] {
        let error = got.expect_err("it panicked");
        assert!(
            matches!(&error, OperationError::OutcomeUnknown { cause, .. } if cause.contains("index out of bounds"))
        );
        assert_eq!(error.meaning(), Meaning::InProgress, "never a final code");
    }
    let again = operations.run(key(), "a", MINUTE, |_| done(2)).await;
    assert_eq!(again.expect("the key is free"), 2);
}

#[tokio::test(start_paused = true)]
async fn timeout_ends_the_wait_but_not_the_work() {
    let (operations, gate) = (Operations::new(), Gate::default());
    let start = Instant::now();
    let error = run(&operations, "a", &gate, Ok(1)).await.expect_err("the gate is closed");
    assert!(matches!(error, OperationError::StillRunning { waited: MINUTE, .. }));
    assert_eq!((error.meaning(), start.elapsed().as_secs()), (Meaning::InProgress, 60));
    let taker = operations.run(key(), 2_u8, MINUTE, |_| done(2)).await;
    assert!(matches!(taker, Err(OperationError::StillRunning { .. })));
    let (joined, ()) = tokio::join!(run(&operations, "a", &gate, Ok(2)), async { gate.open.notify_one() });
    assert_eq!(joined.expect("joined the first"), 1);
    assert_eq!(gate.starts(), 1);
}

#[tokio::test(start_paused = true)]
async fn running_operation_sees_whether_a_caller_waits() {
    let (operations, gate) = (Operations::new(), Gate::default());
    let seen: Arc<Mutex<Option<Waiters>>> = Arc::default();
    let work = {
        let (seen, gate) = (Arc::clone(&seen), gate.clone());
        move |waiters: Waiters| async move {
            *seen.lock().expect("not poisoned") = Some(waiters);
            gate.pass(Ok(1)).await
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), operations.run(key(), "a", MINUTE, work)).await;
    let waiters = seen.lock().expect("not poisoned").clone().expect("the work has started");
    assert!(!waiters.any() && !operations.is_awaited(&key()));
    let (joined, ()) = tokio::join!(run(&operations, "a", &gate, Ok(2)), async {
        settle().await;
        assert!(waiters.any() && operations.is_awaited(&key()));
        gate.open.notify_one();
    });
    assert_eq!(joined.expect("joined"), 1);
}

#[tokio::test(start_paused = true)]
async fn result_of_a_finished_operation_is_not_replayed() {
    let operations = Operations::new();
    for value in 1..=3 {
        assert_eq!(operations.run(key(), "a", MINUTE, move |_| done(value)).await.expect("runs"), value);
    }
}

/// ControllerUnpublishVolume waits in this way for a ControllerPublishVolume whose client has left. No call can join
/// that publish any more.
#[tokio::test(start_paused = true)]
async fn new_operation_waits_for_a_running_abandoned_one() {
    let (operations, publish, unpublish) = (Operations::new(), Gate::default(), Gate::default());
    abandon(&operations, &publish).await;
    unpublish.open.notify_one();
    let work = unpublish.clone();
    let taker = operations.run(key(), 2_u8, MINUTE, move |_| work.pass(Ok(2)));
    let (taken, ()) = tokio::join!(taker, async {
        settle().await;
        assert_eq!(unpublish.starts(), 0, "not beside the publish");
        let late = run(&operations, "a", &publish, Ok(3)).await;
        assert!(matches!(late, Err(OperationError::Busy(_))), "no call joins an operation that is to end");
        publish.open.notify_one();
    });
    assert_eq!(taken.expect("ran after the publish"), 2);
    assert_eq!((publish.ends(), unpublish.ends()), (1, 1));
}

/// The drain waits for running operations, up to its limit.
#[tokio::test(start_paused = true)]
async fn drain_refuses_new_work_and_returns_the_remaining_keys() {
    let (operations, gate) = (Operations::new(), Gate::default());
    abandon(&operations, &gate).await;
    let start = Instant::now();
    assert_eq!(operations.drain(Duration::from_secs(20)).await, [key()]);
    assert_eq!(start.elapsed().as_secs(), 20);
    let other = Key::CreateVolume("pvc-2".to_owned());
    let error = operations.run(other, "a", MINUTE, |_| done(1)).await.expect_err("refused");
    assert!(matches!(error, OperationError::ShuttingDown(_)));
    assert_eq!(error.meaning(), Meaning::Unavailable);
    let (joined, left) = tokio::join!(run(&operations, "a", &gate, Ok(2)), async {
        gate.open.notify_one();
        operations.drain(Duration::from_secs(20)).await
    });
    assert_eq!(joined.expect("running work may still be awaited"), 1);
    assert!(left.is_empty());
}

fn volume_keys() -> [Key; 4] {
    let volume = VolumeHandle::parse("vol-0abc").unwrap();
    let target = |name: &str| Key::NodeTarget { volume: volume.clone(), target: name.into() };
    [Key::NodeVolume(volume.clone()), Key::NodeGrowth(volume.clone()), target("/a"), target("/b")]
}

/// Publish, unpublish and growth do not exclude each other.
#[tokio::test(start_paused = true)]
async fn stage_excludes_publish_and_growth_which_may_run_together() {
    let [whole, growth, a, b] = volume_keys();
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
        let first = run_at(&operations, (held.clone(), "first"), &gate, Ok(1));
        let (first, ()) = tokio::join!(first, async {
            until("the first has started", || gate.starts() == 1).await;
            match operations.run(wanted.clone(), "second", MINUTE, |_| done(2)).await {
                Ok(2) => assert!(may, "{wanted} ran beside {held}"),
                Err(OperationError::Busy(by)) => assert!(!may && by == *held, "{wanted} was refused by {by}"),
                other => panic!("{other:?}"),
            }
            gate.open.notify_one();
        });
        assert_eq!(first.unwrap(), 1);
    }
}

/// While a caller waits for NodePublishVolume, NodeUnstageVolume is refused as busy, like an operation with the same
/// key.
#[tokio::test(start_paused = true)]
async fn unstage_waits_for_a_publish_whose_client_has_left() {
    let [whole, _, a, _] = volume_keys();
    for unstage in [whole, a.clone()] {
        let (operations, gate) = (Operations::new(), Gate::default());
        let mut publisher = JoinSet::new();
        let (of, held, publish) = (operations.clone(), (a.clone(), "publish"), gate.clone());
        publisher.spawn(async move { run_at(&of, held, &publish, Ok(1)).await });
        until("the publish has started", || gate.starts() == 1).await;
        let unstage = || operations.run(unstage.clone(), "unstage", MINUTE, |_| done(2));
        assert!(matches!(unstage().await, Err(OperationError::Busy(by)) if by == a));
        publisher.abort_all();
        until("the publisher has left", || !operations.is_awaited(&a)).await;
        let (unstaged, ()) = tokio::join!(unstage(), async {
            settle().await;
            assert_eq!(operations.running(), std::slice::from_ref(&a), "the unstage has begun beside the publish");
            gate.open.notify_one();
        });
        assert_eq!((unstaged.unwrap(), gate.ends()), (2, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn running_operations_report_their_kind_and_age() {
    let (operations, gate) = (Operations::new(), Gate::default());
    let (ended, ()) = tokio::join!(run(&operations, "plan", &gate, Ok(1)), async {
        until("it runs", || gate.starts() == 1).await;
        tokio::time::advance(MINUTE / 2).await;
        let ages = operations.ages();
        assert!(matches!(&ages[..], [("CreateVolume", age)] if *age >= MINUTE / 2), "{ages:?}");
        gate.open.notify_one();
    });
    ended.expect("a success");
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

/// The work has found that no caller waits, and is about to stop when a caller joins it.
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
        operations.run(key(), "a", MINUTE, work)
    };
    assert!(tokio::time::timeout(Duration::from_secs(1), call()).await.is_err(), "the first caller leaves");
    let (answer, ()) = tokio::join!(call(), async { stops.notify_one() });
    assert_eq!((answer.expect("it ran again"), runs.load(Ordering::SeqCst)), (2, 2));
}

/// Work that stops for lack of callers although a caller waits has a bug, and must not be repeated forever.
#[tokio::test(start_paused = true)]
async fn abandoned_work_is_repeated_only_once() {
    let operations = Operations::new();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let work = move |_| async move {
        counted.fetch_add(1, Ordering::SeqCst);
        Err::<u32, _>(Unheard)
    };
    let answer = operations.run(key(), "a", MINUTE, work).await;
    assert!(matches!(answer, Err(OperationError::Failed(_))), "{answer:?}");
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

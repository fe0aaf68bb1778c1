//! The way of a call, on a paused clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::api::{CreateVolume, DescribeVolumes};
use crate::buckets::{Limits, Rate};
use crate::faults::{Effect, Rule};

fn create() -> Call {
    let zone = Some("us-west-2a".to_owned());
    Call::CreateVolume(CreateVolume { availability_zone: zone, size: Some(1), ..Default::default() })
}

fn describe() -> Call {
    Call::DescribeVolumes(DescribeVolumes::default())
}

async fn with(effect: Effect) -> Engine {
    let engine = Engine::start(EngineConfig::default()).await.unwrap();
    engine.faults().add(Rule::new(effect)).unwrap();
    engine
}

/// Volumes made, root volumes apart.
async fn made(engine: &Engine) -> usize {
    let volumes = engine.snapshot_of_state().await.volumes;
    volumes.iter().filter(|v| v.attachments.is_empty()).count()
}

#[tokio::test(start_paused = true)]
async fn a_lost_request_does_nothing_and_a_lost_reply_everything() {
    let engine = with(Effect::LoseRequest { after_ms: 0 }).await;
    let served = engine.serve(Caller::Own, create(), |_| ()).await;
    assert_eq!((served.answer, served.outcome, made(&engine).await), (Answer::Silence, None, 0));
    let engine = with(Effect::LoseReply { after_ms: 0 }).await;
    let served = engine.serve(Caller::Own, create(), |_| ()).await;
    assert_eq!((served.answer, served.outcome, made(&engine).await), (Answer::Silence, Some(Ok(())), 1));
    assert_eq!(served.faults, ["lose-reply"]);
}

#[tokio::test(start_paused = true)]
async fn an_error_instead_of_the_work_does_nothing_and_one_after_it_everything() {
    for (after_doing, volumes) in [(false, 0), (true, 1)] {
        let engine = with(Effect::error("InternalError", 500, after_doing)).await;
        let fault = engine.call(create()).await.unwrap_err();
        assert_eq!((fault.code.as_str(), fault.status, made(&engine).await), ("InternalError", 500, volumes));
    }
}

#[tokio::test(start_paused = true)]
async fn unreadable_replies_are_of_work_that_was_done() {
    for effect in [Effect::Garbage, Effect::Truncate, Effect::Oversize { bytes: 10 }] {
        let engine = with(effect).await;
        let served = engine.serve(Caller::Own, create(), |_| ()).await;
        assert!(matches!(served.answer, Answer::Mangled(Ok(_), _)), "{served:?}");
        assert_eq!(made(&engine).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_request_is_done_late_and_a_late_reply_at_once() {
    let half = Duration::from_secs(5);
    for (effect, volumes) in
        [(Effect::DelayRequest { ms: 10_000, spread_ms: 0 }, 0), (Effect::DelayReply { ms: 10_000, spread_ms: 0 }, 1)]
    {
        let engine = with(effect).await;
        let other = engine.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { other.serve(Caller::Own, create(), |_| ()).await });
        tokio::time::sleep(half).await;
        assert_eq!(made(&engine).await, volumes);
        let served = tasks.join_next().await.unwrap().unwrap();
        assert!(matches!(served.answer, Answer::Told(Ok(_))));
        assert_eq!(served.took, Duration::from_secs(10));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_client_left_is_done_and_witnessed_all_the_same() {
    let engine = with(Effect::DelayRequest { ms: 10_000, spread_ms: 0 }).await;
    let witnessed = Arc::new(Mutex::new(Vec::new()));
    let book = Arc::clone(&witnessed);
    let left = engine.serve(Caller::Own, create(), move |served| book.lock().unwrap().push(served.took));
    tokio::time::timeout(Duration::from_secs(1), left).await.unwrap_err();
    assert_eq!(made(&engine).await, 0);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(made(&engine).await, 1);
    assert_eq!(*witnessed.lock().unwrap(), [Duration::from_secs(10)]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_bucket_refuses_before_any_rule_and_does_nothing() {
    let limits = Limits { enabled: true, rates: [("*".to_owned(), Rate { capacity: 1, per_second: 1 })].into() };
    let engine = Engine::start(EngineConfig { limits: Some(limits), ..EngineConfig::default() }).await.unwrap();
    engine.faults().add(Rule::new(Effect::error("InternalError", 500, false)).nth(2)).unwrap();
    engine.call(create()).await.unwrap();
    let fault = engine.call(create()).await.unwrap_err();
    assert_eq!((fault.code.as_str(), fault.status, made(&engine).await), ("RequestLimitExceeded", 503, 1));
    assert_eq!(engine.faults().list()[0].seen, 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(engine.call(create()).await.unwrap_err().code, "InternalError");
    assert_eq!(engine.bucket_levels()[0].tokens, 0.0);
    engine.set_limits(Limits::off());
    engine.call(create()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn realistic_calls_take_their_time_and_draw_on_buckets() {
    let config = EngineConfig { timing: Timing::Realistic, seed: Some(3), ..EngineConfig::default() };
    let engine = Engine::start(config).await.unwrap();
    for (call, range) in [(create(), 150..=400), (describe(), 50..=150)] {
        let mut times = std::collections::BTreeSet::new();
        for _ in 0..20 {
            let took = engine.serve(Caller::Own, call.clone(), |_| ()).await.took.as_millis();
            assert!(range.contains(&took), "{took} of {call:?}");
            times.insert(took);
        }
        assert!(times.len() > 5, "they spread: {times:?}");
    }
    assert_eq!(engine.bucket_levels().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn another_client_leaves_less_for_us() {
    let config = EngineConfig { limits: Some(Limits::ec2()), ..EngineConfig::default() };
    let engine = Engine::start(config).await.unwrap();
    engine.faults().add(Rule::new(Effect::Eat { fraction: 0.5 })).unwrap();
    let mut done = 0;
    while engine.call(create()).await.is_ok() {
        done += 1;
    }
    assert_eq!(done, 50);
}

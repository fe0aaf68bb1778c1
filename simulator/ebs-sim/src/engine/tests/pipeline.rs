//! Tests of the pipeline on a paused clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::buckets::{Limits, Rate};
use crate::faults::{Effect, Rule};

fn create() -> Call {
    Call::line(GP3).unwrap()
}

fn describe() -> Call {
    Call::line("DescribeVolumes").unwrap()
}

async fn with(effect: Effect) -> Engine {
    let engine = Engine::start(EngineConfig::default()).await.unwrap();
    engine.faults().add(Rule::new(effect)).unwrap();
    engine
}

async fn made(engine: &Engine) -> usize {
    let volumes = engine.snapshot_of_state().await.volumes;
    volumes.iter().filter(|v| v.attachments.is_empty()).count()
}

/// The replies are garbage, truncated or oversized.
#[tokio::test(start_paused = true)]
async fn call_with_unreadable_reply_is_executed() {
    for effect in [Effect::Garbage, Effect::Truncate, Effect::Oversize { bytes: 10 }] {
        let engine = with(effect).await;
        let served = engine.serve(Caller::Own, create(), |_| ()).await;
        assert!(matches!(served.answer, CallResponse::Corrupted(Ok(_), _)), "{served:?}");
        assert_eq!(made(&engine).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn only_request_delay_postpones_execution() {
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
        assert!(matches!(served.answer, CallResponse::Delivered(Ok(_))));
        assert_eq!(served.took, Duration::from_secs(10));
    }
}

#[tokio::test(start_paused = true)]
async fn call_is_executed_and_recorded_after_disconnect() {
    let engine = with(Effect::DelayRequest { ms: 10_000, spread_ms: 0 }).await;
    let witnessed = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&witnessed);
    let left = engine.serve(Caller::Own, create(), move |served| record.lock().unwrap().push(served.took));
    tokio::time::timeout(Duration::from_secs(1), left).await.unwrap_err();
    assert_eq!(made(&engine).await, 0);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(made(&engine).await, 1);
    assert_eq!(*witnessed.lock().unwrap(), [Duration::from_secs(10)]);
}

/// The bucket also rejects the call before permissions are checked.
#[tokio::test(start_paused = true)]
async fn empty_bucket_rejects_call_before_fault_rules() {
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

/// A mutating call takes 150 to 400 ms, a describe takes 50 to 150 ms, and the token buckets are enabled.
#[tokio::test(start_paused = true)]
async fn realistic_calls_take_time_and_use_buckets() {
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

/// Each transition has a different duration.
#[tokio::test(start_paused = true)]
async fn realistic_transitions_vary_around_usual_duration() {
    let engine = Engine::start(EngineConfig { timing: Timing::Realistic, seed: Some(5), ..EngineConfig::default() });
    let engine = engine.await.unwrap();
    engine.set_timing(TimingOverride { mutating_call_ms: Some([0, 0]), ..Default::default() }).await;
    for _ in 0..20 {
        engine.call(create()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let creating = async |at: u64| {
        let volumes = engine.snapshot_of_state().await.volumes;
        (at, volumes.iter().filter(|v| v.state == "creating").count())
    };
    tokio::time::sleep(Duration::from_millis(1_475)).await;
    let (early, mid) = (creating(1_495).await, {
        tokio::time::sleep(Duration::from_millis(500)).await;
        creating(1_995).await
    });
    tokio::time::sleep(Duration::from_millis(525)).await;
    let late = creating(2_520).await;
    assert_eq!((early.1, late.1), (20, 0));
    assert!((3..18).contains(&mid.1), "about half are done: {mid:?}");
}

#[tokio::test(start_paused = true)]
async fn explicit_transition_time_is_exact_unless_spread_is_given() {
    let engine = Engine::start(EngineConfig { timing: Timing::Realistic, ..EngineConfig::default() }).await.unwrap();
    let given = |spread_percent| TimingOverride { create_ms: Some(9_000), spread_percent, ..Default::default() };
    assert_eq!(engine.timing().spread_percent, Some(25));
    engine.set_timing(TimingOverride { describe_call_ms: Some([1, 1]), ..Default::default() }).await;
    assert_eq!(engine.timing().spread_percent, Some(25), "no transition was given");
    engine.set_timing(given(None)).await;
    assert_eq!((engine.timing().create_ms, engine.timing().spread_percent), (Some(9_000), Some(0)));
    engine.set_timing(given(Some(10))).await;
    assert_eq!((engine.timing().create_ms, engine.timing().spread_percent), (Some(9_000), Some(10)));
}

/// The HTTP ledger has request ids, latencies, faults and times. The state has ids and transitions.
#[tokio::test(start_paused = true)]
async fn seed_determines_ledger_and_state() {
    let history = async |seed| {
        let config = EngineConfig { timing: Timing::Realistic, seed, ..EngineConfig::default() };
        let engine = Engine::start(config).await.unwrap();
        engine.faults().add(Rule::new(Effect::LoseReply { after_ms: 10 }).chance(0.3)).unwrap();
        engine.faults().add(Rule::new(Effect::DelayReply { ms: 1, spread_ms: 1000 }).chance(0.5)).unwrap();
        let service = crate::Ec2Service::new(engine.clone());
        let call = |n| {
            let form = format!("Action=CreateVolume&AvailabilityZone=us-west-2a&Size={n}&Version=2016-11-15");
            service.answer(http::Request::post("/").body(bytes::Bytes::from(form)).unwrap())
        };
        for n in 0..20 {
            tokio::join!(call(n), call(n + 20));
        }
        (service.ledger(0), engine.snapshot_of_state().await)
    };
    let first = history(Some(3)).await;
    assert_eq!(first.0.calls.len(), 40);
    assert_eq!(history(Some(3)).await, first);
    assert_ne!(history(Some(4)).await.0, first.0);
    assert_ne!(history(None).await.0, history(None).await.0);
}

#[test]
fn ids_derive_from_seed_unless_devices_use_them() {
    let seed_of = |config: &EngineConfig| config.state_seed();
    let none = EngineConfig { seed: Some(1), ..EngineConfig::default() };
    assert_eq!(seed_of(&none), Some(1));
    let devices = EngineConfig { devices: Devices::Loop, state_dir: Some("/nowhere".into()), ..none };
    assert_ne!(seed_of(&devices), seed_of(&devices), "another one each time");
}

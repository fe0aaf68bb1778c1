//! Tests of scenarios on paused time.

use std::time::Duration;

use super::*;
use crate::api::{Call, DescribeVolumes};
use crate::config::EngineConfig;

const SCENARIO: &str = r#"[
    {"at_ms": 2000, "remove": "down"},
    {"at_ms": 0, "timing": {"attach_ms": 60000}},
    {"at_ms": 1000, "rule": {"name": "down", "actions": ["Describe*"], "effect": {"kind": "error", "code": "Unavailable", "status": 503}}},
    {"at_ms": 3000, "limits": {"enabled": true, "rates": {"DescribeVolumes:unfiltered": {"capacity": 0, "per_second": 0}}}},
    {"at_ms": 4000, "advance_ms": 3600000}
]"#;

/// Steps at time zero run before the first call.
#[tokio::test(start_paused = true)]
async fn each_step_runs_at_its_time() {
    let engine = Engine::start(EngineConfig::default()).await.unwrap();
    let scenario = Scenario::from_json(SCENARIO.as_bytes()).unwrap();
    assert_eq!(scenario.steps().iter().map(|step| step.at_ms).collect::<Vec<_>>(), [0, 1000, 2000, 3000, 4000]);
    assert!(scenario.sets_times());
    let later = scenario.begin(&engine);
    assert_eq!(later.steps().len(), 4);
    let other = engine.clone();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { later.run(&other).await });
    let mut codes = Vec::new();
    let started = engine.now();
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(900)).await;
        let result = engine.call(Call::DescribeVolumes(DescribeVolumes::default())).await;
        codes.push(result.err().map_or_else(|| "ok".to_owned(), |fault| fault.code));
    }
    assert_eq!(codes, ["ok", "Unavailable", "ok", "RequestLimitExceeded", "RequestLimitExceeded"]);
    assert_eq!(engine.now().duration_since(started).unwrap(), Duration::from_millis(4500 + 3_600_000));
    tasks.join_next().await.unwrap().unwrap();
}

#[test]
fn invalid_step_is_rejected_with_index_and_field() {
    let good = r#"{"at_ms":0,"advance_ms":1}"#;
    for (step, words) in [
        (r#"{"at_ms":0}"#, ["step 2", "exactly one"]),
        (r#"{"advance_ms":1}"#, ["step 2", "at_ms"]),
        (r#"{"at_ms":0,"advance_ms":1,"remove":"x"}"#, ["step 2", "exactly one"]),
        (r#"{"at_ms":0,"rules":[]}"#, ["step 2", "rules"]),
        (r#"{"at_ms":0,"timing":{"atach_ms":1}}"#, ["step 2", "atach_ms"]),
        (r#"{"at_ms":0,"consistency":{"max_lag_ms":15001}}"#, ["step 2: consistency: max_lag_ms", "15001"]),
        (r#"{"at_ms":0,"release":{"volum":"*"}}"#, ["step 2", "volum"]),
        (r#"{"at_ms":0,"timing":{"spread_percent":101}}"#, ["step 2: timing: spread_percent", "101"]),
        (r#"{"at_ms":0,"timing":{"describe_call_ms":[2,1]}}"#, ["step 2: timing: describe_call_ms", "2"]),
        (
            r#"{"at_ms":0,"limits":{"enabled":true,"rates":{"X":{"capacity":1,"per_second":1}}}}"#,
            ["step 2: limits", "\"X\""],
        ),
        (r#"{"at_ms":0,"rule":{"chance":3,"effect":{"kind":"throttle"}}}"#, ["step 2: rule: chance", "3"]),
        (r#"{"at_ms":0,"rule":{"effect":{"kind":"stale"}}}"#, ["step 2: rule: effect", "lag_ms"]),
    ] {
        let message = Scenario::from_json(format!("[{good},{step}]").as_bytes()).unwrap_err();
        assert!(words.iter().all(|word| message.contains(word)), "{step}: {message}");
    }
    assert!(Scenario::from_json(b"{}").unwrap_err().contains("not a list"));
}

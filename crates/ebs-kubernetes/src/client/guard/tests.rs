use std::fs;

use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::*;
use crate::Failure;
use crate::fake::{Ask, FakeApi, Fault, NODES, Times};

fn nodes(api: &FakeApi) -> Api<Node> {
    Api::all(api.cluster().client())
}

#[tokio::test(start_paused = true)]
async fn calls_are_limited_to_ten_at_once_and_five_a_second() {
    let api = FakeApi::default();
    let began = Instant::now();
    let mut calls = JoinSet::new();
    let nodes = nodes(&api);
    for _ in 0..30 {
        let nodes = nodes.clone();
        calls.spawn(async move { drop(nodes.get_opt("a").await.unwrap()) });
    }
    calls.join_all().await;
    let asked = api.asked(Ask::Get, NODES);
    let at_once = asked.iter().filter(|when| **when - began < Duration::from_millis(100)).count();
    assert_eq!((asked.len(), at_once), (30, 10));
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(4) && took < Duration::from_millis(4200), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured_by_all_calls_up_to_a_limit() {
    for (asked, kept) in [(7, 7), (100_000, 60)] {
        let api = FakeApi::default();
        api.fault(Ask::Get, NODES, Fault::Busy(asked), Times::Once);
        let nodes = nodes(&api);
        let began = Instant::now();
        assert!(nodes.get("a").await.is_err());
        assert!(nodes.get_opt("a").await.unwrap().is_none());
        assert_eq!(began.elapsed().as_secs(), kept);
    }
}

#[tokio::test(start_paused = true)]
async fn call_to_hanging_server_fails_with_timeout() {
    let api = FakeApi::default();
    api.fault(Ask::Get, NODES, Fault::Hang, Times::Once);
    let began = Instant::now();
    let failure = Failure::of(&nodes(&api).get("a").await.unwrap_err());
    assert_eq!(began.elapsed().as_secs(), ANSWER_BOUND.as_secs());
    assert!(failure.to_string().contains("did not start its response within 30s"), "{failure}");
}

/// While the token file is missing, calls use the last token.
#[test]
fn token_is_read_again_for_each_call() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    let file = TokenFile::new(path.clone());
    let error = file.header().unwrap_err();
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    fs::write(&path, "first\n").unwrap();
    assert_eq!(file.header().unwrap(), "Bearer first");
    fs::write(&path, "second").unwrap();
    assert_eq!(file.header().unwrap(), "Bearer second");
    for broken in ["", "\u{1}"] {
        fs::write(&path, broken).unwrap();
        assert_eq!(file.header().unwrap(), "Bearer second");
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(file.header().unwrap(), "Bearer second");
    assert!(!format!("{:?}", file.header().unwrap()).contains("second"), "debug output shows it");
}

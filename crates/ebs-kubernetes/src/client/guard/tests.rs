use std::fs;

use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use tokio::task::JoinSet;

use super::*;
use crate::Failure;
use crate::fake::{Ask, FakeApi, Fault, NODES, Times};

fn nodes(api: &FakeApi) -> Api<Node> {
    Api::all(api.cluster().client())
}

/// Calls to the API server are at most 5 a second, after a burst of 10.
#[tokio::test(start_paused = true)]
async fn calls_come_ten_at_once_and_then_five_a_second() {
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

/// A server that says when it wants to be asked again is left alone until then, by all calls, and a minute at most.
#[tokio::test(start_paused = true)]
async fn a_busy_server_is_left_alone_for_as_long_as_it_asks_but_not_for_ever() {
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

/// A server that accepts a call and never answers is an error after half a minute.
#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_an_error_that_says_so() {
    let api = FakeApi::default();
    api.fault(Ask::Get, NODES, Fault::Hang, Times::Once);
    let began = Instant::now();
    let failure = Failure::of(&nodes(&api).get("a").await.unwrap_err());
    assert_eq!(began.elapsed().as_secs(), ANSWER_BOUND.as_secs());
    assert!(failure.to_string().contains("not begun to answer within 30s"), "{failure}");
}

/// The token is the one that the file has when a call is made; while there is none, the last one is used.
#[test]
fn the_token_is_read_anew_for_each_call() {
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

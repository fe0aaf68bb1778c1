//! Tests of the control API over HTTP: faults, limits, times, clock jumps, and how they affect replies.

use std::time::Duration;

use crate::support::request::{ec2, json, send};
use crate::support::{Sim, element};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CREATE: &str = "Action=CreateVolume&AvailabilityZone=us-west-2a&Size=1";

/// Returns all bytes that the server sends until the connection ends.
async fn raw(url: &str, form: &str) -> Vec<u8> {
    let host = url.strip_prefix("http://").unwrap();
    let form = format!("{form}&Version=2016-11-15");
    let request =
        format!("POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{form}", form.len());
    let exchange = async {
        let mut stream = TcpStream::connect(host).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        let _cut = stream.read_to_end(&mut bytes).await;
        bytes
    };
    tokio::time::timeout(Duration::from_secs(120), exchange).await.expect("an end within two minutes")
}

async fn set(control: &str, rule: serde_json::Value) {
    let reply = send(control, "POST /faults", &[], &rule.to_string()).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
}

async fn made(control: &str) -> usize {
    let state = json(control, "/state").await;
    state["volumes"].as_array().unwrap().iter().filter(|v| v["attachments"] == json!([])).count()
}

#[tokio::test]
async fn fault_rules_can_be_added_listed_and_removed() {
    let sim = Sim::start().await;
    let control = sim.env("EBS_SIM_CONTROL");
    let rules = json!([
        {"name": "a b", "effect": {"kind": "throttle"}, "times": 1},
        {"effect": {"kind": "delay-reply", "ms": 1}},
        {"effect": {"kind": "garbage"}},
    ]);
    let reply = send(&control, "POST /faults", &[], &rules.to_string()).await;
    assert_eq!((reply.status, reply.body.as_str()), (200, r#"{"ids":[1,2,3]}"#));
    ec2(&sim.env("AWS_EC2_ENDPOINT"), "Action=DescribeVolumes").await;
    let listed = json(&control, "/faults").await;
    assert_eq!(listed["rules"].as_array().unwrap().len(), 3);
    let first = &listed["rules"][0];
    assert_eq!((&first["id"], &first["seen"], &first["hit"]), (&json!(1), &json!(1), &json!(1)));
    assert_eq!(first["effect"], json!({"kind": "throttle"}));
    for (request, status, left) in [
        ("DELETE /faults/2", 200, 2),
        ("DELETE /faults/2", 404, 2),
        ("DELETE /faults/two", 400, 2),
        ("DELETE /faults?name=a%20b", 200, 1),
        ("DELETE /faults?name=a%20b", 404, 1),
        ("DELETE /faults?nam=x", 400, 1),
        ("DELETE /faults", 200, 0),
    ] {
        assert_eq!(send(&control, request, &[], "").await.status, status, "{request}");
        assert_eq!(json(&control, "/faults").await["rules"].as_array().unwrap().len(), left, "{request}");
    }
}

#[tokio::test]
async fn invalid_control_request_is_rejected_by_field_without_effect() {
    let sim = Sim::start().await;
    let control = sim.env("EBS_SIM_CONTROL");
    let before = (json(&control, "/limits").await, json(&control, "/timing").await);
    let good = r#"{"effect":{"kind":"throttle"}}"#;
    for (request, body, words) in [
        ("POST /faults", &format!("[{good},{{\"chance\":7,{}]", &good[1..]), ["rule 2", "chance"]),
        ("POST /faults", &"{".to_owned(), ["not JSON", ""]),
        ("PUT /limits", &"\"some\"".to_owned(), ["default", "some"]),
        (
            "PUT /limits",
            &r#"{"enabled":true,"rates":{"Fly":{"capacity":1,"per_second":1}}}"#.to_owned(),
            ["Fly", "no such action"],
        ),
        ("PUT /limits", &r#"{"enabled":true,"rates":{"*":{"capacity":1}}}"#.to_owned(), ["per_second", ""]),
        ("PUT /timing", &r#"{"atach_ms":1}"#.to_owned(), ["atach_ms", ""]),
        ("PUT /access-key", &r#"{"id":"AK IA","secret":"s"}"#.to_owned(), ["ID", "letters and digits"]),
        ("PUT /access-key", &r#"{"id":"AKIA"}"#.to_owned(), ["secret", ""]),
        ("POST /advance", &r#"{"ms":-1}"#.to_owned(), ["-1", ""]),
        ("POST /advance", &r#"{"ms":99999999999999}"#.to_owned(), ["ms", "ten years"]),
        ("POST /advance", &String::new(), ["NUMBER", ""]),
        ("GET /ledger?sins=1", &String::new(), ["sins", "since"]),
    ] {
        let reply = send(&control, request, &[], body).await;
        assert_eq!(reply.status, 400, "{request} {body}: {}", reply.body);
        assert!(words.iter().all(|word| reply.body.contains(word)), "{request} {body}: {}", reply.body);
    }
    assert_eq!(json(&control, "/faults").await, json!({"rules": []}));
    assert_eq!((json(&control, "/limits").await, json(&control, "/timing").await), before);
    assert_eq!(send(&control, "GET /nothing", &[], "").await.status, 404);
    assert!(json(&control, "/").await["routes"].as_array().unwrap().len() > 10);
}

/// The HTTP connection breaks before the first byte of the reply.
#[tokio::test]
async fn lost_reply_breaks_connection_after_execution() {
    let sim = Sim::start().await;
    let (url, control) = (sim.env("AWS_EC2_ENDPOINT"), sim.env("EBS_SIM_CONTROL"));
    for (kind, volumes, outcome) in [("lose-request", 0, "lost"), ("lose-reply", 1, "ok")] {
        set(&control, json!({"times": 1, "effect": {"kind": kind}})).await;
        assert_eq!(raw(&url, CREATE).await, b"", "{kind}");
        assert_eq!(made(&control).await, volumes, "{kind}");
        let call = sim.server.ledger(0).calls.pop().unwrap();
        assert_eq!((call.outcome.as_str(), call.faults), (outcome, vec![kind.to_owned()]));
    }
}

/// The replies are invalid XML, a connection that breaks in the middle of the body, and a padded body.
#[tokio::test]
async fn injected_unreadable_replies_reach_the_client() {
    let sim = Sim::start().await;
    let (url, control) = (sim.env("AWS_EC2_ENDPOINT"), sim.env("EBS_SIM_CONTROL"));
    let whole = raw(&url, "Action=DescribeVolumes").await;
    let body_at = |bytes: &[u8]| bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    let body = whole.len() - body_at(&whole);

    set(&control, json!({"times": 1, "effect": {"kind": "truncate"}})).await;
    let cut = raw(&url, "Action=DescribeVolumes").await;
    assert_eq!(cut.len() - body_at(&cut), body / 2);
    assert!(String::from_utf8_lossy(&cut).to_ascii_lowercase().contains(&format!("content-length: {body}\r\n")));

    set(&control, json!({"times": 1, "effect": {"kind": "garbage"}})).await;
    let garbage = raw(&url, "Action=DescribeVolumes").await;
    assert!(garbage.starts_with(b"HTTP/1.1 200") && garbage[body_at(&garbage)..].starts_with(b"\xff\xfe"));

    set(&control, json!({"times": 1, "effect": {"kind": "oversize", "bytes": 3_000_000}})).await;
    let large = raw(&url, "Action=DescribeVolumes").await;
    assert_eq!(large.len() - body_at(&large), 3_000_000);
}

/// The clock jump also applies the changes that are due by then.
#[tokio::test]
async fn limits_times_and_clock_can_be_changed() {
    let sim = Sim::start().await;
    let (url, control) = (sim.env("AWS_EC2_ENDPOINT"), sim.env("EBS_SIM_CONTROL"));
    let limits = json!({"enabled": true, "rates": {"CreateVolume": {"capacity": 1, "per_second": 0}}});
    assert_eq!(send(&control, "PUT /limits", &[], &limits.to_string()).await.status, 200);
    send(&control, "PUT /timing", &[], r#"{"create_ms": 3600000, "describe_call_ms": [1, 2]}"#).await;
    let timing = json(&control, "/timing").await;
    assert_eq!((&timing["create_ms"], &timing["describe_call_ms"]), (&json!(3_600_000), &json!([1, 2])));
    let created = ec2(&url, CREATE).await;
    let throttled = ec2(&url, CREATE).await;
    assert_eq!((throttled.status, element(&throttled.body, "Code")), (503, Some("RequestLimitExceeded")));
    let shown = json(&control, "/limits").await;
    let level = json!([{"bucket": "CreateVolume", "rate": limits["rates"]["CreateVolume"], "tokens": 0.0}]);
    assert_eq!((&shown["limits"], &shown["buckets"]), (&limits, &level));
    let volume = async || {
        let state = json(&control, "/state").await;
        let id = element(&created.body, "volumeId").unwrap();
        state["volumes"].as_array().unwrap().iter().find(|v| v["id"] == id).unwrap().clone()
    };
    let new = volume().await;
    assert_eq!((&new["state"], &new["size_gib"], &new["attachments"]), (&json!("creating"), &json!(1), &json!([])));
    assert_eq!(send(&control, "POST /advance", &[], r#"{"ms": 3600000}"#).await.status, 200);
    assert_eq!(volume().await["state"], "available");
}

#[tokio::test]
async fn stuck_attachment_can_be_released_and_read_lag_injected() {
    let sim = Sim::start().await;
    let (url, control, instance) =
        (sim.env("AWS_EC2_ENDPOINT"), sim.env("EBS_SIM_CONTROL"), sim.env("EBS_SIM_INSTANCE_ID"));
    let volume = element(&ec2(&url, CREATE).await.body, "volumeId").unwrap().to_owned();
    let attachment = async || {
        let state = json(&control, "/state").await;
        let found = state["volumes"].as_array().unwrap().iter().find(|v| v["id"] == volume).unwrap().clone();
        found["attachments"][0]["state"].as_str().unwrap_or("").to_owned()
    };
    let attach = format!("Action=AttachVolume&VolumeId={volume}&InstanceId={instance}&Device=%2Fdev%2Fxvdaa");
    for release in [json!({"volume": volume}), json!({"volume": "*"})] {
        set(&control, json!({"times": 1, "resource": volume, "effect": {"kind": "stuck-attaching"}})).await;
        assert_eq!(ec2(&url, &attach).await.status, 200);
        send(&control, "POST /advance", &[], r#"{"ms": 3600000}"#).await;
        assert_eq!(attachment().await, "attaching", "time alone does not help");
        assert_eq!(send(&control, "POST /release", &[], &release.to_string()).await.status, 200);
        assert_eq!(attachment().await, "attached");
        assert_eq!(ec2(&url, &format!("Action=DetachVolume&VolumeId={volume}")).await.status, 200);
    }
    assert_eq!(json(&control, "/consistency").await, json!({"max_lag_ms": 0}));
    assert_eq!(send(&control, "PUT /consistency", &[], r#"{"max_lag_ms": 15000}"#).await.status, 200);
    assert_eq!(json(&control, "/consistency").await, json!({"max_lag_ms": 15_000}));
    let mut seen = std::collections::BTreeSet::new();
    let new = element(&ec2(&url, CREATE).await.body, "volumeId").unwrap().to_owned();
    for _ in 0..60 {
        seen.insert(ec2(&url, "Action=DescribeVolumes").await.body.contains(&new));
    }
    assert_eq!(seen.len(), 2, "some reads are fresh, some are not");
    for (request, bad) in [
        ("POST /release", r#"{"volume": "vol-0"}"#),
        ("POST /release", r#"{"vol": "x"}"#),
        ("POST /heal", r#"{"volume": "vol-0"}"#),
        ("PUT /consistency", r#"{"max_lag_ms": 15001}"#),
        ("PUT /consistency", r#"{"lag": 1}"#),
    ] {
        assert_eq!(send(&control, request, &[], bad).await.status, 400, "{request} {bad}");
    }
}

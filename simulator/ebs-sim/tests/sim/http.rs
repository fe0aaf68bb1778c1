//! Tests of the simulator over HTTP, with handwritten requests.

use std::time::Duration;

use crate::support::request::{ec2, json, send};
use crate::support::{Sim, element};
use ebs_sim::{AccessKey, Server, ServerConfig};
use serde_json::json;
use tokio::net::TcpStream;

#[tokio::test]
async fn query_string_works_like_a_form() {
    let sim = Sim::start().await;
    let url = sim.env("AWS_EC2_ENDPOINT");
    let reply = send(&url, "GET /?Action=DescribeAvailabilityZones&Version=2016-11-15", &[], "").await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert!(reply.body.contains("<zoneName>us-west-2a</zoneName>"), "{}", reply.body);
    assert!(reply.head.contains("content-type: text/xml;charset=utf-8"), "{}", reply.head);
    let request_id = element(&reply.body, "requestId").unwrap();
    assert!(reply.head.contains(&format!("x-amzn-requestid: {request_id}")), "{}", reply.head);
    assert_eq!(send(&url, "GET /elsewhere", &[], "").await.status, 404);
    assert_eq!(send(&url, "DELETE /", &[], "").await.status, 405);
    sim.server.shutdown().await.unwrap();
}

#[tokio::test]
async fn body_without_end_is_rejected() {
    let sim = Sim::start().await;
    let reply = ec2(&sim.env("AWS_EC2_ENDPOINT"), &format!("Action={}", "x".repeat(2 << 20))).await;
    assert_eq!(reply.status, 413, "{}", reply.body);
    sim.server.shutdown().await.unwrap();
}

#[tokio::test]
async fn unsigned_request_is_rejected_when_a_key_is_configured() {
    let sim = Sim::start_with(|config| config.access_key = Some(AccessKey::parse("AKIA:secret").unwrap())).await;
    let url = sim.env("AWS_EC2_ENDPOINT");
    let reply = ec2(&url, "Action=DescribeVolumes").await;
    assert_eq!((reply.status, element(&reply.body, "Code")), (403, Some("MissingAuthenticationToken")));
    let foreign = "Authorization: AWS4-HMAC-SHA256 Credential=OTHER/20260102/us-west-2/ec2/aws4_request, \
                   SignedHeaders=host, Signature=00";
    let reply = send(&url, "POST /", &[foreign, "X-Amz-Date: 20260102T030405Z"], "Action=DescribeVolumes").await;
    assert_eq!((reply.status, element(&reply.body, "Code")), (401, Some("AuthFailure")));
    assert_eq!(sim.server.ledger(0).calls[0].outcome, "MissingAuthenticationToken");
    assert_eq!((sim.env("AWS_ACCESS_KEY_ID"), sim.env("AWS_SECRET_ACCESS_KEY")), ("AKIA".into(), "secret".into()));
    sim.server.shutdown().await.unwrap();
}

/// The record has action, parameters, result and dry run, and no signature.
#[tokio::test]
async fn every_call_is_recorded_with_its_result() {
    let sim = Sim::start().await;
    let (url, control) = (sim.env("AWS_EC2_ENDPOINT"), sim.env("EBS_SIM_CONTROL"));
    ec2(&url, "Action=CreateVolume&AvailabilityZone=us-west-2a&Size=1&DryRun=true&X-Amz-Security-Token=canary").await;
    let first = json(&control, "/ledger").await;
    ec2(&url, "Action=DeleteVolume&VolumeId=vol-00000000000000000").await;
    let second = json(&control, &format!("/ledger?since={}", first["next"])).await;

    let call = &first["calls"][0];
    assert_eq!((&call["action"], &call["outcome"]), (&json!("CreateVolume"), &json!("DryRunOperation")));
    assert_eq!(call["dry_run"], true);
    assert_eq!(call["parameters"], json!({"AvailabilityZone": "us-west-2a", "Size": "1", "DryRun": "true"}));
    assert_eq!(second["calls"].as_array().unwrap().len(), 1);
    assert_eq!(second["calls"][0]["outcome"], "InvalidVolume.NotFound");
    assert_eq!(second["next"], 2);
    assert_eq!(send(&control, "GET /ledger?since=x", &[], "").await.status, 400);
    sim.server.shutdown().await.unwrap();
}

#[tokio::test]
async fn shutdown_closes_ports_despite_idle_connections() {
    let sim = Sim::start().await;
    let address = sim.env("AWS_EC2_ENDPOINT").strip_prefix("http://").unwrap().to_owned();
    let idle = TcpStream::connect(&address).await.unwrap();
    ec2(&sim.env("AWS_EC2_ENDPOINT"), "Action=DescribeVolumes").await;
    // A shutdown that waited for the headers of a request would take 30 s.
    let ended = tokio::time::timeout(Duration::from_secs(25), sim.server.shutdown()).await;
    ended.expect("an end within 25 s").unwrap();
    assert!(TcpStream::connect(&address).await.is_err(), "the port still answers");
    drop(idle);
}

#[tokio::test]
async fn port_in_use_is_named_in_the_error() {
    let sim = Sim::start().await;
    let taken = sim.env("AWS_EC2_ENDPOINT").strip_prefix("http://").unwrap().parse().unwrap();
    let state = tempfile::tempdir().unwrap();
    let error = Server::start(ServerConfig { ec2_listen: taken, ..ServerConfig::new(state.path()) }).await.unwrap_err();
    assert!(error.to_string().contains(&taken.to_string()), "{error}");
    sim.server.shutdown().await.unwrap();
}

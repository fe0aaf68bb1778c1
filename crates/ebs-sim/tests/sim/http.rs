//! Tests of the simulator over HTTP, with handwritten requests.

use std::time::Duration;

use crate::support::request::{ec2, json, send};
use crate::support::{Sim, element, until};
use ebs_sim::{AccessKey, Server, ServerConfig};
use serde_json::json;
use tokio::net::TcpStream;

async fn volume_in_state(url: &str, volume: &str, state: &str) {
    until(&format!("{volume} {state}"), async || {
        let reply = ec2(url, &format!("Action=DescribeVolumes&VolumeId.1={volume}")).await;
        reply.body.contains(&format!("<status>{state}</status>")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn volume_completes_its_life_over_http() {
    let sim = Sim::start().await;
    let (url, instance) = (sim.env("AWS_EC2_ENDPOINT"), sim.env("EBS_SIM_INSTANCE_ID"));

    let created = ec2(
        &url,
        "Action=CreateVolume&AvailabilityZone=us-west-2a&Size=1&VolumeType=gp3&ClientToken=t1\
         &TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=a%26b&TagSpecification.1.Tag.1.Value=%3C%C3%A4%3E",
    )
    .await;
    assert_eq!(created.status, 200, "{}", created.body);
    assert!(created.head.contains("content-type: text/xml;charset=utf-8"), "{}", created.head);
    let request_id = element(&created.body, "requestId").unwrap();
    assert!(created.head.contains(&format!("x-amzn-requestid: {request_id}")), "{}", created.head);
    assert!(created.body.contains("<key>a&amp;b</key><value>&lt;ä&gt;</value>"), "{}", created.body);
    let volume = element(&created.body, "volumeId").unwrap().to_owned();
    volume_in_state(&url, &volume, "available").await;

    let attach = format!("Action=AttachVolume&VolumeId={volume}&InstanceId={instance}&Device=%2Fdev%2Fxvdaa");
    let attached = ec2(&url, &attach).await;
    assert_eq!(attached.status, 200, "{}", attached.body);
    assert_eq!(element(&attached.body, "device"), Some("/dev/xvdaa"));
    volume_in_state(&url, &volume, "attached").await;
    let busy = ec2(&url, &format!("Action=DeleteVolume&VolumeId={volume}")).await;
    assert_eq!((busy.status, element(&busy.body, "Code")), (400, Some("VolumeInUse")));

    let detached = ec2(&url, &format!("Action=DetachVolume&VolumeId={volume}")).await;
    assert_eq!(detached.status, 200, "{}", detached.body);
    volume_in_state(&url, &volume, "available").await;
    let deleted = ec2(&url, &format!("Action=DeleteVolume&VolumeId={volume}")).await;
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    until("the volume is gone", async || {
        let reply = ec2(&url, &format!("Action=DescribeVolumes&VolumeId.1={volume}")).await;
        (element(&reply.body, "Code") == Some("InvalidVolume.NotFound")).then_some(())
    })
    .await;
    sim.server.shutdown().await.unwrap();
}

#[tokio::test]
async fn invalid_request_gets_error_of_ec2() {
    let sim = Sim::start().await;
    let url = sim.env("AWS_EC2_ENDPOINT");
    for (form, status, code) in [
        ("Action=RebootInstances", 400, "InvalidAction"),
        ("Size=1", 400, "MissingAction"),
        ("Action=DeleteVolume", 400, "MissingParameter"),
        ("Action=DeleteVolume&VolumeId=vol-1&Force=true", 400, "UnknownParameter"),
        ("Action=CreateVolume&AvailabilityZone=us-west-2a&Size=big", 400, "InvalidParameterValue"),
        ("Action=DescribeVolumes&VolumeId.1=vol-00000000000000000", 400, "InvalidVolume.NotFound"),
        ("Action=DescribeVolumes&Action=DescribeVolumes", 404, "MalformedQueryString"),
    ] {
        let reply = ec2(&url, form).await;
        assert_eq!((reply.status, element(&reply.body, "Code")), (status, Some(code)), "{form}: {}", reply.body);
        assert!(element(&reply.body, "RequestID").is_some(), "{}", reply.body);
    }
    sim.server.shutdown().await.unwrap();
}

#[tokio::test]
async fn query_string_works_like_a_form() {
    let sim = Sim::start().await;
    let url = sim.env("AWS_EC2_ENDPOINT");
    let reply = send(&url, "GET /?Action=DescribeAvailabilityZones&Version=2016-11-15", &[], "").await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert!(reply.body.contains("<zoneName>us-west-2a</zoneName>"), "{}", reply.body);
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
async fn control_api_shows_state_and_changes_times() {
    let sim = Sim::start().await;
    let (url, control) = (sim.env("AWS_EC2_ENDPOINT"), sim.env("EBS_SIM_CONTROL"));
    let reply = send(&control, "PUT /timing", &[], r#"{"create_ms": 3600000}"#).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let created = ec2(&url, "Action=CreateVolume&AvailabilityZone=us-west-2a&Size=1").await;
    let state = json(&control, "/state").await;
    let volume =
        state["volumes"].as_array().unwrap().iter().find(|v| v["id"] == element(&created.body, "volumeId").unwrap());
    let volume = volume.unwrap_or_else(|| panic!("not listed: {state}"));
    assert_eq!((&volume["state"], &volume["size_gib"]), (&json!("creating"), &json!(1)));
    assert_eq!((&volume["attachments"], &volume["tags"]), (&json!([]), &json!({})));
    assert_eq!(state["instances"][0]["id"], sim.env("EBS_SIM_INSTANCE_ID"));
    assert_eq!(state["instances"][1]["id"], sim.env("EBS_SIM_SECOND_INSTANCE_ID"));
    assert_ne!(state["instances"][0]["zone"], state["instances"][1]["zone"]);
    for bad in [r#"{"create_ms": -1}"#, r#"{"creation": 1}"#, "soon"] {
        assert_eq!(send(&control, "PUT /timing", &[], bad).await.status, 400, "{bad}");
    }
    sim.server.shutdown().await.unwrap();
}

#[tokio::test]
async fn control_api_can_request_shutdown() {
    let sim = Sim::start().await;
    assert_eq!(send(&sim.env("EBS_SIM_CONTROL"), "POST /shutdown", &[], "").await.status, 202);
    tokio::time::timeout(Duration::from_secs(120), sim.server.end_wanted()).await.unwrap();
    sim.server.shutdown().await.unwrap();
}

#[tokio::test]
async fn metadata_over_http_needs_a_token() {
    let sim = Sim::start().await;
    let url = sim.env("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    let path = "GET /latest/meta-data/instance-id";
    assert_eq!(send(&url, path, &[], "").await.status, 401);
    let ttl = "X-aws-ec2-metadata-token-ttl-seconds: 60";
    let token = send(&url, "PUT /latest/api/token", &[ttl], "").await;
    assert_eq!(token.status, 200);
    assert!(token.head.contains("x-aws-ec2-metadata-token-ttl-seconds: 60"), "{}", token.head);
    let reply = send(&url, path, &[&format!("X-aws-ec2-metadata-token: {}", token.body)], "").await;
    assert_eq!((reply.status, reply.body), (200, sim.env("EBS_SIM_INSTANCE_ID")));
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

#[tokio::test]
async fn state_survives_restart_from_same_directory() {
    let state = tempfile::tempdir().unwrap();
    let first = Server::start(ServerConfig::new(state.path())).await.unwrap();
    let (url, instance) = (first.env()["AWS_EC2_ENDPOINT"].clone(), first.env()["EBS_SIM_INSTANCE_ID"].clone());
    let created = ec2(&url, "Action=CreateVolume&AvailabilityZone=us-west-2a&Size=1").await;
    let volume = element(&created.body, "volumeId").unwrap();
    first.shutdown().await.unwrap();
    let second = Server::start(ServerConfig::new(state.path())).await.unwrap();
    assert_eq!(second.env()["EBS_SIM_INSTANCE_ID"], instance);
    volume_in_state(&second.env()["AWS_EC2_ENDPOINT"], volume, "available").await;
    second.shutdown().await.unwrap();
}

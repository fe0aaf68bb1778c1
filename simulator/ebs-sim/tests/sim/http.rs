//! Tests of the simulator over HTTP, with handwritten requests.

use std::time::Duration;

use crate::support::Sim;
use crate::support::request::{ec2, json, send};
use ebs_sim::{Server, ServerConfig};
use serde_json::json;
use tokio::net::TcpStream;

/// The record contains the action, parameters, result and whether the call was a dry run, but no signature.
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
}

#[tokio::test]
async fn shutdown_closes_ports_despite_idle_connections() {
    let sim = Sim::start().await;
    let address = sim.env("AWS_EC2_ENDPOINT").strip_prefix("http://").unwrap().to_owned();
    let idle = TcpStream::connect(&address).await.unwrap();
    ec2(&sim.env("AWS_EC2_ENDPOINT"), "Action=DescribeVolumes").await;
    // A shutdown that waits for the headers of an incomplete request would take 30 s.
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
}

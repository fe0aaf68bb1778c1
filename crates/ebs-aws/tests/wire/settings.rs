//! How the environment determines endpoints and attempts. Each case runs in its own process. `endpoints.rs` compares
//! the endpoints of all regions, with FIPS and dual stack.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use ebs_aws::{AwsConfig, AwsEc2, Settings, Transport};
use ebs_ec2::{ClusterNodes, HyperPodNode, PageRequest, VolumeId, Volumes};

use crate::server::{CHILD, Seen, config, managed_volumes, printed_by_child, settings};

/// The child process that the other tests start, not a test itself. For each region, it prints where each service was
/// called, or why there is no client.
#[tokio::test(start_paused = true)]
async fn child_prints_the_endpoints_that_it_calls() {
    let Ok(regions) = std::env::var(CHILD) else { return };
    for region in regions.split(',') {
        say_where_it_calls(region.to_owned()).await;
    }
}

#[expect(clippy::print_stdout, reason = "a child talks to its parent so")]
async fn say_where_it_calls(region: String) {
    let hosts = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&hosts);
    let transport = Transport::answering(move |request: http::Request<Bytes>| {
        let uri = request.uri().to_string();
        let body = String::from_utf8_lossy(request.body()).into_owned();
        seen.lock().unwrap().push(uri);
        let reply = match body {
            body if body.contains("GetCallerIdentity") => {
                "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>123456789012</Account>\
                 </GetCallerIdentityResult></GetCallerIdentityResponse>"
            }
            body if body.contains("DescribeVolumes") => "<DescribeVolumesResponse><broken",
            body => {
                println!("\nARN {body}");
                r#"{"NodeId":"i-0abc","VolumeId":"vol-1","DeviceName":"/dev/xvdba"}"#
            }
        };
        async move { Ok(http::Response::new(Bytes::from(reply))) }
    });
    let variable = |name: &str| std::env::var(name).ok();
    let config = AwsConfig {
        region,
        ec2_endpoint: variable("AWS_EC2_ENDPOINT"),
        sagemaker_endpoint: variable("AWS_SAGEMAKER_ENDPOINT"),
        ..config("")
    };
    let settings = Settings { transport: Some(transport), ..settings() };
    let ec2 = match AwsEc2::connect_with(&config, settings, Arc::new(Seen::default())).await {
        Ok(ec2) => ec2,
        Err(error) => return println!("\nREFUSED {error}"),
    };
    ec2.describe_volumes(&managed_volumes(), &PageRequest::default()).await.unwrap_err();
    let node = HyperPodNode::parse("hyperpod-abc-i-0abc").unwrap();
    match ec2.attach_cluster_node_volume(&node, &VolumeId::parse("vol-1").unwrap()).await {
        Ok(_) => {}
        Err(error) => println!("\nNODE {error}"),
    }
    let hosts = hosts.lock().unwrap().clone();
    println!("\nCALLS {}", hosts.join(" "));
}

const TEST: &str = "settings::child_prints_the_endpoints_that_it_calls";

fn child(region: &str, environment: &[(&str, &str)]) -> BTreeMap<String, String> {
    let words = ["CALLS", "REFUSED", "NODE", "ARN"];
    printed_by_child(TEST, region, environment)
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(word, _)| words.contains(word))
        .map(|(word, rest)| (word.to_owned(), rest.to_owned()))
        .collect()
}

/// Starts a child process with this environment. Returns where it calls EC2, STS and SageMaker in each of the regions.
pub(crate) fn where_a_child_calls(regions: &[&str], environment: &[(&str, &str)]) -> BTreeMap<String, Vec<String>> {
    let printed = printed_by_child(TEST, &regions.join(","), environment);
    let calls = printed.lines().filter_map(|line| line.strip_prefix("CALLS "));
    let urls = calls.map(|urls| urls.split(' ').map(str::to_owned).collect());
    regions.iter().map(|region| (*region).to_owned()).zip(urls).collect()
}

fn called(region: &str, environment: &[(&str, &str)]) -> Vec<String> {
    let lines = child(region, environment);
    lines.get("CALLS").unwrap_or_else(|| panic!("{lines:?}")).split(' ').map(str::to_owned).collect()
}

fn refused(environment: &[(&str, &str)]) -> String {
    let lines = child("us-west-2", environment);
    lines.get("REFUSED").unwrap_or_else(|| panic!("{lines:?}")).clone()
}

/// The driver's own variable for EC2 takes precedence. Then come the SDK's variable for the service, its common
/// variable, and the profile. An empty variable counts as not set.
#[test]
fn service_endpoint_applies_only_to_that_service() {
    let environment = [("AWS_EC2_ENDPOINT", "http://own:1"), ("AWS_ENDPOINT_URL_EC2", "http://sdk:1")];
    assert_eq!(called("us-west-2", &environment)[0], "http://own:1/", "ours wins");
    let environment = [
        ("AWS_EC2_ENDPOINT", ""),
        ("AWS_ENDPOINT_URL_EC2", "http://sdk:1"),
        ("AWS_SAGEMAKER_ENDPOINT", "http://sage:1"),
        ("AWS_ENDPOINT_URL_SAGEMAKER", "http://other:1"),
        ("AWS_ENDPOINT_URL_STS", "http://sts:1"),
    ];
    assert_eq!(called("us-west-2", &environment), ["http://sdk:1/", "http://sts:1/", "http://sage:1/"]);
    let environment = [("AWS_ENDPOINT_URL", "http://all:1"), ("AWS_ENDPOINT_URL_SAGEMAKER", "http://sage:1")];
    assert_eq!(called("us-west-2", &environment), ["http://all:1/", "http://all:1/", "http://sage:1/"]);
}

#[test]
fn endpoint_from_the_profile_is_used_and_validated() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    std::fs::write(&path, "[default]\nendpoint_url = http://profile:1\n").unwrap();
    let wanted = ["http://profile:1/", "http://profile:1/", "http://profile:1/"];
    assert_eq!(called("us-west-2", &[("AWS_CONFIG_FILE", &path)]), wanted);
    std::fs::write(&path, "[default]\nendpoint_url = nonsense\n").unwrap();
    assert!(refused(&[("AWS_CONFIG_FILE", &path)]).contains("endpoint_url of the AWS profile=\"nonsense\""));
}

/// Without this check at startup, the SDK would reject each call.
#[test]
fn custom_endpoint_with_fips_or_dual_stack_fails_at_startup() {
    for endpoint in ["AWS_EC2_ENDPOINT", "AWS_ENDPOINT_URL_EC2", "AWS_ENDPOINT_URL", "AWS_SAGEMAKER_ENDPOINT"] {
        for setting in ["AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT"] {
            let said = refused(&[(endpoint, "http://own:1"), (setting, "true")]);
            assert!(said.contains(endpoint) && said.contains(setting), "{said}");
        }
    }
}

#[test]
fn number_of_attempts_ignores_the_sdk_variables() {
    let environment = [("AWS_MAX_ATTEMPTS", "9"), ("AWS_RETRY_MODE", "adaptive")];
    assert_eq!(called("us-west-2", &environment).len(), 3, "one each: the broken reply to EC2's was not repeated");
}

#[test]
fn cluster_arn_uses_the_partition_of_the_region() {
    for (region, partition) in [
        ("us-west-2", "aws"),
        ("cn-north-1", "aws-cn"),
        ("us-gov-west-1", "aws-us-gov"),
        ("us-iso-east-1", "aws-iso"),
        ("mars-north-1", "aws"),
    ] {
        let environment = [("AWS_ENDPOINT_URL", "http://all:1")];
        let body = child(region, &environment)["ARN"].clone();
        let arn = format!("arn:{partition}:sagemaker:{region}:123456789012:cluster/abc");
        assert!(body.contains(&arn), "{body}");
    }
}

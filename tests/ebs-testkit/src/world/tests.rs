//! Tests worlds in which calls exceed the driver's permissions.

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use super::*;

async fn call(world: &World, access_key: &str, form: &str) {
    let credential = format!("AWS4-HMAC-SHA256 Credential={access_key}/20300101/us-west-2/ec2/aws4_request");
    let request = http::Request::post(&world.driver_spec().env["AWS_EC2_ENDPOINT"])
        .header(http::header::AUTHORIZATION, credential)
        .body(Full::new(Bytes::from(format!("{form}&Version=2016-11-15"))))
        .unwrap();
    let response = Client::builder(TokioExecutor::new()).build_http().request(request).await.unwrap();
    assert!(response.status().is_success(), "{form}: {}", response.status());
}

const UNTAGGED: &str = "Action=CreateVolume&AvailabilityZone=us-west-2a&Size=1";
const TAGGED: &str = "Action=CreateVolume&AvailabilityZone=us-west-2a&Size=1&TagSpecification.1.ResourceType=volume\
                      &TagSpecification.1.Tag.1.Key=CSIVolumeName&TagSpecification.1.Tag.1.Value=pvc-1";

#[tokio::test]
async fn dropped_world_panics_after_call_that_no_policy_allows() {
    let world = World::builder("/nonexistent").start_without_driver().await.unwrap();
    call(&world, "AKIADRIVER", UNTAGGED).await;
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || drop(world))).unwrap_err();
    assert!(ended.downcast_ref::<String>().unwrap().contains("CreateVolume"));
}

/// Calls that the test makes with its own access key need no permission.
#[tokio::test]
async fn call_that_the_policy_does_not_allow_fails_the_world() {
    for (policy, key, form, allowed) in [
        (None, "AKIADRIVER", TAGGED, true),
        (None, "AKIADRIVER", UNTAGGED, false),
        (None, TESTS_OWN_KEY, UNTAGGED, true),
        (Some(Shipped::LegacyExample), "AKIADRIVER", TAGGED, true),
        (Some(Shipped::ManagedV2), "AKIADRIVER", TAGGED, false),
    ] {
        let builder = policy.into_iter().fold(World::builder("/nonexistent"), WorldBuilder::under);
        let world = builder.start_without_driver().await.unwrap();
        call(&world, key, form).await;
        for volume in world.left_in_ec2().await.unwrap() {
            let id = volume.split(' ').next().unwrap();
            call(&world, TESTS_OWN_KEY, &format!("Action=DeleteVolume&VolumeId={id}")).await;
        }
        assert_eq!(world.finish().await.is_ok(), allowed, "{policy:?} {key} {form}");
    }
}

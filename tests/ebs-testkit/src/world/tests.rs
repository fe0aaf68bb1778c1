//! Worlds in which calls exceed the driver's permissions.

use bytes::Bytes;
use ebs_sim::iam::{Extra, Shipped};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use super::*;

/// Creates a world without a driver: the test makes its calls.
async fn world() -> World {
    World::builder("/nonexistent").start_without_driver().await.unwrap()
}

/// Makes a call with an access key.
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

/// Removes what the calls have created, so that only permissions remain to be reported.
async fn tidy(world: &World) {
    for volume in world.left_in_ec2().await.unwrap() {
        let id = volume.split(' ').next().unwrap();
        call(world, TESTS_OWN_KEY, &format!("Action=DeleteVolume&VolumeId={id}")).await;
    }
}

/// Dropping the world also fails.
#[tokio::test]
async fn finish_fails_after_a_call_that_no_policy_allows() {
    let world = world().await;
    call(&world, "AKIADRIVER", UNTAGGED).await;
    tidy(&world).await;
    let told = format!("{:#}", world.finish().await.unwrap_err());
    for word in ["CreateVolume", "none of the policies", "aws:RequestTag/ebs.csi.aws.com/cluster = true"] {
        assert!(told.contains(word), "{told}");
    }
}

#[tokio::test]
async fn dropped_world_also_reports_calls_that_are_not_allowed() {
    let world = world().await;
    call(&world, "AKIADRIVER", UNTAGGED).await;
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || drop(world))).unwrap_err();
    assert!(ended.downcast_ref::<String>().unwrap().contains("CreateVolume"));
}

/// Such calls are identified by the access key.
#[tokio::test]
async fn calls_of_the_test_itself_need_no_permission() {
    let world = world().await;
    call(&world, TESTS_OWN_KEY, UNTAGGED).await;
    tidy(&world).await;
    world.finish().await.unwrap();
}

/// A feature that needs an additional statement must be declared.
#[tokio::test]
async fn call_outside_of_policy_or_declared_features_fails_world() {
    let encrypted = format!("{TAGGED}&Encrypted=true&KmsKeyId=alias/mine");
    for (policy, extra, form, allowed) in [
        (None, None, TAGGED, true),
        (Some(Shipped::LegacyExample), None, TAGGED, true),
        (Some(Shipped::ManagedV2), None, TAGGED, false),
        (None, None, encrypted.as_str(), false),
        (None, Some(Extra::Kms), encrypted.as_str(), true),
    ] {
        let builder = policy.into_iter().fold(World::builder("/nonexistent"), WorldBuilder::under);
        let builder = extra.into_iter().fold(builder, WorldBuilder::uses);
        let world = builder.start_without_driver().await.unwrap();
        call(&world, "AKIADRIVER", form).await;
        tidy(&world).await;
        assert_eq!(world.finish().await.is_ok(), allowed, "{policy:?} {extra:?}");
    }
}

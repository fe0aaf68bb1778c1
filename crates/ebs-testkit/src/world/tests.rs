//! A world in which somebody goes beyond the rights of the driver.

use bytes::Bytes;
use ebs_sim::iam::{Extra, Shipped};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use super::*;

/// A world without a driver: its calls are made here.
async fn world() -> World {
    World::builder("/nonexistent").start_without_driver().await.unwrap()
}

/// Makes a call as the holder of a key does.
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

/// Removes what the calls made, so that only rights are left to complain of.
async fn tidy(world: &World) {
    for volume in world.left_in_ec2().await.unwrap() {
        let id = volume.split(' ').next().unwrap();
        call(world, TESTS_OWN_KEY, &format!("Action=DeleteVolume&VolumeId={id}")).await;
    }
}

/// A suite in which the driver makes a call that no policy allows fails, also when nobody looks at its end.
#[tokio::test]
async fn a_world_in_which_the_driver_went_beyond_its_rights_does_not_finish_well() {
    let world = world().await;
    call(&world, "AKIADRIVER", UNTAGGED).await;
    tidy(&world).await;
    let told = format!("{:#}", world.finish().await.unwrap_err());
    for word in ["CreateVolume", "none of the policies", "aws:RequestTag/ebs.csi.aws.com/cluster = true"] {
        assert!(told.contains(word), "{told}");
    }
}

#[tokio::test]
async fn a_world_that_nobody_finishes_tells_of_such_calls_too() {
    let world = world().await;
    call(&world, "AKIADRIVER", UNTAGGED).await;
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || drop(world))).unwrap_err();
    assert!(ended.downcast_ref::<String>().unwrap().contains("CreateVolume"));
}

/// Calls that a test makes itself, known by its access key, need no rights.
#[tokio::test]
async fn calls_of_the_test_itself_need_no_rights() {
    let world = world().await;
    call(&world, TESTS_OWN_KEY, UNTAGGED).await;
    tidy(&world).await;
    world.finish().await.unwrap();
}

#[tokio::test]
async fn a_call_that_only_the_legacy_policy_allows_fails_a_world_under_another() {
    for (policy, allowed) in [(None, true), (Some(Shipped::LegacyExample), true), (Some(Shipped::ManagedV2), false)] {
        let builder = World::builder("/nonexistent");
        let builder = policy.into_iter().fold(builder, WorldBuilder::under);
        let world = builder.start_without_driver().await.unwrap();
        call(&world, "AKIADRIVER", TAGGED).await;
        tidy(&world).await;
        assert_eq!(world.finish().await.is_ok(), allowed, "{policy:?}");
    }
}

/// A feature that needs a further statement has to be declared by the suite.
#[tokio::test]
async fn a_feature_that_is_not_declared_is_missed() {
    let secret = format!("{TAGGED}&Encrypted=true&KmsKeyId=alias/mine");
    for declared in [false, true] {
        let mut builder = World::builder("/nonexistent");
        if declared {
            builder = builder.uses(Extra::Kms);
        }
        let world = builder.start_without_driver().await.unwrap();
        call(&world, "AKIADRIVER", &secret).await;
        tidy(&world).await;
        assert_eq!(world.finish().await.is_ok(), declared);
    }
}

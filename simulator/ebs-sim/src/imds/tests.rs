use std::time::{Duration, SystemTime};

use http_body_util::BodyExt;

use super::*;
use crate::api::{SimAttachment, SimInstance, SimNetworkInterface};
use crate::config::EngineConfig;
use crate::state::Sim;

/// Returns the first instance of a new account, with a second volume and a second network interface.
fn instance() -> SimInstance {
    let config = EngineConfig::default();
    let mut instance = Sim::new(&config, SystemTime::UNIX_EPOCH).view(SystemTime::UNIX_EPOCH).instances.remove(0);
    instance.id = "i-1".to_owned();
    let (root, interface) = (instance.devices[0].clone(), instance.network_interfaces[0].clone());
    instance.devices.push(SimAttachment { device: "/dev/xvdba".to_owned(), ..root });
    let addresses = ["0e:00:00:00:00:01", "0e:00:00:00:00:02"].map(str::to_owned);
    let interface = |mac_address| SimNetworkInterface { mac_address, ..interface.clone() };
    instance.network_interfaces = addresses.map(interface).to_vec();
    instance
}

fn service(v1: bool) -> Imds {
    Imds::new(Tree::of(&instance(), "us-west-2"), v1)
}

async fn ask(imds: &Imds, method: Method, path: &str, headers: &[(&'static str, &str)]) -> (u16, String) {
    let headers: HeaderMap =
        headers.iter().map(|(name, value)| ((*name).try_into().unwrap(), value.parse().unwrap())).collect();
    let response = imds.respond(&method, path, &headers);
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn token(imds: &Imds, ttl: &str) -> String {
    let (status, token) = ask(imds, Method::PUT, "/latest/api/token", &[(TTL_HEADER, ttl)]).await;
    assert_eq!(status, 200);
    token
}

async fn get(imds: &Imds, path: &str) -> (u16, String) {
    let token = token(imds, "300").await;
    ask(imds, Method::GET, path, &[(TOKEN_HEADER, &token)]).await
}

#[tokio::test]
async fn request_without_valid_token_is_rejected() {
    let imds = service(false);
    let path = "/latest/meta-data/instance-id";
    assert_eq!(ask(&imds, Method::GET, path, &[]).await.0, 401);
    assert_eq!(ask(&imds, Method::GET, path, &[(TOKEN_HEADER, "made-up")]).await.0, 401);
    let foreign = token(&service(false), "300").await;
    assert_eq!(ask(&imds, Method::GET, path, &[(TOKEN_HEADER, &foreign)]).await.0, 401);
    assert_eq!(get(&imds, path).await, (200, "i-1".to_owned()));
    assert_eq!(ask(&service(true), Method::GET, path, &[]).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn token_is_valid_for_requested_time() {
    let imds = service(false);
    let token = token(&imds, "60").await;
    let path = "/latest/meta-data/instance-id";
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(ask(&imds, Method::GET, path, &[(TOKEN_HEADER, &token)]).await.0, 200);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(ask(&imds, Method::GET, path, &[(TOKEN_HEADER, &token)]).await.0, 401);
}

#[tokio::test]
async fn token_lifetime_is_one_second_to_six_hours() {
    let imds = service(false);
    for bad in [&[][..], &[(TTL_HEADER, "0")], &[(TTL_HEADER, "21601")], &[(TTL_HEADER, "x")]] {
        assert_eq!(ask(&imds, Method::PUT, "/latest/api/token", bad).await.0, 400, "{bad:?}");
    }
    let proxied = [(TTL_HEADER, "60"), ("x-forwarded-for", "10.0.0.9")];
    assert_eq!(ask(&imds, Method::PUT, "/latest/api/token", &proxied).await.0, 403);
    assert_eq!(ask(&imds, Method::GET, "/latest/api/token", &[]).await.0, 405);
}

#[tokio::test]
async fn subdirectories_are_listed_with_slash() {
    let imds = service(false);
    let (_, macs) = get(&imds, "/latest/meta-data/network/interfaces/macs").await;
    assert_eq!(macs, "0e:00:00:00:00:01/\n0e:00:00:00:00:02/");
    assert_eq!(get(&imds, "/latest/meta-data/network/interfaces/macs/").await.1, macs);
    assert_eq!(get(&imds, "/latest/meta-data/block-device-mapping").await.1, "ami\nebs1\nroot");
    assert_eq!(get(&imds, "/latest/meta-data/block-device-mapping/ebs1").await.1, "xvdba");
    assert_eq!(get(&imds, "/latest").await.1, "dynamic/\nmeta-data/");
}

#[tokio::test]
async fn unknown_path_is_not_found() {
    let imds = service(false);
    for path in ["/latest/meta-data/outpost-arn", "/latest/nothing", "/latestmeta-data", "/2009-04-04/meta-data"] {
        assert_eq!(get(&imds, path).await.0, 404, "{path}");
    }
}

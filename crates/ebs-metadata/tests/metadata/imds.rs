//! Tests the client with the simulator's metadata service and with services that behave differently.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use ebs_metadata::{BlockDevices, Field, Imds, ImdsOptions, Machine, MetadataError};
use ebs_sim::{Server, ServerConfig};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

struct Sim {
    server: Server,
    _state: tempfile::TempDir,
}

async fn sim(change: impl FnOnce(&mut ServerConfig)) -> Sim {
    let state = tempfile::tempdir().unwrap();
    let mut config = ServerConfig::new(state.path());
    change(&mut config);
    Sim { server: Server::start(config).await.unwrap(), _state: state }
}

fn options(endpoint: &str) -> ImdsOptions {
    ImdsOptions { endpoint: Some(endpoint.to_owned()), ..ImdsOptions::default() }
}

fn of(sim: &Sim, name: &str) -> String {
    sim.server.env()[name].clone()
}

#[tokio::test]
async fn imds_returns_the_node_metadata() {
    let sim = sim(|_| ()).await;
    let imds = Imds::with(options(&of(&sim, "AWS_EC2_METADATA_SERVICE_ENDPOINT"))).unwrap();
    let me = imds.read().await.unwrap();
    assert_eq!(me.node.to_string().as_str(), of(&sim, "EBS_SIM_INSTANCE_ID"));
    assert_eq!(
        (me.instance_type.as_str(), me.region.as_str(), me.zone.as_str()),
        ("m5.large", "us-west-2", "us-west-2a")
    );
    assert_eq!((me.network_interfaces, me.block_devices), (1, BlockDevices::AtBoot(0)));
    assert_eq!(imds.refresh_interfaces().await.unwrap(), 1);
    let abroad = options(&of(&sim, "AWS_EC2_METADATA_SERVICE_ENDPOINT"));
    let abroad = Imds::with(ImdsOptions { region: Some("eu-north-1".to_owned()), ..abroad }).unwrap();
    assert_eq!(abroad.read().await.unwrap().region, "eu-north-1", "AWS_REGION overrides the region of the service");
    sim.server.shutdown().await.unwrap();
}

const OUTPOST: &str = "arn:aws:outposts:us-west-2:123456789012:outpost/op-0123456789abcdef0";

#[tokio::test]
async fn node_on_an_outpost_reads_the_arn_of_the_outpost() {
    let sim = sim(|config| config.engine.account.machine_outpost = Some(OUTPOST.to_owned())).await;
    let me = Imds::with(options(&of(&sim, "AWS_EC2_METADATA_SERVICE_ENDPOINT"))).unwrap().read().await.unwrap();
    assert_eq!(me.outpost.map(|arn| arn.to_string()).as_deref(), Some(OUTPOST));
    sim.server.shutdown().await.unwrap();
    for (status, arn, wanted) in
        [(StatusCode::NOT_FOUND, "", Ok(())), (StatusCode::OK, "op-1", Ok(())), (StatusCode::FORBIDDEN, "", Err(403))]
    {
        let app = Router::new().fallback(move |request: Request| async move {
            match (request.method(), request.uri().path()) {
                (&Method::PUT, _) => StatusCode::FORBIDDEN.into_response(),
                (_, "/latest/meta-data/outpost-arn") => (status, arn).into_response(),
                _ => answer(&request, DOCUMENT),
            }
        });
        let service = serve(app, Arc::default()).await;
        match (Imds::with(options(&service.endpoint)).unwrap().read().await, wanted) {
            (Ok(me), Ok(())) => assert_eq!(me.outpost, None, "{status}"),
            (Err(MetadataError::Status { field: Field::Outpost, status, .. }), Err(wanted)) => {
                assert_eq!(status, wanted)
            }
            other => panic!("{status}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn imds_client_gets_a_new_token_from_a_restarted_service() {
    let first = sim(|_| ()).await;
    let endpoint = of(&first, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
    let address: SocketAddr = endpoint.strip_prefix("http://").unwrap().parse().unwrap();
    let imds = Imds::with(options(&endpoint)).unwrap();
    imds.read().await.unwrap();
    first.server.shutdown().await.unwrap();
    let second = sim(|config| config.imds_listen = address).await;
    assert_eq!(imds.read().await.unwrap().node.to_string(), of(&second, "EBS_SIM_INSTANCE_ID"));
    second.server.shutdown().await.unwrap();
}

struct Other {
    endpoint: String,
    token_requests: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

const DOCUMENT: &str =
    r#"{"instanceId":"i-1","instanceType":"t2.micro","region":"us-west-2","availabilityZone":"us-west-2a"}"#;

async fn other(token_status: StatusCode, document: &'static str) -> Other {
    let token_requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&token_requests);
    let app = Router::new().fallback(move |request: Request| async move {
        if request.method() == Method::PUT {
            count.fetch_add(1, Ordering::SeqCst);
            return token_status.into_response();
        }
        answer(&request, document)
    });
    serve(app, token_requests).await
}

fn answer(request: &Request, document: &'static str) -> Response {
    match request.uri().path() {
        "/latest/dynamic/instance-identity/document" => document.into_response(),
        "/latest/meta-data/network/interfaces/macs" => "0e:49:61:0f:c3:11/".into_response(),
        "/latest/meta-data/block-device-mapping" => "ami\nebs1\nroot".into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn serve(app: Router, token_requests: Arc<AtomicUsize>) -> Other {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { axum::serve(listener, app).await.unwrap() });
    Other { endpoint, token_requests, _tasks: tasks }
}

#[tokio::test]
async fn imds_client_stops_requesting_tokens_if_none_are_issued() {
    for status in [StatusCode::FORBIDDEN, StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED] {
        let service = other(status, DOCUMENT).await;
        let imds = Imds::with(options(&service.endpoint)).unwrap();
        let me = imds.read().await.unwrap();
        let seen = (me.node.to_string(), me.network_interfaces, me.block_devices);
        assert_eq!(seen, ("i-1".to_owned(), 1, BlockDevices::AtBoot(1)), "{status}");
        assert_eq!(service.token_requests.load(Ordering::SeqCst), 1, "{status}");
    }
}

#[tokio::test]
async fn late_token_is_requested_again_if_service_requires_one() {
    let (unanswered, tokens) = (2, Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&tokens);
    let app = Router::new().fallback(move |request: Request| async move {
        if request.method() == Method::PUT {
            if count.fetch_add(1, Ordering::SeqCst) < unanswered {
                std::future::pending::<()>().await;
            }
            return ([("x-aws-ec2-metadata-token-ttl-seconds", "300")], "a-token").into_response();
        }
        if !request.headers().contains_key("x-aws-ec2-metadata-token") {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        answer(&request, DOCUMENT)
    });
    let service = serve(app, tokens).await;
    let me = Imds::with(options(&service.endpoint)).unwrap().read().await.unwrap();
    assert_eq!((me.node.to_string().as_str(), me.network_interfaces), ("i-1", 1));
    assert!(service.token_requests.load(Ordering::SeqCst) > unanswered);
}

#[tokio::test]
async fn rejected_token_request_is_final_and_imds_v1_can_be_disabled() {
    for (status, v1_disabled) in [(StatusCode::BAD_REQUEST, false), (StatusCode::FORBIDDEN, true)] {
        let service = other(status, DOCUMENT).await;
        let options = ImdsOptions { v1_disabled, ..options(&service.endpoint) };
        let error = Imds::with(options).unwrap().read().await.unwrap_err();
        assert!(matches!(error, MetadataError::NoAnswer { field: Field::Token, .. }), "{error}");
    }
}

#[tokio::test]
async fn slow_imds_delays_the_startup() {
    let app = Router::new().fallback(|request: Request| async move {
        if request.method() == Method::PUT {
            return StatusCode::FORBIDDEN.into_response();
        }
        if request.uri().path() == "/latest/meta-data/outpost-arn" {
            // Longer than the initial time limit, so that the first read fails.
            tokio::time::sleep(std::time::Duration::from_millis(1_200)).await;
        }
        answer(&request, DOCUMENT)
    });
    let service = serve(app, Arc::default()).await;
    let imds = Imds::with(options(&service.endpoint)).unwrap();
    let first = imds.read().await.unwrap_err();
    assert!(matches!(&first, MetadataError::NoAnswer { field: Field::Outpost, .. }) && first.may_pass(), "{first:?}");
    let machine = Machine::find(vec![Box::new(imds)], None).await.unwrap();
    assert_eq!(machine.metadata().node.to_string(), "i-1");
}

#[tokio::test(start_paused = true)]
async fn missing_imds_is_a_permanent_failure_within_seconds() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    for v1_disabled in [false, true] {
        let options = ImdsOptions { v1_disabled, ..options(&endpoint) };
        let started = tokio::time::Instant::now();
        let error = Imds::with(options).unwrap().read().await.unwrap_err();
        assert!(!error.may_pass() && error.to_string().contains(&endpoint), "{error:?}");
        assert!(started.elapsed().as_secs() < 12);
    }
}

#[tokio::test]
async fn missing_required_token_is_a_temporary_failure() {
    let app = Router::new().fallback(|request: Request| async move {
        if request.method() == Method::PUT {
            std::future::pending::<()>().await;
        }
        StatusCode::UNAUTHORIZED.into_response()
    });
    let service = serve(app, Arc::default()).await;
    let error = Imds::with(options(&service.endpoint)).unwrap().read().await.unwrap_err();
    assert!(matches!(&error, MetadataError::NoAnswer { .. }) && error.may_pass(), "{error:?}");
}

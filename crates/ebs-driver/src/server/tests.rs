use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use csi_proto::csi::identity_client::IdentityClient;
use csi_proto::csi::identity_server::{Identity, IdentityServer};
use csi_proto::csi::node_client::NodeClient;
use csi_proto::csi::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    NodeGetInfoRequest, ProbeRequest, ProbeResponse,
};
use csi_proto::modify::GetCsiDriverModificationCapabilityRequest;
use csi_proto::modify::modify_client::ModifyClient;
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint as Target};
use tonic::{Request, Response, Status};

use ebs_ec2::ConnectionId;
use ebs_sim::engine::EngineConfig;
use ebs_sim::port::SimEc2;

use super::*;
use crate::controller::ControllerService;
use crate::csi_node::CsiNode;
use crate::log::Log;
use crate::not_ec2::NotEc2;

/// An Identity service that panics, waits or answers, as its test requires.
#[derive(Clone, Default)]
struct Stub {
    connections: Arc<Mutex<Vec<Option<ConnectionId>>>>,
    entered: Arc<Notify>,
    gate: Arc<Notify>,
}

#[tonic::async_trait]
impl Identity for Stub {
    async fn get_plugin_info(
        &self,
        request: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        self.connections.lock().expect("not poisoned").push(request.extensions().get().copied());
        Ok(Response::new(GetPluginInfoResponse { name: "stub".to_owned(), ..Default::default() }))
    }

    async fn get_plugin_capabilities(
        &self,
        _request: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        panic!("a bug in a handler")
    }

    async fn probe(&self, _request: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        self.entered.notify_one();
        self.gate.notified().await;
        Ok(Response::new(ProbeResponse { ready: Some(true) }))
    }
}

#[derive(Default)]
struct Seen(Mutex<Vec<(&'static str, &'static str)>>);

impl RpcObserver for Seen {
    fn finished(&self, rpc: &'static str, code: &'static str, _took: Duration) {
        self.0.lock().expect("not poisoned").push((rpc, code));
    }
}

impl Seen {
    fn all(&self) -> Vec<(&'static str, &'static str)> {
        self.0.lock().expect("not poisoned").clone()
    }
}

/// A server for one test. The server stops when this value is dropped.
struct World {
    _directory: TempDir,
    socket: PathBuf,
    stub: Stub,
    seen: Arc<Seen>,
    stop: Arc<Notify>,
    serving: JoinSet<Result<(), ServeError>>,
}

fn start(limit: Duration) -> World {
    let stub = Stub::default();
    start_with(Routes::new(IdentityServer::new(stub.clone())), stub, limit)
}

/// Starts a server that answers only Identity until the gate opens.
fn starting() -> (World, StartupGate) {
    let stub = Stub::default();
    let (routes, gate) = startup_gate(stub.clone());
    (start_with(routes, stub, Duration::from_secs(120)), gate)
}

fn start_with(routes: Routes, stub: Stub, limit: Duration) -> World {
    let (directory, socket) = free_path();
    let bound = bind_at(&socket).expect("free");
    let (seen, stop) = (Arc::new(Seen::default()), Arc::new(Notify::new()));
    let mut serving = JoinSet::new();
    let (observer, stopping) = (Arc::clone(&seen), Arc::clone(&stop));
    serving.spawn(async move { serve(bound, routes, observer, stopping.notified(), limit).await });
    World { _directory: directory, socket, stub, seen, stop, serving }
}

impl World {
    async fn client(&self) -> IdentityClient<Channel> {
        IdentityClient::new(channel(&self.socket).await)
    }

    async fn identity_answers(&self) {
        let info = within("info", self.client().await.get_plugin_info(GetPluginInfoRequest {})).await;
        assert_eq!(info.expect("answered").into_inner().name, "stub");
    }

    async fn ends(&mut self) {
        let ended = within("the server ends", self.serving.join_next()).await;
        assert!(matches!(ended, Some(Ok(Ok(())))), "{ended:?}");
    }
}

/// Returns a directory and the path of a future socket in it.
fn free_path() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("csi.sock");
    (directory, socket)
}

fn bind_at(path: &Path) -> Result<Bound, BindError> {
    bind(&Endpoint::Unix(path.to_owned()), 0o600)
}

async fn channel(socket: &Path) -> Channel {
    let socket = socket.to_owned();
    let connect = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Target::from_static("http://localhost").connect_with_connector(connect).await.expect("connects")
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), future)
        .await
        .unwrap_or_else(|_| panic!("{what}: not within two minutes"))
}

async fn until(what: &str, level: impl Fn() -> bool) {
    let wait = async {
        while !level() {
            tokio::task::yield_now().await;
        }
    };
    within(what, wait).await;
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[tokio::test]
async fn socket_has_the_requested_mode_from_its_creation() {
    let directory = tempfile::tempdir().expect("a directory");
    for wanted in [0o600, 0o660, 0o666, 0o400] {
        let socket = directory.path().join(format!("{wanted:o}.sock"));
        let _bound = bind(&Endpoint::Unix(socket.clone()), wanted).expect("free");
        assert_eq!(mode(&socket), wanted, "{wanted:o}");
    }
    // Check that `bind` creates the file with the mode of the descriptor, so that the file is private before any chmod
    // of the path.
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).expect("a socket");
    rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(0o600)).expect("its mode can be set");
    let path = directory.path().join("raw.sock");
    socket.bind(&socket2::SockAddr::unix(&path).expect("short")).expect("free");
    assert_eq!(mode(&path), 0o600);
}

/// On shutdown, the driver removes its own socket.
#[tokio::test]
async fn stale_socket_is_replaced_and_own_socket_removed() {
    let (_directory, socket) = free_path();
    drop(StdListener::bind(&socket).expect("free"));
    assert!(socket.exists(), "the file of a process that is gone");
    let bound = bind_at(&socket).expect("stale");
    assert!(StdStream::connect(&socket).is_ok(), "the new server listens");
    drop(bound);
    assert!(!socket.exists());
}

/// The first driver continues to serve.
#[tokio::test]
async fn second_driver_on_one_socket_is_refused() {
    let world = start(Duration::from_secs(1));
    let error = bind_at(&world.socket).expect_err("taken");
    assert!(matches!(error, BindError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("another driver"), "{error}");
    world.identity_answers().await;
}

#[tokio::test]
async fn socket_of_another_listening_program_is_not_changed() {
    let (_directory, socket) = free_path();
    let _other = StdListener::bind(&socket).expect("free");
    let error = bind_at(&socket).expect_err("taken");
    assert!(matches!(error, BindError::Live { .. }), "{error}");
    assert!(StdStream::connect(&socket).is_ok());
}

/// The driver replaces neither a file nor a symbolic link. The error names the path.
#[tokio::test]
async fn bind_error_names_the_file_or_the_missing_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("precious");
    std::fs::write(&file, "data").expect("written");
    let error = bind_at(&file).expect_err("a file");
    assert!(error.to_string().contains("not a socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).expect("still there"), "data");
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&file, &link).expect("linked");
    assert!(matches!(bind_at(&link), Err(BindError::NotASocket { .. })));
    let error = bind_at(&directory.path().join("no/csi.sock")).expect_err("no directory");
    assert!(matches!(&error, BindError::NoDirectory { directory } if directory.ends_with("no")), "{error}");
}

#[tokio::test]
async fn socket_file_of_another_process_is_not_removed() {
    let (directory, socket) = free_path();
    let bound = bind_at(&socket).expect("free");
    std::fs::rename(&socket, directory.path().join("moved")).expect("moved");
    let _other = StdListener::bind(&socket).expect("free again");
    drop(bound);
    assert!(std::fs::symlink_metadata(&socket).expect("there").file_type().is_socket());
}

/// The process continues, and counts the request.
#[tokio::test]
async fn panic_fails_only_its_request_with_an_unknown_outcome() {
    let world = start(Duration::from_secs(1));
    let mut client = world.client().await;
    let status = within("the panic", client.get_plugin_capabilities(GetPluginCapabilitiesRequest {})).await;
    let status = status.expect_err("it panicked");
    assert_eq!(format!("{:?}", status.code()), "Aborted");
    assert!(status.message().contains("a bug in a handler"), "{status}");
    assert!(within("the next", client.get_plugin_info(GetPluginInfoRequest {})).await.is_ok());
    assert_eq!(world.seen.all(), [("GetPluginCapabilities", "Aborted"), ("GetPluginInfo", "OK")]);
}

/// The line has the method, the subject, the code and all causes.
#[tokio::test]
async fn failed_rpc_is_logged_once_without_secrets() {
    let log = Log::listen();
    let controller = ControllerServer::new(controller().await);
    let routes = Routes::new(IdentityServer::new(Stub::default())).add_service(controller);
    let world = start_with(routes, Stub::default(), Duration::from_secs(1));
    let channel = channel(&world.socket).await;
    let request = csi_proto::csi::CreateVolumeRequest {
        name: "pvc-1".to_owned(),
        secrets: [("key".to_owned(), "canary-7f3a".to_owned())].into(),
        ..Default::default()
    };
    let mut client = csi_proto::csi::controller_client::ControllerClient::new(channel);
    assert!(within("the refusal", client.create_volume(request)).await.is_err());
    let failures = log.lines_with(&["request failed"]);
    let told = ["request failed", "CreateVolume", "pvc-1", "InvalidArgument", "no volume capability"];
    assert_eq!((failures.len(), log.lines_with(&told).len()), (1, 1), "{failures:?}");
    assert!(log.lines_with(&["canary-7f3a"]).is_empty());
}

async fn controller() -> ControllerService<SimEc2> {
    let ec2 = SimEc2::start(EngineConfig::default()).await.expect("starts in memory");
    crate::controller::tests::driver_over(&ec2, None).0
}

#[tokio::test]
async fn every_rpc_is_counted_once_even_if_its_client_leaves() {
    let world = start(Duration::from_secs(1));
    let mut client = world.client().await;
    let left = {
        let probe = client.probe(ProbeRequest {});
        tokio::select! {
            _ = probe => false,
            () = world.stub.entered.notified() => true,
        }
    };
    assert!(left);
    until("the server notices", || world.seen.all() == [("Probe", "Canceled")]).await;
    assert!(within("info", client.get_plugin_info(GetPluginInfoRequest {})).await.is_ok());
    assert_eq!(world.seen.all(), [("Probe", "Canceled"), ("GetPluginInfo", "OK")]);
}

#[tokio::test]
async fn shutdown_finishes_requests_and_refuses_connections() {
    let mut world = start(Duration::from_secs(120));
    let mut client = world.client().await;
    let stub = world.stub.clone();
    let (answer, ()) = within("the request", async {
        tokio::join!(client.probe(ProbeRequest {}), async {
            stub.entered.notified().await;
            world.stop.notify_one();
            until("the listener is gone", || StdStream::connect(&world.socket).is_err()).await;
            stub.gate.notify_one();
        })
    })
    .await;
    assert_eq!(answer.expect("answered").into_inner().ready, Some(true));
    world.ends().await;
    assert!(!world.socket.exists());
}

/// The shutdown does not wait for a request that hangs.
#[tokio::test]
async fn shutdown_ends_at_its_time_limit_despite_a_hung_request() {
    let mut world = start(Duration::from_millis(50));
    let mut client = world.client().await;
    let mut callers = JoinSet::new();
    callers.spawn(async move { client.probe(ProbeRequest {}).await });
    within("the request", world.stub.entered.notified()).await;
    world.stop.notify_one();
    world.ends().await;
}

#[tokio::test]
async fn tcp_listens_on_a_free_port_of_loopback() {
    let endpoint = Endpoint::parse("tcp://127.0.0.1:0").expect("loopback");
    let bound = bind(&endpoint, 0o600).expect("free");
    assert!(matches!(bound.endpoint(), Endpoint::Tcp(address) if address.port() > 0 && address.ip().is_loopback()));
}

#[tokio::test]
async fn requests_of_one_connection_have_one_connection_id() {
    let world = start(Duration::ZERO);
    for _ in 0..2 {
        let mut client = world.client().await;
        for _ in 0..2 {
            within("an answer", client.get_plugin_info(GetPluginInfoRequest {})).await.expect("it answers");
        }
    }
    let seen = world.stub.connections.lock().expect("not poisoned").clone();
    assert!(seen.iter().all(Option::is_some), "{seen:?}");
    assert_eq!((seen[0] == seen[1], seen[1] == seen[2], seen[2] == seen[3]), (true, false, true), "{seen:?}");
}

/// The server listens on a unix socket or on TCP.
#[tokio::test]
async fn client_with_a_path_as_authority_is_served() {
    // The bytes that grpc-go sent through a custom dialer to `/csi/csi.sock`. They contain three GetPluginInfo calls.
    let sent = include_bytes!("../../../grpc-authority/src/tests/recorded/grpc-go-1.20-path.bin");
    let world = start(Duration::ZERO);
    let tcp = bind(&Endpoint::parse("tcp://127.0.0.1:0").expect("loopback"), 0o600).expect("free");
    let Endpoint::Tcp(address) = *tcp.endpoint() else { panic!("{:?}", tcp.endpoint()) };
    let routes = Routes::new(IdentityServer::new(world.stub.clone()));
    let mut serving = JoinSet::new();
    serving.spawn(serve(tcp, routes, Arc::clone(&world.seen) as _, std::future::pending(), Duration::ZERO));
    let mut unix = UnixStream::connect(&world.socket).await.expect("it listens");
    let mut tcp = TcpStream::connect(address).await.expect("it listens");
    for (calls, client) in [(3, &mut unix as &mut (dyn AsyncWrite + Unpin)), (6, &mut tcp)] {
        client.write_all(sent).await.expect("it reads");
        until("three calls", || world.stub.connections.lock().expect("not poisoned").len() == calls).await;
    }
}

/// After startup, a call of an unknown RPC fails with Unimplemented.
#[tokio::test]
async fn identity_answers_during_startup_and_other_calls_wait() {
    let (world, gate) = starting();
    world.identity_answers().await;
    let channel = channel(&world.socket).await;
    let mut calls = JoinSet::new();
    let mut modify = ModifyClient::new(channel.clone());
    calls.spawn(async move {
        let request = GetCsiDriverModificationCapabilityRequest {};
        modify.get_csi_driver_modification_capability(request).await.map(drop)
    });
    // The client sends an Identity call after the call that waits, but the Identity call is answered first.
    world.identity_answers().await;
    assert!(calls.try_join_next().is_none(), "no service could have answered it");
    gate.open(services(Some(controller().await), None::<CsiNode<NotEc2>>));
    within("the call that waited", calls.join_next()).await.expect("one").expect("no panic").expect("answered");
    let status = within("no node", NodeClient::new(channel).node_get_info(NodeGetInfoRequest {})).await;
    assert_eq!(format!("{:?}", status.expect_err("no such service").code()), "Unimplemented");
}

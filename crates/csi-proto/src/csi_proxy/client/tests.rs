use std::collections::{BTreeMap, VecDeque};

use tokio::io::DuplexStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;
use tonic::body::Body;
use tonic::transport::Server;

use super::*;
use crate::csi_proxy::system::v1alpha1::GetBiosSerialNumberRequest;
use crate::csi_proxy::system::v1alpha1::system_client::SystemClient;

/// A fake node. For each pipe, `errors` has the error numbers of the next attempts to open it. Later attempts succeed.
#[derive(Clone)]
struct Node {
    errors: Arc<Mutex<BTreeMap<String, VecDeque<i32>>>>,
    opened: Arc<Mutex<Vec<String>>>,
    accept: UnboundedSender<DuplexStream>,
}

impl Dial for Node {
    type Stream = DuplexStream;

    async fn dial(&self, pipe: &str) -> io::Result<DuplexStream> {
        self.opened.lock().unwrap().push(pipe.to_owned());
        let error = self.errors.lock().unwrap().get_mut(pipe).and_then(VecDeque::pop_front);
        if let Some(number) = error {
            return Err(io::Error::from_raw_os_error(number));
        }
        let (near, far) = tokio::io::duplex(65_536);
        self.accept.send(far).expect("the server lives");
        Ok(near)
    }
}

fn node(errors: &[(&str, &[i32])]) -> (Node, UnboundedReceiver<DuplexStream>) {
    let errors = errors.iter().map(|(version, numbers)| {
        (pipe_name(Group::System, version.parse().unwrap()), numbers.iter().copied().collect())
    });
    let (accept, accepted) = unbounded_channel();
    (Node { errors: Arc::new(Mutex::new(errors.collect())), opened: Arc::default(), accept }, accepted)
}

fn connections(accepted: UnboundedReceiver<DuplexStream>) -> impl Stream<Item = io::Result<DuplexStream>> {
    UnboundedReceiverStream::new(accepted).map(Ok)
}

fn serve(accepted: UnboundedReceiver<DuplexStream>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let firmware = tower::service_fn(async |_: http::Request<Body>| {
            Ok::<_, std::convert::Infallible>(Status::unknown("firmware").into_http::<Body>())
        });
        Server::builder().serve_with_incoming(firmware, connections(accepted)).await.expect("it serves");
    });
    tasks
}

async fn is_answered(client: &mut SystemClient<Channel>) -> bool {
    let answer = client.get_bios_serial_number(GetBiosSerialNumberRequest {}).await;
    answer.expect_err("it has no firmware").message() == "firmware"
}

fn versions(texts: &[&str]) -> Vec<Version> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[tokio::test]
async fn client_falls_back_to_the_newest_served_version() {
    let (node, accepted) = node(&[("v2alpha1", &[2]), ("v1", &[2])]);
    let _server = serve(accepted);
    let found = connect(&node, Group::System, &versions(&["v1alpha1", "v2alpha1", "v1", "v1beta1"])).await.unwrap();
    assert_eq!(found.version.to_string(), "v1beta1");
    let opened = node.opened.lock().unwrap().clone();
    assert_eq!(opened, ["v2alpha1", "v1", "v1beta1"].map(|version| format!(r"\\.\pipe\csi-proxy-system-{version}")));
}

#[tokio::test]
async fn client_does_not_fall_back_after_other_pipe_errors() {
    let (node, accepted) = node(&[("v1", &[5])]);
    let _server = serve(accepted);
    let refused = connect(&node, Group::System, &versions(&["v1", "v1alpha1"])).await.unwrap_err();
    assert!(refused.to_string().contains("csi-proxy-system-v1"), "{refused}");
    assert!(matches!(refused, ConnectError::Open { source, .. } if source.raw_os_error() == Some(5)));
    assert_eq!(node.opened.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn error_names_the_newest_pipe_when_none_is_served() {
    let (node, _accepted) = node(&[("v1", &[2]), ("v1alpha1", &[2])]);
    let missing = connect(&node, Group::System, &versions(&["v1alpha1", "v1"])).await.unwrap_err().to_string();
    assert!(missing.contains(r"\\.\pipe\csi-proxy-system-v1 ") && missing.contains("group system"), "{missing}");
}

#[tokio::test(start_paused = true)]
async fn busy_pipe_is_retried_until_a_connection_carries_all_calls() {
    let (node, accepted) = node(&[("v1alpha1", &[231, 231])]);
    let _server = serve(accepted);
    let found = connect(&node, Group::System, &versions(&["v1alpha1"])).await.unwrap();
    let mut client = SystemClient::new(found.channel);
    for _ in 0..3 {
        assert!(is_answered(&mut client).await);
    }
    assert_eq!(node.opened.lock().unwrap().len(), 3, "two busy ones and the one that carries all calls");
}

#[tokio::test(start_paused = true)]
async fn pipe_that_stays_busy_is_an_error_after_the_limit() {
    let (node, _accepted) = node(&[("v1", &[PIPE_BUSY; 10_000])]);
    let before = Instant::now();
    let busy = connect(&node, Group::System, &versions(&["v1"])).await.unwrap_err();
    assert!(matches!(busy, ConnectError::Open { source, .. } if source.raw_os_error() == Some(PIPE_BUSY)));
    assert!(before.elapsed() < DIAL_LIMIT * 2);
}

#[tokio::test]
async fn channel_reconnects_after_its_connection_has_ended() {
    let (node, mut accepted) = node(&[]);
    let (cut, cut_now) = tokio::sync::oneshot::channel();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let (near, far) = (&mut accepted.recv().await.unwrap(), &mut tokio::io::duplex(65_536));
        let (sender, receiver) = unbounded_channel();
        sender.send(std::mem::replace(&mut far.1, tokio::io::duplex(1).0)).unwrap();
        let _serving = serve(receiver);
        tokio::select! {
            _ = tokio::io::copy_bidirectional(near, &mut far.0) => panic!("it was to be cut"),
            _ = cut_now => {}
        }
        *near = tokio::io::duplex(1).0;
        let _rest = serve(accepted);
        std::future::pending::<()>().await;
    });
    let found = connect(&node, Group::System, &versions(&["v1alpha1"])).await.unwrap();
    let mut client = SystemClient::new(found.channel);
    assert!(is_answered(&mut client).await);
    cut.send(()).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while node.opened.lock().unwrap().len() < 2 {
        assert!(Instant::now() < end, "it never dialled again");
        let _is_cut = is_answered(&mut client).await;
        sleep(Duration::from_millis(20)).await;
    }
    assert!(is_answered(&mut client).await);
}

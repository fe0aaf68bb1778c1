use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ebs_metadata::{BlockDevices, Machine};
use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use super::*;

/// An API server with at most one Node, which counts its requests.
#[derive(Debug, Clone, Default)]
struct OneNode(Arc<State>);

#[derive(Debug, Default)]
struct State {
    node: Mutex<Option<Value>>,
    hangs: Mutex<bool>,
    asked: AtomicU32,
}

impl OneNode {
    fn new(labels: Value) -> Self {
        let api = Self::default();
        api.put(labels);
        api
    }

    fn put(&self, more: Value) {
        let mut labels = json!({
            "node.kubernetes.io/instance-type": "m5.large",
            "topology.kubernetes.io/region": "us-west-2",
            "topology.kubernetes.io/zone": "us-west-2a",
        });
        labels.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let images: Vec<Value> = (0..50).map(|n| json!({ "names": [format!("image-{n}")], "sizeBytes": n })).collect();
        *self.0.node.lock().unwrap() = Some(json!({
            "kind": "Node", "apiVersion": "v1",
            "metadata": { "name": "node-1", "labels": labels },
            "spec": { "providerID": "aws:///us-west-2a/i-0abc", "podCIDR": "10.0.0.0/24" },
            "status": { "images": images },
        }));
    }

    fn remove(&self) {
        *self.0.node.lock().unwrap() = None;
    }

    fn hang(&self) {
        *self.0.hangs.lock().unwrap() = true;
    }

    fn asked(&self) -> u32 {
        self.0.asked.load(Ordering::Relaxed)
    }

    fn client(&self) -> Client {
        let state = Arc::clone(&self.0);
        let service = service_fn(move |request: Request<Body>| {
            let state = Arc::clone(&state);
            async move {
                state.asked.fetch_add(1, Ordering::Relaxed);
                if *state.hangs.lock().unwrap() {
                    std::future::pending::<()>().await;
                }
                let node =
                    state.node.lock().unwrap().clone().filter(|_| request.uri().path() == "/api/v1/nodes/node-1");
                let status = json!({ "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "no" });
                let (code, body) = node.map_or((404, status), |node| (200, node));
                let body = Body::from(serde_json::to_vec(&body).expect("plain data"));
                Ok::<_, BoxError>(Response::builder().status(code).body(body).expect("a response"))
            }
        });
        Client::new(service, "default")
    }

    fn labeler(&self) -> NodeSource {
        NodeSource::metadata_labeler(self.client(), "node-1", DriverName::default())
    }

    fn kubernetes(&self) -> NodeSource {
        NodeSource::kubernetes(self.client(), "node-1", DriverName::default())
    }
}

fn labelled(interfaces: &str, volumes: &str) -> Value {
    json!({ "ebs.csi.aws.com/enis-count": interfaces, "ebs.csi.aws.com/non-csi-ebs-volumes-count": volumes })
}

fn counts(metadata: &NodeMetadata) -> (u32, BlockDevices) {
    (metadata.network_interfaces, metadata.block_devices)
}

async fn asked(machine: &Machine) -> (u32, BlockDevices) {
    let metadata = machine.refreshed().await;
    counts(&metadata)
}

/// The source waits 5 s at most.
#[tokio::test(start_paused = true)]
async fn missing_labels_are_awaited_and_then_named() {
    let api = OneNode::new(json!({}));
    let (source, began) = (api.labeler(), Instant::now());
    let error = source.read().await.unwrap_err();
    assert!(error.cause.to_string().contains("ebs.csi.aws.com/enis-count and ebs.csi.aws.com/non-csi"), "{error:?}");
    assert!(began.elapsed() <= PATIENCE && api.asked() == 4, "{:?}, {}", began.elapsed(), api.asked());
    let late = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        api.put(labelled("3", "1"));
    };
    let (read, ()) = tokio::join!(source.read(), late);
    assert_eq!(counts(&read.unwrap()), (3, BlockDevices::Others(1)));
}

/// Both numbers come from one read. While the Node or the API server is unavailable, the last numbers are used.
#[tokio::test(start_paused = true)]
async fn each_refresh_reads_the_labelers_numbers_again() {
    let api = OneNode::new(labelled("3", "1"));
    let machine = Machine::find(vec![Box::new(api.labeler())], None).await.unwrap();
    assert_eq!(counts(machine.metadata().as_ref()), (3, BlockDevices::Others(1)));
    api.put(labelled("4", "2"));
    assert_eq!(asked(&machine).await, (4, BlockDevices::Others(2)));
    api.put(labelled("5", "no number"));
    assert_eq!(asked(&machine).await, (4, BlockDevices::Others(2)));
    api.remove();
    assert_eq!(asked(&machine).await, (4, BlockDevices::Others(2)));
    api.put(labelled("5", "0"));
    api.hang();
    let began = Instant::now();
    assert_eq!(asked(&machine).await, (4, BlockDevices::Others(2)));
    assert!(began.elapsed() <= READ_WITHIN, "{:?}", began.elapsed());
}

/// The kubelet of each node may ask every 10 s.
#[tokio::test(start_paused = true)]
async fn source_kubernetes_reads_node_at_most_every_five_minutes() {
    let api = OneNode::new(json!({}));
    let machine = Machine::find(vec![Box::new(api.kubernetes())], None).await.unwrap();
    assert_eq!(counts(machine.metadata().as_ref()), (1, BlockDevices::Others(0)));
    api.put(labelled("3", "1"));
    let began = Instant::now();
    while asked(&machine).await == (1, BlockDevices::Others(0)) {
        tokio::time::advance(Duration::from_secs(10)).await;
    }
    assert_eq!(began.elapsed(), KUBERNETES_AGE);
    assert_eq!(api.asked(), 2);
    // The zone comes from the Node and does not change.
    assert_eq!(machine.metadata().zone.as_str(), "us-west-2a");
}

#[tokio::test(start_paused = true)]
async fn missing_or_foreign_node_is_named_in_the_error() {
    let api = OneNode::default();
    let error = Machine::find(vec![Box::new(api.kubernetes())], None).await.unwrap_err();
    assert!(error.to_string().contains("node-1") && error.to_string().contains("CSI_NODE_NAME"), "{error}");
    assert_eq!(error.foreign(), None);
    api.put(json!({}));
    api.0.node.lock().unwrap().as_mut().unwrap()["spec"]["providerID"] = json!("gce://project/zone/name");
    let error = Machine::find(vec![Box::new(api.kubernetes())], None).await.unwrap_err();
    assert!(error.foreign().is_some_and(|what| what.contains("gce://project/zone/name")), "{error}");
}

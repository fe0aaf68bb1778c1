use ebs_metadata::{BlockDevices, Machine};
use serde_json::{Value, json};

use super::*;
use crate::fake::{Ask, FakeApi, Fault, NODES, Times};

fn one_node(labels: Value) -> FakeApi {
    let api = FakeApi::default();
    put(&api, labels);
    api
}

fn put(api: &FakeApi, more: Value) {
    put_machine(api, "aws:///us-west-2a/i-0abc", more);
}

fn put_machine(api: &FakeApi, provider_id: &str, more: Value) {
    let mut labels = json!({
        "node.kubernetes.io/instance-type": "m5.large",
        "topology.kubernetes.io/region": "us-west-2",
        "topology.kubernetes.io/zone": "us-west-2a",
    });
    labels.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let images: Vec<Value> = (0..50).map(|n| json!({ "names": [format!("image-{n}")], "sizeBytes": n })).collect();
    let node = json!({
        "metadata": { "labels": labels },
        "spec": { "providerID": provider_id, "podCIDR": "10.0.0.0/24" },
        "status": { "images": images },
    });
    api.put(NODES, "node-1", node);
}

fn labeler(api: &FakeApi) -> NodeSource {
    NodeSource::metadata_labeler(api.cluster().client(), "node-1", DriverName::default())
}

fn kubernetes(api: &FakeApi) -> NodeSource {
    NodeSource::kubernetes(api.cluster().client(), "node-1", DriverName::default())
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

#[tokio::test(start_paused = true)]
async fn missing_labels_are_awaited_and_then_reported() {
    let api = one_node(json!({}));
    let (source, began) = (labeler(&api), Instant::now());
    let error = source.read().await.unwrap_err();
    assert!(error.cause.to_string().contains("ebs.csi.aws.com/enis-count and ebs.csi.aws.com/non-csi"), "{error:?}");
    assert!(
        began.elapsed() <= PATIENCE && api.asked(Ask::Get, NODES).len() == 4,
        "{:?}, {}",
        began.elapsed(),
        api.asked(Ask::Get, NODES).len()
    );
    let late = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        put(&api, labelled("3", "1"));
    };
    let (read, ()) = tokio::join!(source.read(), late);
    assert_eq!(counts(&read.unwrap()), (3, BlockDevices::Others(1)));
}

/// The counts of interfaces and volumes come from the same read. While the Node or the API server is unavailable, the
/// source uses the previous counts.
#[tokio::test(start_paused = true)]
async fn each_refresh_reads_the_labelers_numbers_again() {
    let api = one_node(labelled("3", "1"));
    let machine = Machine::find(vec![Box::new(labeler(&api))], None).await.unwrap();
    assert_eq!(counts(machine.metadata().as_ref()), (3, BlockDevices::Others(1)));
    put(&api, labelled("4", "2"));
    assert_eq!(asked(&machine).await, (4, BlockDevices::Others(2)));
    put(&api, labelled("5", "no number"));
    assert_eq!(asked(&machine).await, (4, BlockDevices::Others(2)));
    api.delete(NODES, "node-1");
    assert_eq!(asked(&machine).await, (4, BlockDevices::Others(2)));
    put(&api, labelled("5", "0"));
    api.fault(Ask::Get, NODES, Fault::Hang, Times::Always);
    let began = Instant::now();
    assert_eq!(asked(&machine).await, (4, BlockDevices::Others(2)));
    assert!(began.elapsed() <= READ_WITHIN, "{:?}", began.elapsed());
}

/// The kubelet of each node may ask for the metadata every 10 s.
#[tokio::test(start_paused = true)]
async fn source_kubernetes_reads_node_at_most_every_five_minutes() {
    let api = one_node(json!({}));
    let machine = Machine::find(vec![Box::new(kubernetes(&api))], None).await.unwrap();
    assert_eq!(counts(machine.metadata().as_ref()), (1, BlockDevices::Others(0)));
    put(&api, labelled("3", "1"));
    let began = Instant::now();
    while asked(&machine).await == (1, BlockDevices::Others(0)) {
        tokio::time::advance(Duration::from_secs(10)).await;
    }
    assert_eq!(began.elapsed(), KUBERNETES_AGE);
    assert_eq!(api.asked(Ask::Get, NODES).len(), 2);
    // The zone comes from the Node and does not change.
    assert_eq!(machine.metadata().zone.as_str(), "us-west-2a");
}

#[tokio::test(start_paused = true)]
async fn missing_or_foreign_node_is_named_in_the_error() {
    let api = FakeApi::default();
    let error = Machine::find(vec![Box::new(kubernetes(&api))], None).await.unwrap_err();
    assert!(error.to_string().contains("node-1") && error.to_string().contains("CSI_NODE_NAME"), "{error}");
    assert_eq!(error.foreign(), None);
    put_machine(&api, "gce://project/zone/name", json!({}));
    let error = Machine::find(vec![Box::new(kubernetes(&api))], None).await.unwrap_err();
    assert!(error.foreign().is_some_and(|what| what.contains("gce://project/zone/name")), "{error}");
}

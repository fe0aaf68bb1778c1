//! Tests the taint removal on paused time, for behaviour that a real API server cannot show on demand.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::*;
use crate::fake::{Ask, CSI_NODES, FakeApi, Fault, NODES, Times};

const NODE: &str = "node-a";
const KEY: &str = "ebs.csi.aws.com/agent-not-ready";

fn taint(key: &str) -> Value {
    json!({ "key": key, "effect": "NoExecute" })
}

fn node(uid: &str, taints: &[Value]) -> Value {
    json!({ "metadata": { "uid": uid }, "spec": { "taints": taints } })
}

fn csi_node(owner: &str, count: Option<u32>) -> Value {
    let allocatable = count.map_or(Value::Null, |count| json!({ "count": count }));
    json!({
        "metadata": { "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": NODE, "uid": owner }] },
        "spec": { "drivers": [{ "name": "ebs.csi.aws.com", "nodeID": "i-1", "topologyKeys": [], "allocatable": allocatable }] },
    })
}

/// A removal that runs for a tainted Node on which the driver is registered.
struct Scene {
    api: FakeApi,
    _removal: JoinSet<()>,
}

impl Scene {
    fn on(api: FakeApi) -> Self {
        let mut removal = JoinSet::new();
        removal.spawn(TaintRemoval::new(api.cluster(), NODE, DriverName::default()).run());
        Self { api, _removal: removal }
    }

    fn api() -> FakeApi {
        let api = FakeApi::default();
        api.put(NODES, NODE, node("u1", &[taint("other"), taint(KEY)]));
        api.put(CSI_NODES, NODE, csi_node("u1", Some(25)));
        api
    }

    fn has_taint(&self) -> bool {
        self.api.object(NODES, NODE).is_some_and(|node| node.to_string().contains(KEY))
    }

    /// Waits until the taint is removed, and returns how long that took.
    async fn gone_within(&self, bound: Duration) -> Duration {
        let began = Instant::now();
        while self.has_taint() {
            assert!(began.elapsed() < bound, "the taint still exists after {bound:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        began.elapsed()
    }
}

/// The registration counts only if it includes the volume limit. Until then, the driver reads the CSINode after 2 s, 3
/// s and so on, at most 15 s apart.
#[tokio::test(start_paused = true)]
async fn taint_is_removed_once_driver_registers_its_volume_limit() {
    let api = Scene::api();
    api.put(CSI_NODES, NODE, csi_node("u1", None));
    let scene = Scene::on(api);
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(scene.has_taint());
    let asked = scene.api.asked(Ask::Get, CSI_NODES);
    let waits: Vec<Duration> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits[0] >= Duration::from_secs(2) && waits[0] < Duration::from_secs(3), "{waits:?}");
    assert!(waits.iter().all(|wait| *wait < Duration::from_secs(20)), "{waits:?}");
    assert!((15..40).contains(&asked.len()), "asked {} times in 300 s", asked.len());
    scene.api.put(CSI_NODES, NODE, csi_node("u1", Some(25)));
    scene.gone_within(Duration::from_secs(20)).await;
    let taints = scene.api.object(NODES, NODE).unwrap()["spec"]["taints"].clone();
    assert_eq!(taints, json!([taint("other")]));
}

/// The account may read and patch the Node, but not list or watch it.
#[tokio::test(start_paused = true)]
async fn taint_is_removed_by_polling_without_the_right_to_watch() {
    for code in [401, 403] {
        let api = Scene::api();
        api.fault(Ask::List, NODES, Fault::Code(code), Times::Always);
        let scene = Scene::on(api);
        let took = scene.gone_within(Duration::from_secs(30)).await;
        assert!(took < Duration::from_secs(5), "{took:?}");
        // Set the same taint again: the poll reads the same taints as before.
        scene.api.put(NODES, NODE, node("u1", &[taint("other"), taint(KEY)]));
        scene.gone_within(Duration::from_secs(30)).await;
    }
}

/// Until the taint is set, the driver only lists and watches the Node, and does not read the CSINode.
#[tokio::test(start_paused = true)]
async fn taint_set_hours_after_startup_is_removed_at_once() {
    let api = Scene::api();
    api.put(NODES, NODE, node("u1", &[]));
    let scene = Scene::on(api);
    tokio::time::sleep(Duration::from_secs(3 * 3600)).await;
    let asked: usize = [Ask::List, Ask::Watch, Ask::Get].iter().map(|ask| scene.api.asked(*ask, NODES).len()).sum();
    assert!(asked <= 2 * 3 * 3600 / 120, "{asked} calls in three hours");
    assert!(scene.api.asked(Ask::Get, CSI_NODES).is_empty());
    scene.api.put(NODES, NODE, node("u1", &[taint(KEY)]));
    // The driver may be in the one-second pause between two watches.
    let took = scene.gone_within(Duration::from_secs(5)).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn server_faults_only_delay_the_taint_removal() {
    let faults = [
        (Ask::List, NODES, Fault::Hang, 40),
        (Ask::List, NODES, Fault::Busy(20), 30),
        (Ask::List, NODES, Fault::Code(500), 10),
        (Ask::Get, CSI_NODES, Fault::Hang, 40),
        (Ask::Get, CSI_NODES, Fault::Code(503), 10),
        (Ask::Patch, NODES, Fault::Hang, 40),
        (Ask::Patch, NODES, Fault::Busy(20), 30),
        (Ask::Patch, NODES, Fault::LostAnswer, 10),
        (Ask::Watch, NODES, Fault::Cut, 5),
        (Ask::Watch, NODES, Fault::Expired, 5),
        (Ask::Watch, NODES, Fault::Hang, 5),
    ];
    for (ask, kind, fault, seconds) in faults {
        let api = Scene::api();
        api.fault(ask, kind, fault, Times::Once);
        let scene = Scene::on(api);
        let took = scene.gone_within(Duration::from_secs(120)).await;
        assert!(took < Duration::from_secs(seconds), "{ask:?} {fault:?} took {took:?}");
        // The driver must also notice the next taint, whatever happened to the watch.
        tokio::time::sleep(Duration::from_secs(60)).await;
        scene.api.put(NODES, NODE, node("u1", &[taint(KEY)]));
        scene.gone_within(Duration::from_secs(5)).await;
    }
}

/// The watch has received no event for minutes, not even a bookmark.
#[tokio::test(start_paused = true)]
async fn silently_dead_watch_is_replaced() {
    let api = Scene::api();
    api.put(NODES, NODE, node("u1", &[]));
    let scene = Scene::on(api);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(scene.api.watches(), 1);
    // From now on no events arrive, as if the connection were lost.
    let lists = scene.api.asked(Ask::List, NODES).len();
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert!(scene.api.asked(Ask::List, NODES).len() > lists);
    assert_eq!(scene.api.watches(), 1, "a watch is still open");
}

/// While the attempt hangs, the watch notices that the Node was deleted.
#[tokio::test(start_paused = true)]
async fn hanging_removal_attempt_does_not_delay_the_watch() {
    let api = Scene::api();
    api.fault(Ask::Get, CSI_NODES, Fault::Hang, Times::Always);
    let scene = Scene::on(api);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(scene.api.watches(), 1);
    scene.api.delete(NODES, NODE);
    scene.api.put(NODES, NODE, node("u2", &[]));
    scene.api.clear_faults();
    tokio::time::sleep(Duration::from_secs(120)).await;
    // The driver must not try to remove the old Node's taint from the new Node, which has no taint.
    assert!(scene.api.asked(Ask::Patch, NODES).is_empty());
}

/// Another client changes the taints between the read and the patch. The driver then computes the patch again from the
/// new taints.
#[tokio::test(start_paused = true)]
async fn concurrently_set_taint_is_kept() {
    let api = Scene::api();
    api.write_before_patch(NODES, NODE, node("u1", &[taint("other"), taint(KEY), taint("late")]));
    let scene = Scene::on(api);
    scene.gone_within(Duration::from_secs(5)).await;
    let taints = scene.api.object(NODES, NODE).unwrap()["spec"]["taints"].clone();
    assert_eq!(taints, json!([taint("other"), taint("late")]));
}

/// Another Node replaces this one between the read and the patch.
#[tokio::test(start_paused = true)]
async fn replaced_node_keeps_its_taint_until_its_own_registration() {
    let api = Scene::api();
    api.write_before_patch(NODES, NODE, node("u2", &[taint("other"), taint(KEY)]));
    let scene = Scene::on(api);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(scene.has_taint());
    scene.api.put(CSI_NODES, NODE, csi_node("u2", Some(1)));
    scene.gone_within(Duration::from_secs(20)).await;
}

#[tokio::test(start_paused = true)]
async fn removal_without_rights_is_retried_slowly_until_granted() {
    // An admission policy rejects a patch with the same code as a failed test in the patch.
    for code in [403, 422] {
        let api = Scene::api();
        api.fault(Ask::Patch, NODES, Fault::Code(code), Times::Always);
        let scene = Scene::on(api);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let patches = scene.api.asked(Ask::Patch, NODES).len();
        assert!((40..=80).contains(&patches), "{code}: {patches} in an hour");
        scene.api.clear_faults();
        scene.gone_within(Duration::from_secs(90)).await;
    }
}

//! What a real API server cannot be made to do, on paused time.

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

/// The removal at work on a Node that has the taint, with a driver that is registered.
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

    /// How long it takes until the taint is gone.
    async fn gone_within(&self, bound: Duration) -> Duration {
        let began = Instant::now();
        while self.has_taint() {
            assert!(began.elapsed() < bound, "the taint is there after {bound:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        began.elapsed()
    }
}

/// The start-up taint goes when the kubelet has registered the driver with the number of volumes that the node takes, not
/// before; while it waits, the CSINode is asked for after 2 s, 3 s and so on, at most 15 s apart.
#[tokio::test(start_paused = true)]
async fn the_taint_goes_when_the_driver_is_registered_with_its_count_and_not_before() {
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

/// The CSINode of a former Node of the same name says nothing about this one.
#[tokio::test(start_paused = true)]
async fn a_registration_with_a_former_node_of_that_name_does_not_count() {
    let api = Scene::api();
    api.put(CSI_NODES, NODE, csi_node("u0", Some(25)));
    let scene = Scene::on(api);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(scene.has_taint());
    scene.api.put(CSI_NODES, NODE, csi_node("u1", Some(25)));
    scene.gone_within(Duration::from_secs(20)).await;
}

/// Where the Node may be read and patched but not listed and watched, the taint goes all the same.
#[tokio::test(start_paused = true)]
async fn without_the_right_to_watch_the_node_is_read_and_the_taint_goes() {
    for code in [401, 403] {
        let api = Scene::api();
        api.fault(Ask::List, NODES, Fault::Code(code), Times::Always);
        let scene = Scene::on(api);
        let took = scene.gone_within(Duration::from_secs(30)).await;
        assert!(took < Duration::from_secs(5), "{took:?}");
        // The same taint once more: what is read is what was read before.
        scene.api.put(NODES, NODE, node("u1", &[taint("other"), taint(KEY)]));
        scene.gone_within(Duration::from_secs(30)).await;
    }
}

/// A taint that is set long after the start goes too; until then one watch is all that is asked for.
#[tokio::test(start_paused = true)]
async fn a_taint_that_comes_hours_after_the_start_goes_at_once() {
    let api = Scene::api();
    api.put(NODES, NODE, node("u1", &[]));
    let scene = Scene::on(api);
    tokio::time::sleep(Duration::from_secs(3 * 3600)).await;
    let asked: usize = [Ask::List, Ask::Watch, Ask::Get].iter().map(|ask| scene.api.asked(*ask, NODES).len()).sum();
    assert!(asked <= 2 * 3 * 3600 / 120, "{asked} calls in three hours");
    assert!(scene.api.asked(Ask::Get, CSI_NODES).is_empty());
    scene.api.put(NODES, NODE, node("u1", &[taint(KEY)]));
    // Between two watches it may take a second.
    let took = scene.gone_within(Duration::from_secs(5)).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
}

/// A server that hangs, is busy, breaks the watch or has forgotten the version delays the removal and does not prevent it.
#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_is_busy_or_breaks_the_watch_delays_the_removal_and_no_more() {
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
        // And the next one is seen, whatever became of the watch.
        tokio::time::sleep(Duration::from_secs(60)).await;
        scene.api.put(NODES, NODE, node("u1", &[taint(KEY)]));
        scene.gone_within(Duration::from_secs(5)).await;
    }
}

/// A watch on which nothing comes, not even a bookmark, is begun anew after some minutes.
#[tokio::test(start_paused = true)]
async fn a_watch_that_has_died_silently_is_noticed() {
    let api = Scene::api();
    api.put(NODES, NODE, node("u1", &[]));
    let scene = Scene::on(api);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(scene.api.watches(), 1);
    // Nothing is told any more: as if the connection were lost.
    let lists = scene.api.asked(Ask::List, NODES).len();
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert!(scene.api.asked(Ask::List, NODES).len() > lists);
    assert_eq!(scene.api.watches(), 1, "a watch was left open");
}

/// While an attempt hangs, the watch goes on: a Node that is gone meanwhile is seen.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_hangs_does_not_hold_up_the_watch() {
    let api = Scene::api();
    api.fault(Ask::Get, CSI_NODES, Fault::Hang, Times::Always);
    let scene = Scene::on(api);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(scene.api.watches(), 1);
    scene.api.delete(NODES, NODE);
    scene.api.put(NODES, NODE, node("u2", &[]));
    scene.api.clear_faults();
    tokio::time::sleep(Duration::from_secs(120)).await;
    // The taint of the Node that is gone is not taken from the new one, which has none.
    assert!(scene.api.asked(Ask::Patch, NODES).is_empty());
}

/// What others change between the look at the Node and the patch is not lost: the patch is made anew from what is there then.
#[tokio::test(start_paused = true)]
async fn a_taint_that_is_set_while_ours_is_removed_stays() {
    let api = Scene::api();
    api.write_before_patch(NODES, NODE, node("u1", &[taint("other"), taint(KEY), taint("late")]));
    let scene = Scene::on(api);
    scene.gone_within(Duration::from_secs(5)).await;
    let taints = scene.api.object(NODES, NODE).unwrap()["spec"]["taints"].clone();
    assert_eq!(taints, json!([taint("other"), taint("late")]));
}

/// A Node that was deleted and made again between the look and the patch keeps its taint until the driver is registered
/// with the new one.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_made_anew_keeps_its_taint_until_its_own_registration() {
    let api = Scene::api();
    api.write_before_patch(NODES, NODE, node("u2", &[taint("other"), taint(KEY)]));
    let scene = Scene::on(api);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(scene.has_taint());
    scene.api.put(CSI_NODES, NODE, csi_node("u2", Some(1)));
    scene.gone_within(Duration::from_secs(20)).await;
}

/// Where RBAC or an admission policy forbids the patch, it is tried about once a minute and no more, and the taint goes when it is
/// allowed.
#[tokio::test(start_paused = true)]
async fn missing_rights_are_tried_again_seldom_and_heal() {
    // A policy answers with the code that a failed test of the patch has.
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

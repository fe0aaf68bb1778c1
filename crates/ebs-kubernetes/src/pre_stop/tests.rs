//! Tests the pre-stop hook on paused time, for behaviour that a real API server cannot show on demand.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::*;
use crate::fake::{ATTACHMENTS, Ask, FakeApi, Fault, NODES, Times};

const NODE: &str = "node-a";

fn node(taint: Option<&str>) -> Value {
    let taints: Vec<Value> = taint.into_iter().map(|key| json!({ "key": key, "effect": "NoSchedule" })).collect();
    json!({ "metadata": { "uid": "u" }, "spec": { "taints": taints } })
}

fn attachment(attacher: &str, node: &str) -> Value {
    json!({ "metadata": { "uid": "a" }, "spec": { "attacher": attacher, "nodeName": node, "source": {} } })
}

fn draining() -> FakeApi {
    let api = FakeApi::default();
    api.put(NODES, NODE, node(Some("karpenter.sh/disrupted")));
    for n in 0..600 {
        api.put(ATTACHMENTS, &format!("other-node-{n}"), attachment("ebs.csi.aws.com", "node-b"));
    }
    api.put(ATTACHMENTS, "other-driver", attachment("efs.csi.aws.com", NODE));
    api.put(ATTACHMENTS, "ours", attachment("ebs.csi.aws.com", NODE));
    api
}

fn hook(api: &FakeApi) -> JoinSet<Result<Released, PreStopError>> {
    let mut hook = JoinSet::new();
    let pre_stop = PreStop::new(api.cluster(), NODE, DriverName::default());
    hook.spawn(async move { pre_stop.wait().await });
    hook
}

async fn ended(
    hook: &mut JoinSet<Result<Released, PreStopError>>,
    bound: Duration,
) -> Option<Result<Released, String>> {
    let ended = tokio::time::timeout(bound, hook.join_next()).await.ok()??;
    Some(ended.unwrap().map_err(|error| format!("{error}: {}", std::error::Error::source(&error).unwrap())))
}

#[tokio::test(start_paused = true)]
async fn hook_ends_at_once_if_node_is_not_drained() {
    for taint in [None, Some("node.kubernetes.io/not-ready")] {
        let api = draining();
        api.put(NODES, NODE, node(taint));
        let ended = ended(&mut hook(&api), Duration::from_secs(1)).await;
        assert_eq!(ended, Some(Ok(Released::NotDraining)));
        assert!(api.asked(Ask::List, ATTACHMENTS).is_empty());
    }
}

/// The node has one of four taints, or its Node no longer exists. The hook does not wait for volumes of other drivers
/// or other nodes.
#[tokio::test(start_paused = true)]
async fn hook_on_drained_node_waits_until_own_volumes_are_detached() {
    for taint in DRAINING.into_iter().map(Some).chain([None]) {
        let api = draining();
        match taint {
            Some(taint) => api.put(NODES, NODE, node(Some(taint))),
            None => api.delete(NODES, NODE),
        }
        let mut hook = hook(&api);
        assert_eq!(ended(&mut hook, Duration::from_secs(35)).await, None, "{taint:?}");
        api.put(ATTACHMENTS, "late", attachment("ebs.csi.aws.com", NODE));
        api.delete(ATTACHMENTS, "ours");
        assert_eq!(
            ended(&mut hook, Duration::from_secs(25)).await,
            None,
            "one was attached while another one was detached"
        );
        api.delete(ATTACHMENTS, "late");
        assert_eq!(ended(&mut hook, Duration::from_secs(2)).await, Some(Ok(Released::Detached)));
    }
}

#[tokio::test(start_paused = true)]
async fn hook_retries_a_failed_list_or_watch_until_volumes_detach() {
    let faults = [
        (Ask::List, Fault::Code(503)),
        (Ask::List, Fault::Code(403)),
        (Ask::List, Fault::Hang),
        (Ask::List, Fault::Busy(5)),
        (Ask::Watch, Fault::Cut),
        (Ask::Watch, Fault::Code(403)),
        (Ask::Watch, Fault::Expired),
        (Ask::Watch, Fault::Hang),
    ];
    for (ask, fault) in faults {
        let api = draining();
        api.fault(ask, ATTACHMENTS, fault, Times::Once);
        let mut hook = hook(&api);
        assert_eq!(ended(&mut hook, Duration::from_secs(5)).await, None, "{ask:?} {fault:?}");
        api.delete(ATTACHMENTS, "ours");
        let ended = ended(&mut hook, Duration::from_secs(45)).await;
        assert_eq!(ended, Some(Ok(Released::Detached)), "{ask:?} {fault:?}");
    }
    // Every watch fails, so only lists can show the hook that no attachment remains.
    let api = draining();
    api.fault(Ask::Watch, ATTACHMENTS, Fault::Code(403), Times::Always);
    let mut hook = hook(&api);
    assert_eq!(ended(&mut hook, Duration::from_secs(60)).await, None);
    let lists = api.asked(Ask::List, ATTACHMENTS).len();
    assert!(lists < 60, "{lists} pages in a minute");
    api.delete(ATTACHMENTS, "ours");
    assert_eq!(ended(&mut hook, Duration::from_secs(20)).await, Some(Ok(Released::Detached)));
}

#[tokio::test(start_paused = true)]
async fn unreadable_node_fails_the_hook_with_the_server_error() {
    let api = draining();
    api.fault(Ask::Get, NODES, Fault::Code(403), Times::Always);
    let refused = ended(&mut hook(&api), Duration::from_secs(1)).await.unwrap().unwrap_err();
    assert!(refused.contains(NODE) && refused.contains("as the test wants (403)"), "{refused}");

    let api = draining();
    api.fault(Ask::Get, NODES, Fault::Code(500), Times::Always);
    let failed = ended(&mut hook(&api), Duration::from_secs(20)).await.unwrap().unwrap_err();
    assert!(failed.contains("(500)"), "{failed}");

    let api = draining();
    api.fault(Ask::Get, NODES, Fault::Code(503), Times::Once);
    api.delete(ATTACHMENTS, "ours");
    assert_eq!(ended(&mut hook(&api), Duration::from_secs(5)).await, Some(Ok(Released::Detached)));
}

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::labeler::count::tests::instance;

const ENIS: &str = "ebs.csi.aws.com/enis-count";
const VOLUMES: &str = "ebs.csi.aws.com/non-csi-ebs-volumes-count";

fn roster() -> Roster {
    Roster::new(DriverName::default(), Times::default())
}

fn node(name: &str, labels: &[(&str, &str)]) -> NodeObject {
    NodeObject::with(name, &format!("aws:///us-west-2a/i-0{name}"), labels)
}

fn volume(name: &str, id: &str) -> VolumeObject {
    let spec = json!({ "csi": { "driver": "ebs.csi.aws.com", "volumeHandle": id } });
    serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap()
}

fn listed(nodes: &[NodeObject], volumes: &[VolumeObject]) -> Roster {
    let mut roster = roster();
    roster.apply_node(&Event::Init);
    nodes.iter().for_each(|node| roster.apply_node(&Event::InitApply(node.clone())));
    roster.apply_node(&Event::InitDone);
    roster.apply_volume(&Event::Init);
    volumes.iter().for_each(|volume| roster.apply_volume(&Event::InitApply(volume.clone())));
    roster.apply_volume(&Event::InitDone);
    roster
}

fn due(roster: &Roster) -> Vec<String> {
    roster.due().into_iter().map(|due| due.node).collect()
}

fn described(network_interfaces: u32, volumes: &[&str]) -> Described {
    let devices: Vec<_> = volumes.iter().map(|id| ("/dev/xvdb", Some(*id))).collect();
    let instance = ebs_ec2::Instance { network_interfaces, ..instance(None, &devices) };
    Described::of(&instance).unwrap()
}

#[tokio::test(start_paused = true)]
async fn roster_is_complete_only_after_nodes_and_volumes_are_listed() {
    let mut roster = roster();
    assert!(!roster.is_complete());
    roster.apply_node(&Event::Init);
    roster.apply_node(&Event::InitApply(node("a", &[])));
    roster.apply_node(&Event::InitDone);
    assert!(!roster.is_complete());
    roster.apply_volume(&Event::Init);
    assert!(!roster.is_complete());
    roster.apply_volume(&Event::InitDone);
    assert!(roster.is_complete());
    // While the nodes are listed again, the previous entries are still valid.
    roster.apply_node(&Event::Init);
    assert!(roster.is_complete() && due(&roster) == ["a"]);
    roster.apply_node(&Event::InitDone);
    assert_eq!(roster.size(), (0, 0));
}

/// A node is due earlier if its labels or its instance change.
#[tokio::test(start_paused = true)]
async fn node_is_due_for_labelling_when_new_changed_or_hour_old() {
    let mut roster = listed(&[node("a", &[])], &[]);
    let first = roster.due().remove(0);
    let change = roster.described(&first, &described(2, &[]), &HashSet::new()).expect("it has no labels");
    assert_eq!(change.values, Values { interfaces: "2".to_owned(), volumes: "0".to_owned() });
    roster.labelled(&change);
    // Events for the labeler's own write and for unrelated changes must not make the node due.
    roster.apply_node(&Event::Apply(node("a", &[(ENIS, "2"), (VOLUMES, "0"), ("other", "x")])));
    tokio::time::advance(Duration::from_mins(59)).await;
    assert!(due(&roster).is_empty());
    tokio::time::advance(Duration::from_mins(1)).await;
    assert_eq!(due(&roster), ["a"]);
    assert_eq!(roster.described(&first, &described(2, &[]), &HashSet::new()), None);
    assert!(due(&roster).is_empty());
    roster.apply_node(&Event::Apply(node("a", &[(ENIS, "7"), (VOLUMES, "0")])));
    assert!(due(&roster).is_empty());
    tokio::time::advance(Times::default().drift).await;
    assert_eq!(due(&roster), ["a"]);
    assert!(roster.described(&first, &described(2, &[]), &HashSet::new()).is_some());
    let replaced = NodeObject::with("a", "aws:///us-west-2a/i-0other", &[]);
    roster.apply_node(&Event::Apply(replaced.clone()));
    assert_eq!(roster.due()[0].instance.as_str(), "i-0other");
    // EC2's description of the previous instance does not apply to the new one.
    assert_eq!(roster.described(&first, &described(2, &[]), &HashSet::new()), None);
    roster.apply_node(&Event::Delete(replaced));
    assert_eq!(roster.next_due(), None);
}

#[tokio::test(start_paused = true)]
async fn failed_node_is_retried_with_backoff_without_delaying_others() {
    let mut roster = listed(&[node("a", &[]), node("b", &[])], &[]);
    let mut pauses = Vec::new();
    for _ in 0..12 {
        roster.failed("a");
        let before = Instant::now();
        while !due(&roster).contains(&"a".to_owned()) {
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        pauses.push(before.elapsed().as_secs());
        assert!(due(&roster).contains(&"b".to_owned()));
    }
    // Nodes that are due within the gather time are included in the same pass.
    let gather = Times::default().gather.as_secs();
    assert_eq!(pauses[..4], [10 - gather, 20 - gather, 40 - gather, 80 - gather]);
    assert_eq!(pauses[11], 3600 - gather);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_ec2_does_not_describe_are_ignored() {
    let mut others: Vec<NodeObject> = [
        "aws:///z/sagemaker/cluster/hyperpod-abc-i-0abc",
        "aws:///z/0123-abc/fargate-ip-10-0-0-1.compute.internal",
        "eks-hybrid:///us-west-2/c/mi-0abc",
        "aws:///z/s.i-0abc",
        "gce://p/z/i-can",
        "",
    ]
    .iter()
    .enumerate()
    .map(|(index, id)| NodeObject::with(&format!("other-{index}"), id, &[]))
    .collect();
    others.push(node("a", &[]));
    assert_eq!(due(&listed(&others, &[])), ["a"]);
    // A node without a provider id becomes due once it gets one.
    let mut roster = listed(&[NodeObject::with("late", "", &[])], &[]);
    roster.apply_node(&Event::Apply(node("late", &[])));
    assert_eq!(due(&roster), ["late"]);
}

#[tokio::test(start_paused = true)]
async fn volume_ids_are_updated_with_the_persistent_volumes() {
    let ids = |roster: &Roster| {
        let mut ids: Vec<String> = roster.persistent().iter().map(ToString::to_string).collect();
        ids.sort();
        ids
    };
    let mut roster = listed(&[node("a", &[])], &[volume("one", "vol-01"), volume("two", "aws://us-west-2a/vol-02")]);
    assert_eq!(ids(&roster), ["vol-01", "vol-02"]);
    roster.apply_volume(&Event::Apply(volume("three", "vol-03")));
    roster.apply_volume(&Event::Delete(volume("one", "vol-01")));
    assert_eq!(ids(&roster), ["vol-02", "vol-03"]);
    let due = roster.due().remove(0);
    let persistent = roster.persistent();
    let change = roster.described(&due, &described(1, &["vol-02", "vol-09"]), &persistent).unwrap();
    assert_eq!(change.values.volumes, "1");
    roster.apply_volume(&Event::Init);
    roster.apply_volume(&Event::InitApply(volume("three", "vol-03")));
    roster.apply_volume(&Event::InitDone);
    assert_eq!(ids(&roster), ["vol-03"]);
}

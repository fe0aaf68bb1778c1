use std::collections::BTreeSet;

use ebs_ec2::Action;
use ebs_types::InstanceId;

use crate::fixture::Fixture;

/// An instance that does not exist spoils nothing for the others.
///
/// Rule: ebs-cloud.md 17, E4
#[tokio::test(start_paused = true)]
async fn an_instance_that_does_not_exist_spoils_nothing_for_the_others() {
    let fixture = Fixture::new().await;
    let [node, other] = fixture.nodes().await;
    for name in ["pvc-1", "pvc-2"] {
        let volume = fixture.volume(name).await;
        fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap();
    }
    let managed = BTreeSet::from([fixture.volume("pvc-1").await.id]);
    let missing = InstanceId::parse("i-0123456789abcdef0").unwrap();
    let ids = BTreeSet::from([node.instance().clone(), other.instance().clone(), missing.clone()]);
    let facts = fixture.cloud.instance_facts(&ids, &managed).await.unwrap();
    assert_eq!(facts.len(), 2);
    assert!(!facts.contains_key(&missing));
    assert_eq!(facts[node.instance()].other_volumes, 1, "neither the root nor the driver's own");
    assert_eq!(facts[other.instance()].other_volumes, 0);
    assert!(facts.values().all(|f| f.network_interfaces == 1));
}

/// More instances than a filter takes are described in several calls.
///
/// Rule: ebs-cloud.md 17, E5
#[tokio::test(start_paused = true)]
async fn more_instances_than_a_filter_takes_are_described_in_several_calls() {
    let fixture = Fixture::new().await;
    fixture.sim.clear_calls();
    let ids: BTreeSet<InstanceId> = (0..450).map(|n| InstanceId::parse(&format!("i-{n:017x}")).unwrap()).collect();
    assert!(fixture.cloud.instance_facts(&ids, &BTreeSet::new()).await.unwrap().is_empty());
    assert_eq!(fixture.count(Action::DescribeInstances), 3);
}

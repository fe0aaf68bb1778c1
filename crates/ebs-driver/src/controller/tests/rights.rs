//! Checks the table in `deploy/iam` of the actions that each feature needs.

use std::collections::BTreeSet;

use super::*;

const PAGE: &str = include_str!("../../../../../docs/iam.md");
const POLICIES: [&str; 2] = [
    include_str!("../../../../../deploy/iam/managed-v2.json"),
    include_str!("../../../../../deploy/iam/cluster-scoped.json"),
];
/// Each feature, with the features that it needs in addition to `volumes`. The labeler is missing, because it is
/// another program.
const FEATURES: [(&str, &[&str]); 8] = [
    ("volumes", &[]),
    ("snapshots", &[]),
    ("fast-restores", &["snapshots"]),
    ("snapshot-locks", &["snapshots"]),
    ("clones", &[]),
    ("modification", &[]),
    ("tag-edits", &[]),
    ("initialization", &[]),
];

/// Returns the actions that the table in `deploy/iam` lists for a feature.
fn listed(feature: &str) -> BTreeSet<&'static str> {
    let row = PAGE.lines().find(|line| line.starts_with(&format!("| `{feature}` |"))).expect(feature);
    row.trim_end_matches(" |").rsplit(" | ").next().expect("a cell").split('`').skip(1).step_by(2).collect()
}

/// Uses every part of a feature.
async fn use_feature(world: &World, feature: &str, volume: &str) -> Result<(), Refused> {
    match feature {
        "volumes" => {
            world.publish(volume, world.here.as_str()).await?;
            world.unpublish(volume, world.here.as_str()).await?;
            // For a request without a zone, the driver describes the zones.
            let other = world.create(named("pvc-other")).await?.volume_id;
            world.delete(&other).await?;
        }
        "snapshots" => {
            let snapshot = world.take("snapshot-plain", volume, &[]).await?.snapshot_id;
            world.create(from_snapshot(named("pvc-restored"), &snapshot)).await?;
            world.delete_snapshot(&snapshot).await?;
        }
        "fast-restores" => {
            let zones = [("fastSnapshotRestoreAvailabilityZones", "us-west-2a")];
            world.take("snapshot-fast", volume, &zones).await?;
        }
        "snapshot-locks" => {
            // In the second round the snapshot exists, and the driver checks its lock.
            for days in ["1", "2"] {
                world.take("snapshot-locked", volume, &[("lockMode", "governance"), ("lockDuration", days)]).await?;
            }
        }
        "clones" => drop(world.create(from_volume(named("pvc-clone"), volume)).await?),
        "modification" => drop(world.grow(volume, 5).await?),
        "tag-edits" => {
            world.modify(volume, &[("tagSpecification_1", "team=storage")]).await?;
            world.modify(volume, &[("tagDeletion_1", "team")]).await?;
        }
        "initialization" => {
            let slow = in_zone(named("pvc-slow"), "us-west-2a");
            let slow = with_parameters(slow, &[("blockAttachUntilInitialized", "true")]);
            let slow = world.create(slow).await?;
            let request = world.to_publish(&slow.volume_id);
            let volume_context = slow.volume_context;
            world.publish_as(ControllerPublishVolumeRequest { volume_context, ..request }).await?;
        }
        other => panic!("{other} has no use"),
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn each_feature_calls_exactly_its_listed_actions() {
    for (feature, needs) in FEATURES {
        let world = World::start().await;
        if feature == "snapshot-locks" {
            world.ec2.declare(ebs_sim::iam::Extra::SnapshotLocks);
        }
        let volume = world.volume("pvc-1").await;
        let mut used = BTreeSet::from(["volumes", feature]);
        used.extend(needs);
        for each in &used {
            // EC2 accepts one snapshot of a volume every 15 s.
            tokio::time::sleep(Duration::from_secs(20)).await;
            use_feature(&world, each, &volume).await.unwrap_or_else(|e| panic!("{feature}: {each}: {e:?}"));
        }
        let called: BTreeSet<&str> = world.ec2.calls().iter().map(|call| call.action.as_str()).collect();
        let expected: BTreeSet<&str> = used.into_iter().flat_map(listed).collect();
        assert_eq!(called, expected, "{feature}");
    }
}

#[test]
fn policies_allow_exactly_the_actions_of_all_features() {
    let optional = "DescribeLockedSnapshots";
    let listed: BTreeSet<&str> =
        FEATURES.iter().flat_map(|(feature, _)| listed(feature)).filter(|action| *action != optional).collect();
    for policy in POLICIES {
        let names = policy.split('"').filter_map(|text| text.strip_prefix("ec2:"));
        let allowed: BTreeSet<&str> =
            names.filter(|name| *name != "CreateAction" && name.chars().all(char::is_alphanumeric)).collect();
        assert_eq!(allowed, listed);
    }
}

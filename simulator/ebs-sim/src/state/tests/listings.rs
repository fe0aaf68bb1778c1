//! Tests of filters, pages, and descriptions of zones and instances.

use super::*;
use crate::config::Oddities;

fn describe(world: &mut World, parameters: &str) -> Result<(Vec<String>, Option<String>), Fault> {
    match world.call(&format!("DescribeVolumes {parameters}"))? {
        Reply::DescribeVolumes(listing) => Ok((listing.items.into_iter().map(|v| v.id).collect(), listing.next)),
        other => panic!("{other:?}"),
    }
}

/// The boto3 acceptance tests cover the other filters.
#[test]
fn volumes_are_found_by_attachment_snapshot_or_tag_value() {
    let mut world = World::instant();
    let (plain, attached) = (world.gp3(), world.gp3());
    let snapshot = world.snapshot(&plain);
    let restored = world.create(&format!("SnapshotId={snapshot} Encrypted=true")).id;
    world.attach(&attached, "/dev/xvdaa");
    world.done(&format!("CreateTags ResourceId.1={plain} Tag.1.Key=CSIVolumeName Tag.1.Value=pvc-1"));
    let instance = world.instance(0);
    let mut on_first = vec![attached.clone(), world.sim.instances[0].root_volume.clone()];
    on_first.sort();
    for (name, value, expected) in [
        ("tag-value", "pvc-*", vec![plain]),
        ("attachment.instance-id", &instance, on_first),
        ("attachment.device", "/dev/xvdaa", vec![attached]),
        ("snapshot-id", &snapshot, vec![restored.clone()]),
        ("encrypted", "true", vec![restored]),
    ] {
        assert_eq!(world.volumes_by(name, &[value]), expected, "{name}");
    }
}

/// EC2 rejects MaxResults together with ids. Each action has its own range of page sizes.
#[test]
fn page_sizes_and_ids_are_checked_as_by_ec2() {
    let mut world = World::instant();
    let volume = world.gp3();
    world.refuses([(format!("DescribeVolumes VolumeId.1={volume} MaxResults=5"), "InvalidParameterCombination")]);
    for (action, bad, good) in [
        ("DescribeVolumes", &[-1, 1, 4][..], &[0, 5, 1000, 5000][..]),
        ("DescribeInstanceTypes", &[4, 101], &[5, 100]),
        ("DescribeFastSnapshotRestores", &[201], &[1]),
    ] {
        for bad in bad {
            assert_eq!(world.refused(&format!("{action} MaxResults={bad}")), "InvalidParameterValue", "{action} {bad}");
        }
        good.iter().for_each(|good| world.done(&format!("{action} MaxResults={good}")));
    }
}

#[test]
fn page_token_is_valid_only_for_its_query() {
    let mut world = World::instant();
    (0..8).for_each(|_| drop(world.gp3()));
    let token = describe(&mut world, "MaxResults=5").unwrap().1.unwrap();
    let mut forged = token.clone();
    forged.replace_range(0..1, if token.starts_with('0') { "1" } else { "0" });
    for bad in ["x", "nonsense", "00", forged.as_str(), "0123456789abcdefzz", "äääääääääääääää"] {
        let fault = describe(&mut world, &format!("MaxResults=5 NextToken={bad}")).unwrap_err();
        assert_eq!(fault.code, "InvalidParameterValue", "{bad}");
        assert!(fault.message.contains("for parameter NextToken is invalid"), "{fault}");
    }
    let other = format!("MaxResults=5 NextToken={token} {}", by("status", "available"));
    assert_eq!(describe(&mut world, &other).unwrap_err().code, "InvalidParameterValue");
    assert_eq!(describe(&mut world, &format!("MaxResults=5 NextToken={token}")).unwrap().0.len(), 5);
}

#[test]
fn instance_types_match_published_table() {
    let mut world = World::instant();
    let names = "InstanceType.1=m5.large InstanceType.2=r8gb.48xlarge InstanceType.3=t2.micro";
    let found = ok!(world, DescribeInstanceTypes, "{names}").items;
    let found: Vec<_> = found.iter().map(|t| (t.name.as_str(), t.maximum_ebs_cards, t.hypervisor.as_str())).collect();
    assert_eq!(found, [("m5.large", 1, "nitro"), ("r8gb.48xlarge", 2, "nitro"), ("t2.micro", 1, "xen")]);
}

#[test]
fn first_listed_zone_is_not_an_availability_zone() {
    let mut world = World::instant();
    assert_eq!(ok!(world, DescribeAvailabilityZones)[0].zone_type, "local-zone");
    let usual = ok!(world, DescribeAvailabilityZones, "{}", by("zone-type", "availability-zone"));
    let names: Vec<&str> = usual.iter().map(|z| z.name.as_str()).collect();
    assert_eq!(names, ["us-west-2a", "us-west-2b", "us-west-2c"]);
    assert_eq!(ok!(world, DescribeAvailabilityZones, "ZoneName.1=us-west-2b")[0].id, "usw2-az2");
}

#[test]
fn instances_are_found_by_each_ec2_filter() {
    let mut world = World::instant();
    let (volume, first) = world.attached();
    for (name, value, count) in [
        ("instance-id", "i-00000000", 0),
        ("instance-state-name", "running", 2),
        ("instance-state-code", "16", 2),
        ("availability-zone", "us-west-2a", 1),
        ("block-device-mapping.volume-id", volume.as_str(), 1),
        ("block-device-mapping.delete-on-termination", "false", 1),
        ("private-ip-address", "10.0.0.10", 1),
        ("network-interface.mac-address", "02:00:00:00:00:0a", 1),
        ("vpc-id", "*", 0),
        ("tag:Name", "node", 0),
    ] {
        let found = ok!(world, DescribeInstances, "{}", by(name, value)).items;
        assert_eq!(found.len(), count, "{name}={value}");
        assert!(count != 1 || found[0].id == first, "{name}");
    }
}

/// The token appears only if the account is configured to return it.
#[test]
fn full_last_page_may_return_a_token_for_an_empty_page() {
    let oddities = Oddities { tokens_after_full_pages: true, ..Oddities::default() };
    let mut world = World::with_account(AccountSettings { oddities, ..AccountSettings::default() });
    (0..3).for_each(|_| drop(world.gp3()));
    let (five, token) = describe(&mut world, "MaxResults=5").unwrap();
    assert_eq!(five.len(), 5);
    let last = format!("MaxResults=5 NextToken={}", token.unwrap());
    assert_eq!(describe(&mut world, &last).unwrap(), (vec![], None));
}

/// The account of a large cluster has tens of thousands of volumes, and the simulator settles its state before each call.
#[test]
fn only_volumes_in_transition_are_visited() {
    let mut world = World::realistic();
    let all: Vec<String> = (0..50).map(|_| world.gp3()).collect();
    let active = |world: &World| world.sim.volumes.active().map(|v| v.id.clone()).collect::<Vec<_>>();
    world.pass(secs(10));
    assert_eq!(active(&world), [""; 0]);
    let instance = world.instance(0);
    world.done(&attach(&all[7], &instance, "/dev/xvdaa"));
    assert_eq!(active(&world), all[7..8]);
    world.pass(secs(10));
    assert_eq!(active(&world), [""; 0]);
}

#[test]
fn request_without_a_page_length_gets_everything() {
    let mut world = World::instant();
    (0..1_001).for_each(|_| drop(world.gp3()));
    let found = ok!(world, DescribeVolumes, "{}", by("status", "available"));
    assert_eq!((found.items.len(), found.next), (1_001, None));
    let found = ok!(world, DescribeVolumes, "MaxResults=5000");
    assert_eq!((found.items.len(), found.next.is_some()), (1_000, true));
}

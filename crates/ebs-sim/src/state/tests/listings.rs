//! Tests of filters, pages, and descriptions of zones and instances.

use super::*;
use crate::api::{
    CreateTags, DescribeAvailabilityZones, DescribeInstanceTypes, DescribeInstances, DescribeVolumeStatus, Tag,
};
use crate::config::{AccountSettings, Oddities};

fn describe(world: &mut World, call: DescribeVolumes) -> Result<(Vec<String>, Option<String>), Fault> {
    match world.call(Call::DescribeVolumes(call))? {
        Reply::DescribeVolumes(listing) => Ok((listing.items.into_iter().map(|v| v.id).collect(), listing.next)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn volumes_are_found_by_every_relevant_filter() {
    let mut world = World::instant();
    let (plain, attached) = (world.gp3(), world.gp3());
    let elsewhere =
        world.create(CreateVolume { availability_zone: Some("us-west-2b".into()), size: Some(77), ..gp3() }).id;
    let snapshot = world.snapshot(&plain);
    let restored =
        world.create(CreateVolume { snapshot_id: Some(snapshot.clone()), encrypted: Some(true), ..gp3() }).id;
    world.attach(&attached, "/dev/xvdaa");
    let instance = world.instance(0);
    let tags = vec![Tag { key: "CSIVolumeName".into(), value: "pvc-1".into() }];
    world.call(Call::CreateTags(CreateTags { resources: vec![plain.clone()], tags, dry_run: false })).unwrap();
    let root = world.sim.instances[0].root_volume.clone();
    let mut on_first = vec![attached.clone(), root];
    on_first.sort();
    for (name, values, expected) in [
        ("volume-id", vec![plain.as_str(), "vol-00000000"], vec![plain.clone()]),
        ("tag:CSIVolumeName", vec!["pvc-1", "pvc-2"], vec![plain.clone()]),
        ("tag:CSIVolumeName", vec!["pvc-?"], vec![plain.clone()]),
        ("tag:CSIVolumeName", vec!["pvc"], vec![]),
        ("tag-key", vec!["CSIVolumeName"], vec![plain.clone()]),
        ("tag-value", vec!["pvc-*"], vec![plain.clone()]),
        ("attachment.instance-id", vec![instance.as_str()], on_first),
        ("attachment.device", vec!["/dev/xvdaa"], vec![attached.clone()]),
        ("size", vec!["77"], vec![elsewhere.clone()]),
        ("snapshot-id", vec![snapshot.as_str()], vec![restored.clone()]),
        ("encrypted", vec!["true"], vec![restored.clone()]),
    ] {
        assert_eq!(world.volumes_by(name, &values), expected, "{name} {values:?}");
    }
    assert_eq!(world.volumes_by("status", &["available"]).len(), 3);
    assert_eq!(world.volumes_by("availability-zone", &["us-west-2b"]).len(), 2);
    assert_eq!(world.volumes_by("volume-type", &["gp*"]).len(), 6);
    let both = vec![filter_of("size", &["77"]), filter_of("status", &["in-use"])];
    assert_eq!(
        describe(&mut world, DescribeVolumes { filters: both, ..Default::default() }).unwrap().0,
        Vec::<String>::new()
    );
}

/// At most 200 filter values are accepted.
#[test]
fn unknown_or_too_many_filters_are_rejected() {
    let mut world = World::instant();
    let with = |filters| Call::DescribeVolumes(DescribeVolumes { filters, ..Default::default() });
    assert_eq!(world.refused(with(vec![filter_of("colour", &["red"])])), "InvalidParameterValue");
    assert_eq!(world.refused(with(vec![filter_of("volume-id", &[])])), "InvalidParameterValue");
    let many: Vec<String> = (0..201).map(|n| format!("vol-{n:08x}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(world.refused(with(vec![filter_of("volume-id", &many)])), "FilterLimitExceeded");
    assert!(world.call(with(vec![filter_of("volume-id", &many[..200])])).is_ok());
}

/// The message contains only the missing id.
#[test]
fn missing_id_fails_the_whole_call() {
    let mut world = World::instant();
    let volume = world.gp3();
    let by = |ids: &[&str]| DescribeVolumes {
        volume_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        ..Default::default()
    };
    assert_eq!(describe(&mut world, by(&[&volume])).unwrap().0, vec![volume.clone()]);
    let fault = describe(&mut world, by(&[&volume, "vol-00000000"])).unwrap_err();
    assert_eq!(fault.code, "InvalidVolume.NotFound");
    assert!(fault.message.contains("vol-00000000") && !fault.message.contains(&volume));
    let malformed = describe(&mut world, by(&["vol-zz"])).unwrap_err();
    assert_eq!(malformed.code, "InvalidVolumeID.Malformed");
}

/// Volumes are created and deleted in the meantime.
#[test]
fn pages_have_no_gap_or_overlap_during_changes() {
    let mut world = World::instant();
    let mut expected: Vec<String> = (0..18).map(|_| world.gp3()).collect();
    expected.extend(world.sim.instances.iter().map(|i| i.root_volume.clone()));
    expected.sort();
    let (mut seen, mut token) = (Vec::new(), None);
    loop {
        let call = DescribeVolumes { max_results: Some(5), next_token: token, ..Default::default() };
        let (ids, next) = describe(&mut world, call).unwrap();
        assert!(ids.len() <= 5);
        seen.extend(ids);
        token = next;
        if token.is_none() {
            break;
        }
        // Deleting the last volume of a page does not move the next page.
        let gone = seen.last().unwrap().clone();
        let _may_be_attached =
            world.call(Call::DeleteVolume(crate::api::DeleteVolume { volume_id: gone, dry_run: false }));
    }
    assert_eq!(seen, expected);
}

/// MaxResults together with ids is rejected, and MaxResults has EC2's range.
#[test]
fn page_requests_follow_rules_of_ec2() {
    let mut world = World::instant();
    let volume = world.gp3();
    let sized = |n| DescribeVolumes { max_results: Some(n), ..Default::default() };
    for bad in [-1, 1, 4] {
        assert_eq!(describe(&mut world, sized(bad)).unwrap_err().code, "InvalidParameterValue", "{bad}");
    }
    for good in [0, 5, 1000, 5000] {
        assert_eq!(describe(&mut world, sized(good)).unwrap().0.len(), 3, "{good}");
    }
    let both = DescribeVolumes { volume_ids: vec![volume], ..sized(5) };
    assert_eq!(describe(&mut world, both).unwrap_err().code, "InvalidParameterCombination");
}

#[test]
fn page_token_is_valid_only_for_its_query() {
    let mut world = World::instant();
    for _ in 0..8 {
        world.gp3();
    }
    let first = DescribeVolumes { max_results: Some(5), ..Default::default() };
    let token = describe(&mut world, first.clone()).unwrap().1.unwrap();
    let mut forged = token.clone();
    forged.replace_range(0..1, if token.starts_with('0') { "1" } else { "0" });
    for bad in ["x", "nonsense", "00", forged.as_str(), "0123456789abcdefzz", "äääääääääääääää"] {
        let call = DescribeVolumes { next_token: Some(bad.to_owned()), ..first.clone() };
        let fault = describe(&mut world, call).unwrap_err();
        assert_eq!(fault.code, "InvalidParameterValue", "{bad}");
        assert!(fault.message.contains("for parameter NextToken is invalid"), "{fault}");
    }
    let other = DescribeVolumes {
        next_token: Some(token.clone()),
        filters: vec![filter_of("status", &["available"])],
        ..first.clone()
    };
    assert_eq!(describe(&mut world, other).unwrap_err().code, "InvalidParameterValue");
    assert_eq!(describe(&mut world, DescribeVolumes { next_token: Some(token), ..first }).unwrap().0.len(), 5);
}

#[test]
fn two_instances_in_two_zones_have_root_volumes() {
    let mut world = World::instant();
    let (volume, first) = (world.gp3(), world.instance(0));
    world.attach(&volume, "/dev/xvdaa");
    let mut list = |call| match world.call(Call::DescribeInstances(call)) {
        Ok(Reply::DescribeInstances(listing)) => Ok(listing.items),
        Ok(other) => panic!("{other:?}"),
        Err(fault) => Err(fault.code),
    };
    let all = list(DescribeInstances::default()).unwrap();
    assert_eq!(all.len(), 2);
    assert_ne!(all[0].zone, all[1].zone);
    assert!(all.iter().all(|i| i.devices.iter().any(|d| d.device == i.root_device) && i.state == "running"));
    let by_volume = DescribeInstances {
        filters: vec![filter_of("block-device-mapping.volume-id", &[&volume])],
        ..Default::default()
    };
    let found = list(by_volume).unwrap();
    assert_eq!((found.len(), found[0].id.as_str(), found[0].devices.len()), (1, first.as_str(), 2));
    let missing = |id: &str| DescribeInstances { instance_ids: vec![id.to_owned()], ..Default::default() };
    assert_eq!(list(missing("i-00000000")).unwrap_err(), "InvalidInstanceID.NotFound");
    assert_eq!(list(missing("hyperpod-x")).unwrap_err(), "InvalidInstanceID.Malformed");
    let absent = DescribeInstances { filters: vec![filter_of("instance-id", &["i-00000000"])], ..Default::default() };
    assert_eq!(list(absent).unwrap(), []);
}

#[test]
fn instance_types_match_published_table() {
    let mut world = World::instant();
    let mut list = |names: &[&str]| {
        let instance_types = names.iter().map(|n| (*n).to_owned()).collect();
        match world.call(Call::DescribeInstanceTypes(DescribeInstanceTypes { instance_types, ..Default::default() })) {
            Ok(Reply::DescribeInstanceTypes(listing)) => Ok(listing.items),
            Ok(other) => panic!("{other:?}"),
            Err(fault) => Err(fault.code),
        }
    };
    let found = list(&["m5.large", "r8gb.48xlarge", "t2.micro"]).unwrap();
    let shown: Vec<_> = found.iter().map(|t| (t.name.as_str(), t.maximum_ebs_cards, t.hypervisor.as_str())).collect();
    assert_eq!(shown, [("m5.large", 1, "nitro"), ("r8gb.48xlarge", 2, "nitro"), ("t2.micro", 1, "xen")]);
    assert_eq!(list(&["nonsense"]).unwrap_err(), "InvalidInstanceType");
}

#[test]
fn first_listed_zone_is_not_an_availability_zone() {
    let mut world = World::instant();
    let mut list = |filters, names: &[&str]| {
        let zone_names = names.iter().map(|n| (*n).to_owned()).collect();
        let call = DescribeAvailabilityZones { zone_names, filters, ..Default::default() };
        match world.call(Call::DescribeAvailabilityZones(call)) {
            Ok(Reply::DescribeAvailabilityZones(zones)) => Ok(zones),
            Ok(other) => panic!("{other:?}"),
            Err(fault) => Err(fault.code),
        }
    };
    let all = list(vec![], &[]).unwrap();
    assert_eq!(all[0].zone_type, "local-zone");
    let usual = list(vec![filter_of("zone-type", &["availability-zone"])], &[]).unwrap();
    let names: Vec<&str> = usual.iter().map(|z| z.name.as_str()).collect();
    assert_eq!(names, ["us-west-2a", "us-west-2b", "us-west-2c"]);
    assert_eq!(list(vec![], &["us-west-2b"]).unwrap()[0].id, "usw2-az2");
    assert_eq!(list(vec![], &["nowhere"]).unwrap_err(), "InvalidParameterValue");
    assert_eq!(list(vec![filter_of("tag:x", &["y"])], &[]).unwrap_err(), "InvalidParameterValue");
}

#[test]
fn status_of_volume_shows_initialization() {
    let mut world = World::instant();
    let volume = world.gp3();
    let call = DescribeVolumeStatus { volume_ids: vec![volume], ..Default::default() };
    let Ok(Reply::DescribeVolumeStatus(listing)) = world.call(Call::DescribeVolumeStatus(call)) else { panic!() };
    assert_eq!(listing.items[0].status, "ok");
    let detail = listing.items[0].details.iter().find(|d| d.name == "initialization-state").unwrap();
    assert_eq!(detail.status, "completed");
}

/// Unknown filters are rejected.
#[test]
fn instances_are_found_by_every_filter_of_ec2() {
    let mut world = World::instant();
    let volume = world.gp3();
    world.attach(&volume, "/dev/xvdaa");
    let by = |name: &str, value: &str| {
        let filters = vec![filter_of(name, &[value])];
        Call::DescribeInstances(DescribeInstances { filters, ..Default::default() })
    };
    for (name, value, count) in [
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
        let Ok(Reply::DescribeInstances(listing)) = world.call(by(name, value)) else { panic!("{name}") };
        assert_eq!(listing.items.len(), count, "{name}={value}");
    }
    assert_eq!(world.refused(by("colour", "red")), "InvalidParameterValue");
}

#[test]
fn each_action_has_its_own_page_sizes() {
    let mut world = World::instant();
    let types = |max_results| {
        Call::DescribeInstanceTypes(DescribeInstanceTypes { max_results: Some(max_results), ..Default::default() })
    };
    for bad in [4, 101] {
        assert_eq!(world.refused(types(bad)), "InvalidParameterValue", "{bad}");
    }
    for good in [5, 100] {
        assert!(world.call(types(good)).is_ok(), "{good}");
    }
    let fast = |max_results| {
        let max_results = Some(max_results);
        Call::DescribeFastSnapshotRestores(crate::api::DescribeFastSnapshotRestores {
            max_results,
            ..Default::default()
        })
    };
    assert_eq!(world.refused(fast(201)), "InvalidParameterValue");
    assert!(world.call(fast(1)).is_ok());
}

#[test]
fn modifications_have_no_tag_filters() {
    let mut world = World::instant();
    let filters = vec![filter_of("tag:a", &["b"])];
    let call = crate::api::DescribeVolumesModifications { filters, ..Default::default() };
    assert_eq!(world.refused(Call::DescribeVolumesModifications(call)), "InvalidParameterValue");
}

/// The empty page follows only if the account is configured so.
#[test]
fn full_last_page_may_have_token_for_empty_page() {
    let oddities = Oddities { tokens_after_full_pages: true, ..Oddities::default() };
    let account = AccountSettings { oddities, ..AccountSettings::default() };
    let mut world = World::of(EngineConfig { account, ..EngineConfig::default() });
    for _ in 0..3 {
        world.gp3();
    }
    let page = DescribeVolumes { max_results: Some(5), ..Default::default() };
    let (five, token) = describe(&mut world, page.clone()).unwrap();
    assert_eq!((five.len(), token.is_some()), (5, true));
    assert_eq!(describe(&mut world, DescribeVolumes { next_token: token, ..page }).unwrap(), (vec![], None));
}

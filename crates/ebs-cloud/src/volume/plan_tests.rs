use ebs_ec2::{Place, Tags, VolumeId, VolumeState, ZoneId};
use proptest::prelude::*;

use super::*;
use crate::CloudErrorKind;

fn capacity(required: Option<u32>, fallback: u32, limit: Option<u32>) -> CapacityRequest {
    CapacityRequest { required: required.map(Gib), fallback: Gib(fallback), limit: limit.map(Gib) }
}

fn of_snapshot(size: u32) -> SourceSize {
    SourceSize { what: "snapshot snap-1".to_owned(), size: Gib(size) }
}

fn zone(name: &str) -> ZoneName {
    ZoneName::parse(name).unwrap()
}

fn zone_id(id: &str) -> ZoneId {
    ZoneId::parse(id).unwrap()
}

fn in_zone(name: &str) -> Site {
    Site { place: Place::Zone(zone(name)), outpost_arn: None }
}

pub(crate) fn volume(zone_name: &str, id: &str) -> Volume {
    Volume {
        id: VolumeId::parse("vol-1").unwrap(),
        state: VolumeState::Available,
        size: Gib(10),
        volume_type: VolumeType::Gp3,
        iops: Some(3000),
        throughput: Some(125),
        zone: Some(zone(zone_name)),
        zone_id: Some(zone_id(id)),
        encrypted: false,
        kms_key_id: None,
        snapshot: None,
        source_volume: None,
        multi_attach: Some(false),
        outpost_arn: None,
        created: None,
        said_at: None,
        tags: Tags::new(),
        attachments: Vec::new(),
    }
}

#[test]
fn required_size_is_requested_unchanged() {
    assert_eq!(size(&capacity(Some(4), 100, None), &VolumeType::Gp3, None).unwrap(), Gib(4));
    assert_eq!(size(&capacity(Some(4), 100, Some(4)), &VolumeType::Io2, None).unwrap(), Gib(4));
    // EC2, not the driver, checks a required size against the type's range.
    assert_eq!(size(&capacity(Some(1), 100, None), &VolumeType::St1, None).unwrap(), Gib(1));
}

#[test]
fn default_size_is_adjusted_to_source_type_minimum_and_limit() {
    let gp3 = &VolumeType::Gp3;
    assert_eq!(size(&capacity(None, 100, None), gp3, None).unwrap(), Gib(100));
    assert_eq!(size(&capacity(None, 1, None), gp3, None).unwrap(), Gib(1));
    assert_eq!(size(&capacity(None, 100, Some(50)), gp3, None).unwrap(), Gib(50));
    assert_eq!(size(&capacity(None, 1, None), &VolumeType::St1, None).unwrap(), Gib(125));
    assert_eq!(size(&capacity(None, 100, None), gp3, Some(&of_snapshot(500))).unwrap(), Gib(500));
    assert_eq!(size(&capacity(None, 100, Some(600)), gp3, Some(&of_snapshot(500))).unwrap(), Gib(500));
}

#[test]
fn contradictory_size_request_is_out_of_range() {
    let gp3 = &VolumeType::Gp3;
    for (capacity, volume_type, source) in [
        (capacity(Some(5), 100, Some(4)), gp3, None),
        (capacity(None, 100, Some(4)), &VolumeType::St1, None),
        (capacity(Some(4), 100, None), gp3, Some(of_snapshot(5))),
        (capacity(None, 100, Some(4)), gp3, Some(of_snapshot(5))),
    ] {
        let answer = size(&capacity, volume_type, source.as_ref());
        assert!(answer.as_ref().is_err_and(|e| e.kind == CloudErrorKind::OutOfRange), "{capacity:?}: {answer:?}");
    }
}

proptest! {
    #[test]
    fn size_is_at_least_the_required_and_at_most_the_limit(
        required in proptest::option::of(1_u32..300),
        limit in proptest::option::of(1_u32..300),
        source in proptest::option::of(1_u32..300),
    ) {
        let capacity = capacity(required, 100, limit);
        let source = source.map(of_snapshot);
        if let Ok(size) = size(&capacity, &VolumeType::Gp3, source.as_ref()) {
            prop_assert!(size.0 >= 1);
            prop_assert!(size.0 >= required.unwrap_or(0));
            prop_assert!(limit.is_none_or(|l| size.0 <= l));
            prop_assert!(source.is_none_or(|s| size >= s.size));
        }
    }
}

/// Within a term, the zone name wins over the zone id.
#[test]
fn each_site_comes_from_one_term_with_preferred_terms_first() {
    let preferred = vec![
        Term::default(),
        Term { zone_id: Some(zone_id("usw2-az2")), ..Term::default() },
        Term { zone: Some(zone("us-west-2a")), zone_id: Some(zone_id("usw2-az1")), ..Term::default() },
        Term { zone: Some(zone("us-west-2c")), outpost_arn: Some("arn:1".to_owned()), ..Term::default() },
    ];
    let requisite = vec![Term { zone: Some(zone("us-west-2a")), ..Term::default() }];
    let sites = named_sites(&Topology { preferred, requisite });
    let on_outpost = Site { outpost_arn: Some("arn:1".to_owned()), ..in_zone("us-west-2c") };
    let by_id = Site { place: Place::ZoneId(zone_id("usw2-az2")), outpost_arn: None };
    assert_eq!(sites, [by_id, in_zone("us-west-2a"), on_outpost]);
}

#[test]
fn request_without_zones_allows_every_zone() {
    let topology = Topology { preferred: vec![Term::default()], requisite: vec![Term::default()] };
    assert!(named_sites(&topology).is_empty());
    assert!(allows_place_of(&topology, &volume("us-west-2a", "usw2-az1")));
}

#[test]
fn site_without_capacity_is_skipped_while_others_remain() {
    let sites = ["us-west-2a", "us-west-2b"].map(in_zone);
    assert_eq!(pick(&sites, &[]), Some(&sites[0]));
    assert_eq!(pick(&sites, &sites[..1]), Some(&sites[1]));
    assert_eq!(pick(&sites, &sites), Some(&sites[0]));
    assert_eq!(pick(&[], &[]), None);
}

/// If the term names an Outpost, the source must be on that Outpost.
#[test]
fn clone_needs_a_requisite_term_with_the_zone_of_its_source() {
    let source = volume("us-west-2a", "usw2-az1");
    let require =
        |zone, zone_id| Topology { preferred: Vec::new(), requisite: vec![Term { zone, zone_id, outpost_arn: None }] };
    assert!(allows_clone_of(&Topology::default(), &source));
    assert!(allows_clone_of(&require(Some(zone("us-west-2a")), None), &source));
    assert!(allows_clone_of(&require(None, Some(zone_id("usw2-az1"))), &source));
    assert!(!allows_clone_of(&require(Some(zone("us-west-2b")), None), &source));
    assert!(!allows_clone_of(&require(None, Some(zone_id("usw2-az2"))), &source));
    let preferred = vec![Term { zone: Some(zone("us-west-2b")), ..Term::default() }];
    assert!(allows_clone_of(&Topology { preferred, requisite: Vec::new() }, &source));
    let on = |arn: &str| Term { zone: Some(zone("us-west-2a")), outpost_arn: Some(arn.to_owned()), ..Term::default() };
    let topology = Topology { preferred: Vec::new(), requisite: vec![on("arn:1")] };
    assert!(!allows_clone_of(&topology, &source));
    assert!(allows_clone_of(&topology, &Volume { outpost_arn: Some("arn:1".to_owned()), ..source.clone() }));
    assert!(!allows_clone_of(&topology, &Volume { outpost_arn: Some("arn:2".to_owned()), ..source }));
}

#[test]
fn zone_is_stable_for_a_volume_name_and_varies_between_names() {
    let zones = ["us-west-2a", "us-west-2b", "us-west-2c"].map(zone);
    let first = |name: &str| in_order_of(name, &zones)[0].clone();
    assert_eq!(first("pvc-1"), first("pvc-1"));
    let mut seen: Vec<_> = (0..50).map(|n| first(&format!("pvc-{n}"))).collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen, zones);
}

//! Tags.

use super::*;
use crate::api::{CreateTags, DeleteTags, DescribeTags, Tag, TagSpecification, TagToDelete};

fn tag(key: &str, value: &str) -> Tag {
    Tag { key: key.to_owned(), value: value.to_owned() }
}

fn put(resources: &[&str], tags: Vec<Tag>) -> Call {
    let resources = resources.iter().map(|r| (*r).to_owned()).collect();
    Call::CreateTags(CreateTags { resources, tags, dry_run: false })
}

fn numbered(count: usize) -> Vec<Tag> {
    (0..count).map(|n| tag(&format!("key-{n}"), "v")).collect()
}

fn new_with(resource_type: &str, tags: Vec<Tag>) -> Call {
    let tag_specifications = vec![TagSpecification { resource_type: resource_type.to_owned(), tags }];
    Call::CreateVolume(CreateVolume { tag_specifications, ..gp3() })
}

/// The rules are: 50 tags, no `aws:`, maximum lengths, no duplicates.
#[test]
fn tags_of_new_volume_follow_rules_of_ec2() {
    let mut world = World::instant();
    for (tags, code) in [
        (numbered(51), "TagLimitExceeded"),
        (vec![tag("aws:x", "v")], "InvalidParameterValue"),
        (vec![tag("AWS:x", "v")], "InvalidParameterValue"),
        (vec![tag("", "v")], "InvalidParameterValue"),
        (vec![tag(&"k".repeat(129), "v")], "InvalidParameterValue"),
        (vec![tag("k", &"v".repeat(257))], "InvalidParameterValue"),
        (vec![tag("k", "1"), tag("k", "2")], "InvalidParameterValue"),
    ] {
        assert_eq!(world.refused(new_with("volume", tags.clone())), code, "{tags:?}");
    }
    assert_eq!(world.refused(new_with("snapshot", numbered(1))), "InvalidParameterValue");
    for good in
        [numbered(50), vec![tag(&"k".repeat(128), &"v".repeat(256))], vec![tag("empty", "")], vec![tag("größe", "ä")]]
    {
        assert!(world.call(new_with("volume", good)).is_ok());
    }
}

#[test]
fn tags_are_added_to_all_resources_or_none() {
    let mut world = World::instant();
    let (volume, instance) = (world.gp3(), world.instance(0));
    let snapshot = world.snapshot(&volume);
    world.call(put(&[&volume, &snapshot, &instance], vec![tag("a", "1")])).unwrap();
    world.call(put(&[&volume], vec![tag("a", "2")])).unwrap();
    assert_eq!(world.volume(&volume).tags["a"], "2");
    assert_eq!(world.sim.snapshots[&snapshot].tags["a"], "1");
    for (other, code) in [
        ("vol-00000000", "InvalidVolume.NotFound"),
        ("snap-00000000", "InvalidSnapshot.NotFound"),
        ("i-00000000", "InvalidInstanceID.NotFound"),
        ("nonsense", "InvalidID"),
        ("vol-x", "InvalidVolumeID.Malformed"),
    ] {
        assert_eq!(world.refused(put(&[&volume, other], vec![tag("b", "1")])), code);
    }
    assert_eq!(world.refused(put(&[], numbered(1))), "MissingParameter");
    assert_eq!(world.refused(put(&[&volume], vec![])), "MissingParameter");
}

#[test]
fn replacing_a_tag_does_not_count_toward_limit_of_50() {
    let mut world = World::instant();
    let volume = world.gp3();
    world.call(put(&[&volume], numbered(50))).unwrap();
    assert_eq!(world.refused(put(&[&volume], vec![tag("one-more", "v")])), "TagLimitExceeded");
    world.call(put(&[&volume], vec![tag("key-0", "new")])).unwrap();
}

#[test]
fn tags_are_deleted_by_key_or_by_key_and_value() {
    let mut world = World::instant();
    let volume = world.gp3();
    world.call(put(&[&volume], vec![tag("a", "1"), tag("b", "2"), tag("c", "3")])).unwrap();
    let mut delete = |tags: &[(&str, Option<&str>)]| {
        let tags = tags
            .iter()
            .map(|(key, value)| TagToDelete { key: (*key).to_owned(), value: value.map(str::to_owned) })
            .collect();
        let call = DeleteTags { resources: vec![volume.clone()], tags, dry_run: false };
        world.call(Call::DeleteTags(call)).unwrap();
        world.volume(&volume).tags.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(delete(&[("a", None), ("missing", None)]), ["b", "c"]);
    assert_eq!(delete(&[("b", Some("other"))]), ["b", "c"]);
    assert_eq!(delete(&[("b", Some("2"))]), ["c"]);
    assert_eq!(delete(&[]), Vec::<String>::new());
}

#[test]
fn tags_are_filtered_by_their_columns() {
    let mut world = World::instant();
    let (first, second) = (world.gp3(), world.gp3());
    world.call(put(&[&first], vec![tag("a", "1"), tag("b", "2")])).unwrap();
    world.call(put(&[&second], vec![tag("a", "3")])).unwrap();
    let mut list = |name: &str, value: &str| {
        let filters = vec![filter_of(name, &[value])];
        match world.call(Call::DescribeTags(DescribeTags { filters, ..Default::default() })).unwrap() {
            Reply::DescribeTags(listing) => listing
                .items
                .into_iter()
                .map(|t| format!("{}={}", t.key, t.value))
                .collect::<std::collections::BTreeSet<_>>(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(list("key", "a").into_iter().collect::<Vec<_>>(), ["a=1", "a=3"]);
    assert_eq!(list("resource-id", &first).into_iter().collect::<Vec<_>>(), ["a=1", "b=2"]);
    assert_eq!(list("resource-type", "volume").len(), 3);
    assert_eq!(list("resource-type", "snapshot").len(), 0);
    assert_eq!(list("tag:a", "3").into_iter().collect::<Vec<_>>(), ["a=3"]);
}

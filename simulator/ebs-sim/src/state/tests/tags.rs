//! Tags.

use super::*;

fn tags(prefix: &str, tags: &[(&str, &str)]) -> String {
    let tag =
        |(n, (key, value)): (u32, &(&str, &str))| format!(" {prefix}Tag.{n}.Key={key} {prefix}Tag.{n}.Value={value}");
    (1..).zip(tags).map(tag).collect()
}

fn put(resources: &[&str], with: &[(&str, &str)]) -> String {
    let resources: String = (1..).zip(resources).map(|(n, id)| format!(" ResourceId.{n}={id}")).collect();
    format!("CreateTags{resources}{}", tags("", with))
}

fn numbered(count: usize) -> String {
    (1..=count).map(|n| format!(" Tag.{n}.Key=key-{n} Tag.{n}.Value=v")).collect()
}

/// The rules: at most 50 tags, no `aws:` prefix, maximum lengths, no duplicate keys.
#[test]
fn tags_of_new_volume_are_checked_by_the_ec2_rules() {
    let mut world = World::instant();
    let new_with = |kind: &str, tags: &str| {
        format!("{GP3} TagSpecification.1.ResourceType={kind}{}", tags.replace(" Tag.", " TagSpecification.1.Tag."))
    };
    let (k128, v256) = ("k".repeat(128), "v".repeat(256));
    for good in [
        numbered(50),
        tags("", &[(k128.as_str(), v256.as_str())]),
        tags("", &[("empty", "")]),
        tags("", &[("größe", "ä")]),
    ] {
        world.done(&new_with("volume", &good));
    }
    world.refuses([(new_with("volume", &numbered(51)), "TagLimitExceeded")]);
    for bad in [
        tags("", &[("aws:x", "v")]),
        tags("", &[("AWS:x", "v")]),
        tags("", &[("", "v")]),
        tags("", &[((k128 + "k").as_str(), "v")]),
        tags("", &[("k", (v256 + "v").as_str())]),
        tags("", &[("k", "1"), ("k", "2")]),
    ] {
        assert_eq!(world.refused(&new_with("volume", &bad)), "InvalidParameterValue", "{bad}");
    }
    assert_eq!(world.refused(&new_with("snapshot", &numbered(1))), "InvalidParameterValue");
}

#[test]
fn tags_are_added_to_all_resources_or_none() {
    let mut world = World::instant();
    let (volume, instance) = world.ready();
    let snapshot = world.snapshot(&volume);
    world.done(&put(&[&volume, &snapshot, &instance], &[("a", "1")]));
    world.done(&put(&[&volume], &[("a", "2")]));
    assert_eq!(world.volume(&volume).tags["a"], "2");
    assert_eq!(world.sim.snapshots[&snapshot].tags["a"], "1");
    world.refuses([
        (put(&[&volume, "vol-00000000"], &[("b", "1")]), "InvalidVolume.NotFound"),
        (put(&[&volume, "snap-00000000"], &[("b", "1")]), "InvalidSnapshot.NotFound"),
        (put(&[&volume, "i-00000000"], &[("b", "1")]), "InvalidInstanceID.NotFound"),
        (put(&[&volume, "nonsense"], &[("b", "1")]), "InvalidID"),
        (put(&[&volume, "vol-x"], &[("b", "1")]), "InvalidVolumeID.Malformed"),
        (put(&[], &[("b", "1")]), "MissingParameter"),
        (put(&[&volume], &[]), "MissingParameter"),
    ]);
}

#[test]
fn tags_are_deleted_by_key_or_by_key_and_value() {
    let mut world = World::instant();
    let volume = world.gp3();
    world.done(&put(&[&volume], &[("a", "1"), ("b", "2"), ("c", "3")]));
    for (tags, left) in [
        ("Tag.1.Key=a Tag.2.Key=missing", &["b", "c"][..]),
        ("Tag.1.Key=b Tag.1.Value=other", &["b", "c"]),
        ("Tag.1.Key=b Tag.1.Value=2", &["c"]),
        ("", &[]),
    ] {
        world.done(&format!("DeleteTags ResourceId.1={volume} {tags}"));
        assert_eq!(world.volume(&volume).tags.into_keys().collect::<Vec<_>>(), left, "{tags}");
    }
}

#[test]
fn tags_are_filtered_by_key_value_and_resource() {
    let mut world = World::instant();
    let (first, second) = (world.gp3(), world.gp3());
    world.done(&put(&[&first], &[("a", "1"), ("b", "2")]));
    world.done(&put(&[&second], &[("a", "3")]));
    for (name, value, expected) in [
        ("key", "a", &["a=1", "a=3"][..]),
        ("resource-id", &first, &["a=1", "b=2"]),
        ("resource-type", "volume", &["a=1", "a=3", "b=2"]),
        ("resource-type", "snapshot", &[]),
        ("tag:a", "3", &["a=3"]),
    ] {
        let found = ok!(world, DescribeTags, "{}", by(name, value)).items;
        let mut found: Vec<_> = found.iter().map(|t| format!("{}={}", t.key, t.value)).collect();
        found.sort();
        assert_eq!(found, expected, "{name}={value}");
    }
}

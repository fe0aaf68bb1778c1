//! Ids come from users, orchestrators, kernels and EC2. A parser accepts or rejects any text without a panic.

use ebs_ec2::{HyperPodNode, InstanceId, SnapshotId, VolumeId, ZoneId, ZoneName};
use proptest::prelude::*;

/// Test texts, each after its kind: `volume`, `snapshot`, `instance`, `hyperpod`, `zone` (any possible zone name), or
/// `nothing`.
const CORPUS: &str = include_str!("corpus/ids.txt");

fn kinds(text: &str) -> Vec<&'static str> {
    let mut kinds = Vec::new();
    let mut note = |kind, parsed: Option<String>| {
        if let Some(written) = parsed {
            assert_eq!(written, text, "a {kind} is written as it was read");
            kinds.push(kind);
        }
    };
    note("volume", VolumeId::parse(text).ok().map(|id| id.to_string()));
    note("snapshot", SnapshotId::parse(text).ok().map(|id| id.to_string()));
    note("instance", InstanceId::parse(text).ok().map(|id| id.to_string()));
    note("hyperpod", HyperPodNode::parse(text).ok().map(|id| id.to_string()));
    note("zone", ZoneName::parse(text).ok().map(|id| id.to_string()));
    let zone = ZoneId::parse(text).is_ok();
    // Most other ids are also valid zone names, so `zone` counts only if no other kind matches.
    if kinds.len() > 1 || !zone {
        kinds.retain(|kind| *kind != "zone");
    }
    kinds
}

fn harmless(text: &str) -> bool {
    !text.is_empty() && text.len() <= 160 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

#[test]
fn each_text_in_the_corpus_is_parsed_as_the_listed_kind() {
    let mut seen = 0;
    for line in CORPUS.lines() {
        let (wanted, text) = line.split_once(' ').unwrap();
        let text = text.replace("\\n", "\n").replace("\\0", "\0");
        let found = kinds(&text);
        assert_eq!(found.first().copied().unwrap_or("nothing"), wanted, "{text:?}");
        seen += 1;
    }
    assert!(seen > 40, "{seen} texts");
}

proptest! {
    #[test]
    fn text_is_rejected_or_parsed_as_a_safe_id_of_one_kind(text in prop_oneof![
        any::<String>(),
        "(vol|snap|i|hyperpod|us-west-2)?-?\\PC{0,30}",
        "(vol|snap|i|hyperpod-[a-zA-Z0-9-]{0,70}-i)-[a-zA-Z0-9/.-]{0,80}",
    ]) {
        if !kinds(&text).is_empty() {
            prop_assert!(harmless(&text), "{text:?} passes as an id");
        }
        prop_assert!(kinds(&text).len() <= 1, "{text:?} is {:?}", kinds(&text));
    }

    #[test]
    fn volume_handle_is_parsed_from_its_last_segment_or_rejected(before in "\\PC{0,20}", last in "\\PC{0,20}") {
        let handle = format!("{before}/{last}");
        match VolumeId::from_handle(&handle) {
            Ok(id) => prop_assert_eq!(Some(id.as_str()), handle.rsplit('/').next()),
            Err(_) => prop_assert!(VolumeId::parse(handle.rsplit('/').next().unwrap()).is_err()),
        }
        prop_assert_eq!(SnapshotId::from_handle(&handle).is_ok(), SnapshotId::parse(last.rsplit('/').next().unwrap()).is_ok());
    }

    #[test]
    fn serial_number_identifies_exactly_one_volume(text in "\\PC{0,24}", digits in "[0-9a-f]{8}|[0-9a-f]{17}") {
        let id = VolumeId::parse(&format!("vol-{digits}")).unwrap();
        prop_assert_eq!(VolumeId::from_serial(&id.serial()).unwrap(), id);
        if let Ok(found) = VolumeId::from_serial(&text) {
            prop_assert_eq!(found.serial(), text.replacen("vol-", "vol", 1));
        }
    }
}

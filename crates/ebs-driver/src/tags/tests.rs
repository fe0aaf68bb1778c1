use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn map(entries: &[(&str, &str)]) -> HashMap<String, String> {
    entries.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn volume(policy: &TagPolicy, parameters: &[(&str, &str)], mutable: &[(&str, &str)]) -> Result<Tags, TagError> {
    let parameters = VolumeParameters::parse(&map(parameters)).expect("parameters are fine");
    let mutable = MutableParameters::parse(&map(mutable)).expect("mutable parameters are fine");
    policy.of_volume("pvc-1", &parameters, &mutable)
}

fn tags(entries: &[(&str, &str)]) -> Tags {
    entries.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

/// A volume is tagged with its name, its manager, its claim and its IOPS policy, the flag normalised.
#[test]
fn a_volume_is_tagged_with_its_name_its_manager_and_its_claim() {
    let parameters = [
        ("csi.storage.k8s.io/pvc/name", "data"),
        ("csi.storage.k8s.io/pvc/namespace", "shop"),
        ("csi.storage.k8s.io/pv/name", "pvc-1"),
        ("iopsPerGB", "50"),
        ("allowAutoIOPSIncreaseOnModify", "T"),
    ];
    let expected = tags(&[
        ("CSIVolumeName", "pvc-1"),
        ("ebs.csi.aws.com/cluster", "true"),
        ("ebs.csi.aws.com/IOPSPerGb", "50"),
        ("ebs.csi.aws.com/AllowAutoIOPSIncreaseOnModify", "true"),
        ("kubernetes.io/created-for/pvc/name", "data"),
        ("kubernetes.io/created-for/pvc/namespace", "shop"),
        ("kubernetes.io/created-for/pv/name", "pvc-1"),
    ]);
    assert_eq!(volume(&TagPolicy::default(), &parameters, &[]), Ok(expected));
}

/// A configured cluster id adds the ownership tags; snapshots do without `KubernetesCluster`.
#[test]
fn a_cluster_owns_what_it_makes() {
    let policy = TagPolicy { cluster_id: Some("prod".to_owned()), ..TagPolicy::default() };
    let snapshot = policy.of_snapshot("snap-1", &SnapshotParameters::default()).expect("fine");
    let mut expected = tags(&[
        ("CSIVolumeSnapshotName", "snap-1"),
        ("ebs.csi.aws.com/cluster", "true"),
        ("kubernetes.io/cluster/prod", "owned"),
        ("Name", "prod-dynamic-snap-1"),
        ("ebs.csi.aws.com/cluster-name", "prod"),
    ]);
    assert_eq!(snapshot, expected);
    expected.remove("CSIVolumeSnapshotName");
    expected.extend(tags(&[("CSIVolumeName", "pvc-1"), ("Name", "prod-dynamic-pvc-1"), ("KubernetesCluster", "prod")]));
    assert_eq!(volume(&policy, &[], &[]), Ok(expected));
}

/// One precedence for volumes and snapshots: own, cluster, class, attributes class, extra tags.
#[test]
fn later_sources_win_and_extra_tags_last_for_volumes_and_snapshots() {
    let policy =
        TagPolicy { cluster_id: Some("prod".to_owned()), extra: tags(&[("d", "extra")]), ..TagPolicy::default() };
    let class = [
        ("tagSpecification_1", "a=class"),
        ("tagSpecification_2", "b=class"),
        ("tagSpecification_3", "d=class"),
        ("tagSpecification_4", "Name=mine"),
    ];
    let attributes = [("tagSpecification_1", "b=vac"), ("tagSpecification_2", "d=vac")];
    let got = volume(&policy, &class, &attributes).expect("fine");
    let picked = |got: &Tags, keys: &[&str]| keys.iter().map(|k| got[*k].clone()).collect::<Vec<_>>();
    assert_eq!(picked(&got, &["a", "b", "d", "Name"]), ["class", "vac", "extra", "mine"]);
    assert_eq!(picked(&got, &["CSIVolumeName", "kubernetes.io/cluster/prod"]), ["pvc-1", "owned"]);
    let parameters = SnapshotParameters::parse(&map(&class)).expect("fine");
    let got = policy.of_snapshot("s", &parameters).expect("fine");
    assert_eq!(picked(&got, &["a", "b", "d", "Name"]), ["class", "class", "extra", "mine"]);
    assert_eq!(picked(&got, &["CSIVolumeSnapshotName", "kubernetes.io/cluster/prod"]), ["s", "owned"]);
}

/// Of two entries for one tag the later parameter key wins.
#[test]
fn of_two_entries_for_one_tag_the_later_parameter_key_wins() {
    let got = volume(&TagPolicy::default(), &[("tagSpecification_2", "a=2"), ("tagSpecification_1", "a=1")], &[])
        .expect("fine");
    assert_eq!(got["a"], "2");
}

/// `tagDeletion*` of an attributes class keeps a tag of the StorageClass away.
#[test]
fn a_tag_that_the_attributes_class_deletes_is_not_written() {
    let got = volume(&TagPolicy::default(), &[("tagSpecification_1", "a=1")], &[("tagDeletion_1", "a")]).expect("fine");
    assert!(!got.contains_key("a"));
    let both = [("tagDeletion_1", "a"), ("tagSpecification_1", "a=2")];
    assert_eq!(volume(&TagPolicy::default(), &[], &both).expect("fine")["a"], "2");
    assert!(matches!(
        volume(&TagPolicy::default(), &[], &[("tagDeletion_1", "CSIVolumeName")]),
        Err(TagError::Reserved { .. })
    ));
}

/// Reserved tag keys are refused, or dropped with a warning under `--warn-on-invalid-tag`; for extra tags always
/// refused.
#[test]
fn reserved_keys_are_refused_or_dropped_under_warn_on_invalid_tag() {
    let reserved = [
        "CSIVolumeName",
        "CSIVolumeSnapshotName",
        "ebs.csi.aws.com/cluster-name",
        "kubernetes.io",
        "kubernetes.iox",
        "ebs.csi.aws.com/anything",
    ];
    let warn = TagPolicy { warn_on_invalid: true, ..TagPolicy::default() };
    for key in reserved {
        let entry = format!("{key}=x");
        let class = [("tagSpecification_1", entry.as_str())];
        assert!(matches!(volume(&TagPolicy::default(), &class, &[]), Err(TagError::Reserved { .. })), "{key}");
        assert_ne!(volume(&warn, &class, &[]).expect("dropped").get(key).map(String::as_str), Some("x"));
        let extra = TagPolicy { extra: tags(&[(key, "x")]), warn_on_invalid: true, ..TagPolicy::default() };
        assert!(extra.check_extra().is_err(), "{key}: extra tags are checked strictly");
    }
    assert!(volume(&TagPolicy::default(), &[("tagSpecification_1", "csivolumename=x")], &[]).is_ok(), "case-sensitive");
}

/// Tag values are templates over the claim's names.
#[test]
fn a_value_is_a_template_over_the_claim() {
    let class = [
        ("csi.storage.k8s.io/pvc/name", "data"),
        ("tagSpecification_1", "a={{ .PVCName | toUpper }}=x"),
        ("tagSpecification_2", "b="),
    ];
    let got = volume(&TagPolicy::default(), &class, &[("tagSpecification_9", "c={{ .PVCNamespace }}")]).expect("fine");
    assert_eq!((got["a"].as_str(), got["b"].as_str(), got["c"].as_str()), ("DATA=x", "", ""));
}

/// A bad template is refused or, under `--warn-on-invalid-tag`, its tag is left out.
#[test]
fn a_bad_template_is_refused_or_dropped_under_warn_on_invalid_tag() {
    let class = [("tagSpecification_1", "a={{ .Nothing }}")];
    assert!(matches!(volume(&TagPolicy::default(), &class, &[]), Err(TagError::Template { .. })));
    let warn = TagPolicy { warn_on_invalid: true, ..TagPolicy::default() };
    assert!(!volume(&warn, &class, &[]).expect("dropped").contains_key("a"));
}

/// Extra tags are templates on volumes where they parse as one, and literal otherwise and on snapshots.
#[test]
fn an_extra_tag_is_a_template_on_volumes_and_literal_where_it_is_none() {
    let extra = tags(&[("a", "{{ .PVCName }}"), ("b", "{{ broken"), ("c", "plain")]);
    let policy = TagPolicy { extra, ..TagPolicy::default() };
    let got = volume(&policy, &[("csi.storage.k8s.io/pvc/name", "data")], &[]).expect("fine");
    assert_eq!((got["a"].as_str(), got["b"].as_str(), got["c"].as_str()), ("data", "{{ broken", "plain"));
    let got = policy.of_snapshot("s", &SnapshotParameters::default()).expect("fine");
    assert_eq!(got["a"], "{{ .PVCName }}");
}

#[test]
fn an_extra_tag_with_a_verb_that_is_not_supported_is_refused_at_start() {
    for (value, refused) in [("{{printf `%x` 1}}", true), ("{{printf `%03d` 1}}", false), ("{{ broken", false)] {
        let policy = TagPolicy { extra: tags(&[("a", value)]), ..TagPolicy::default() };
        assert_eq!(policy.check_extra().is_err(), refused, "{value}");
    }
}

/// EC2's limits on tag keys, values and their number are checked before EC2 is asked.
#[test]
fn ec2_limits_on_keys_values_and_number_are_kept() {
    let long_key = format!("{}=x", "k".repeat(129));
    let long_value = format!("a={}", "v".repeat(257));
    for (entry, rule) in [
        (long_key.as_str(), "128"),
        (long_value.as_str(), "256"),
        ("aws:x=y", "aws:"),
        ("AWS:x=y", "aws:"),
        ("=x", "1 to"),
    ] {
        let error =
            volume(&TagPolicy::default(), &[("tagSpecification_1", entry)], &[]).expect_err("refused").to_string();
        assert!(error.contains(rule), "{error}");
    }
    assert!(
        volume(
            &TagPolicy::default(),
            &[("tagSpecification_1", &format!("{}={}", "é".repeat(128), "é".repeat(256)))],
            &[]
        )
        .is_ok()
    );
    let many: Vec<(String, String)> = (0..49).map(|i| (format!("tagSpecification_{i}"), format!("k{i}=v"))).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(volume(&TagPolicy::default(), &many, &[]), Err(TagError::TooMany { count: 51 }));
    assert_eq!(volume(&TagPolicy::default(), &many[1..], &[]).expect("fits").len(), 50);
}

proptest! {
    /// No user tag replaces the tags that say whose the volume is.
    #[test]
    fn no_user_tag_replaces_the_tags_that_say_whose_the_volume_is(key in ".{0,40}", value in "[^{]{0,40}") {
        let entry = format!("{key}={value}");
        if let Ok(got) = volume(&TagPolicy::default(), &[("tagSpecification_1", entry.as_str())], &[]) {
            prop_assert_eq!(got["CSIVolumeName"].as_str(), "pvc-1");
            prop_assert_eq!(got["ebs.csi.aws.com/cluster"].as_str(), "true");
        }
    }
}

/// Volumes and snapshots have three fields each, and another field is an error that names them.
#[test]
fn a_snapshot_has_its_own_template_fields_and_only_those() {
    let names = [
        ("csi.storage.k8s.io/volumesnapshot/name", "snap"),
        ("csi.storage.k8s.io/volumesnapshot/namespace", "team-b"),
        ("csi.storage.k8s.io/volumesnapshotcontent/name", "snapcontent-1"),
    ];
    let snapshot = SnapshotParameters::parse(&map(&names)).expect("parameters are fine").template_data();
    let all = "{{.VolumeSnapshotName}} {{.VolumeSnapshotNamespace}} {{.VolumeSnapshotContentName}}";
    assert_eq!(go_template::render(all, &snapshot).unwrap(), "snap team-b snapcontent-1");
    let error = go_template::render("{{.PVCName}}", &snapshot).unwrap_err().to_string();
    assert!(error.contains(".PVCName") && error.contains(".VolumeSnapshotName"), "{error}");
    let claim = ClaimNames { pvc_name: "data".into(), pvc_namespace: "team-a".into(), pv_name: "pvc-1".into() };
    let all = "{{.PVCName}} {{.PVCNamespace}} {{.PVName}}";
    assert_eq!(go_template::render(all, &claim.template_data()).unwrap(), "data team-a pvc-1");
}

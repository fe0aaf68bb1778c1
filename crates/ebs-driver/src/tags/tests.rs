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

/// Two more tags record the IOPS ratio and `allowAutoIOPSIncreaseOnModify`, the latter normalised to `true`.
#[test]
fn volume_is_tagged_with_name_driver_and_claim() {
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

/// Snapshots do not get `KubernetesCluster`.
#[test]
fn cluster_id_adds_ownership_tags() {
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

/// The order is: the driver's own tags, cluster, class, attributes class, extra tags.
#[test]
fn later_sources_of_tags_override_earlier_ones() {
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

#[test]
fn later_parameter_key_overrides_the_tag_of_an_earlier_one() {
    let got = volume(&TagPolicy::default(), &[("tagSpecification_2", "a=2"), ("tagSpecification_1", "a=1")], &[])
        .expect("fine");
    assert_eq!(got["a"], "2");
}

/// The class deletes the tag with `tagDeletion*`.
#[test]
fn tag_deleted_by_the_attributes_class_is_not_set() {
    let got = volume(&TagPolicy::default(), &[("tagSpecification_1", "a=1")], &[("tagDeletion_1", "a")]).expect("fine");
    assert!(!got.contains_key("a"));
    let both = [("tagDeletion_1", "a"), ("tagSpecification_1", "a=2")];
    assert_eq!(volume(&TagPolicy::default(), &[], &both).expect("fine")["a"], "2");
    assert!(matches!(
        volume(&TagPolicy::default(), &[], &[("tagDeletion_1", "CSIVolumeName")]),
        Err(TagError::Reserved { .. })
    ));
}

/// The driver always refuses extra tags with reserved keys.
#[test]
fn reserved_tag_keys_are_refused_or_dropped_with_a_warning() {
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

#[test]
fn tag_value_is_a_template_with_the_names_of_the_claim() {
    let class = [
        ("csi.storage.k8s.io/pvc/name", "data"),
        ("tagSpecification_1", "a={{ .PVCName | toUpper }}=x"),
        ("tagSpecification_2", "b="),
    ];
    let got = volume(&TagPolicy::default(), &class, &[("tagSpecification_9", "c={{ .PVCNamespace }}")]).expect("fine");
    assert_eq!((got["a"].as_str(), got["b"].as_str(), got["c"].as_str()), ("DATA=x", "", ""));
}

/// `--warn-on-invalid-tag` drops the tag.
#[test]
fn invalid_template_is_refused_or_dropped_with_a_warning() {
    let class = [("tagSpecification_1", "a={{ .Nothing }}")];
    assert!(matches!(volume(&TagPolicy::default(), &class, &[]), Err(TagError::Template { .. })));
    let warn = TagPolicy { warn_on_invalid: true, ..TagPolicy::default() };
    assert!(!volume(&warn, &class, &[]).expect("dropped").contains_key("a"));
}

/// On snapshots, the value is always literal.
#[test]
fn extra_tag_of_a_volume_is_rendered_if_it_is_a_valid_template() {
    let extra = tags(&[("a", "{{ .PVCName }}"), ("b", "{{ broken"), ("c", "plain")]);
    let policy = TagPolicy { extra, ..TagPolicy::default() };
    let got = volume(&policy, &[("csi.storage.k8s.io/pvc/name", "data")], &[]).expect("fine");
    assert_eq!((got["a"].as_str(), got["b"].as_str(), got["c"].as_str()), ("data", "{{ broken", "plain"));
    let got = policy.of_snapshot("s", &SnapshotParameters::default()).expect("fine");
    assert_eq!(got["a"], "{{ .PVCName }}");
}

#[test]
fn extra_tag_with_an_unsupported_verb_is_refused_at_startup() {
    for (value, refused) in [("{{printf `%x` 1}}", true), ("{{printf `%03d` 1}}", false), ("{{ broken", false)] {
        let policy = TagPolicy { extra: tags(&[("a", value)]), ..TagPolicy::default() };
        assert_eq!(policy.check_extra().is_err(), refused, "{value}");
    }
}

#[test]
fn tags_beyond_the_limits_of_ec2_are_refused() {
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
    /// The driver's tags identify the volume and the driver that manages it.
    #[test]
    fn user_tags_never_replace_the_driver_tags(key in ".{0,40}", value in "[^{]{0,40}") {
        let entry = format!("{key}={value}");
        if let Ok(got) = volume(&TagPolicy::default(), &[("tagSpecification_1", entry.as_str())], &[]) {
            prop_assert_eq!(got["CSIVolumeName"].as_str(), "pvc-1");
            prop_assert_eq!(got["ebs.csi.aws.com/cluster"].as_str(), "true");
        }
    }
}

/// A template that uses any other field is refused, and the error lists the fields.
#[test]
fn snapshot_templates_have_their_own_three_fields() {
    let names = [
        ("csi.storage.k8s.io/volumesnapshot/name", "snap"),
        ("csi.storage.k8s.io/volumesnapshot/namespace", "team-b"),
        ("csi.storage.k8s.io/volumesnapshotcontent/name", "snapcontent-1"),
    ];
    let snapshot = SnapshotParameters::parse(&map(&names)).expect("parameters are fine").template_data();
    let all = "{{.VolumeSnapshotName}} {{.VolumeSnapshotNamespace}} {{.VolumeSnapshotContentName}}";
    assert_eq!(crate::go_template::render(all, &snapshot).unwrap(), "snap team-b snapcontent-1");
    let error = crate::go_template::render("{{.PVCName}}", &snapshot).unwrap_err().to_string();
    assert!(error.contains(".PVCName") && error.contains(".VolumeSnapshotName"), "{error}");
    let claim = ClaimNames { pvc_name: "data".into(), pvc_namespace: "team-a".into(), pv_name: "pvc-1".into() };
    let all = "{{.PVCName}} {{.PVCNamespace}} {{.PVName}}";
    assert_eq!(crate::go_template::render(all, &claim.template_data()).unwrap(), "data team-a pvc-1");
}

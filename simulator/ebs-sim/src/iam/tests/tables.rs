//! Tests that the shipped policies allow exactly what these tables list, row by row.

use super::{allows_caller, tags};
use crate::iam::check::Check;
use crate::iam::document::Policy;
use crate::iam::{Extra, Shipped};

const TAGS: [(char, &str, &str); 8] = [
    ('D', "ebs.csi.aws.com/cluster", "true"),
    ('K', "ebs.csi.aws.com/cluster-name", "blue"),
    ('M', "kubernetes.io/created-for/pvc/name", "data"),
    ('N', "CSIVolumeName", "pvc-1"),
    ('S', "CSIVolumeSnapshotName", "snap-1"),
    ('E', "eks:cluster-name", "blue"),
    ('e', "eks:cluster-name", "red"),
    ('d', "ebs.csi.aws.com/cluster", "false"),
];

/// Actions | resource | whose tags are checked | the policies that allow the actions, for each set of tags (`-`: no
/// tags): `v` for managed-v2, `c` for cluster-scoped, `l` for legacy-example, and `.` for no policy.
const TABLE: &str = "
    CreateVolume CopyVolumes                | volume/*        | request  | -:. D:vl K:c N:l M:. d:.
    CopyVolumes                             | volume/vol-1    | resource | -:l D:vl M:vl K:cl
    CreateVolume EnableFastSnapshotRestores | snapshot/snap-1 | resource | -:l D:vl M:l K:cl
    AttachVolume DetachVolume ModifyVolume  | volume/vol-1    | resource | -:l D:vl M:vl K:cl
    AttachVolume DetachVolume               | instance/i-1    | resource | -:vl K:vcl E:vcl e:vl
    DeleteVolume                            | volume/vol-1    | resource | -:. D:vl M:vl N:l K:c
    CreateSnapshot                          | volume/vol-1    | resource | -:l D:vl M:l K:cl
    CreateSnapshot                          | snapshot/*      | request  | -:. D:vl S:l K:c
    DeleteSnapshot LockSnapshot             | snapshot/snap-1 | resource | -:. D:vl S:l K:c
    DeleteTags                              | snapshot/snap-1 | resource | D:l
    DescribeAvailabilityZones DescribeInstances DescribeInstanceTypes | * | resource | -:vcl
    DescribeSnapshots DescribeVolumes       | *               | resource | -:vcl
    DescribeVolumesModifications DescribeVolumeStatus | *     | resource | -:vcl
    DescribeTags                            | *               | resource | -:l
    DescribeLockedSnapshots RunInstances TerminateInstances CreateImage | * | resource | -:.
";

fn with_letters(letters: &str) -> Vec<(&'static str, &'static str)> {
    TAGS.iter().filter(|(letter, ..)| letters.contains(*letter)).map(|(_, key, value)| (*key, *value)).collect()
}

fn who_allows(check: &Check) -> String {
    let caller = tags(&[("eks-cluster-name", "blue")]);
    let allowing = Shipped::ALL.into_iter().zip(["v", "c", "l"]).filter(|(shipped, _)| {
        let policy = Policy::parse(shipped.name(), shipped.text()).unwrap();
        allows_caller(&[policy], check, &caller)
    });
    let letters: String = allowing.map(|(_, letter)| letter).collect();
    if letters.is_empty() { ".".to_owned() } else { letters }
}

fn arn(resource: &str) -> String {
    if resource == "*" {
        return "*".to_owned();
    }
    let account = if resource.starts_with("snapshot") { "" } else { "123456789012" };
    format!("arn:aws:ec2:us-west-2:{account}:{resource}")
}

fn check(action: &str, resource: &str) -> Check {
    // Leak the action, because a check needs a `&'static str`.
    Check::new(Box::leak(format!("ec2:{action}").into_boxed_str()), arn(resource))
}

/// Only the cluster-scoped policy checks the tags of instances, and only the legacy example allows DescribeTags.
#[test]
fn policies_allow_exactly_what_the_table_lists() {
    for row in TABLE.lines().map(str::trim).filter(|row| !row.is_empty()) {
        let [actions, resource, place, cases] = row.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        for action in actions.split_whitespace() {
            for (letters, expected) in cases.split(' ').map(|case| case.split_once(':').unwrap()) {
                let (check, tagged) = (check(action, resource), with_letters(letters));
                let check = match place {
                    "request" => check.with_request_tags(&tagged),
                    _ => check.with_resource_tags(&tags(&tagged)),
                };
                assert_eq!(who_allows(&check), expected, "{action} on {resource} with {letters}");
            }
        }
    }
}

/// The calls are CreateVolume, CreateSnapshot and CopyVolumes.
#[test]
fn policies_allow_tagging_a_resource_when_creating_it() {
    for (resource, action, expected) in [
        ("volume/*", "CreateVolume", "vcl"),
        ("volume/*", "CopyVolumes", "vcl"),
        ("snapshot/*", "CreateSnapshot", "vcl"),
        ("volume/*", "RunInstances", "."),
    ] {
        let check = check("CreateTags", resource).with_request_tags(&with_letters("N")).created_by(action);
        assert_eq!(who_allows(&check), expected, "{action}");
    }
}

/// A caller cannot change the tags on which its permissions depend.
#[test]
fn permission_tags_of_managed_volume_are_immutable() {
    for (own, changed, expected) in [
        ("D", "-", "v"),
        ("K", "-", "c"),
        ("DK", "", "."),
        ("N", "-", "."),
        ("DK", "D", "."),
        ("DK", "K", "."),
        ("DK", "M", "."),
    ] {
        for (action, legacy) in [("CreateTags", ""), ("DeleteTags", "l")] {
            let mut with = with_letters(changed);
            with.extend((!changed.is_empty()).then_some(("team", "red")));
            let check = check(action, "volume/vol-1").with_resource_tags(&tags(&with_letters(own)));
            let expected = if legacy.is_empty() { expected.to_owned() } else { expected.replace('.', "") + legacy };
            assert_eq!(who_allows(&check.with_request_tags(&with)), expected, "{action} {changed} of {own}");
        }
    }
}

/// Customer keys, HyperPod, reading locks, and changing tags under the older policies each need an optional statement.
#[test]
fn optional_statement_adds_only_its_own_actions() {
    let key = "arn:aws:kms:us-west-2:123456789012:key/12345678-1234-1234-1234-123456789012";
    let cluster = "arn:aws:sagemaker:us-west-2:123456789012:cluster/abc";
    let table = [
        ("kms:Decrypt", key.to_owned(), Extra::Kms),
        ("kms:GenerateDataKeyWithoutPlaintext", key.to_owned(), Extra::Kms),
        ("kms:CreateGrant", key.to_owned(), Extra::Kms),
        ("ec2:CreateTags", arn("volume/vol-1"), Extra::TagEdits),
        ("ec2:CreateTags", arn("snapshot/snap-1"), Extra::TagEdits),
        ("sagemaker:AttachClusterNodeVolume", cluster.to_owned(), Extra::HyperPod),
        ("sagemaker:DetachClusterNodeVolume", cluster.to_owned(), Extra::HyperPod),
        ("ec2:DescribeLockedSnapshots", "*".to_owned(), Extra::SnapshotLocks),
    ];
    for (action, resource, by) in table {
        let check = Check::new(action, resource);
        assert_eq!(who_allows(&check), ".", "{action}");
        for extra in Extra::ALL {
            let policy = Policy::parse(extra.name(), extra.text()).unwrap();
            assert_eq!(allows_caller(&[policy], &check, &tags(&[])), extra == by, "{action} by {}", extra.name());
        }
    }
}

//! The shipped policies allow what these tables list, row by row, and nothing else.

use super::{allows_caller, tags};
use crate::iam::check::Check;
use crate::iam::document::Policy;
use crate::iam::{Extra, Shipped};

const D: (&str, &str) = ("ebs.csi.aws.com/cluster", "true");
const K: (&str, &str) = ("ebs.csi.aws.com/cluster-name", "blue");
const M: (&str, &str) = ("kubernetes.io/created-for/pvc/name", "data");
const V: (&str, &str) = ("CSIVolumeName", "pvc-1");
const S: (&str, &str) = ("CSIVolumeSnapshotName", "snap-1");
const EKS: (&str, &str) = ("eks:cluster-name", "blue");

/// Returns which policies allow the check, in the order of the table: V2, cluster-scoped, legacy.
fn who_allows(check: &Check) -> [bool; 3] {
    let caller = tags(&[("eks-cluster-name", "blue")]);
    Shipped::ALL.map(|shipped| {
        let policy = Policy::parse(shipped.name(), shipped.text()).unwrap();
        allows_caller(&[policy], check, &caller)
    })
}

fn arn(resource: &str) -> String {
    let account = if resource.starts_with("snapshot") { "" } else { "123456789012" };
    format!("arn:aws:ec2:us-west-2:{account}:{resource}")
}

/// The tags of a request or a resource, and which of the three policies allow it.
type Row<'a> = (&'a [(&'a str, &'a str)], [bool; 3]);

/// Checks rows of one action and resource: which of the three policies allows it with which tag.
#[track_caller]
fn rows(
    actions: &[&'static str],
    resource: &str,
    tagged: impl Fn(Check, &[(&str, &str)]) -> Check,
    expected: &[Row<'_>],
) {
    for action in actions {
        for (with, answers) in expected {
            let check = tagged(Check::new(action, arn(resource)), with);
            assert_eq!(who_allows(&check), *answers, "{action} on {resource} with {with:?}");
        }
    }
}

fn request(check: Check, with: &[(&str, &str)]) -> Check {
    check.with_request_tags(with)
}

fn resource(check: Check, with: &[(&str, &str)]) -> Check {
    check.with_resource_tags(&tags(with))
}

const NEITHER: [bool; 3] = [false, false, false];

/// All three policies allow the seven describes. Only the legacy example allows DescribeTags, which the driver never
/// calls.
#[test]
fn all_policies_allow_describes_and_only_legacy_tags() {
    for action in [
        "ec2:DescribeAvailabilityZones",
        "ec2:DescribeInstances",
        "ec2:DescribeInstanceTypes",
        "ec2:DescribeSnapshots",
        "ec2:DescribeVolumes",
        "ec2:DescribeVolumesModifications",
        "ec2:DescribeVolumeStatus",
    ] {
        assert_eq!(who_allows(&Check::plain(action)), [true; 3], "{action}");
    }
    assert_eq!(who_allows(&Check::plain("ec2:DescribeTags")), [false, false, true]);
    for action in ["ec2:DescribeLockedSnapshots", "ec2:RunInstances", "ec2:TerminateInstances", "ec2:CreateImage"] {
        assert_eq!(who_allows(&Check::plain(action)), NEITHER, "{action}");
    }
}

/// This applies to created and copied volumes.
#[test]
fn new_volume_needs_the_tag_of_the_policy() {
    rows(
        &["ec2:CreateVolume", "ec2:CopyVolumes"],
        "volume/*",
        request,
        &[
            (&[], NEITHER),
            (&[D], [true, false, true]),
            (&[K], [false, true, false]),
            (&[V], [false, false, true]),
            (&[M], NEITHER),
            (&[("ebs.csi.aws.com/cluster", "false"), ("ebs.csi.aws.com/cluster-name", "red")], NEITHER),
        ],
    );
}

/// A snapshot for fast restores must also be managed. A copy's source may be migrated.
#[test]
fn source_of_copy_or_restore_must_be_managed() {
    rows(
        &["ec2:CopyVolumes"],
        "volume/vol-1",
        resource,
        &[
            (&[], [false, false, true]),
            (&[D], [true, false, true]),
            (&[M], [true, false, true]),
            (&[K], [false, true, true]),
        ],
    );
    rows(
        &["ec2:CreateVolume", "ec2:EnableFastSnapshotRestores"],
        "snapshot/snap-1",
        resource,
        &[
            (&[], [false, false, true]),
            (&[D], [true, false, true]),
            (&[M], [false, false, true]),
            (&[K], [false, true, true]),
        ],
    );
}

#[test]
fn managed_or_migrated_volumes_may_be_changed() {
    rows(
        &["ec2:AttachVolume", "ec2:DetachVolume", "ec2:ModifyVolume"],
        "volume/vol-1",
        resource,
        &[
            (&[], [false, false, true]),
            (&[D], [true, false, true]),
            (&[M], [true, false, true]),
            (&[K], [false, true, true]),
        ],
    );
}

/// The policy attaches only to instances of its cluster, by either tag.
#[test]
fn only_cluster_scoped_policy_checks_instance_tags() {
    rows(
        &["ec2:AttachVolume", "ec2:DetachVolume"],
        "instance/i-1",
        resource,
        &[
            (&[], [true, false, true]),
            (&[K], [true; 3]),
            (&[EKS], [true; 3]),
            (&[("eks:cluster-name", "red")], [true, false, true]),
        ],
    );
}

/// The legacy policy also allows deletion of named volumes.
#[test]
fn managed_or_migrated_volume_may_be_deleted() {
    rows(
        &["ec2:DeleteVolume"],
        "volume/vol-1",
        resource,
        &[
            (&[], NEITHER),
            (&[D], [true, false, true]),
            (&[M], [true, false, true]),
            (&[V], [false, false, true]),
            (&[K], [false, true, false]),
        ],
    );
}

/// Snapshots are created from managed volumes and tagged. Their tag allows deleting and locking them.
#[test]
fn snapshots_need_managed_volumes_and_tags() {
    rows(
        &["ec2:CreateSnapshot"],
        "volume/vol-1",
        resource,
        &[
            (&[], [false, false, true]),
            (&[D], [true, false, true]),
            (&[M], [false, false, true]),
            (&[K], [false, true, true]),
        ],
    );
    rows(
        &["ec2:CreateSnapshot"],
        "snapshot/*",
        request,
        &[(&[], NEITHER), (&[D], [true, false, true]), (&[S], [false, false, true]), (&[K], [false, true, false])],
    );
    rows(
        &["ec2:DeleteSnapshot", "ec2:LockSnapshot"],
        "snapshot/snap-1",
        resource,
        &[(&[], NEITHER), (&[D], [true, false, true]), (&[S], [false, false, true]), (&[K], [false, true, false])],
    );
}

/// These are CreateVolume, CreateSnapshot and CopyVolumes.
#[test]
fn new_resources_may_be_tagged_in_the_same_call() {
    for (resource, action) in
        [("volume/*", "CreateVolume"), ("volume/*", "CopyVolumes"), ("snapshot/*", "CreateSnapshot")]
    {
        let check = Check::new("ec2:CreateTags", arn(resource)).with_request_tags(&[V]).created_by(action);
        assert_eq!(who_allows(&check), [true; 3], "{action}");
    }
    let launch = Check::new("ec2:CreateTags", arn("volume/*")).with_request_tags(&[V]).created_by("RunInstances");
    assert_eq!(who_allows(&launch), NEITHER);
}

/// Tags on which permissions depend cannot be changed.
#[test]
fn permission_tags_of_managed_volume_are_immutable() {
    let change = |action, own: &[(&str, &str)], with: &[(&str, &str)]| {
        who_allows(&Check::new(action, arn("volume/vol-1")).with_resource_tags(&tags(own)).with_request_tags(with))
    };
    let team = [("team", "red")];
    for (action, legacy) in [("ec2:CreateTags", false), ("ec2:DeleteTags", true)] {
        assert_eq!(change(action, &[D], &team), [true, false, legacy], "{action}");
        assert_eq!(change(action, &[K], &team), [false, true, legacy], "{action}");
        assert_eq!(change(action, &[D, K], &[]), [false, false, legacy], "{action} without keys");
        assert_eq!(change(action, &[V], &team), [false, false, legacy], "{action}");
        for protected in [D, K, M] {
            assert_eq!(
                change(action, &[D, K], &[team[0], protected]),
                [false, false, legacy],
                "{action} {protected:?}"
            );
        }
    }
    let snapshot =
        Check::new("ec2:DeleteTags", arn("snapshot/snap-1")).with_resource_tags(&tags(&[D])).with_request_tags(&team);
    assert_eq!(who_allows(&snapshot), [false, false, true]);
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
        assert_eq!(who_allows(&check), NEITHER, "{action}");
        for extra in Extra::ALL {
            let policy = Policy::parse(extra.name(), extra.text()).unwrap();
            assert_eq!(allows_caller(&[policy], &check, &tags(&[])), extra == by, "{action} by {}", extra.name());
        }
    }
}

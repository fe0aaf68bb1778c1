//! Tests of the checks of each call, and of the shipped policies for whole calls.

use std::collections::BTreeMap;

use ebs_types::Tags;

use super::tags;
use crate::api::{self, Call, Tag, TagSpecification, TagToDelete};
use crate::iam::check::checks;
use crate::iam::{Audit, Caller, Extra, Facts, IamConfig, Known, LeastRights, Policy, Rights, Shipped};

const KEY: &str = "arn:aws:kms:us-west-2:123456789012:key/mine";

/// An account as a table.
#[derive(Default)]
struct Account {
    resources: BTreeMap<String, (Tags, bool)>,
    own_default_key: bool,
}

impl Account {
    /// Returns an account with a managed volume and snapshot, a volume and a snapshot with the customer's key, and an
    /// instance.
    fn usual() -> Self {
        let managed = || tags(&[("ebs.csi.aws.com/cluster", "true"), ("CSIVolumeName", "pvc-1")]);
        let plain = ["vol-1", "snap-1"].map(|id| (id.to_owned(), (managed(), false)));
        let secret = ["vol-2", "snap-2"].map(|id| (id.to_owned(), (managed(), true)));
        let others = ["i-1", "vol-stranger"].map(|id| (id.to_owned(), (Tags::new(), false)));
        Self { resources: plain.into_iter().chain(secret).chain(others).collect(), own_default_key: false }
    }
}

impl Known for Account {
    fn region(&self) -> &str {
        "us-west-2"
    }

    fn account(&self) -> &str {
        "123456789012"
    }

    fn facts(&self, id: &str) -> Option<Facts<'_>> {
        self.resources.get(id).map(|(tags, encrypted)| Facts {
            tags,
            volume_type: None,
            zone: None,
            encrypted: *encrypted,
            customer_key: encrypted.then(|| KEY.to_owned()),
        })
    }

    fn customer_key(&self, given: &str) -> Option<String> {
        (given != "alias/aws/ebs").then(|| KEY.to_owned())
    }

    fn default_customer_key(&self, asked: bool) -> Option<String> {
        (asked && self.own_default_key).then(|| KEY.to_owned())
    }
}

fn specification(resource_type: &str, pairs: &[(&str, &str)]) -> Vec<TagSpecification> {
    vec![TagSpecification { resource_type: resource_type.to_owned(), tags: list(pairs) }]
}

fn list(pairs: &[(&str, &str)]) -> Vec<Tag> {
    pairs.iter().map(|(key, value)| Tag { key: (*key).to_owned(), value: (*value).to_owned() }).collect()
}

const DRIVERS: [(&str, &str); 2] = [("ebs.csi.aws.com/cluster", "true"), ("CSIVolumeName", "pvc-1")];
const SNAPSHOTS: [(&str, &str); 2] = [("ebs.csi.aws.com/cluster", "true"), ("CSIVolumeSnapshotName", "s-1")];

fn create() -> api::CreateVolume {
    api::CreateVolume { tag_specifications: specification("volume", &DRIVERS), ..Default::default() }
}

fn attach(volume: &str) -> Call {
    let (volume_id, instance_id) = (volume.to_owned(), "i-1".to_owned());
    Call::AttachVolume(api::AttachVolume { volume_id, instance_id, ..Default::default() })
}

fn asked(call: &Call) -> Vec<String> {
    let shown =
        |arn: &str| arn.replace("arn:aws:ec2:us-west-2:123456789012:", "").replace("arn:aws:ec2:us-west-2::", "::");
    checks(call, &Account::usual()).iter().map(|check| format!("{} {}", check.action, shown(&check.arn))).collect()
}

/// EC2's authorization reference lists them. Creation with tags also checks CreateTags.
#[test]
fn each_call_checks_its_actions_on_its_resources() {
    let untagged = api::CreateVolume::default();
    let restored = api::CreateVolume { snapshot_id: Some("snap-1".to_owned()), ..create() };
    let copied = api::CopyVolumes {
        source_volume_id: "vol-1".to_owned(),
        tag_specifications: specification("volume", &DRIVERS),
        ..Default::default()
    };
    let snapshot = api::CreateSnapshot {
        volume_id: "vol-1".to_owned(),
        tag_specifications: specification("snapshot", &SNAPSHOTS),
        ..Default::default()
    };
    let volume = || "vol-1".to_owned();
    let both = || vec!["vol-1".to_owned(), "snap-1".to_owned()];
    let table: Vec<(Call, &[&str])> = vec![
        (Call::CreateVolume(untagged), &["ec2:CreateVolume volume/*"]),
        (Call::CreateVolume(create()), &["ec2:CreateVolume volume/*", "ec2:CreateTags volume/*"]),
        (
            Call::CreateVolume(restored),
            &["ec2:CreateVolume volume/*", "ec2:CreateTags volume/*", "ec2:CreateVolume ::snapshot/snap-1"],
        ),
        (
            Call::CopyVolumes(copied),
            &["ec2:CopyVolumes volume/*", "ec2:CreateTags volume/*", "ec2:CopyVolumes volume/vol-1"],
        ),
        (
            Call::CreateSnapshot(snapshot),
            &["ec2:CreateSnapshot ::snapshot/*", "ec2:CreateTags ::snapshot/*", "ec2:CreateSnapshot volume/vol-1"],
        ),
        (attach("vol-1"), &["ec2:AttachVolume volume/vol-1", "ec2:AttachVolume instance/i-1"]),
        (
            Call::DetachVolume(api::DetachVolume {
                volume_id: volume(),
                instance_id: Some("i-1".to_owned()),
                ..Default::default()
            }),
            &["ec2:DetachVolume volume/vol-1", "ec2:DetachVolume instance/i-1"],
        ),
        (
            Call::ModifyVolume(api::ModifyVolume { volume_id: volume(), ..Default::default() }),
            &["ec2:ModifyVolume volume/vol-1"],
        ),
        (
            Call::DeleteVolume(api::DeleteVolume { volume_id: volume(), dry_run: true }),
            &["ec2:DeleteVolume volume/vol-1"],
        ),
        (
            Call::DeleteSnapshot(api::DeleteSnapshot { snapshot_id: "snap-1".to_owned(), dry_run: false }),
            &["ec2:DeleteSnapshot ::snapshot/snap-1"],
        ),
        (
            Call::CreateTags(api::CreateTags { resources: both(), tags: list(&[("a", "b")]), dry_run: false }),
            &["ec2:CreateTags volume/vol-1", "ec2:CreateTags ::snapshot/snap-1"],
        ),
        (
            Call::DeleteTags(api::DeleteTags { resources: both(), tags: Vec::new(), dry_run: false }),
            &["ec2:DeleteTags volume/vol-1", "ec2:DeleteTags ::snapshot/snap-1"],
        ),
        (
            Call::EnableFastSnapshotRestores(api::EnableFastSnapshotRestores {
                source_snapshot_ids: vec!["snap-1".to_owned()],
                ..Default::default()
            }),
            &["ec2:EnableFastSnapshotRestores ::snapshot/snap-1"],
        ),
        (
            Call::LockSnapshot(api::LockSnapshot { snapshot_id: "snap-1".to_owned(), ..Default::default() }),
            &["ec2:LockSnapshot ::snapshot/snap-1"],
        ),
        (
            Call::RunInstances(api::RunInstances { image_id: Some("ami-1".to_owned()), ..Default::default() }),
            &[
                "ec2:RunInstances ::image/ami-1",
                "ec2:RunInstances network-interface/*",
                "ec2:RunInstances security-group/*",
                "ec2:RunInstances subnet/*",
                "ec2:RunInstances instance/*",
                "ec2:RunInstances volume/*",
            ],
        ),
        (
            Call::TerminateInstances(api::TerminateInstances { instance_ids: vec!["i-1".to_owned()], dry_run: false }),
            &["ec2:TerminateInstances instance/i-1"],
        ),
        (
            Call::AttachClusterNodeVolume(api::ClusterNodeVolume {
                cluster_arn: "arn:aws:sagemaker:us-west-2:123456789012:cluster/c".to_owned(),
                node_id: "i-1".to_owned(),
                volume_id: volume(),
            }),
            &["sagemaker:AttachClusterNodeVolume arn:aws:sagemaker:us-west-2:123456789012:cluster/c"],
        ),
        (Call::DescribeVolumes(Default::default()), &["ec2:DescribeVolumes *"]),
        (Call::DescribeTags(Default::default()), &["ec2:DescribeTags *"]),
    ];
    for (call, expected) in table {
        assert_eq!(asked(&call), expected, "{call:?}");
    }
}

/// Customer keys need KMS permissions at creation and attachment. The AWS-managed key does not.
#[test]
fn only_customer_keys_need_kms_permissions() {
    let kms = |call: Call| -> Vec<String> {
        asked(&call).into_iter().filter(|c| c.starts_with("kms:")).map(|c| c.replace(&format!(" {KEY}"), "")).collect()
    };
    let with = |key: Option<&str>, snapshot: Option<&str>| {
        kms(Call::CreateVolume(api::CreateVolume {
            kms_key_id: key.map(str::to_owned),
            snapshot_id: snapshot.map(str::to_owned),
            encrypted: Some(true),
            ..create()
        }))
    };
    assert!(with(None, None).is_empty());
    assert!(with(Some("alias/aws/ebs"), None).is_empty());
    assert_eq!(with(Some("alias/mine"), None), ["kms:CreateGrant", "kms:GenerateDataKeyWithoutPlaintext"]);
    assert!(with(None, Some("snap-1")).is_empty());
    assert_eq!(with(None, Some("snap-2")), ["kms:Decrypt", "kms:CreateGrant", "kms:GenerateDataKeyWithoutPlaintext"]);
    assert_eq!(kms(attach("vol-2")), ["kms:CreateGrant", "kms:Decrypt"]);
    assert!(kms(attach("vol-1")).is_empty());
}

#[test]
fn default_customer_key_needs_the_same_permissions() {
    let account = Account { own_default_key: true, ..Account::usual() };
    let about_keys = |encrypted: Option<bool>| {
        let call = Call::CreateVolume(api::CreateVolume { encrypted, ..create() });
        checks(&call, &account).iter().filter(|check| check.arn == KEY).count()
    };
    assert_eq!((about_keys(Some(true)), about_keys(None)), (2, 0));
}

fn audit(call: &Call) -> Audit {
    audit_for(call, &Tags::new())
}

fn audit_for(call: &Call, caller: &Tags) -> Audit {
    Audit::of(&checks(call, &Account::usual()), caller)
}

fn allowed_by(audit: &Audit) -> Vec<String> {
    audit.allowed_by.iter().map(ToString::to_string).collect()
}

#[test]
fn audit_names_allowing_policies_with_their_additions() {
    let named = |call: Call| allowed_by(&audit(&call));
    assert_eq!(named(Call::CreateVolume(create())), ["managed-v2", "legacy-example"]);
    let secret = api::CreateVolume { kms_key_id: Some("alias/mine".to_owned()), ..create() };
    assert_eq!(named(Call::CreateVolume(secret)), ["managed-v2+kms", "legacy-example+kms"]);
    assert_eq!(named(attach("vol-stranger")), ["legacy-example"]);
    let edit = api::CreateTags { resources: vec!["vol-1".to_owned()], tags: list(&[("team", "red")]), dry_run: false };
    assert_eq!(named(Call::CreateTags(edit)), ["managed-v2", "cluster-scoped+tag-edits", "legacy-example+tag-edits"]);
    let remove = api::DeleteTags {
        resources: vec!["vol-1".to_owned()],
        tags: vec![TagToDelete { key: "team".to_owned(), value: None }],
        dry_run: false,
    };
    assert_eq!(named(Call::DeleteTags(remove)), ["managed-v2", "legacy-example"]);
    let untagged = audit(&Call::CreateVolume(api::CreateVolume::default()));
    assert!(untagged.allowed_by.is_empty());
    let (policy, denial) = &untagged.denied[0];
    assert_eq!(*policy, Shipped::ManagedV2);
    let text = denial.to_string();
    assert!(text.contains("ec2:CreateVolume on arn:aws:ec2:us-west-2:123456789012:volume/*"), "{text}");
    assert!(
        text.contains("StringEquals aws:RequestTag/ebs.csi.aws.com/cluster = true (the request has nothing)"),
        "{text}"
    );
}

/// The request for an IOPS limit has the cluster tag, because the newer policy denies it otherwise.
#[test]
fn v2_policy_denies_iops_probe_without_cluster_tag() {
    let probe = api::CreateVolume {
        tag_specifications: specification("volume", &[("CSIVolumeName", "IopsLimitDryRun")]),
        dry_run: true,
        ..Default::default()
    };
    assert_eq!(allowed_by(&audit(&Call::CreateVolume(probe))), ["legacy-example"]);
    assert_eq!(allowed_by(&audit(&Call::CreateVolume(create()))), ["managed-v2", "legacy-example"]);
}

/// The caller's cluster decides for volumes and for the instances of their attachments.
#[test]
fn cluster_scoped_policy_follows_tag_of_caller() {
    let tagged = api::CreateVolume {
        tag_specifications: specification("volume", &[("ebs.csi.aws.com/cluster-name", "blue")]),
        ..Default::default()
    };
    let call = Call::CreateVolume(tagged);
    assert_eq!(allowed_by(&audit_for(&call, &tags(&[("eks-cluster-name", "blue")]))), ["cluster-scoped"]);
    assert!(allowed_by(&audit_for(&call, &tags(&[("eks-cluster-name", "red")]))).is_empty());
    assert!(allowed_by(&audit(&call)).is_empty());
}

#[test]
fn missing_resource_is_reported_as_missing_not_forbidden() {
    // EC2 returns InvalidVolume.NotFound, on which a driver that deletes twice depends.
    let gone = Call::DeleteVolume(api::DeleteVolume { volume_id: "vol-gone".to_owned(), dry_run: false });
    assert_eq!(audit(&gone).allowed_by.len(), 3);
    let stranger = Call::DeleteVolume(api::DeleteVolume { volume_id: "vol-stranger".to_owned(), dry_run: false });
    assert!(audit(&stranger).allowed_by.is_empty());
    // A call that is denied for every resource is also denied for a missing one.
    let snapshot =
        Call::DeleteTags(api::DeleteTags { resources: vec!["i-gone".to_owned()], tags: Vec::new(), dry_run: false });
    assert!(audit(&snapshot).allowed_by.is_empty());
}

fn rights(policies: Vec<Policy>) -> (Rights, LeastRights) {
    let rights = Rights::new(IamConfig { policies, principal_tags: Tags::new(), audit: true });
    let least_rights = rights.least_rights().clone();
    (rights, least_rights)
}

fn client() -> Caller {
    Caller::Client(Some("AKIA1".to_owned()))
}

fn v2() -> Policy {
    Policy::parse("managed-v2", Shipped::ManagedV2.text()).unwrap()
}

fn delete(id: &str) -> Call {
    Call::DeleteVolume(api::DeleteVolume { volume_id: id.to_owned(), dry_run: false })
}

/// It is UnauthorizedOperation, 403, in EC2's words, with action, resource and reason.
#[test]
fn denial_has_text_of_ec2() {
    let (rights_of_v2, _) = rights(vec![v2()]);
    assert_eq!(rights_of_v2.authorize(&client(), &delete("vol-1"), &Account::usual()).refusal, None);
    let fault = rights_of_v2.authorize(&client(), &delete("vol-stranger"), &Account::usual()).refusal.unwrap();
    assert_eq!((fault.code.as_str(), fault.status), ("UnauthorizedOperation", 403));
    let (sentences, details) = fault.message.split_once(" Encoded authorization failure message: ").unwrap();
    assert_eq!(
        sentences,
        "You are not authorized to perform this operation. User: arn:aws:iam::123456789012:user/ebs-sim is not \
         authorized to perform: ec2:DeleteVolume on resource: \
         arn:aws:ec2:us-west-2:123456789012:volume/vol-stranger because no identity-based policy allows the \
         ec2:DeleteVolume action."
    );
    assert!(details.len() > 20 && !details.contains(' '), "{details}");
    let deny = super::policy(r#""Effect":"Deny","Action":"ec2:DeleteVolume","Resource":"*""#);
    let (denying, _) = rights(vec![v2(), deny]);
    let fault = denying.authorize(&client(), &delete("vol-1"), &Account::usual()).refusal.unwrap();
    assert!(fault.message.contains("with an explicit deny in an identity-based policy. Encoded"), "{}", fault.message);
}

#[test]
fn forbidden_key_does_not_reject_the_call() {
    let (rights, _) = rights(vec![v2()]);
    let secret = api::CreateVolume { kms_key_id: Some("alias/mine".to_owned()), ..create() };
    let judgement = rights.authorize(&client(), &Call::CreateVolume(secret), &Account::usual());
    assert_eq!((judgement.refusal, judgement.key_refused), (None, true));
    let plain = rights.authorize(&client(), &Call::CreateVolume(create()), &Account::usual());
    assert!(!plain.key_refused);
}

#[test]
fn own_calls_of_simulator_need_no_permissions() {
    let (rights, least_rights) = rights(vec![v2()]);
    assert_eq!(rights.authorize(&Caller::Own, &delete("vol-stranger"), &Account::usual()).refusal, None);
    assert!(least_rights.violations().is_empty());
}

#[test]
fn violation_is_kept_until_an_addition_covers_it() {
    let (rights, least_rights) = rights(Vec::new());
    let account = Account::usual();
    rights.authorize(&client(), &attach("vol-1"), &account);
    assert!(least_rights.violations().is_empty());
    rights.authorize(&client(), &attach("vol-2"), &account);
    let found = least_rights.violations();
    assert_eq!(found.len(), 1);
    let text = found[0].to_string();
    for word in ["AttachVolume", "vol-2", "managed-v2+kms would allow it", "kms:CreateGrant"] {
        assert!(text.contains(word), "{text}");
    }
    assert_eq!(found[0].access_key.as_deref(), Some("AKIA1"));
    assert!(least_rights.check().unwrap_err().contains("none of the policies"));
    least_rights.declare(Extra::TagEdits);
    assert_eq!(least_rights.violations().len(), 1);
    least_rights.declare(Extra::Kms);
    assert!(least_rights.violations().is_empty());
}

#[test]
fn policy_can_be_required_for_all_calls() {
    let (rights, least_rights) = rights(Vec::new());
    rights.authorize(&client(), &attach("vol-stranger"), &Account::usual());
    assert!(least_rights.check().is_ok(), "the legacy policy allows it");
    least_rights.demand(Shipped::ManagedV2);
    rights.authorize(&client(), &attach("vol-1"), &Account::usual());
    assert!(least_rights.check().is_ok());
    rights.authorize(&client(), &attach("vol-stranger"), &Account::usual());
    rights.authorize(&client(), &attach("vol-stranger"), &Account::usual());
    let text = least_rights.check().unwrap_err();
    assert!(
        text.contains("managed-v2.json does not allow") && text.contains("legacy-example would allow it"),
        "{text}"
    );
    assert_eq!(text.matches("AttachVolume(").count(), 1, "the same call is told twice: {text}");
}

#[test]
fn calls_with_excluded_key_are_not_audited() {
    let (rights, least_rights) = rights(Vec::new());
    least_rights.except("AKIA1");
    rights.authorize(&client(), &delete("vol-stranger"), &Account::usual());
    assert!(least_rights.check().is_ok());
    rights.authorize(&Caller::Client(Some("AKIA2".to_owned())), &delete("vol-stranger"), &Account::usual());
    assert!(least_rights.check().is_err());
}

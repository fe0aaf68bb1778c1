//! Tests of the checks of each call, and of the shipped policies for whole calls.

use std::collections::BTreeMap;

use ebs_ec2::Tags;

use super::tags;
use crate::api::Call;
use crate::iam::check::checks;
use crate::iam::{AccountFacts, Audit, Caller, Extra, Facts, IamConfig, LeastRights, Policy, Rights, Shipped};

const KEY: &str = "arn:aws:kms:us-west-2:123456789012:key/mine";

#[derive(Default)]
struct Account {
    resources: BTreeMap<String, (Tags, bool)>,
    own_default_key: bool,
}

impl Account {
    /// Returns an account with a volume, a snapshot, one of each encrypted with the customer key, and an instance.
    fn usual() -> Self {
        let managed = || tags(&[("ebs.csi.aws.com/cluster", "true"), ("CSIVolumeName", "pvc-1")]);
        let plain = ["vol-1", "snap-1"].map(|id| (id.to_owned(), (managed(), false)));
        let secret = ["vol-2", "snap-2"].map(|id| (id.to_owned(), (managed(), true)));
        let others = ["i-1", "vol-stranger"].map(|id| (id.to_owned(), (Tags::new(), false)));
        Self { resources: plain.into_iter().chain(secret).chain(others).collect(), own_default_key: false }
    }
}

impl AccountFacts for Account {
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

const CREATE: &str = "CreateVolume TagSpecification.1.ResourceType=volume \
                      TagSpecification.1.Tag.1.Key=ebs.csi.aws.com/cluster TagSpecification.1.Tag.1.Value=true \
                      TagSpecification.1.Tag.2.Key=CSIVolumeName TagSpecification.1.Tag.2.Value=pvc-1";

fn line(line: impl AsRef<str>) -> Call {
    Call::line(line.as_ref()).unwrap()
}

/// Returns a call that creates a volume with the driver's tags and the parameters in `more`.
fn create(more: &str) -> Call {
    line(format!("{CREATE} {more}"))
}

fn attach(volume: &str) -> Call {
    line(format!("AttachVolume VolumeId={volume} InstanceId=i-1 Device=/dev/xvdaa"))
}

fn asked(call: &Call) -> Vec<String> {
    let shown =
        |arn: &str| arn.replace("arn:aws:ec2:us-west-2:123456789012:", "").replace("arn:aws:ec2:us-west-2::", "::");
    checks(call, &Account::usual()).iter().map(|check| format!("{} {}", check.action, shown(&check.arn))).collect()
}

/// EC2's authorization reference lists the actions and resources. Creation with tags also checks CreateTags.
#[test]
fn each_call_requires_permission_for_its_listed_actions() {
    let of_snapshot = "TagSpecification.1.ResourceType=snapshot TagSpecification.1.Tag.1.Key=a";
    let copied = CREATE.replace("CreateVolume ", "CopyVolumes SourceVolumeId=vol-1 ");
    let snapshot = format!("CreateSnapshot VolumeId=vol-1 {of_snapshot}");
    let cluster = "arn:aws:sagemaker:us-west-2:123456789012:cluster/c";
    let node = format!("AttachClusterNodeVolume ClusterArn={cluster} NodeId=i-1 VolumeId=vol-1");
    let restored = format!("{CREATE} SnapshotId=snap-1");
    let table: [(&str, &[&str]); 19] = [
        ("CreateVolume", &["ec2:CreateVolume volume/*"]),
        (CREATE, &["ec2:CreateVolume volume/*", "ec2:CreateTags volume/*"]),
        (&restored, &["ec2:CreateVolume volume/*", "ec2:CreateTags volume/*", "ec2:CreateVolume ::snapshot/snap-1"]),
        (&copied, &["ec2:CopyVolumes volume/*", "ec2:CreateTags volume/*", "ec2:CopyVolumes volume/vol-1"]),
        (
            &snapshot,
            &["ec2:CreateSnapshot ::snapshot/*", "ec2:CreateTags ::snapshot/*", "ec2:CreateSnapshot volume/vol-1"],
        ),
        (
            "AttachVolume VolumeId=vol-1 InstanceId=i-1 Device=x",
            &["ec2:AttachVolume volume/vol-1", "ec2:AttachVolume instance/i-1"],
        ),
        (
            "DetachVolume VolumeId=vol-1 InstanceId=i-1",
            &["ec2:DetachVolume volume/vol-1", "ec2:DetachVolume instance/i-1"],
        ),
        ("ModifyVolume VolumeId=vol-1", &["ec2:ModifyVolume volume/vol-1"]),
        ("DeleteVolume VolumeId=vol-1 DryRun=true", &["ec2:DeleteVolume volume/vol-1"]),
        ("DeleteSnapshot SnapshotId=snap-1", &["ec2:DeleteSnapshot ::snapshot/snap-1"]),
        (
            "CreateTags ResourceId.1=vol-1 ResourceId.2=snap-1 Tag.1.Key=a",
            &["ec2:CreateTags volume/vol-1", "ec2:CreateTags ::snapshot/snap-1"],
        ),
        (
            "DeleteTags ResourceId.1=vol-1 ResourceId.2=snap-1",
            &["ec2:DeleteTags volume/vol-1", "ec2:DeleteTags ::snapshot/snap-1"],
        ),
        ("EnableFastSnapshotRestores SourceSnapshotId.1=snap-1", &["ec2:EnableFastSnapshotRestores ::snapshot/snap-1"]),
        ("LockSnapshot SnapshotId=snap-1 LockMode=governance", &["ec2:LockSnapshot ::snapshot/snap-1"]),
        (
            "RunInstances ImageId=ami-1",
            &[
                "ec2:RunInstances ::image/ami-1",
                "ec2:RunInstances network-interface/*",
                "ec2:RunInstances security-group/*",
                "ec2:RunInstances subnet/*",
                "ec2:RunInstances instance/*",
                "ec2:RunInstances volume/*",
            ],
        ),
        ("TerminateInstances InstanceId.1=i-1", &["ec2:TerminateInstances instance/i-1"]),
        (&node, &["sagemaker:AttachClusterNodeVolume arn:aws:sagemaker:us-west-2:123456789012:cluster/c"]),
        ("DescribeVolumes", &["ec2:DescribeVolumes *"]),
        ("DescribeTags", &["ec2:DescribeTags *"]),
    ];
    for (call, expected) in table {
        assert_eq!(asked(&line(call)), expected, "{call}");
    }
}

/// Customer keys need KMS permissions at creation and attachment. The AWS-managed key does not.
#[test]
fn only_customer_keys_need_kms_permissions() {
    let kms = |call: Call| -> Vec<String> {
        asked(&call).into_iter().filter(|c| c.starts_with("kms:")).map(|c| c.replace(&format!(" {KEY}"), "")).collect()
    };
    let make = ["kms:CreateGrant", "kms:GenerateDataKeyWithoutPlaintext"];
    for (more, expected) in [
        ("", &[][..]),
        ("KmsKeyId=alias/aws/ebs", &[]),
        ("KmsKeyId=alias/mine", &make),
        ("SnapshotId=snap-1", &[]),
        ("SnapshotId=snap-2", &["kms:Decrypt", make[0], make[1]]),
    ] {
        assert_eq!(kms(create(&format!("Encrypted=true {more}"))), expected, "{more}");
    }
    assert_eq!(kms(attach("vol-2")), ["kms:CreateGrant", "kms:Decrypt"]);
    assert!(kms(attach("vol-1")).is_empty());
}

#[test]
fn default_customer_key_needs_the_same_permissions() {
    let account = Account { own_default_key: true, ..Account::usual() };
    let about_keys = |more| checks(&create(more), &account).iter().filter(|check| check.arn == KEY).count();
    assert_eq!((about_keys("Encrypted=true"), about_keys("")), (2, 0));
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
    let edit = "ResourceId.1=vol-1 Tag.1.Key=team";
    for (call, expected) in [
        (create(""), &["managed-v2", "legacy-example"][..]),
        (create("KmsKeyId=alias/mine"), &["managed-v2+kms", "legacy-example+kms"]),
        (attach("vol-stranger"), &["legacy-example"]),
        (line(format!("CreateTags {edit}")), &["managed-v2", "cluster-scoped+tag-edits", "legacy-example+tag-edits"]),
        (line(format!("DeleteTags {edit}")), &["managed-v2", "legacy-example"]),
    ] {
        assert_eq!(allowed_by(&audit(&call)), expected, "{call:?}");
    }
    let untagged = audit(&line("CreateVolume"));
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

/// The driver's request that probes the IOPS limit has the cluster tag, because the newer policy denies it otherwise.
#[test]
fn v2_policy_denies_iops_probe_without_cluster_tag() {
    let probe = CREATE.replace("ebs.csi.aws.com/cluster", "other") + " DryRun=true";
    assert_eq!(allowed_by(&audit(&line(probe))), ["legacy-example"]);
}

/// Which volumes and instances a caller may use depends on the caller's cluster tag.
#[test]
fn cluster_scoped_policy_requires_the_callers_cluster_tag() {
    let of = "TagSpecification.1";
    let tag = format!("{of}.Tag.1.Key=ebs.csi.aws.com/cluster-name {of}.Tag.1.Value=blue");
    let call = line(format!("CreateVolume {of}.ResourceType=volume {tag}"));
    assert_eq!(allowed_by(&audit_for(&call, &tags(&[("eks-cluster-name", "blue")]))), ["cluster-scoped"]);
    assert!(allowed_by(&audit_for(&call, &tags(&[("eks-cluster-name", "red")]))).is_empty());
    assert!(allowed_by(&audit(&call)).is_empty());
}

#[test]
fn missing_resource_is_reported_as_missing_not_forbidden() {
    // EC2 returns InvalidVolume.NotFound. A driver that deletes a volume twice depends on it.
    assert_eq!(audit(&delete("vol-gone")).allowed_by.len(), 3);
    assert!(audit(&delete("vol-stranger")).allowed_by.is_empty());
    // A policy that denies a call for every resource also denies it for a missing resource.
    assert!(audit(&line("DeleteTags ResourceId.1=i-gone")).allowed_by.is_empty());
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
    line(format!("DeleteVolume VolumeId={id}"))
}

/// This test covers only an explicit deny. EC2's recorded replies cover the text for a call that no policy allows.
#[test]
fn explicit_deny_is_named_in_the_denial() {
    let deny = super::policy(r#""Effect":"Deny","Action":"ec2:DeleteVolume","Resource":"*""#);
    let (denying, _) = rights(vec![v2(), deny]);
    let fault = denying.authorize(&client(), &delete("vol-1"), &Account::usual()).refusal.unwrap();
    let (sentences, details) = fault.message.split_once(" Encoded authorization failure message: ").unwrap();
    assert!(sentences.ends_with("with an explicit deny in an identity-based policy."), "{sentences}");
    assert!(details.len() > 20 && !details.contains(' '), "{details}");
}

#[test]
fn kms_denial_is_reported_without_rejecting_the_call() {
    let (rights, _) = rights(vec![v2()]);
    let judgement = rights.authorize(&client(), &create("KmsKeyId=alias/mine"), &Account::usual());
    assert_eq!((judgement.refusal, judgement.key_refused), (None, true));
    let plain = rights.authorize(&client(), &create(""), &Account::usual());
    assert!(!plain.key_refused);
}

#[test]
fn own_calls_of_simulator_need_no_permissions() {
    let (rights, least_rights) = rights(vec![v2()]);
    assert_eq!(rights.authorize(&Caller::Own, &delete("vol-stranger"), &Account::usual()).refusal, None);
    assert!(least_rights.violations().is_empty());
}

#[test]
fn violation_is_reported_until_optional_statement_covers_it() {
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
    assert!(least_rights.check().unwrap_err().contains("no policy in deploy/iam allows"));
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

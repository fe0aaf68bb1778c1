//! `cargo xtask iam`: the minimal policy for the role of a driver that uses only some features. It is a part of a
//! policy in `deploy/iam`: the statements for the features, with only their actions and the same conditions.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The arguments.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct IamArgs {
    /// Features of the driver to allow
    #[arg(long, value_delimiter = ',', default_value = "volumes", value_name = "FEATURE,...")]
    features: Vec<Feature>,
    /// Policy of deploy/iam that provides the conditions
    #[arg(long, value_enum, default_value_t = Base::ManagedV2)]
    policy: Base,
    /// AWS partition: aws-cn in China, aws-us-gov in GovCloud
    #[arg(long, default_value = "aws")]
    partition: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Feature {
    /// Create, attach, detach and delete volumes; implied by all others except labeler
    Volumes,
    /// Create and delete snapshots, and create volumes from them
    Snapshots,
    /// Enable fast snapshot restore (`fastSnapshotRestoreAvailabilityZones`); implies snapshots
    FastRestores,
    /// Lock snapshots (`lockMode`); implies snapshots
    SnapshotLocks,
    /// Clone volumes
    Clones,
    /// Grow volumes, and change their type, IOPS and throughput
    Modification,
    /// Change tags with a VolumeAttributesClass
    TagEdits,
    /// Attach volumes only after initialization (`blockAttachUntilInitialized`)
    Initialization,
    /// Use volumes of the in-tree driver
    MigratedVolumes,
    /// Encrypt volumes with customer managed keys
    CustomerKeys,
    /// Use nodes of a SageMaker HyperPod cluster
    Hyperpod,
    /// Run the metadata labeler; use it alone for a separate role
    Labeler,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Base {
    ManagedV2,
    ClusterScoped,
}

impl Base {
    fn text(self) -> &'static str {
        match self {
            Self::ManagedV2 => include_str!("../../deploy/iam/managed-v2.json"),
            Self::ClusterScoped => include_str!("../../deploy/iam/cluster-scoped.json"),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Document {
    version: String,
    statement: Vec<Statement>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Statement {
    sid: String,
    effect: String,
    action: Value,
    resource: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    condition: Option<Value>,
}

/// Prints the policy.
///
/// # Errors
/// The chosen policy does not cover a feature.
pub(crate) fn run(args: &IamArgs) -> anyhow::Result<ExitCode> {
    let features = with_implied(&args.features);
    let text = serde_json::to_string_pretty(&least(args.policy, &features)?).context("write the policy")?;
    let text = text.replace("arn:aws:", &format!("arn:{}:", args.partition));
    writeln!(std::io::stdout(), "{text}")?;
    Ok(ExitCode::SUCCESS)
}

fn with_implied(features: &[Feature]) -> BTreeSet<Feature> {
    let mut all: BTreeSet<Feature> = features.iter().copied().collect();
    if all.contains(&Feature::FastRestores) || all.contains(&Feature::SnapshotLocks) {
        all.insert(Feature::Snapshots);
    }
    if all.iter().any(|feature| *feature != Feature::Labeler) {
        all.insert(Feature::Volumes);
    }
    all
}

fn least(base: Base, features: &BTreeSet<Feature>) -> anyhow::Result<Document> {
    let Document { version, statement } = serde_json::from_str(base.text()).context("a policy of deploy/iam")?;
    let migrated = features.contains(&Feature::MigratedVolumes);
    ensure!(
        !migrated || base == Base::ManagedV2,
        "the cluster-scoped policy does not cover volumes of the in-tree driver"
    );
    let mut kept: Vec<Statement> = statement.into_iter().filter_map(|each| reduced(each, features)).collect();
    for (feature, text) in [
        (Feature::CustomerKeys, include_str!("../../deploy/iam/kms.json")),
        (Feature::Hyperpod, include_str!("../../deploy/iam/hyperpod.json")),
        (Feature::SnapshotLocks, include_str!("../../deploy/iam/snapshot-locks.json")),
    ] {
        if features.contains(&feature) {
            let more: Document = serde_json::from_str(text).context("a statement of deploy/iam")?;
            kept.extend(more.statement);
        }
    }
    Ok(Document { version, statement: kept })
}

/// Returns a statement with only the actions of the features, or `None` if the features use none of them.
fn reduced(mut statement: Statement, features: &BTreeSet<Feature>) -> Option<Statement> {
    if statement.sid.contains("Migrated") && !features.contains(&Feature::MigratedVolumes) {
        return None;
    }
    if statement.sid == "TagAtCreation" {
        return tags_at_creation(statement, features);
    }
    let actions: Vec<String> =
        texts(&statement.action).into_iter().filter(|action| is_taken(&statement.sid, action, features)).collect();
    statement.action = one_or_all(actions)?;
    Some(statement)
}

/// Returns whether the features use an action of the statement `sid`.
fn is_taken(sid: &str, action: &str, features: &BTreeSet<Feature>) -> bool {
    let from_snapshot = sid.starts_with("Restore");
    let any_of: &[Feature] = match action {
        "ec2:DescribeInstances" => &[Feature::Volumes, Feature::Labeler],
        "ec2:DescribeAvailabilityZones" | "ec2:DescribeVolumes" => &[Feature::Volumes],
        "ec2:CreateVolume" if from_snapshot => &[Feature::Snapshots],
        "ec2:CreateVolume" | "ec2:DeleteVolume" | "ec2:AttachVolume" | "ec2:DetachVolume" => &[Feature::Volumes],
        "ec2:CreateSnapshot" | "ec2:DeleteSnapshot" | "ec2:DescribeSnapshots" => &[Feature::Snapshots],
        "ec2:EnableFastSnapshotRestores" => &[Feature::FastRestores],
        "ec2:LockSnapshot" => &[Feature::SnapshotLocks],
        "ec2:CopyVolumes" => &[Feature::Clones],
        "ec2:ModifyVolume" | "ec2:DescribeVolumesModifications" => &[Feature::Modification],
        "ec2:CreateTags" | "ec2:DeleteTags" => &[Feature::TagEdits],
        "ec2:DescribeVolumeStatus" => &[Feature::Initialization],
        // DescribeInstanceTypes: the driver has a table of the types and does not call it.
        _ => &[],
    };
    any_of.iter().any(|feature| features.contains(feature))
}

/// Returns the permission to tag new objects, for the objects that the features create.
fn tags_at_creation(mut statement: Statement, features: &BTreeSet<Feature>) -> Option<Statement> {
    let creators =
        [("CreateVolume", Feature::Volumes), ("CreateSnapshot", Feature::Snapshots), ("CopyVolumes", Feature::Clones)];
    let taken = creators.iter().filter(|(_, feature)| features.contains(feature));
    let taken = one_or_all(taken.map(|(action, _)| (*action).to_owned()).collect())?;
    let has_snapshots = features.contains(&Feature::Snapshots);
    let resources = texts(&statement.resource).into_iter().filter(|arn| has_snapshots || !arn.contains(":snapshot/"));
    statement.resource = one_or_all(resources.collect())?;
    statement.condition = Some(json!({ "StringEquals": { "ec2:CreateAction": taken } }));
    Some(statement)
}

fn texts(value: &Value) -> Vec<String> {
    let all = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    all.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn one_or_all(mut texts: Vec<String>) -> Option<Value> {
    match texts.len() {
        0 => None,
        1 => texts.pop().map(Value::String),
        _ => Some(json!(texts)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns statement, action and condition of a policy, each on a line.
    fn lines(document: &Document) -> BTreeSet<String> {
        let statements = document.statement.iter();
        statements
            .flat_map(|each| texts(&each.action).into_iter().map(|action| format!("{} {action}", each.sid)))
            .collect()
    }

    /// The exception is a describe that the driver never makes.
    #[test]
    fn all_features_together_use_the_whole_policy() {
        for base in [Base::ManagedV2, Base::ClusterScoped] {
            let skipped = [Feature::CustomerKeys, Feature::Hyperpod, Feature::MigratedVolumes];
            let covered = |feature: &Feature| {
                !skipped.contains(feature) || (*feature == Feature::MigratedVolumes && base == Base::ManagedV2)
            };
            let features: Vec<Feature> = Feature::value_variants().iter().copied().filter(covered).collect();
            let least = least(base, &with_implied(&features)).unwrap();
            let whole: Document = serde_json::from_str(base.text()).unwrap();
            let left: Vec<String> = lines(&whole).difference(&lines(&least)).cloned().collect();
            assert_eq!(left, ["Look ec2:DescribeInstanceTypes"], "{base:?}");
            let tags = |document: &Document| {
                let found = document.statement.iter().find(|each| each.sid == "TagAtCreation").unwrap();
                (found.resource.clone(), found.condition.clone())
            };
            assert_eq!(tags(&least), tags(&whole), "{base:?}");
        }
    }

    #[test]
    fn labeler_alone_may_only_describe_instances() {
        let least = least(Base::ManagedV2, &with_implied(&[Feature::Labeler])).unwrap();
        assert_eq!(lines(&least), BTreeSet::from(["Look ec2:DescribeInstances".to_owned()]));
    }

    #[test]
    fn cluster_scoped_policy_lacks_in_tree_driver_volumes() {
        assert!(least(Base::ClusterScoped, &with_implied(&[Feature::MigratedVolumes])).is_err());
    }

    #[test]
    fn optional_statements_belong_to_their_features() {
        let optional = [Feature::CustomerKeys, Feature::Hyperpod, Feature::SnapshotLocks];
        let least = least(Base::ManagedV2, &with_implied(&optional)).unwrap();
        let lines = lines(&least);
        for wanted in
            ["kms:CreateGrant", "sagemaker:AttachClusterNodeVolume", "ec2:CreateVolume", "ec2:DescribeLockedSnapshots"]
        {
            assert!(lines.iter().any(|line| line.ends_with(wanted)), "{lines:?}");
        }
    }
}

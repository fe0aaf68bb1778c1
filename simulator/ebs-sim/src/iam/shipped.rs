//! The shipped policies, which are compiled into the program, and their decisions on calls.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use ebs_ec2::Tags;

use super::check::Check;
use super::decision::{Denial, decide};
use super::document::Policy;

/// One of the policies in `deploy/iam`. The role of a driver has exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shipped {
    /// `managed-v2.json`
    ManagedV2,
    /// `cluster-scoped.json`
    ClusterScoped,
    /// `legacy-example.json`
    LegacyExample,
}

/// An optional statement in `deploy/iam`, for one feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Extra {
    /// `kms.json`: the driver uses customer keys.
    Kms,
    /// `tag-edits.json`: the driver changes the tags of any volume.
    TagEdits,
    /// `hyperpod.json`: the driver attaches volumes to SageMaker cluster nodes.
    HyperPod,
    /// `snapshot-locks.json`: the driver sees which snapshots are locked.
    SnapshotLocks,
}

impl Shipped {
    pub const ALL: [Self; 3] = [Self::ManagedV2, Self::ClusterScoped, Self::LegacyExample];

    /// Returns the name of the file in `deploy/iam`, without the extension.
    pub fn name(self) -> &'static str {
        match self {
            Self::ManagedV2 => "managed-v2",
            Self::ClusterScoped => "cluster-scoped",
            Self::LegacyExample => "legacy-example",
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            Self::ManagedV2 => include_str!("../../../../deploy/iam/managed-v2.json"),
            Self::ClusterScoped => include_str!("../../../../deploy/iam/cluster-scoped.json"),
            Self::LegacyExample => include_str!("../../../../deploy/iam/legacy-example.json"),
        }
    }
}

impl Extra {
    pub const ALL: [Self; 4] = [Self::Kms, Self::TagEdits, Self::HyperPod, Self::SnapshotLocks];

    /// Returns the name of the file in `deploy/iam`, without the extension.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kms => "kms",
            Self::TagEdits => "tag-edits",
            Self::HyperPod => "hyperpod",
            Self::SnapshotLocks => "snapshot-locks",
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            Self::Kms => include_str!("../../../../deploy/iam/kms.json"),
            Self::TagEdits => include_str!("../../../../deploy/iam/tag-edits.json"),
            Self::HyperPod => include_str!("../../../../deploy/iam/hyperpod.json"),
            Self::SnapshotLocks => include_str!("../../../../deploy/iam/snapshot-locks.json"),
        }
    }
}

/// A policy that allows a call, with the optional statements that the call requires.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AllowedBy {
    pub policy: Shipped,
    /// The statements that must be added to the policy; usually none.
    pub with: BTreeSet<Extra>,
}

impl fmt::Display for AllowedBy {
    /// Writes, for example, `managed-v2` or `legacy-example+kms+tag-edits`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.policy.name())?;
        self.with.iter().try_for_each(|extra| write!(f, "+{}", extra.name()))
    }
}

/// The decisions of the shipped policies on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// The policies that allow the call.
    pub allowed_by: Vec<AllowedBy>,
    /// For each policy that does not allow the call without additions: its first failed check.
    pub denied: Vec<(Shipped, Denial)>,
}

/// The documents are constants of the program, so parse them once.
static DOCUMENTS: LazyLock<Documents> = LazyLock::new(|| Documents {
    policies: Shipped::ALL.map(|policy| (policy, parse(policy.name(), policy.text()))),
    extras: Extra::ALL.map(|extra| (extra, parse(extra.name(), extra.text()))),
});

struct Documents {
    policies: [(Shipped, Policy); 3],
    extras: [(Extra, Policy); 4],
}

fn parse(name: &str, text: &str) -> Policy {
    Policy::parse(name, text).expect("a test reads every document of deploy/iam")
}

impl Audit {
    pub(super) fn of(checks: &[Check], caller: &Tags) -> Self {
        let mut audit = Self { allowed_by: Vec::new(), denied: Vec::new() };
        for (shipped, policy) in &DOCUMENTS.policies {
            let denials: Vec<(&Check, Denial)> = checks
                .iter()
                .filter_map(|check| Some((check, decide(std::iter::once(policy), check, caller).err()?)))
                .collect();
            let additions: Option<BTreeSet<Extra>> = denials.iter().map(|(check, _)| addition(check, caller)).collect();
            if let Some(with) = additions {
                audit.allowed_by.push(AllowedBy { policy: *shipped, with });
            }
            audit.denied.extend(denials.into_iter().next().map(|(_, denial)| (*shipped, denial)));
        }
        audit
    }

    /// Explains why each policy denies the call. The result is empty when one policy allows the call without additions.
    pub(crate) fn reasons(&self) -> Vec<String> {
        if self.allowed_with(&BTreeSet::new()) {
            return Vec::new();
        }
        self.denied.iter().map(|(policy, denial)| format!("{} denies {denial}", policy.name())).collect()
    }

    /// Returns whether a policy allows the call with at most these additions.
    pub fn allowed_with(&self, extras: &BTreeSet<Extra>) -> bool {
        self.allowed_by.iter().any(|allowed| allowed.with.is_subset(extras))
    }

    /// Returns whether this policy allows the call with at most these additions.
    pub fn allowed_under(&self, policy: Shipped, extras: &BTreeSet<Extra>) -> bool {
        self.allowed_by.iter().any(|allowed| allowed.policy == policy && allowed.with.is_subset(extras))
    }
}

fn addition(check: &Check, caller: &Tags) -> Option<Extra> {
    let allows = |policy: &Policy| decide(std::iter::once(policy), check, caller).is_ok();
    DOCUMENTS.extras.iter().find(|(_, policy)| allows(policy)).map(|(extra, _)| *extra)
}

//! Where calls meet policies: refused by those that are enforced, audited by those that are shipped.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ebs_types::Tags;

use crate::api::{Call, Fault};

use super::check::{Known, checks};
use super::decision::{Denial, decide};
use super::document::Policy;
use super::shipped::{Audit, Extra, Shipped};

/// The only identity that calls.
const USER: &str = "ebs-sim";

/// Who may call what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IamConfig {
    /// Enforced, together as one; with none, everything is allowed.
    pub policies: Vec<Policy>,
    /// Tags of the caller, `${aws:PrincipalTag/…}` in policies.
    pub principal_tags: Tags,
    /// Whether each call is held against the shipped policies.
    pub audit: bool,
}

impl Default for IamConfig {
    /// Nothing enforced, everything audited.
    fn default() -> Self {
        Self { policies: Vec::new(), principal_tags: Tags::new(), audit: true }
    }
}

/// A call that no shipped policy allows as it is, without additions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unallowed {
    /// Id of the access key that signed it; `None` when it came through the port.
    pub access_key: Option<String>,
    /// The call.
    pub call: Call,
    /// What the policies say of it.
    pub audit: Audit,
}

impl fmt::Display for Unallowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is allowed by none of the policies: {:?}", self.call.action(), self.call)?;
        for allowed in self.audit.allowed_by.iter() {
            write!(f, "\n  {allowed} would allow it")?;
        }
        self.audit.denied.iter().try_for_each(|(policy, denial)| write!(f, "\n  {} denies {denial}", policy.name()))
    }
}

/// The calls so far that need more than a shipped policy gives. Clones share everything.
#[derive(Debug, Clone, Default)]
pub struct LeastRights(Arc<Mutex<Vec<Unallowed>>>);

impl LeastRights {
    /// The calls that no shipped policy allows with these additions.
    pub fn violations(&self, extras: &BTreeSet<Extra>) -> Vec<Unallowed> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().filter(|unallowed| !unallowed.audit.allowed_with(extras)).cloned().collect()
    }

    fn record(&self, unallowed: Unallowed) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(unallowed);
    }
}

/// The place in the simulated EC2 where rights are decided.
#[derive(Debug)]
pub(crate) struct Gate {
    config: IamConfig,
    least_rights: LeastRights,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// The answer, when the call is refused.
    pub(crate) refusal: Option<Fault>,
    /// What the shipped policies say, when calls are audited.
    pub(crate) audit: Option<Audit>,
}

impl Gate {
    pub(crate) fn new(config: IamConfig, least_rights: LeastRights) -> Self {
        Self { config, least_rights }
    }

    /// Decides on a call; `access_key` is the id of the key that signed it.
    pub(crate) fn judge(&self, access_key: Option<&str>, call: &Call, known: &impl Known) -> Judgement {
        if self.config.policies.is_empty() && !self.config.audit {
            return Judgement::default();
        }
        let checks = checks(call, known);
        let caller = &self.config.principal_tags;
        let audit = self.config.audit.then(|| Audit::of(&checks, caller));
        if let Some(audit) = &audit
            && !audit.allowed_with(&BTreeSet::new())
        {
            let access_key = access_key.map(str::to_owned);
            self.least_rights.record(Unallowed { access_key, call: call.clone(), audit: audit.clone() });
        }
        let refusal = (!self.config.policies.is_empty())
            .then(|| checks.iter().find_map(|check| decide(self.config.policies.iter(), check, caller).err()))
            .flatten()
            .map(|denial| refusal(&denial, known.account()));
        Judgement { refusal, audit }
    }
}

/// EC2's answer to a caller without rights; SageMaker's has another code.
fn refusal(denial: &Denial, account: &str) -> Fault {
    tracing::info!(%denial, "refused by policy");
    let Denial { action, resource, .. } = denial;
    let because = if denial.explicit {
        "with an explicit deny in an identity-based policy".to_owned()
    } else {
        format!("because no identity-based policy allows the {action} action")
    };
    let sentence = format!(
        "User: arn:aws:iam::{account}:user/{USER} is not authorized to perform: {action} on resource: {resource} {because}"
    );
    if action.starts_with("sagemaker:") {
        return Fault::new("AccessDeniedException", sentence);
    }
    let message = format!("You are not authorized to perform this operation. {sentence}.");
    Fault::with_status(403, "UnauthorizedOperation", message)
}

/// The policies by name, for the ledger: `managed-v2`, `legacy-example+kms`.
impl Judgement {
    pub(crate) fn allowed_by(&self) -> Option<Vec<String>> {
        let audit = self.audit.as_ref()?;
        Some(audit.allowed_by.iter().map(ToString::to_string).collect())
    }
}

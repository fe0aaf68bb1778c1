//! Enforces the policies of a run, and audits calls with the shipped policies.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ebs_ec2::Tags;
use sha2::{Digest as _, Sha256};

use crate::api::{Call, Fault};

use super::check::{AccountFacts, Check, checks};
use super::decision::{Denial, decide};
use super::document::Policy;
use super::shipped::{Audit, Extra, Shipped};

const KEPT: usize = 1_000;

const USER: &str = "ebs-sim";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IamConfig {
    /// The enforced policies, combined. An empty list allows everything.
    pub policies: Vec<Policy>,
    /// Tags of the caller, for `${aws:PrincipalTag/…}` in policies.
    pub principal_tags: Tags,
    /// Whether the simulator audits each call with the shipped policies.
    pub audit: bool,
}

impl Default for IamConfig {
    /// Returns a configuration that enforces nothing and audits everything.
    fn default() -> Self {
        Self { policies: Vec::new(), principal_tags: Tags::new(), audit: true }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// The test or the simulator itself. It needs no permissions, and its calls are not audited.
    Own,
    /// A caller of [`crate::port`], or an HTTP client with the id of the key that signed its request, if any.
    Client(Option<String>),
}

/// A call that the shipped policies do not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unallowed {
    /// Id of the access key that signed the call, or `None` for unsigned calls and calls of [`crate::port`].
    pub access_key: Option<String>,
    pub call: Call,
    /// The decisions of the policies on the call.
    pub audit: Audit,
}

impl fmt::Display for Unallowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.call.action(), self.call)?;
        for allowed in &self.audit.allowed_by {
            write!(f, "\n  {allowed} would allow it")?;
        }
        self.audit.denied.iter().try_for_each(|(policy, denial)| write!(f, "\n  {} denies {denial}", policy.name()))
    }
}

/// Records whether the shipped policies allow every call of the clients. Clones share the record.
#[derive(Debug, Clone, Default)]
pub struct LeastRights(Arc<Mutex<AuditState>>);

#[derive(Debug, Default)]
struct AuditState {
    /// The optional statements that the simulator's user has added to the policies.
    extras: BTreeSet<Extra>,
    /// The policy that must allow every call. `None`: it is enough that any shipped policy allows a call.
    demanded: Option<Shipped>,
    excepted: BTreeSet<String>,
    /// Calls that the policies did not allow with the extras declared at that time, at most `KEPT`.
    doubtful: Vec<Unallowed>,
}

impl LeastRights {
    /// Declares that the test uses a feature that needs this optional statement.
    pub fn declare(&self, extra: Extra) {
        self.lock().extras.insert(extra);
    }

    /// Requires this policy to allow every call from now on, whatever the other policies allow.
    pub fn demand(&self, policy: Shipped) {
        self.lock().demanded = Some(policy);
    }

    /// Excludes calls with this access key, because the test itself makes them.
    pub fn except(&self, access_key: &str) {
        self.lock().excepted.insert(access_key.to_owned());
    }

    /// Returns the recorded calls that no shipped policy allows with the declared features.
    pub fn violations(&self) -> Vec<Unallowed> {
        let state = self.lock();
        state.doubtful.iter().filter(|call| !state.satisfied(&call.audit, &state.extras)).cloned().collect()
    }

    /// Checks that there are no violations.
    ///
    /// # Errors
    /// A text that lists all violations.
    pub fn check(&self) -> Result<(), String> {
        // Report repeated calls only once.
        let mut texts = Vec::new();
        for violation in self.violations() {
            let text = violation.to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        if texts.is_empty() {
            return Ok(());
        }
        let who = match self.lock().demanded {
            None => "no policy in deploy/iam allows".to_owned(),
            Some(policy) => format!("deploy/iam/{}.json does not allow", policy.name()),
        };
        Err(format!("calls that {who}:\n{}", texts.join("\n")))
    }

    fn record(&self, unallowed: Unallowed) {
        let mut state = self.lock();
        let excepted = unallowed.access_key.as_ref().is_some_and(|key| state.excepted.contains(key));
        if !excepted && state.doubtful.len() < KEPT && !state.satisfied(&unallowed.audit, &state.extras) {
            state.doubtful.push(unallowed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, AuditState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AuditState {
    fn satisfied(&self, audit: &Audit, extras: &BTreeSet<Extra>) -> bool {
        match self.demanded {
            Some(policy) => audit.allowed_under(policy, extras),
            None => audit.allowed_with(extras),
        }
    }
}

/// Decides which calls callers are allowed to make.
#[derive(Debug)]
pub(crate) struct Rights {
    config: IamConfig,
    least_rights: LeastRights,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub(crate) refusal: Option<Fault>,
    /// The caller lacks the permission for the customer key. EC2 detects this only after its reply, and then the new
    /// volume disappears.
    pub(crate) key_refused: bool,
    /// The decisions of the shipped policies on the call. `None` unless calls are audited.
    pub(crate) audit: Option<Audit>,
}

impl Rights {
    pub(crate) fn new(config: IamConfig) -> Self {
        Self { config, least_rights: LeastRights::default() }
    }

    pub(crate) fn least_rights(&self) -> &LeastRights {
        &self.least_rights
    }

    /// Returns whether calls of this caller need neither a decision nor an audit.
    pub(crate) fn are_unlimited(&self, caller: &Caller) -> bool {
        *caller == Caller::Own || (self.config.policies.is_empty() && !self.config.audit)
    }

    pub(crate) fn authorize(&self, caller: &Caller, call: &Call, known: &impl AccountFacts) -> Judgement {
        let Caller::Client(access_key) = caller else { return Judgement::default() };
        let checks = checks(call, known);
        let caller = &self.config.principal_tags;
        let audit = self.config.audit.then(|| Audit::of(&checks, caller));
        // Every policy allows most calls, so record only calls that some policy denies.
        if let Some(audit) = &audit
            && !Shipped::ALL.iter().all(|policy| audit.allowed_under(*policy, &BTreeSet::new()))
        {
            let access_key = access_key.clone();
            self.least_rights.record(Unallowed { access_key, call: call.clone(), audit: audit.clone() });
        }
        let mut judgement = Judgement { audit, ..Judgement::default() };
        if !self.config.policies.is_empty() {
            self.enforce(&checks, known.account(), &mut judgement);
        }
        judgement
    }

    fn enforce(&self, checks: &[Check], account: &str, judgement: &mut Judgement) {
        for check in checks {
            let Err(denial) = decide(self.config.policies.iter(), check, &self.config.principal_tags) else { continue };
            tracing::info!(%denial, "call rejected by policy");
            if check.action.starts_with("kms:") {
                judgement.key_refused = true;
            } else {
                judgement.refusal = Some(refusal(&denial, account));
                return;
            }
        }
    }
}

/// Returns EC2's error for missing permissions. SageMaker uses another error code.
fn refusal(denial: &Denial, account: &str) -> Fault {
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
    let message = format!(
        "You are not authorized to perform this operation. {sentence}. Encoded authorization failure message: {}",
        encoded(&sentence)
    );
    Fault::with_status(403, "UnauthorizedOperation", message)
}

/// Returns a placeholder for the details that only AWS can decode.
fn encoded(sentence: &str) -> String {
    hex::encode(Sha256::digest(sentence))
}

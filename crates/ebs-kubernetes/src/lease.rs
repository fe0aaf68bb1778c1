//! Leader election with a Lease object. The fields have the same meaning as in client-go, so that the reference driver
//! and this one can take turns.
//!
//! **Acquiring.** One process holds the lease and renews it. Another process takes over once it has seen no renewal for
//! the duration of the lease, by its own clock. No process uses the time stamps in the lease, so clocks may differ.
//! Each write names the version that was read, so the API server accepts only one of two concurrent writes.
//!
//! **Losing.** A holder that cannot renew the lease stops before the lease expires: [`Election::hold`] returns, and the
//! caller ends its work. A suspended process notices the loss when it resumes.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::Instant;

use crate::Failure;
use crate::failure::chain;

/// The parameters of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseConfig {
    pub name: String,
    /// The unique name of this process, which the lease records as its holder.
    pub identity: String,
    /// How long other processes wait after the last renewal, in whole seconds.
    pub duration: Duration,
    /// This process gives up the lease this long after its last renewal. The time is shorter than `duration`.
    pub renew_deadline: Duration,
    /// The time between two attempts to acquire or renew the lease.
    pub retry: Duration,
}

impl LeaseConfig {
    /// Uses a duration of 15 s, a renew deadline of 10 s and a retry interval of 5 s. The identity is the host name
    /// followed by a random number, because one host may run two processes.
    pub fn new(name: &str, host: &str) -> Self {
        let chance = RandomState::new().hash_one(std::process::id());
        Self {
            name: object_name(name),
            identity: format!("{}-{chance:016x}", object_name(host)),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(5),
        }
    }
}

/// Converts a text to an object name: invalid characters become dashes, and an empty name or a last dash gets an `X`.
fn object_name(text: &str) -> String {
    let mut name: String = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    if name.is_empty() || name.ends_with('-') {
        name.push('X');
    }
    name
}

/// Why an attempt to acquire, renew or release the lease failed.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    #[error("read lease {name}")]
    Read { name: String, source: Failure },
    /// The lease could not be written, perhaps because another process wrote it first.
    #[error("update lease {name}")]
    Write { name: String, source: Failure },
    #[error("update lease {name}: timed out")]
    NoAnswer { name: String },
}

/// Why this process lost the lease.
#[derive(Debug, thiserror::Error)]
pub enum LostLease {
    #[error("lost lease {name}: {holder:?} holds it now")]
    Taken { name: String, holder: String },
    #[error("lost lease {name}: it was not renewed for {within:?}")]
    NotRenewed {
        name: String,
        within: Duration,
        #[source]
        last: LeaseError,
    },
}

#[derive(Debug, PartialEq, Eq)]
enum Attempt {
    Held,
    HeldBy(String),
}

#[derive(Debug, Clone)]
struct Observed {
    lease: Lease,
    at: Instant,
}

/// A process that takes part in the election.
#[derive(Debug)]
pub struct Election {
    leases: Api<Lease>,
    config: LeaseConfig,
    observed: Option<Observed>,
    /// When the last successful attempt began. This is safe, because other processes count from the write, which came
    /// later.
    renewed: Option<Instant>,
}

impl Election {
    /// Creates a participant for a lease in this namespace, without sending a request.
    pub fn new(client: Client, namespace: &str, config: LeaseConfig) -> Self {
        Self { leases: Api::namespaced(client, namespace), config, observed: None, renewed: None }
    }

    /// Waits, without a limit, until this process holds the lease. Retries after failures.
    ///
    /// Cancellation: if a dropped attempt acquires the lease, a later [`Self::release`] might not release the lease.
    pub async fn acquire(&mut self) {
        let mut told: Option<String> = None;
        loop {
            let begun = Instant::now();
            match self.within(self.config.renew_deadline).await {
                Ok(Attempt::Held) => {
                    self.renewed = Some(begun);
                    tracing::info!(lease = self.config.name, identity = self.config.identity, "leading");
                    return;
                }
                Ok(Attempt::HeldBy(holder)) if told.as_ref() != Some(&holder) => {
                    tracing::info!(lease = self.config.name, holder, "another process is the leader, waiting");
                    told = Some(holder);
                }
                Ok(Attempt::HeldBy(_)) => {}
                Err(error) => tracing::warn!(reason = chain(&error), "failed to acquire the lease, retrying"),
            }
            tokio::time::sleep(self.retry_with_jitter()).await;
        }
    }

    /// Renews the lease until it is lost. The caller must then end the work that the lease protects.
    ///
    /// Cancellation: dropping the future loses nothing.
    pub async fn hold(&mut self) -> LostLease {
        let LeaseConfig { renew_deadline, retry, .. } = self.config;
        let mut renewed = self.renewed.unwrap_or_else(Instant::now);
        let mut due = renewed + retry;
        let mut last = LeaseError::NoAnswer { name: self.config.name.clone() };
        loop {
            tokio::time::sleep_until(due.min(renewed + renew_deadline)).await;
            let begun = Instant::now();
            let left = (renewed + renew_deadline).saturating_duration_since(begun);
            if left.is_zero() {
                return LostLease::NotRenewed { name: self.config.name.clone(), within: renew_deadline, last };
            }
            match self.within(left).await {
                Ok(Attempt::Held) => {
                    (renewed, due) = (begun, begun + retry);
                    self.renewed = Some(begun);
                }
                Ok(Attempt::HeldBy(holder)) => return LostLease::Taken { name: self.config.name.clone(), holder },
                Err(error) => {
                    tracing::warn!(reason = chain(&error), "failed to renew the lease, retrying");
                    (last, due) = (error, Instant::now() + retry / 5);
                }
            }
        }
    }

    /// Releases the lease if this process holds it, so that the next process need not wait until the lease expires.
    ///
    /// Takes at most the renew deadline. Cancellation: the lease may or may not be released.
    pub async fn release(&mut self) -> Result<(), LeaseError> {
        let Some(observed) = self.observed.clone().filter(|observed| self.is_mine(&observed.lease)) else {
            return Ok(());
        };
        let now = MicroTime(Timestamp::now());
        let spec = LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            renew_time: Some(now.clone()),
            acquire_time: Some(now),
            ..observed.lease.spec.clone().unwrap_or_default()
        };
        let given_back = Lease { spec: Some(spec), ..observed.lease };
        let parameters = PostParams::default();
        let written = self.leases.replace(&self.config.name, &parameters, &given_back);
        let written = tokio::time::timeout(self.config.renew_deadline, written).await;
        self.observed = Some(self.answered(written)?);
        tracing::info!(lease = self.config.name, "lease released");
        Ok(())
    }

    async fn within(&mut self, bound: Duration) -> Result<Attempt, LeaseError> {
        let name = self.config.name.clone();
        tokio::time::timeout(bound, self.attempt()).await.unwrap_or(Err(LeaseError::NoAnswer { name }))
    }

    async fn attempt(&mut self) -> Result<Attempt, LeaseError> {
        // Renew the lease as this process last wrote it. The write fails if another process has changed the lease
        // since.
        if let Some(observed) = self.observed.clone().filter(|observed| self.is_mine(&observed.lease))
            && self.write(observed.lease).await.is_ok()
        {
            return Ok(Attempt::Held);
        }
        let read = self.leases.get_opt(&self.config.name).await;
        let read = read.map_err(|error| LeaseError::Read { name: self.config.name.clone(), source: error.into() })?;
        let Some(lease) = read else {
            let metadata = ObjectMeta { name: Some(self.config.name.clone()), ..ObjectMeta::default() };
            self.write(Lease { metadata, spec: None }).await?;
            return Ok(Attempt::Held);
        };
        let is_the_same = self.observed.as_ref().is_some_and(|observed| observed.lease.spec == lease.spec);
        let at = self.observed.as_ref().filter(|_| is_the_same).map_or_else(Instant::now, |observed| observed.at);
        self.observed = Some(Observed { lease: lease.clone(), at });
        let holder = holder(&lease);
        if !holder.is_empty() && !self.is_mine(&lease) && at + lasts(&lease, self.config.duration) > Instant::now() {
            return Ok(Attempt::HeldBy(holder.to_owned()));
        }
        self.write(lease).await?;
        Ok(Attempt::Held)
    }

    /// Writes a lease with this process as the holder. It replaces `from`, the version that was read.
    async fn write(&mut self, from: Lease) -> Result<(), LeaseError> {
        let now = MicroTime(Timestamp::now());
        let (is_mine, is_new) = (self.is_mine(&from), from.metadata.resource_version.is_none());
        let before = from.spec.clone().unwrap_or_default();
        let transitions = before.lease_transitions.unwrap_or(0);
        let spec = LeaseSpec {
            holder_identity: Some(self.config.identity.clone()),
            lease_duration_seconds: i32::try_from(self.config.duration.as_secs()).ok(),
            renew_time: Some(now.clone()),
            acquire_time: before.acquire_time.clone().filter(|_| is_mine).or(Some(now)),
            lease_transitions: Some(if is_mine || is_new { transitions } else { transitions.saturating_add(1) }),
            ..before
        };
        let lease = Lease { spec: Some(spec), ..from };
        let (name, parameters) = (&self.config.name, PostParams::default());
        let written = if is_new {
            self.leases.create(&parameters, &lease).await
        } else {
            self.leases.replace(name, &parameters, &lease).await
        };
        self.observed = Some(self.answered(Ok(written))?);
        Ok(())
    }

    fn answered(
        &self,
        written: Result<kube::Result<Lease>, tokio::time::error::Elapsed>,
    ) -> Result<Observed, LeaseError> {
        let name = || self.config.name.clone();
        let written = written.map_err(|_| LeaseError::NoAnswer { name: name() })?;
        let lease = written.map_err(|error| LeaseError::Write { name: name(), source: error.into() })?;
        Ok(Observed { lease, at: Instant::now() })
    }

    fn is_mine(&self, lease: &Lease) -> bool {
        holder(lease) == self.config.identity
    }

    /// Returns the retry interval with jitter, so that waiting processes do not all retry at the same time.
    fn retry_with_jitter(&self) -> Duration {
        let chance = RandomState::new().hash_one(self.config.name.len()) % 1000;
        let share = u32::try_from(chance).unwrap_or(0);
        self.config.retry + self.config.retry * share / 1000
    }
}

fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

/// Returns the lease duration that the holder wrote into the lease, or `otherwise` if it wrote none.
fn lasts(lease: &Lease, otherwise: Duration) -> Duration {
    let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
    seconds.and_then(|seconds| u64::try_from(seconds).ok()).map_or(otherwise, Duration::from_secs)
}

#[cfg(test)]
mod tests;

//! Reports events of the policy to the observer.

use std::fmt;
use std::sync::Arc;

use ebs_ec2::{Action, Observer};

#[derive(Clone, Default)]
pub(crate) struct PolicyObserver(pub(crate) Option<Arc<dyn Observer>>);

impl fmt::Debug for PolicyObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyObserver").finish_non_exhaustive()
    }
}

impl PolicyObserver {
    pub(crate) fn spared(&self, action: Action) {
        if let Some(observer) = &self.0 {
            observer.spared(action);
        }
    }

    /// See [`Observer::ended_by_time`]. `what` is the operation that waited.
    pub(crate) fn ended_by_time(&self, action: Action, what: &str) {
        tracing::warn!(step = what, %action, "wait ended by time: EC2 lists a different attach time than it returned");
        if let Some(observer) = &self.0 {
            observer.ended_by_time(action);
        }
    }
}

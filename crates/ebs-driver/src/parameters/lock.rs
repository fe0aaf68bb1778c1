//! The snapshot lock. The driver checks it before it creates the snapshot, because not all locks can be changed later.

use std::ops::RangeInclusive;
use std::time::SystemTime;

use ebs_cloud::{Lock, LockEnd, LockMode};

use super::{Entry, ParameterError};

/// The valid duration of a lock in days (EC2 API reference, LockSnapshot).
pub(super) const DAYS: RangeInclusive<u32> = 1..=36_500;
/// The valid cooling-off period in hours.
pub(super) const COOL_OFF_HOURS: RangeInclusive<u32> = 1..=72;

#[derive(Debug, Clone, Copy)]
enum Mode {
    Governance,
    Compliance,
}

#[derive(Debug, Clone, Default)]
pub(super) struct LockParameters {
    mode: Option<Mode>,
    pub(super) days: Option<u32>,
    pub(super) expiration: Option<SystemTime>,
    pub(super) cool_off_hours: Option<u32>,
}

impl LockParameters {
    /// Sets the mode. An empty mode asks for no lock.
    pub(super) fn set_mode(&mut self, entry: &Entry<'_>) -> Result<(), ParameterError> {
        self.mode = match entry.value {
            "" => None,
            "governance" => Some(Mode::Governance),
            "compliance" => Some(Mode::Compliance),
            _ => return Err(entry.malformed("governance or compliance")),
        };
        Ok(())
    }

    pub(super) fn lock(self) -> Result<Option<Lock>, ParameterError> {
        let refused = |rule| Err(ParameterError::Lock { rule });
        let Self { mode, days, expiration, cool_off_hours } = self;
        let mode = match (mode, cool_off_hours) {
            (None, None) if days.is_none() && expiration.is_none() => return Ok(None),
            (None, _) => {
                return refused(
                    "lockMode is missing; set it to governance or compliance, or remove the other lock parameters",
                );
            }
            (Some(Mode::Governance), None) => LockMode::Governance,
            (Some(Mode::Governance), Some(_)) => {
                return refused(
                    "lockCoolOffPeriod requires lockMode compliance; remove it, or set lockMode to compliance",
                );
            }
            (Some(Mode::Compliance), cool_off_hours) => LockMode::Compliance { cool_off_hours },
        };
        let end = match (days, expiration) {
            (Some(days), None) => LockEnd::Days(days),
            (None, Some(at)) => LockEnd::At(at),
            (Some(_), Some(_)) => {
                return refused("lockDuration and lockExpirationDate are mutually exclusive; keep one of them");
            }
            (None, None) => return refused("the lock has no end; set lockDuration or lockExpirationDate"),
        };
        Ok(Some(Lock { mode, end }))
    }
}

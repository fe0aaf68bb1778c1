//! The stored form of snapshots, their locks and their fast restores, and their descriptions.

use std::time::{Duration, SystemTime};

use ebs_ec2::Tags;
use serde::{Deserialize, Serialize};

use crate::api::{SimFastRestore, SimSnapshot, SimSnapshotLock};

use super::volume::percent;

const DAY: Duration = Duration::from_hours(24);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::state) enum SnapshotPhase {
    /// The snapshot is complete when `due` has passed and its data is copied.
    Pending {
        due: SystemTime,
        copied: bool,
    },
    Completed {
        at: SystemTime,
    },
    Error {
        message: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::state) struct Snapshot {
    pub(in crate::state) id: String,
    pub(in crate::state) volume_id: String,
    pub(in crate::state) size_gib: u32,
    pub(in crate::state) phase: SnapshotPhase,
    pub(in crate::state) started: SystemTime,
    pub(in crate::state) description: String,
    pub(in crate::state) encrypted: bool,
    pub(in crate::state) kms_key_id: Option<String>,
    pub(in crate::state) tags: Tags,
    pub(in crate::state) outpost_arn: Option<String>,
    pub(in crate::state) lock: Option<Lock>,
    pub(in crate::state) fast_restores: Vec<FastRestore>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::state) enum Mode {
    Governance,
    Compliance,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::state) enum End {
    After(u32),
    At(SystemTime),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::state) struct Lock {
    pub(in crate::state) mode: Mode,
    pub(in crate::state) cool_off_hours: Option<u32>,
    pub(in crate::state) created: SystemTime,
    /// Time of the last change, which starts the cooling-off period.
    pub(in crate::state) changed: SystemTime,
    /// Start of the lock duration. For a pending snapshot, this is its completion.
    pub(in crate::state) starts: SystemTime,
    pub(in crate::state) end: End,
}

impl Lock {
    pub(in crate::state) fn expires(&self) -> SystemTime {
        match self.end {
            End::After(days) => self.starts + DAY * days,
            End::At(at) => at,
        }
    }

    pub(in crate::state) fn cool_off_expires(&self) -> Option<SystemTime> {
        self.cool_off_hours.map(|hours| self.changed + Duration::from_hours(u64::from(hours)))
    }

    pub(in crate::state) fn state(&self, now: SystemTime) -> &'static str {
        if self.expires() <= now {
            return "expired";
        }
        match self.mode {
            Mode::Governance => "governance",
            Mode::Compliance if self.cool_off_expires().is_some_and(|at| now < at) => "compliance-cooloff",
            Mode::Compliance => "compliance",
        }
    }

    /// Returns whether the lock prevents the deletion of the snapshot.
    pub(in crate::state) fn holds(&self, now: SystemTime) -> bool {
        now < self.expires()
    }

    pub(in crate::state) fn describe(&self, now: SystemTime, snapshot: &str, owner: &str) -> SimSnapshotLock {
        let whole = self.expires().duration_since(self.starts).unwrap_or_default().as_secs().div_ceil(DAY.as_secs());
        SimSnapshotLock {
            snapshot_id: snapshot.to_owned(),
            owner_id: owner.to_owned(),
            state: self.state(now).to_owned(),
            duration_days: u32::try_from(whole).unwrap_or(u32::MAX),
            cool_off_hours: self.cool_off_hours,
            cool_off_expires: self.cool_off_expires(),
            created: self.created,
            duration_start: self.starts,
            expires: self.expires(),
        }
    }
}

impl Snapshot {
    pub(in crate::state) fn start_lock(&mut self, now: SystemTime) {
        if let Some(lock) = &mut self.lock {
            lock.starts = now;
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::state) struct FastRestore {
    pub(in crate::state) zone: String,
    pub(in crate::state) zone_id: String,
    pub(in crate::state) enabling: SystemTime,
    pub(in crate::state) optimizing: SystemTime,
    pub(in crate::state) enabled: SystemTime,
    /// When a client disabled fast restore, and when disabling is complete.
    #[serde(default)]
    pub(in crate::state) disabled: Option<(SystemTime, SystemTime)>,
}

impl FastRestore {
    pub(in crate::state) fn state(&self, now: SystemTime) -> &'static str {
        match now {
            now if self.disabled.is_some_and(|(_, off)| off <= now) => "disabled",
            _ if self.disabled.is_some() => "disabling",
            now if self.enabled <= now => "enabled",
            now if self.optimizing <= now => "optimizing",
            _ => "enabling",
        }
    }
}

impl Snapshot {
    /// Returns whether new volumes from this snapshot in that zone are fully initialized from the start.
    pub(in crate::state) fn is_fast_in(&self, zone: &str, now: SystemTime) -> bool {
        self.fast_restores.iter().any(|f| f.zone == zone && f.state(now) == "enabled")
    }

    /// Returns the zones whose fast restore prevents the deletion of the snapshot: it is enabled, or is still being
    /// disabled.
    pub(in crate::state) fn zones_with_fast_restores(&self, now: SystemTime) -> Vec<&str> {
        self.fast_restores.iter().filter(|f| f.state(now) != "disabled").map(|f| f.zone.as_str()).collect()
    }

    pub(in crate::state) fn fast_restores<'a>(
        &'a self,
        now: SystemTime,
        owner: &'a str,
    ) -> impl Iterator<Item = SimFastRestore> + 'a {
        self.fast_restores.iter().map(move |f| SimFastRestore {
            snapshot_id: self.id.clone(),
            zone: f.zone.clone(),
            zone_id: f.zone_id.clone(),
            state: f.state(now).to_owned(),
            reason: if ["enabling", "disabling"].contains(&f.state(now)) {
                "Client.UserInitiated".to_owned()
            } else {
                "Client.UserInitiated - Lifecycle state transition".to_owned()
            },
            owner_id: owner.to_owned(),
            enabling_time: f.enabling,
            optimizing_time: Some(f.optimizing).filter(|at| *at <= now),
            enabled_time: Some(f.enabled).filter(|at| *at <= now),
            disabling_time: f.disabled.map(|(from, _)| from),
            disabled_time: f.disabled.map(|(_, off)| off).filter(|at| *at <= now),
        })
    }
}

impl Snapshot {
    pub(in crate::state) fn state(&self) -> &'static str {
        match self.phase {
            SnapshotPhase::Pending { .. } => "pending",
            SnapshotPhase::Completed { .. } => "completed",
            SnapshotPhase::Error { .. } => "error",
        }
    }

    pub(in crate::state) fn describe(&self, now: SystemTime, owner: &str) -> SimSnapshot {
        let (progress, completion_time, status_message) = match &self.phase {
            SnapshotPhase::Pending { due, .. } => (percent(self.started, now, *due), None, None),
            SnapshotPhase::Completed { at } => (100, Some(*at), None),
            SnapshotPhase::Error { message } => (0, None, Some(message.clone())),
        };
        SimSnapshot {
            id: self.id.clone(),
            volume_id: self.volume_id.clone(),
            size_gib: self.size_gib,
            state: self.state().to_owned(),
            status_message,
            progress,
            start_time: self.started,
            completion_time,
            owner_id: owner.to_owned(),
            description: self.description.clone(),
            encrypted: self.encrypted,
            kms_key_id: self.kms_key_id.clone(),
            outpost_arn: self.outpost_arn.clone(),
            tags: self.tags.clone(),
        }
    }
}

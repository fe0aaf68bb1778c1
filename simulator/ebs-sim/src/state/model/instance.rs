//! The stored form of instances.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use ebs_ec2::{LimitKind, Tags, attachment_limit, is_xen};
use serde::{Deserialize, Serialize};

use crate::api::{SimNetworkInterface, SimStateChange};

pub(in crate::state) const ROOT_DEVICE: &str = "/dev/xvda";
/// How long a terminated instance stays visible in descriptions.
pub(in crate::state) const LISTED_AFTERWARDS: Duration = Duration::from_hours(1);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::state) struct Instance {
    pub(in crate::state) id: String,
    pub(in crate::state) instance_type: String,
    pub(in crate::state) zone: String,
    pub(in crate::state) zone_id: String,
    pub(in crate::state) reservation_id: String,
    pub(in crate::state) image_id: String,
    pub(in crate::state) interfaces: Vec<SimNetworkInterface>,
    pub(in crate::state) launch_time: SystemTime,
    pub(in crate::state) root_device: String,
    pub(in crate::state) root_volume: String,
    pub(in crate::state) tags: Tags,
    pub(in crate::state) phase: InstancePhase,
    pub(in crate::state) protected: bool,
    #[serde(default)]
    pub(in crate::state) stop_protected: bool,
    /// Whether attached volumes appear as devices of this machine.
    pub(in crate::state) local: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::state) enum InstancePhase {
    /// The instance runs when `due` has passed.
    Pending {
        due: SystemTime,
    },
    Running,
    /// The instance is stopped when `due` has passed. Its volumes stay attached.
    Stopping {
        due: SystemTime,
    },
    Stopped,
    /// The attachments of the instance end when `due` has passed.
    ShuttingDown {
        due: SystemTime,
    },
    /// Descriptions still show the instance for a while.
    Terminated {
        at: SystemTime,
    },
}

/// The instances that a RunInstances call with a client token has started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::state) struct Launched {
    pub(in crate::state) fingerprint: String,
    pub(in crate::state) instances: BTreeSet<String>,
}

impl Instance {
    pub(in crate::state) fn private_ip(&self) -> &str {
        self.interfaces.first().map_or("", |i| i.private_ip.as_str())
    }

    /// Returns when the state of the instance next changes by itself.
    pub(in crate::state) fn due(&self) -> Option<SystemTime> {
        match self.phase {
            InstancePhase::Pending { due } | InstancePhase::Stopping { due } | InstancePhase::ShuttingDown { due } => {
                Some(due)
            }
            InstancePhase::Terminated { at } => Some(at + LISTED_AFTERWARDS),
            InstancePhase::Running | InstancePhase::Stopped => None,
        }
    }

    pub(in crate::state) fn state(&self) -> (&'static str, u16) {
        match self.phase {
            InstancePhase::Pending { .. } => ("pending", 0),
            InstancePhase::Running => ("running", 16),
            InstancePhase::ShuttingDown { .. } => ("shutting-down", 32),
            InstancePhase::Terminated { .. } => ("terminated", 48),
            InstancePhase::Stopping { .. } => ("stopping", 64),
            InstancePhase::Stopped => ("stopped", 80),
        }
    }

    pub(in crate::state) fn change_from(&self, (previous_state, previous_code): (&str, u16)) -> SimStateChange {
        let (current_state, current_code) = self.state();
        SimStateChange {
            instance_id: self.id.clone(),
            previous_state: previous_state.to_owned(),
            previous_code,
            current_state: current_state.to_owned(),
            current_code,
        }
    }

    /// Returns the maximum number of volumes, including the root volume. A type whose volumes and network interfaces
    /// share slots loses one slot for each interface after the first.
    pub(in crate::state) fn slots(&self) -> usize {
        let limit = attachment_limit(&self.instance_type);
        let slots = usize::try_from(limit.limit).unwrap_or(usize::MAX);
        match limit.kind {
            LimitKind::Shared => slots.saturating_sub(self.interfaces.len().saturating_sub(1)),
            LimitKind::Dedicated => slots,
        }
    }

    pub(in crate::state) fn private_dns_name(&self) -> String {
        // The region is the name of the zone without its last letter.
        let region = self.zone.trim_end_matches(|c: char| c.is_ascii_lowercase());
        format!("ip-{}.{region}.compute.internal", self.private_ip().replace('.', "-"))
    }
}

pub(in crate::state) fn hypervisor(instance_type: &str) -> &'static str {
    if is_xen(instance_type) { "xen" } else { "nitro" }
}

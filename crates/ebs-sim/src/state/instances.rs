//! RunInstances, StartInstances, StopInstances and TerminateInstances: the life of an instance.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use ebs_types::{LimitKind, Tags, attachment_limit};
use serde::{Deserialize, Serialize};

use crate::api::{
    Fault, Reply, RunInstances, SimNetworkInterface, SimStateChange, StartInstances, StopInstances, TerminateInstances,
};
use crate::config::ZoneConfig;

use super::Sim;
use super::faults::{self, invalid_combination, invalid_value};
use super::ids::Kind;
use super::places::is_type_name;
use super::tags::{in_order, tags_for};

/// Maximum number of instances that one call starts.
const MAX_AT_ONCE: i64 = 1000;
/// Maximum number of network interfaces of an instance.
const MAX_INTERFACES: u32 = 15;
/// How long a terminated instance stays visible.
const LISTED_AFTERWARDS: Duration = Duration::from_hours(1);

/// An instance. Its volumes refer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Instance {
    pub(super) id: String,
    pub(super) instance_type: String,
    pub(super) zone: String,
    pub(super) zone_id: String,
    pub(super) reservation_id: String,
    pub(super) image_id: String,
    pub(super) interfaces: Vec<SimNetworkInterface>,
    pub(super) launch_time: SystemTime,
    pub(super) root_device: String,
    pub(super) root_volume: String,
    pub(super) tags: Tags,
    pub(super) phase: InstancePhase,
    /// Cannot be terminated.
    pub(super) protected: bool,
    /// Cannot be stopped.
    #[serde(default)]
    pub(super) stop_protected: bool,
    /// Attachments of it appear as devices of this machine.
    pub(super) local: bool,
}

/// The phase of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum InstancePhase {
    /// Runs when `due` has passed.
    Pending {
        due: SystemTime,
    },
    Running,
    /// Stopped when `due` has passed; its volumes stay attached.
    Stopping {
        due: SystemTime,
    },
    Stopped,
    /// Its attachments end when `due` has passed.
    ShuttingDown {
        due: SystemTime,
    },
    /// Still listed for a while.
    Terminated {
        at: SystemTime,
    },
}

/// A validated launch, which is the same for each instance.
struct Launch {
    count: i64,
    instance_type: String,
    zone: ZoneConfig,
    tags: Tags,
    interfaces: u32,
    image_id: String,
    protected: bool,
    stop_protected: bool,
}

impl Sim {
    pub(super) fn run_instances(&mut self, now: SystemTime, mut call: RunInstances) -> Result<Reply, Fault> {
        let token = call.client_token.take();
        in_order(&mut call.tag_specifications);
        let fingerprint = self.launch_fingerprint(token.as_deref(), &call)?;
        if let Some(token) = &token
            && let Some(started) = self.launches.get(token)
        {
            if started.fingerprint != fingerprint {
                return Err(faults::token_mismatch());
            }
            let known = self.instances.iter().filter(|i| started.instances.contains(&i.id));
            return Ok(Reply::RunInstances(known.map(|i| self.describe_instance(i)).collect()));
        }
        let launch = self.planned_launch(&call)?;
        let disks = self.planned_disks(now, &call, &launch.zone)?;
        let most = self.policy.account.quotas.instances.unwrap_or(usize::MAX);
        if self.instances.len() + usize::try_from(launch.count).unwrap_or(usize::MAX) > most {
            return Err(Fault::new("InstanceLimitExceeded", format!("You have requested more instances than {most}.")));
        }
        for disk in &disks {
            let count = usize::try_from(launch.count).unwrap_or(usize::MAX);
            self.check_volume_quotas(&disk.properties(), count, None)?;
        }
        faults::unless_dry_run(call.dry_run)?;
        let reservation_id = format!("r-0{}", self.ids.hex());
        let mut started = Vec::new();
        for _ in 0..launch.count {
            let instance = self.new_instance(now, &launch, &reservation_id);
            self.instances.push(instance.clone());
            self.add_disks(now, &instance, &disks);
            started.push(instance.id);
        }
        if let Some(token) = token.filter(|t| !t.is_empty()) {
            let ids = started.iter().cloned().collect();
            self.launches.insert(token, Started { fingerprint, instances: ids });
        }
        self.touch();
        let all = self.instances.iter().filter(|i| started.contains(&i.id));
        Ok(Reply::RunInstances(all.map(|i| self.describe_instance(i)).collect()))
    }

    fn launch_fingerprint(&self, token: Option<&str>, call: &RunInstances) -> Result<String, Fault> {
        super::tokens::check_token(token)?;
        Ok(serde_json::to_string(call).expect("requests are plain data"))
    }

    fn planned_launch(&self, call: &RunInstances) -> Result<Launch, Fault> {
        if call.image_id.as_deref().unwrap_or_default().is_empty() {
            return Err(faults::missing("ImageId"));
        }
        let (min, max) = (call.min_count, call.max_count);
        let min = min.ok_or_else(|| faults::missing("MinCount"))?;
        let max = max.ok_or_else(|| faults::missing("MaxCount"))?;
        if min < 1 || max < min || max > MAX_AT_ONCE {
            return Err(invalid_value(format!("Invalid value '{min}' for minCount or '{max}' for maxCount.")));
        }
        let instance_type = match call.instance_type.as_deref().filter(|t| !t.is_empty()) {
            None => self.instances.first().map_or_else(|| "m5.large".to_owned(), |i| i.instance_type.clone()),
            Some(name) if is_type_name(name) => name.to_owned(),
            Some(name) => return Err(invalid_value(format!("Invalid value '{name}' for InstanceType."))),
        };
        if call.network_interfaces > MAX_INTERFACES {
            return Err(Fault::new(
                "AttachmentLimitExceeded",
                format!("An instance has at most {MAX_INTERFACES} network interfaces."),
            ));
        }
        const TAGGABLE: [&str; 4] = ["instance", "volume", "network-interface", "spot-instances-request"];
        if let Some(other) = call.tag_specifications.iter().find(|s| !TAGGABLE.contains(&s.resource_type.as_str())) {
            return Err(invalid_value(format!(
                "'{}' is not a valid taggable resource type for this operation.",
                other.resource_type
            )));
        }
        let of_instance = call.tag_specifications.iter().filter(|s| s.resource_type == "instance").cloned();
        Ok(Launch {
            count: max,
            instance_type,
            zone: self.launch_zone(call)?.clone(),
            tags: tags_for(&of_instance.collect::<Vec<_>>(), Kind::Instance)?,
            interfaces: call.network_interfaces.max(1),
            image_id: call.image_id.clone().unwrap_or_default(),
            protected: call.disable_api_termination,
            stop_protected: call.disable_api_stop,
        })
    }

    fn launch_zone(&self, call: &RunInstances) -> Result<&ZoneConfig, Fault> {
        let name = call.availability_zone.as_deref().filter(|z| !z.is_empty());
        let id = call.availability_zone_id.as_deref().filter(|z| !z.is_empty());
        let found = match (name, id) {
            (Some(_), Some(_)) => {
                return Err(invalid_combination("Give AvailabilityZone or AvailabilityZoneId, not both."));
            }
            (Some(name), None) => self.account.zone_named(name),
            (None, Some(id)) => self.account.zone_with_id(id),
            (None, None) => self.account.zones.iter().find(|z| z.zone_type == "availability-zone"),
        };
        let given = name.or(id).unwrap_or_default();
        found.ok_or_else(|| invalid_value(format!("Invalid availability zone: [{given}]")))
    }

    fn new_instance(&mut self, now: SystemTime, launch: &Launch, reservation_id: &str) -> Instance {
        let id = self.ids.new_id(Kind::Instance);
        let interfaces = (0..launch.interfaces).map(|_| self.new_interface()).collect();
        Instance {
            id,
            instance_type: launch.instance_type.clone(),
            zone: launch.zone.name.clone(),
            zone_id: launch.zone.id.clone(),
            reservation_id: reservation_id.to_owned(),
            image_id: launch.image_id.clone(),
            interfaces,
            launch_time: now,
            root_device: super::account::ROOT_DEVICE.to_owned(),
            root_volume: String::new(),
            tags: launch.tags.clone(),
            phase: InstancePhase::Pending { due: self.times.due(now, self.times.run, None) },
            protected: launch.protected,
            stop_protected: launch.stop_protected,
            local: false,
        }
    }

    /// Returns a network interface with a unique address.
    pub(super) fn new_interface(&mut self) -> SimNetworkInterface {
        self.interfaces_made += 1;
        let n = self.interfaces_made + 9;
        let [_, a, b, c] = n.to_be_bytes();
        SimNetworkInterface {
            id: format!("eni-0{}", self.ids.hex()),
            private_ip: format!("10.{a}.{b}.{c}"),
            mac_address: format!("02:00:00:{a:02x}:{b:02x}:{c:02x}"),
        }
    }

    pub(super) fn start_instances(&mut self, now: SystemTime, call: &StartInstances) -> Result<Reply, Fault> {
        if call.instance_ids.is_empty() {
            return Err(faults::missing("InstanceId"));
        }
        for id in &call.instance_ids {
            let instance = self.instance(id)?;
            match instance.phase {
                InstancePhase::Stopped if !self.has_root_volume(instance) => {
                    let message = format!(
                        "Invalid value '{id}' for instanceId. Instance does not have a volume attached at root ({})",
                        instance.root_device
                    );
                    return Err(invalid_value(message));
                }
                InstancePhase::Stopped | InstancePhase::Pending { .. } | InstancePhase::Running => {}
                InstancePhase::Stopping { .. }
                | InstancePhase::ShuttingDown { .. }
                | InstancePhase::Terminated { .. } => {
                    let message = format!("The instance '{id}' is not in a state from which it can be started.");
                    return Err(incorrect_instance_state(message));
                }
            }
        }
        faults::unless_dry_run(call.dry_run)?;
        let due = self.times.due(now, self.times.run, None);
        let changes = self.change_each(&call.instance_ids, |instance| {
            if instance.phase == InstancePhase::Stopped {
                instance.phase = InstancePhase::Pending { due };
                instance.launch_time = now;
            }
        });
        Ok(Reply::StartInstances(changes))
    }

    fn has_root_volume(&self, instance: &Instance) -> bool {
        self.attachments_of(&instance.id).any(|(_, attachment)| attachment.device == instance.root_device)
    }

    pub(super) fn stop_instances(&mut self, now: SystemTime, call: &StopInstances) -> Result<Reply, Fault> {
        if call.instance_ids.is_empty() {
            return Err(faults::missing("InstanceId"));
        }
        for id in &call.instance_ids {
            let instance = self.instance(id)?;
            match instance.phase {
                InstancePhase::Running if instance.stop_protected => {
                    let message = format!(
                        "The instance '{id}' may not be stopped. Modify its 'disableApiStop' instance attribute and try \
                         again."
                    );
                    return Err(Fault::new("OperationNotPermitted", message));
                }
                InstancePhase::Running | InstancePhase::Stopping { .. } | InstancePhase::Stopped => {}
                InstancePhase::Pending { .. } => {
                    let message =
                        format!("Instance '{id}' cannot be stopped as it has never reached the 'running' state.");
                    return Err(incorrect_instance_state(message));
                }
                InstancePhase::ShuttingDown { .. } | InstancePhase::Terminated { .. } => {
                    let message = format!("This instance '{id}' is not in a state from which it can be stopped.");
                    return Err(incorrect_instance_state(message));
                }
            }
        }
        faults::unless_dry_run(call.dry_run)?;
        let due = self.times.due(now, self.times.terminate, None);
        let changes = self.change_each(&call.instance_ids, |instance| {
            if instance.phase == InstancePhase::Running {
                instance.phase = InstancePhase::Stopping { due };
            }
        });
        Ok(Reply::StopInstances(changes))
    }

    /// Changes existing instances, each once.
    fn change_each(&mut self, ids: &[String], change: impl Fn(&mut Instance)) -> Vec<SimStateChange> {
        let mut changes = Vec::new();
        for id in ids.iter().collect::<BTreeSet<_>>() {
            let instance = self.instances.iter_mut().find(|i| i.id == *id).expect("checked by the caller");
            let before = instance.state();
            change(instance);
            changes.push(instance.change_from(before));
        }
        self.touch();
        changes
    }

    pub(super) fn terminate_instances(&mut self, now: SystemTime, call: &TerminateInstances) -> Result<Reply, Fault> {
        if call.instance_ids.is_empty() {
            return Err(faults::missing("InstanceId"));
        }
        // All or none: everything is checked before anything is changed.
        for id in &call.instance_ids {
            if self.instance(id)?.protected {
                return Err(Fault::new(
                    "OperationNotPermitted",
                    format!(
                        "The instance '{id}' may not be terminated. Modify its 'disableApiTermination' instance \
                         attribute and try again."
                    ),
                ));
            }
        }
        faults::unless_dry_run(call.dry_run)?;
        let due = self.times.due(now, self.times.terminate, None);
        let changes = self.change_each(&call.instance_ids, |instance| match instance.phase {
            InstancePhase::ShuttingDown { .. } | InstancePhase::Terminated { .. } => {}
            _ => instance.phase = InstancePhase::ShuttingDown { due },
        });
        Ok(Reply::TerminateInstances(changes))
    }

    /// Starts and ends due instances, and forgets those that ended long ago.
    pub(super) fn settle_instances(&mut self, now: SystemTime) -> bool {
        let mut ended = Vec::new();
        let mut changed = false;
        for instance in &mut self.instances {
            match instance.phase {
                InstancePhase::Pending { due } if due <= now => {
                    instance.phase = InstancePhase::Running;
                    changed = true;
                }
                InstancePhase::Stopping { due } if due <= now => {
                    instance.phase = InstancePhase::Stopped;
                    changed = true;
                }
                InstancePhase::ShuttingDown { due } if due <= now => {
                    instance.phase = InstancePhase::Terminated { at: now };
                    ended.push(instance.id.clone());
                }
                _ => {}
            }
        }
        for id in &ended {
            self.end_attachments(now, id);
        }
        let before = self.instances.len();
        // Keep the machine's own instance: without it, devices would have no owner.
        self.instances.retain(|i| match i.phase {
            InstancePhase::Terminated { at } => now < at + LISTED_AFTERWARDS,
            _ => true,
        });
        changed || !ended.is_empty() || self.instances.len() != before
    }
}

fn incorrect_instance_state(message: String) -> Fault {
    Fault::new("IncorrectInstanceState", message)
}

/// The instances that a client token of RunInstances has started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Started {
    fingerprint: String,
    instances: BTreeSet<String>,
}

impl Instance {
    /// Returns the address of the first interface.
    pub(super) fn private_ip(&self) -> &str {
        self.interfaces.first().map_or("", |i| i.private_ip.as_str())
    }

    /// Returns when its state changes by itself next.
    pub(super) fn due(&self) -> Option<SystemTime> {
        match self.phase {
            InstancePhase::Pending { due } | InstancePhase::Stopping { due } | InstancePhase::ShuttingDown { due } => {
                Some(due)
            }
            InstancePhase::Terminated { at } => Some(at + LISTED_AFTERWARDS),
            InstancePhase::Running | InstancePhase::Stopped => None,
        }
    }

    /// Returns EC2's name and number of its state.
    pub(super) fn state(&self) -> (&'static str, u16) {
        match self.phase {
            InstancePhase::Pending { .. } => ("pending", 0),
            InstancePhase::Running => ("running", 16),
            InstancePhase::ShuttingDown { .. } => ("shutting-down", 32),
            InstancePhase::Terminated { .. } => ("terminated", 48),
            InstancePhase::Stopping { .. } => ("stopping", 64),
            InstancePhase::Stopped => ("stopped", 80),
        }
    }

    /// Returns the change from a previous state to the current one.
    fn change_from(&self, (previous_state, previous_code): (&str, u16)) -> SimStateChange {
        let (current_state, current_code) = self.state();
        SimStateChange {
            instance_id: self.id.clone(),
            previous_state: previous_state.to_owned(),
            previous_code,
            current_state: current_state.to_owned(),
            current_code,
        }
    }

    /// Returns the maximum number of volumes, including the root volume. Types that share their slots between volumes
    /// and network interfaces lose one for each interface after the first.
    pub(super) fn slots(&self) -> usize {
        let limit = attachment_limit(&self.instance_type);
        let slots = usize::try_from(limit.limit).unwrap_or(usize::MAX);
        match limit.kind {
            LimitKind::Shared => slots.saturating_sub(self.interfaces.len().saturating_sub(1)),
            LimitKind::Dedicated => slots,
        }
    }
}

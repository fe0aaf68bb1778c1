//! RunInstances, StartInstances, StopInstances and TerminateInstances: the life cycle of instances.

use std::collections::BTreeSet;
use std::time::SystemTime;

use ebs_ec2::Tags;

use crate::api::{
    Fault, Reply, RunInstances, SimNetworkInterface, SimStateChange, StartInstances, StopInstances, TerminateInstances,
};
use crate::config::ZoneConfig;

use super::attachments::{attachments_of, end_attachments, find_instance};
use super::disks::{add_disks, planned_disks};
use super::faults::{self, invalid_combination, invalid_value};
use super::ids::Kind;
use super::model::{Instance, InstancePhase, LISTED_AFTERWARDS, Launched, ROOT_DEVICE, Sim};
use super::places::describe_instance;
use super::places::is_type_name;
use super::quotas::check_volume_quotas;
use super::tags::{in_order, tags_for};

/// Maximum number of instances that one call can start.
const MAX_AT_ONCE: i64 = 1000;
const MAX_INTERFACES: u32 = 15;

/// A validated launch, which all instances of the call share.
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

pub(super) fn run_instances(sim: &mut Sim, now: SystemTime, mut call: RunInstances) -> Result<Reply, Fault> {
    let token = call.client_token.take();
    in_order(&mut call.tag_specifications);
    let fingerprint = launch_fingerprint(token.as_deref(), &call)?;
    if let Some(token) = &token
        && let Some(started) = sim.launches.get(token)
    {
        if started.fingerprint != fingerprint {
            return Err(faults::token_mismatch());
        }
        let known = sim.instances.iter().filter(|i| started.instances.contains(&i.id));
        return Ok(Reply::RunInstances(known.map(|i| describe_instance(sim, i)).collect()));
    }
    let launch = planned_launch(sim, &call)?;
    let disks = planned_disks(sim, now, &call, &launch.zone)?;
    let most = sim.policy.account.quotas.instances.unwrap_or(usize::MAX);
    if sim.instances.len() + usize::try_from(launch.count).unwrap_or(usize::MAX) > most {
        return Err(Fault::new("InstanceLimitExceeded", format!("You have requested more instances than {most}.")));
    }
    for disk in &disks {
        let count = usize::try_from(launch.count).unwrap_or(usize::MAX);
        check_volume_quotas(sim, &disk.properties(), count, None)?;
    }
    faults::unless_dry_run(call.dry_run)?;
    let reservation_id = format!("r-0{}", sim.ids.hex());
    let mut started = Vec::new();
    for _ in 0..launch.count {
        let instance = new_instance(sim, now, &launch, &reservation_id);
        sim.instances.push(instance.clone());
        add_disks(sim, now, &instance, &disks);
        started.push(instance.id);
    }
    if let Some(token) = token.filter(|t| !t.is_empty()) {
        let ids = started.iter().cloned().collect();
        sim.launches.insert(token, Launched { fingerprint, instances: ids });
    }
    sim.touch();
    let all = sim.instances.iter().filter(|i| started.contains(&i.id));
    Ok(Reply::RunInstances(all.map(|i| describe_instance(sim, i)).collect()))
}

fn launch_fingerprint(token: Option<&str>, call: &RunInstances) -> Result<String, Fault> {
    super::tokens::check_token(token)?;
    Ok(serde_json::to_string(call).expect("requests are plain data"))
}

fn planned_launch(sim: &Sim, call: &RunInstances) -> Result<Launch, Fault> {
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
        None => sim.instances.first().map_or_else(|| "m5.large".to_owned(), |i| i.instance_type.clone()),
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
        zone: launch_zone(sim, call)?.clone(),
        tags: tags_for(&of_instance.collect::<Vec<_>>(), Kind::Instance)?,
        interfaces: call.network_interfaces.max(1),
        image_id: call.image_id.clone().unwrap_or_default(),
        protected: call.disable_api_termination,
        stop_protected: call.disable_api_stop,
    })
}

fn launch_zone<'a>(sim: &'a Sim, call: &RunInstances) -> Result<&'a ZoneConfig, Fault> {
    let name = call.availability_zone.as_deref().filter(|z| !z.is_empty());
    let id = call.availability_zone_id.as_deref().filter(|z| !z.is_empty());
    let found = match (name, id) {
        (Some(_), Some(_)) => {
            return Err(invalid_combination("Give AvailabilityZone or AvailabilityZoneId, not both."));
        }
        (Some(name), None) => sim.account.zone_named(name),
        (None, Some(id)) => sim.account.zone_with_id(id),
        (None, None) => sim.account.zones.iter().find(|z| z.zone_type == "availability-zone"),
    };
    let given = name.or(id).unwrap_or_default();
    found.ok_or_else(|| invalid_value(format!("Invalid availability zone: [{given}]")))
}

fn new_instance(sim: &mut Sim, now: SystemTime, launch: &Launch, reservation_id: &str) -> Instance {
    let id = sim.ids.new_id(Kind::Instance);
    let interfaces = (0..launch.interfaces).map(|_| new_interface(sim)).collect();
    Instance {
        id,
        instance_type: launch.instance_type.clone(),
        zone: launch.zone.name.clone(),
        zone_id: launch.zone.id.clone(),
        reservation_id: reservation_id.to_owned(),
        image_id: launch.image_id.clone(),
        interfaces,
        launch_time: now,
        root_device: ROOT_DEVICE.to_owned(),
        root_volume: String::new(),
        tags: launch.tags.clone(),
        phase: InstancePhase::Pending { due: sim.times.due(now, sim.times.run, None) },
        protected: launch.protected,
        stop_protected: launch.stop_protected,
        local: false,
    }
}

pub(super) fn new_interface(sim: &mut Sim) -> SimNetworkInterface {
    sim.interfaces_made += 1;
    let n = sim.interfaces_made + 9;
    let [_, a, b, c] = n.to_be_bytes();
    SimNetworkInterface {
        id: format!("eni-0{}", sim.ids.hex()),
        private_ip: format!("10.{a}.{b}.{c}"),
        mac_address: format!("02:00:00:{a:02x}:{b:02x}:{c:02x}"),
    }
}

pub(super) fn start_instances(sim: &mut Sim, now: SystemTime, call: &StartInstances) -> Result<Reply, Fault> {
    if call.instance_ids.is_empty() {
        return Err(faults::missing("InstanceId"));
    }
    for id in &call.instance_ids {
        let instance = find_instance(sim, id)?;
        match instance.phase {
            InstancePhase::Stopped if !has_root_volume(sim, instance) => {
                let message = format!(
                    "Invalid value '{id}' for instanceId. Instance does not have a volume attached at root ({})",
                    instance.root_device
                );
                return Err(invalid_value(message));
            }
            InstancePhase::Stopped | InstancePhase::Pending { .. } | InstancePhase::Running => {}
            InstancePhase::Stopping { .. } | InstancePhase::ShuttingDown { .. } | InstancePhase::Terminated { .. } => {
                let message = format!("The instance '{id}' is not in a state from which it can be started.");
                return Err(incorrect_instance_state(message));
            }
        }
    }
    faults::unless_dry_run(call.dry_run)?;
    let due = sim.times.due(now, sim.times.run, None);
    let changes = change_each(sim, &call.instance_ids, |instance| {
        if instance.phase == InstancePhase::Stopped {
            instance.phase = InstancePhase::Pending { due };
            instance.launch_time = now;
        }
    });
    Ok(Reply::StartInstances(changes))
}

fn has_root_volume(sim: &Sim, instance: &Instance) -> bool {
    attachments_of(sim, &instance.id).any(|(_, attachment)| attachment.device == instance.root_device)
}

pub(super) fn stop_instances(sim: &mut Sim, now: SystemTime, call: &StopInstances) -> Result<Reply, Fault> {
    if call.instance_ids.is_empty() {
        return Err(faults::missing("InstanceId"));
    }
    for id in &call.instance_ids {
        let instance = find_instance(sim, id)?;
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
                let message = format!("Instance '{id}' cannot be stopped as it has never reached the 'running' state.");
                return Err(incorrect_instance_state(message));
            }
            InstancePhase::ShuttingDown { .. } | InstancePhase::Terminated { .. } => {
                let message = format!("This instance '{id}' is not in a state from which it can be stopped.");
                return Err(incorrect_instance_state(message));
            }
        }
    }
    faults::unless_dry_run(call.dry_run)?;
    let due = sim.times.due(now, sim.times.terminate, None);
    let changes = change_each(sim, &call.instance_ids, |instance| {
        if instance.phase == InstancePhase::Running {
            instance.phase = InstancePhase::Stopping { due };
        }
    });
    Ok(Reply::StopInstances(changes))
}

/// Changes existing instances. An instance that the list contains twice is changed only once.
fn change_each(sim: &mut Sim, ids: &[String], change: impl Fn(&mut Instance)) -> Vec<SimStateChange> {
    let mut changes = Vec::new();
    for id in ids.iter().collect::<BTreeSet<_>>() {
        let instance = sim.instances.iter_mut().find(|i| i.id == *id).expect("checked by the caller");
        let before = instance.state();
        change(instance);
        changes.push(instance.change_from(before));
    }
    sim.touch();
    changes
}

pub(super) fn terminate_instances(sim: &mut Sim, now: SystemTime, call: &TerminateInstances) -> Result<Reply, Fault> {
    if call.instance_ids.is_empty() {
        return Err(faults::missing("InstanceId"));
    }
    // Check everything before changing anything, so that the call changes all instances or none.
    for id in &call.instance_ids {
        if find_instance(sim, id)?.protected {
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
    let due = sim.times.due(now, sim.times.terminate, None);
    let changes = change_each(sim, &call.instance_ids, |instance| match instance.phase {
        InstancePhase::ShuttingDown { .. } | InstancePhase::Terminated { .. } => {}
        _ => instance.phase = InstancePhase::ShuttingDown { due },
    });
    Ok(Reply::TerminateInstances(changes))
}

/// Applies the due changes of instances, and drops instances that ended long ago.
pub(super) fn settle_instances(sim: &mut Sim, now: SystemTime) -> bool {
    let mut ended = Vec::new();
    let mut changed = false;
    for instance in &mut sim.instances {
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
        end_attachments(sim, now, id);
    }
    let before = sim.instances.len();
    // Keep this machine's own instance. Without it, no instance would have local devices.
    sim.instances.retain(|i| match i.phase {
        InstancePhase::Terminated { at } => now < at + LISTED_AFTERWARDS,
        _ => true,
    });
    changed || !ended.is_empty() || sim.instances.len() != before
}

fn incorrect_instance_state(message: String) -> Fault {
    Fault::new("IncorrectInstanceState", message)
}

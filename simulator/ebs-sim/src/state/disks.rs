//! The volumes with which an instance is launched.

use std::time::SystemTime;

use crate::api::{BlockDeviceMapping, CreateVolume, Fault, RunInstances, SimProperties};
use crate::config::ZoneConfig;

use super::attachments::check_device_name;
use super::faults::invalid_value;
use super::ids::Kind;
use super::model::{Attachment, Instance, ROOT_DEVICE, Sim, Volume, VolumePhase};
use super::tags::tags_for;
use super::volumes::{add_volume, planned_volume};

/// Size of the image's root volume in GiB.
const ROOT_GIB: i64 = 8;

/// A volume to create together with an instance and to attach to it.
#[derive(Debug, Clone)]
pub(super) struct Disk {
    device: String,
    volume: Volume,
    delete_on_termination: bool,
    card: Option<u32>,
}

impl Disk {
    pub(super) fn properties(&self) -> SimProperties {
        self.volume.properties()
    }
}

/// Returns the root volume and the volumes that the call adds.
pub(super) fn planned_disks(
    sim: &Sim,
    now: SystemTime,
    call: &RunInstances,
    zone: &ZoneConfig,
) -> Result<Vec<Disk>, Fault> {
    let specifications: Vec<_> =
        call.tag_specifications.iter().filter(|s| s.resource_type == "volume").cloned().collect();
    let tags = tags_for(&specifications, Kind::Volume)?;
    let root = call.block_device_mappings.iter().find(|m| m.device_name == ROOT_DEVICE && !m.no_device).cloned();
    let root = root
        .unwrap_or_else(|| BlockDeviceMapping { device_name: ROOT_DEVICE.to_owned(), ..BlockDeviceMapping::default() });
    let mut disks = vec![planned_disk(sim, now, &root, zone)?];
    for mapping in call.block_device_mappings.iter().filter(|m| m.device_name != ROOT_DEVICE && !m.no_device) {
        check_device_name(&mapping.device_name)?;
        if disks.iter().any(|d| d.device == mapping.device_name) {
            return Err(invalid_value(format!(
                "The device '{}' is used in more than one mapping.",
                mapping.device_name
            )));
        }
        disks.push(planned_disk(sim, now, mapping, zone)?);
    }
    for disk in &mut disks {
        disk.volume.tags.clone_from(&tags);
    }
    Ok(disks)
}

fn planned_disk(sim: &Sim, now: SystemTime, mapping: &BlockDeviceMapping, zone: &ZoneConfig) -> Result<Disk, Fault> {
    let is_root = mapping.device_name == ROOT_DEVICE;
    let call = CreateVolume {
        availability_zone: Some(zone.name.clone()),
        size: mapping.volume_size.or(is_root.then_some(ROOT_GIB)),
        volume_type: Some(mapping.volume_type.clone().unwrap_or_else(|| "gp3".to_owned())),
        iops: mapping.iops,
        throughput: mapping.throughput,
        encrypted: mapping.encrypted,
        kms_key_id: mapping.kms_key_id.clone(),
        snapshot_id: mapping.snapshot_id.clone(),
        ..CreateVolume::default()
    };
    let volume = planned_volume(sim, now, &call).map_err(|fault| at_launch(fault, &call))?;
    let data_ready = false;
    Ok(Disk {
        device: mapping.device_name.clone(),
        volume: Volume { phase: VolumePhase::Creating { due: now, data_ready }, ..volume },
        delete_on_termination: mapping.delete_on_termination.unwrap_or(is_root),
        card: mapping.ebs_card_index.and_then(|card| u32::try_from(card).ok()),
    })
}

/// Creates and attaches the volumes. The attachments complete when the instance runs.
pub(super) fn add_disks(sim: &mut Sim, now: SystemTime, instance: &Instance, disks: &[Disk]) {
    let due = sim.times.due(now, sim.times.run, None);
    for disk in disks {
        let mut volume = disk.volume.clone();
        volume.attachments.push(Attachment {
            delete_on_termination: disk.delete_on_termination,
            card: disk.card,
            ..Attachment::new(instance, &disk.device, now, due)
        });
        let volume = add_volume(sim, volume);
        if disk.device == ROOT_DEVICE
            && let Some(instance) = sim.instances.iter_mut().find(|i| i.id == instance.id)
        {
            instance.root_volume = volume.id;
        }
    }
}

/// Rewords an error of CreateVolume for RunInstances.
fn at_launch(fault: Fault, call: &CreateVolume) -> Fault {
    let volume_type = call.volume_type.as_deref().unwrap_or_default();
    match fault.code.as_str() {
        "VolumeTypeNotAvailableInZone" => Fault::new(
            "VolumeTypeNotAvailableInRegion",
            format!(
                "Instance launch can not be fulfilled as '{volume_type}' volumes are not supported in this region."
            ),
        ),
        "InvalidParameterValue" if fault.message.starts_with("Volume of size ") => {
            Fault::new("InvalidBlockDeviceMapping", fault.message)
        }
        _ => fault,
    }
}

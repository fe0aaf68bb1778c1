//! The instances with which an account starts.

use std::collections::BTreeMap;
use std::time::SystemTime;

use ebs_ec2::VolumeType;

use crate::api::SimProperties;
use crate::config::{EngineConfig, ZoneConfig};

use super::ids::Kind;
use super::instances::new_interface;
use super::model::{
    Attachment, AttachmentPhase, Device, Instance, InstancePhase, ROOT_DEVICE, Sim, Volume, VolumePhase,
};
use super::volumes::new_volume;

/// Starts the two instances: this machine's own, and one in another zone that has no devices on this machine.
pub(super) fn launch(sim: &mut Sim, config: &EngineConfig, now: SystemTime) {
    for (zone, local) in [(&config.zone, true), (&config.second_zone, false)] {
        let zone_id = sim.account.zone_named(zone).map(|z| z.id.clone()).unwrap_or_default();
        let instance = Instance {
            id: sim.ids.new_id(Kind::Instance),
            instance_type: config.instance_type.clone(),
            zone: zone.clone(),
            zone_id: zone_id.clone(),
            reservation_id: format!("r-0{}", sim.ids.hex()),
            image_id: "ami-00000000000000000".to_owned(),
            interfaces: vec![new_interface(sim)],
            launch_time: now,
            root_device: ROOT_DEVICE.to_owned(),
            root_volume: sim.ids.new_id(Kind::Volume),
            tags: BTreeMap::new(),
            phase: InstancePhase::Running,
            protected: false,
            stop_protected: false,
            local,
        };
        let root = root_volume(&instance, now);
        sim.volumes.insert(root.id.clone(), root);
        sim.instances.push(instance);
    }
}

fn root_volume(instance: &Instance, now: SystemTime) -> Volume {
    let (iops, throughput) = (Some(3000), Some(125));
    let shape = SimProperties { size_gib: 8, volume_type: VolumeType::Gp3, iops, throughput, multi_attach: false };
    let zone = ZoneConfig { name: instance.zone.clone(), id: instance.zone_id.clone(), zone_type: String::new() };
    Volume {
        id: instance.root_volume.clone(),
        phase: VolumePhase::Ready,
        attachments: vec![Attachment {
            phase: AttachmentPhase::Attached,
            delete_on_termination: true,
            backing: Device::None,
            ..Attachment::new(instance, &instance.root_device, now, now)
        }],
        ..new_volume(shape, &zone, now, now)
    }
}

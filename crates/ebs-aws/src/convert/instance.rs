//! Instances, their types, and zones.

use aws_sdk_ec2::types as sdk;
use ebs_ec2::{BlockDevice, Instance, InstanceTypeInfo, Zone};
use ebs_types::{DeviceName, InstanceId, VolumeId, ZoneId, ZoneName};

use super::attachment::mapped_state;
use super::{Incomplete, Read, optional_id, optional_number, required, required_id, text, time};

/// An instance in a reply.
pub(crate) fn instance(i: sdk::Instance) -> Read<Instance> {
    let id = required_id(i.instance_id.as_deref(), "instance id", InstanceId::parse)?;
    let of = |Incomplete(what)| Incomplete(format!("{what} ({id})"));
    let state = required(i.state.and_then(|s| s.name), "state of the instance").map_err(of)?;
    let zone = i.placement.and_then(|p| p.availability_zone);
    let interfaces = i.network_interfaces.map_or(0, |list| list.len());
    Ok(Instance {
        state: state.as_str().to_owned(),
        instance_type: required(i.instance_type, "type of the instance").map_err(of)?.as_str().to_owned(),
        zone: optional_id(zone.as_deref(), "zone", ZoneName::parse).map_err(of)?,
        root_device: text(i.root_device_name).map(DeviceName::new),
        devices: i
            .block_device_mappings
            .unwrap_or_default()
            .into_iter()
            .map(block_device)
            .collect::<Read<_>>()
            .map_err(of)?,
        network_interfaces: u32::try_from(interfaces).unwrap_or(u32::MAX).max(1),
        id,
    })
}

fn block_device(mapping: sdk::InstanceBlockDeviceMapping) -> Read<BlockDevice> {
    let device = DeviceName::new(required(text(mapping.device_name), "device name in a block-device mapping")?);
    let Some(ebs) = mapping.ebs else {
        return Ok(BlockDevice { device, volume: None, state: None, card: None, attach_time: None });
    };
    Ok(BlockDevice {
        volume: optional_id(ebs.volume_id.as_deref(), "volume in a block-device mapping", VolumeId::parse)?,
        state: ebs.status.as_ref().map(mapped_state),
        card: optional_number(ebs.ebs_card_index, "EBS card in a block-device mapping")?,
        attach_time: time(ebs.attach_time),
        device,
    })
}

/// An instance type in a reply.
pub(crate) fn instance_type(t: sdk::InstanceTypeInfo) -> Read<InstanceTypeInfo> {
    let cards = optional_number(t.ebs_info.and_then(|e| e.maximum_ebs_cards), "number of EBS cards")?;
    Ok(InstanceTypeInfo {
        instance_type: required(t.instance_type, "name of the instance type")?.as_str().to_owned(),
        ebs_cards: cards.unwrap_or(1).max(1),
    })
}

/// A zone in a reply.
pub(crate) fn zone(z: sdk::AvailabilityZone) -> Read<Zone> {
    Ok(Zone {
        name: required_id(z.zone_name.as_deref(), "name of a zone", ZoneName::parse)?,
        id: required_id(z.zone_id.as_deref(), "id of a zone", ZoneId::parse)?,
        is_availability_zone: z.zone_type.as_deref() == Some("availability-zone"),
        available: z.state == Some(sdk::AvailabilityZoneState::Available),
    })
}

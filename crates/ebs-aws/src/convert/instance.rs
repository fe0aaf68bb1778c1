//! Converts instances, their types, and zones.

use ebs_ec2::{
    BlockDevice, DeviceName, Instance, InstanceId, InstanceTypeInfo, Page, VolumeId, Zone, ZoneId, ZoneName,
};

use super::attachment::state;
use super::{optional_id, optional_number, read_of, required, required_id, required_word};
use crate::reply::{Element, Read};

pub(crate) fn instances(reply: Element<'_>) -> Read<Page<Instance>> {
    let mut items = Vec::new();
    for reservation in required(reply.list("reservationSet")?, "list of reservations")? {
        for element in reservation.list("instancesSet")?.into_iter().flatten() {
            items.push(instance(element)?);
        }
    }
    Ok(Page { items, next: reply.word("nextToken")? })
}

fn instance(i: Element<'_>) -> Read<Instance> {
    let id = required_id(i, "instanceId", "instance id", InstanceId::parse)?;
    read_of(&id, || {
        let state = i.field("instanceState")?.map(|state| state.word("name")).transpose()?.flatten();
        let zone = i.field("placement")?.map(|p| optional_id(p, "availabilityZone", "zone", ZoneName::parse));
        let interfaces = i.list("networkInterfaceSet")?.map_or(0, Iterator::count);
        let devices = i.list("blockDeviceMapping")?.into_iter().flatten().map(block_device);
        Ok(Instance {
            state: required(state, "state of the instance")?,
            instance_type: required_word(i, "instanceType", "type of the instance")?,
            zone: zone.transpose()?.flatten(),
            root_device: i.word("rootDeviceName")?.map(DeviceName::new),
            devices: devices.collect::<Read<_>>()?,
            network_interfaces: u32::try_from(interfaces).unwrap_or(u32::MAX).max(1),
            id: id.clone(),
        })
    })
}

fn block_device(mapping: Element<'_>) -> Read<BlockDevice> {
    let device = DeviceName::new(required_word(mapping, "deviceName", "device name in a block-device mapping")?);
    let Some(ebs) = mapping.field("ebs")? else {
        return Ok(BlockDevice { device, volume: None, state: None, card: None, attach_time: None });
    };
    Ok(BlockDevice {
        volume: optional_id(ebs, "volumeId", "volume in a block-device mapping", VolumeId::parse)?,
        state: ebs.word("status")?.map(state),
        card: optional_number(ebs, "ebsCardIndex", "EBS card in a block-device mapping")?,
        attach_time: ebs.time("attachTime")?,
        device,
    })
}

pub(crate) fn first_instance_type(reply: Element<'_>) -> Read<Option<InstanceTypeInfo>> {
    required(reply.list("instanceTypeSet")?, "list of instance types")?.next().map(instance_type).transpose()
}

fn instance_type(t: Element<'_>) -> Read<InstanceTypeInfo> {
    let cards = t
        .field("ebsInfo")?
        .map(|ebs| optional_number(ebs, "maximumEbsCards", "number of EBS cards"))
        .transpose()?
        .flatten();
    Ok(InstanceTypeInfo {
        instance_type: required_word(t, "instanceType", "name of the instance type")?,
        ebs_cards: cards.unwrap_or(1).max(1),
    })
}

pub(crate) fn zones(reply: Element<'_>) -> Read<Vec<Zone>> {
    required(reply.list("availabilityZoneInfo")?, "list of zones")?.map(zone).collect()
}

fn zone(z: Element<'_>) -> Read<Zone> {
    Ok(Zone {
        name: required_id(z, "zoneName", "name of a zone", ZoneName::parse)?,
        id: required_id(z, "zoneId", "id of a zone", ZoneId::parse)?,
        is_availability_zone: z.word("zoneType")?.as_deref() == Some("availability-zone"),
        available: z.word("zoneState")?.as_deref() == Some("available"),
    })
}

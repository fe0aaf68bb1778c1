//! Encodes instances and their types.

use std::collections::HashMap;

use crate::api::{SimAttachment, SimInstance, SimInstanceType, SimNetworkInterface, SimStateChange};
use crate::wire::encode::tag_set;
use crate::wire::xml::Xml;

const RUNNING: u16 = 16;

/// Writes the reply of RunInstances, which has one reservation.
pub(super) fn started(w: &mut Xml, instances: &[SimInstance]) {
    reservation(w, &instances.iter().collect::<Vec<_>>());
}

/// Groups instances by reservation. As in EC2, the first instance of each reservation determines the order.
pub(super) fn by_reservation(instances: &[SimInstance]) -> Vec<Vec<&SimInstance>> {
    let mut reservations: Vec<Vec<&SimInstance>> = Vec::new();
    let mut place: HashMap<&str, usize> = HashMap::new();
    for instance in instances {
        match place.get(instance.reservation_id.as_str()) {
            Some(at) => reservations[*at].push(instance),
            None => {
                place.insert(&instance.reservation_id, reservations.len());
                reservations.push(vec![instance]);
            }
        }
    }
    reservations
}

/// Writes the instances of one reservation. There must be at least one.
pub(super) fn reservation(w: &mut Xml, instances: &[&SimInstance]) {
    if let Some(first) = instances.first() {
        w.text("reservationId", &first.reservation_id);
        w.text("ownerId", &first.owner_id);
    }
    w.list("groupSet", [(); 0], |_, ()| ());
    w.list("instancesSet", instances.iter().enumerate(), |w, (index, i)| instance(w, index, i));
}

pub(super) fn change(w: &mut Xml, c: &SimStateChange) {
    w.text("instanceId", &c.instance_id);
    w.element("currentState", |w| state(w, c.current_code, &c.current_state));
    w.element("previousState", |w| state(w, c.previous_code, &c.previous_state));
}

fn state(w: &mut Xml, code: u16, name: &str) {
    w.value("code", code);
    w.text("name", name);
}

fn instance(w: &mut Xml, index: usize, i: &SimInstance) {
    w.text("instanceId", &i.id);
    w.text("imageId", &i.image_id);
    w.element("instanceState", |w| state(w, i.state_code, &i.state));
    w.text("privateDnsName", &i.private_dns_name);
    w.text("dnsName", "");
    // All states with a higher number than `running` follow a request from the user.
    let ended = i.state_code > RUNNING;
    w.text("reason", if ended { "User initiated" } else { "" });
    if ended {
        w.element("stateReason", |w| {
            w.text("code", "Client.UserInitiatedShutdown");
            w.text("message", "Client.UserInitiatedShutdown: User initiated shutdown");
        });
    }
    w.value("amiLaunchIndex", index);
    w.list("productCodes", [(); 0], |_, ()| ());
    w.text("instanceType", &i.instance_type);
    w.time("launchTime", i.launch_time);
    w.element("placement", |w| {
        w.text("availabilityZone", &i.zone);
        w.text("availabilityZoneId", &i.zone_id);
        w.text("groupName", "");
        w.text("tenancy", "default");
    });
    w.element("monitoring", |w| w.text("state", "disabled"));
    w.maybe("privateIpAddress", i.network_interfaces.first().map(|interface| &interface.private_ip));
    w.text("architecture", "x86_64");
    w.text("rootDeviceType", "ebs");
    w.text("rootDeviceName", &i.root_device);
    w.maybe("outpostArn", i.outpost_arn.as_ref());
    w.list("blockDeviceMapping", &i.devices, device);
    w.text("virtualizationType", "hvm");
    tag_set(w, &i.tags);
    // EC2 returns "xen" here even for Nitro instances, but only in this reply.
    w.text("hypervisor", "xen");
    w.list("networkInterfaceSet", i.network_interfaces.iter().map(|n| (i, n)), |w, (i, n)| interface(w, i, n));
    w.value("ebsOptimized", true);
    w.value("enaSupport", true);
}

fn device(w: &mut Xml, d: &SimAttachment) {
    w.text("deviceName", &d.device);
    w.element("ebs", |w| {
        w.text("volumeId", &d.volume_id);
        w.text("status", &d.state);
        w.time("attachTime", d.attach_time);
        w.value("deleteOnTermination", d.delete_on_termination);
        w.maybe("ebsCardIndex", d.ebs_card_index);
    });
}

fn interface(w: &mut Xml, i: &SimInstance, n: &SimNetworkInterface) {
    w.text("networkInterfaceId", &n.id);
    w.text("ownerId", &i.owner_id);
    w.text("status", "in-use");
    w.text("macAddress", &n.mac_address);
    w.text("privateIpAddress", &n.private_ip);
    w.text("interfaceType", "interface");
}

pub(super) fn instance_type(w: &mut Xml, t: &SimInstanceType) {
    w.text("instanceType", &t.name);
    w.value("currentGeneration", true);
    w.text("hypervisor", &t.hypervisor);
    w.element("ebsInfo", |w| {
        w.text("ebsOptimizedSupport", "default");
        w.text("encryptionSupport", "supported");
        w.text("nvmeSupport", &t.nvme_support);
        w.value("maximumEbsAttachments", t.maximum_ebs_attachments);
        w.text("attachmentLimitType", &t.attachment_limit_type);
        w.value("maximumEbsCards", t.maximum_ebs_cards);
    });
}

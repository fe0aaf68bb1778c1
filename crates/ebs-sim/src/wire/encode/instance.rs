//! Instances and their types.

use crate::api::{SimBlockDevice, SimInstance, SimInstanceType, SimNetworkInterface};
use crate::wire::encode::tag_set;
use crate::wire::xml::Xml;

/// EC2 lists instances by the reservation that started them; here each has one of its own.
pub(super) fn reservation(w: &mut Xml, i: &SimInstance) {
    w.text("reservationId", &i.reservation_id);
    w.text("ownerId", &i.owner_id);
    w.list("groupSet", [(); 0], |_, ()| ());
    w.list("instancesSet", [i], instance);
}

fn instance(w: &mut Xml, i: &SimInstance) {
    w.text("instanceId", &i.id);
    w.text("imageId", &i.image_id);
    w.element("instanceState", |w| {
        w.value("code", i.state_code);
        w.text("name", &i.state);
    });
    w.text("privateDnsName", &i.private_dns_name);
    w.text("dnsName", "");
    w.text("reason", "");
    w.value("amiLaunchIndex", 0);
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
    w.list("blockDeviceMapping", &i.devices, device);
    w.text("virtualizationType", "hvm");
    tag_set(w, &i.tags);
    // EC2's own word: it says "xen" of Nitro instances too, here and only here.
    w.text("hypervisor", "xen");
    w.list("networkInterfaceSet", i.network_interfaces.iter().map(|n| (i, n)), |w, (i, n)| interface(w, i, n));
    w.value("ebsOptimized", true);
    w.value("enaSupport", true);
}

fn device(w: &mut Xml, d: &SimBlockDevice) {
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

//! Encodes volumes, their attachments, modifications and status.

use crate::api::{SimAttachment, SimModification, SimVolume, SimVolumeStatus};
use crate::wire::encode::tag_set;
use crate::wire::xml::Xml;

pub(super) fn volume(w: &mut Xml, v: &SimVolume) {
    w.text("volumeId", &v.id);
    w.value("size", v.size_gib);
    w.text("snapshotId", v.snapshot_id.as_deref().unwrap_or(""));
    w.maybe("sourceVolumeId", v.source_volume_id.as_ref());
    w.text("availabilityZone", &v.zone);
    w.text("availabilityZoneId", &v.zone_id);
    w.text("status", &v.state);
    w.time("createTime", v.created);
    w.list("attachmentSet", &v.attachments, attachment);
    tag_set(w, &v.tags);
    w.text("volumeType", &v.volume_type);
    w.maybe("iops", v.iops);
    w.maybe("throughput", v.throughput);
    w.maybe("volumeInitializationRate", v.volume_initialization_rate);
    w.value("encrypted", v.encrypted);
    w.maybe("kmsKeyId", v.kms_key_id.as_ref());
    w.value("multiAttachEnabled", v.multi_attach);
    w.maybe("fastRestored", Some(true).filter(|_| v.fast_restored));
    w.maybe("outpostArn", v.outpost_arn.as_ref());
    w.element("operator", |w| w.value("managed", false));
}

pub(super) fn attachment(w: &mut Xml, a: &SimAttachment) {
    w.text("volumeId", &a.volume_id);
    // An attachment to a SageMaker cluster node shows the node instead.
    match &a.associated_resource {
        None => w.text("instanceId", &a.instance_id),
        Some(node) => {
            w.text("associatedResource", node);
            w.text("instanceOwningService", "sagemaker");
        }
    }
    w.text("device", &a.device);
    w.text("status", &a.state);
    w.time("attachTime", a.attach_time);
    w.value("deleteOnTermination", a.delete_on_termination);
    w.maybe("ebsCardIndex", a.ebs_card_index);
}

pub(super) fn modification(w: &mut Xml, m: &SimModification) {
    w.text("volumeId", &m.volume_id);
    w.text("modificationState", &m.state);
    w.maybe("statusMessage", m.status_message.as_ref());
    for (which, p) in [("target", &m.target), ("original", &m.original)] {
        w.value(&format!("{which}Size"), p.size_gib);
        w.value(&format!("{which}VolumeType"), &p.volume_type);
        w.maybe(&format!("{which}Iops"), p.iops);
        w.maybe(&format!("{which}Throughput"), p.throughput);
        w.value(&format!("{which}MultiAttachEnabled"), p.multi_attach);
    }
    w.value("progress", m.progress);
    w.time("startTime", m.start_time);
    w.maybe_time("endTime", m.end_time);
}

pub(super) fn status(w: &mut Xml, s: &SimVolumeStatus) {
    w.text("volumeId", &s.volume_id);
    w.text("availabilityZone", &s.zone);
    w.text("availabilityZoneId", &s.zone_id);
    w.element("volumeStatus", |w| {
        w.text("status", &s.status);
        w.list("details", &s.details, |w, detail| {
            w.text("name", &detail.name);
            w.text("status", &detail.status);
        });
    });
    if let Some(i) = &s.initialization {
        w.element("initializationStatusDetails", |w| {
            w.text("initializationType", &i.initialization_type);
            w.value("progress", i.progress);
            w.maybe("estimatedTimeToCompleteInSeconds", i.estimated_seconds);
        });
    }
    w.maybe("outpostArn", s.outpost_arn.as_ref());
    w.list("eventsSet", [(); 0], |_, ()| ());
    w.list("actionsSet", [(); 0], |_, ()| ());
}

//! From a typed reply to EC2's XML.

mod instance;
mod volume;

use crate::api::{Reply, SimSnapshot, SimTag, SimZone};
use crate::wire::xml::{self, Xml};
use ebs_types::Tags;

/// The body of the answer to an action that succeeded.
pub(crate) fn encode(reply: &Reply, request_id: &str) -> String {
    let action = action(reply);
    xml::response(action, request_id, |w| match reply {
        Reply::CreateVolume(v) => volume::volume(w, v),
        Reply::CopyVolumes(volumes) => w.list("volumeSet", volumes, volume::volume),
        Reply::DeleteVolume | Reply::DeleteSnapshot | Reply::CreateTags | Reply::DeleteTags => w.value("return", true),
        Reply::DescribeVolumes(page) => {
            w.list("volumeSet", &page.items, volume::volume);
            w.maybe("nextToken", page.next_token.as_ref());
        }
        Reply::DescribeVolumeStatus(page) => {
            w.list("volumeStatusSet", &page.items, volume::status);
            w.maybe("nextToken", page.next_token.as_ref());
        }
        Reply::AttachVolume(a) | Reply::DetachVolume(a) => volume::attachment(w, a),
        Reply::ModifyVolume(m) => w.element("volumeModification", |w| volume::modification(w, m)),
        Reply::DescribeVolumesModifications(page) => {
            w.list("volumeModificationSet", &page.items, volume::modification);
            w.maybe("nextToken", page.next_token.as_ref());
        }
        Reply::CreateSnapshot(s) => snapshot(w, s),
        Reply::DescribeSnapshots(page) => {
            w.list("snapshotSet", &page.items, snapshot);
            w.maybe("nextToken", page.next_token.as_ref());
        }
        Reply::DescribeTags(page) => {
            w.list("tagSet", &page.items, tag);
            w.maybe("nextToken", page.next_token.as_ref());
        }
        Reply::DescribeInstances(page) => {
            w.list("reservationSet", &page.items, instance::reservation);
            w.maybe("nextToken", page.next_token.as_ref());
        }
        Reply::DescribeInstanceTypes(page) => {
            w.list("instanceTypeSet", &page.items, instance::instance_type);
            w.maybe("nextToken", page.next_token.as_ref());
        }
        Reply::DescribeAvailabilityZones(zones) => w.list("availabilityZoneInfo", zones, zone),
        // Not decoded yet, so never answered.
        Reply::RunInstances(_)
        | Reply::TerminateInstances(_)
        | Reply::EnableFastSnapshotRestores(_)
        | Reply::DescribeFastSnapshotRestores(_)
        | Reply::LockSnapshot(_)
        | Reply::DescribeLockedSnapshots(_)
        | Reply::AttachClusterNodeVolume(_)
        | Reply::DetachClusterNodeVolume(_) => {}
    })
}

fn action(reply: &Reply) -> &'static str {
    match reply {
        Reply::CreateVolume(_) => "CreateVolume",
        Reply::CopyVolumes(_) => "CopyVolumes",
        Reply::DeleteVolume => "DeleteVolume",
        Reply::DescribeVolumes(_) => "DescribeVolumes",
        Reply::DescribeVolumeStatus(_) => "DescribeVolumeStatus",
        Reply::AttachVolume(_) => "AttachVolume",
        Reply::DetachVolume(_) => "DetachVolume",
        Reply::ModifyVolume(_) => "ModifyVolume",
        Reply::DescribeVolumesModifications(_) => "DescribeVolumesModifications",
        Reply::CreateSnapshot(_) => "CreateSnapshot",
        Reply::DeleteSnapshot => "DeleteSnapshot",
        Reply::DescribeSnapshots(_) => "DescribeSnapshots",
        Reply::CreateTags => "CreateTags",
        Reply::DeleteTags => "DeleteTags",
        Reply::DescribeTags(_) => "DescribeTags",
        Reply::DescribeInstances(_) => "DescribeInstances",
        Reply::DescribeInstanceTypes(_) => "DescribeInstanceTypes",
        Reply::DescribeAvailabilityZones(_) => "DescribeAvailabilityZones",
        Reply::RunInstances(_) => "RunInstances",
        Reply::TerminateInstances(_) => "TerminateInstances",
        Reply::EnableFastSnapshotRestores(_) => "EnableFastSnapshotRestores",
        Reply::DescribeFastSnapshotRestores(_) => "DescribeFastSnapshotRestores",
        Reply::LockSnapshot(_) => "LockSnapshot",
        Reply::DescribeLockedSnapshots(_) => "DescribeLockedSnapshots",
        Reply::AttachClusterNodeVolume(_) => "AttachClusterNodeVolume",
        Reply::DetachClusterNodeVolume(_) => "DetachClusterNodeVolume",
    }
}

/// `tagSet`; left out when there are no tags, as EC2 does.
fn tag_set(w: &mut Xml, tags: &Tags) {
    if !tags.is_empty() {
        w.list("tagSet", tags, |w, (key, value)| {
            w.text("key", key);
            w.text("value", value);
        });
    }
}

fn snapshot(w: &mut Xml, s: &SimSnapshot) {
    w.text("snapshotId", &s.id);
    w.text("volumeId", &s.volume_id);
    w.text("status", &s.state);
    w.maybe("statusMessage", s.status_message.as_ref());
    w.time("startTime", s.start_time);
    if let Some(time) = s.completion_time {
        w.time("completionTime", time);
    }
    w.text("progress", &format!("{}%", s.progress));
    w.text("ownerId", &s.owner_id);
    w.value("volumeSize", s.size_gib);
    w.text("description", &s.description);
    w.value("encrypted", s.encrypted);
    w.maybe("kmsKeyId", s.kms_key_id.as_ref());
    w.maybe("outpostArn", s.outpost_arn.as_ref());
    w.text("storageTier", "standard");
    tag_set(w, &s.tags);
}

fn tag(w: &mut Xml, t: &SimTag) {
    w.text("resourceId", &t.resource_id);
    w.text("resourceType", &t.resource_type);
    w.text("key", &t.key);
    w.text("value", &t.value);
}

fn zone(w: &mut Xml, z: &SimZone) {
    w.text("optInStatus", &z.opt_in_status);
    w.list("messageSet", [(); 0], |_, ()| ());
    w.text("regionName", &z.region);
    w.text("zoneName", &z.name);
    w.text("zoneId", &z.id);
    w.text("groupName", &z.group_name);
    w.text("networkBorderGroup", &z.network_border_group);
    w.text("zoneType", &z.zone_type);
    w.text("zoneState", &z.state);
}

#[cfg(test)]
mod tests;

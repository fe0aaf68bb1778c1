//! Encodes a typed reply as EC2's XML.

mod instance;
mod snapshot;
mod volume;

use crate::api::{Page, Reply, SimTag, SimZone};
use crate::wire::xml::{self, Xml};
use ebs_ec2::Tags;

pub(crate) fn encode(reply: &Reply, request_id: &str) -> String {
    xml::response(reply.action(), request_id, |w| content(w, reply))
}

fn content(w: &mut Xml, reply: &Reply) {
    match reply {
        Reply::CreateVolume(v) => volume::volume(w, v),
        Reply::CopyVolumes(volumes) => w.list("volumeSet", volumes, volume::volume),
        Reply::DeleteVolume | Reply::DeleteSnapshot | Reply::CreateTags | Reply::DeleteTags => w.value("return", true),
        Reply::AttachVolume(a) | Reply::DetachVolume(a) => volume::attachment(w, a),
        Reply::ModifyVolume(m) => w.element("volumeModification", |w| volume::modification(w, m)),
        Reply::CreateSnapshot(s) => snapshot::snapshot(w, s),
        Reply::EnableFastSnapshotRestores(restores) | Reply::DisableFastSnapshotRestores(restores) => {
            snapshot::fast_restores(w, restores);
        }
        Reply::LockSnapshot(lock) => snapshot::lock(w, lock),
        Reply::UnlockSnapshot(id) => w.text("snapshotId", id),
        Reply::RunInstances(instances) => instance::started(w, instances),
        Reply::StartInstances(changes) | Reply::StopInstances(changes) | Reply::TerminateInstances(changes) => {
            w.list("instancesSet", changes, instance::change)
        }
        Reply::DescribeAvailabilityZones(zones) => w.list("availabilityZoneInfo", zones, zone),
        Reply::DescribeVolumes(p) => page(w, "volumeSet", p, volume::volume),
        Reply::DescribeVolumeStatus(p) => page(w, "volumeStatusSet", p, volume::status),
        Reply::DescribeVolumesModifications(p) => page(w, "volumeModificationSet", p, volume::modification),
        Reply::DescribeSnapshots(p) => page(w, "snapshotSet", p, snapshot::snapshot),
        Reply::DescribeFastSnapshotRestores(p) => page(w, "fastSnapshotRestoreSet", p, snapshot::fast_restore),
        Reply::DescribeLockedSnapshots(p) => page(w, "snapshotSet", p, snapshot::owned_lock),
        Reply::DescribeTags(p) => page(w, "tagSet", p, tag),
        Reply::DescribeInstanceTypes(p) => page(w, "instanceTypeSet", p, instance::instance_type),
        Reply::DescribeInstances(p) => {
            w.list("reservationSet", instance::by_reservation(&p.items), |w, of_one| instance::reservation(w, &of_one));
            w.maybe("nextToken", p.next.as_ref());
        }
        // SageMaker replies are JSON, which `cluster_nodes` encodes.
        Reply::AttachClusterNodeVolume(_) | Reply::DetachClusterNodeVolume(_) => {}
    }
}

fn page<T>(w: &mut Xml, name: &str, page: &Page<T>, item: impl Fn(&mut Xml, &T)) {
    w.list(name, &page.items, item);
    w.maybe("nextToken", page.next.as_ref());
}

/// Writes `tagSet`, or nothing if there are no tags, as EC2 does.
fn tag_set(w: &mut Xml, tags: &Tags) {
    if !tags.is_empty() {
        w.list("tagSet", tags, |w, (key, value)| {
            w.text("key", key);
            w.text("value", value);
        });
    }
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

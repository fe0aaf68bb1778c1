//! Encodes snapshots, their fast restores and their locks.

use crate::api::{SimFastRestore, SimFastRestoreError, SimFastRestores, SimSnapshot, SimSnapshotLock};
use crate::wire::encode::tag_set;
use crate::wire::xml::Xml;

pub(super) fn snapshot(w: &mut Xml, s: &SimSnapshot) {
    w.text("snapshotId", &s.id);
    w.text("volumeId", &s.volume_id);
    w.text("status", &s.state);
    w.maybe("statusMessage", s.status_message.as_ref());
    w.time("startTime", s.start_time);
    w.maybe_time("completionTime", s.completion_time);
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

pub(super) fn fast_restores(w: &mut Xml, r: &SimFastRestores) {
    w.list("successful", &r.successful, fast_restore);
    w.list("unsuccessful", &r.unsuccessful, |w, (snapshot, errors)| {
        w.text("snapshotId", snapshot);
        w.list("fastSnapshotRestoreStateErrorSet", errors, fast_restore_error);
    });
}

pub(super) fn fast_restore(w: &mut Xml, r: &SimFastRestore) {
    w.text("snapshotId", &r.snapshot_id);
    w.text("availabilityZone", &r.zone);
    w.text("availabilityZoneId", &r.zone_id);
    w.text("state", &r.state);
    w.text("stateTransitionReason", &r.reason);
    w.text("ownerId", &r.owner_id);
    w.time("enablingTime", r.enabling_time);
    w.maybe_time("optimizingTime", r.optimizing_time);
    w.maybe_time("enabledTime", r.enabled_time);
    w.maybe_time("disablingTime", r.disabling_time);
    w.maybe_time("disabledTime", r.disabled_time);
}

fn fast_restore_error(w: &mut Xml, e: &SimFastRestoreError) {
    w.text("availabilityZone", &e.zone);
    w.maybe("availabilityZoneId", Some(&e.zone_id).filter(|id| !id.is_empty()));
    w.element("error", |w| {
        w.text("code", &e.code);
        w.text("message", &e.message);
    });
}

pub(super) fn owned_lock(w: &mut Xml, l: &SimSnapshotLock) {
    w.text("ownerId", &l.owner_id);
    lock(w, l);
}

pub(super) fn lock(w: &mut Xml, l: &SimSnapshotLock) {
    w.text("snapshotId", &l.snapshot_id);
    w.text("lockState", &l.state);
    w.value("lockDuration", l.duration_days);
    w.maybe("coolOffPeriod", l.cool_off_hours);
    w.maybe_time("coolOffPeriodExpiresOn", l.cool_off_expires);
    w.time("lockCreatedOn", l.created);
    w.time("lockDurationStartTime", l.duration_start);
    w.time("lockExpiresOn", l.expires);
}

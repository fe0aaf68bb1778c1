//! Converts between the port's types and the simulator's.

use std::time::{Duration, SystemTime};

use ebs_ec2::{
    Attachment, AttachmentState, BlockDevice, DeviceName, FastRestoreFailure, FastRestores, Gib, Instance, InstanceId,
    LockState, Modification, ModificationState, Page, PageRequest, Snapshot, SnapshotId, SnapshotLock, SnapshotState,
    Tags, Volume, VolumeId, VolumeState, VolumeStatus, VolumeType, Zone, ZoneId, ZoneName,
};

use crate::api::{
    Filter, SimAttachment, SimFastRestoreError, SimFastRestores, SimInstance, SimModification, SimSnapshot,
    SimSnapshotLock, SimVolume, SimVolumeStatus, SimZone, Tag, TagSpecification,
};

const VALID: &str = "the engine makes valid ids and names";

pub(super) fn instance_id(id: &str) -> InstanceId {
    InstanceId::parse(id).expect(VALID)
}

fn volume_id(id: &str) -> VolumeId {
    VolumeId::parse(id).expect(VALID)
}

pub(super) fn tag_list(tags: &Tags) -> Vec<Tag> {
    tags.iter().map(|(key, value)| Tag { key: key.clone(), value: value.clone() }).collect()
}

pub(super) fn specification(resource_type: &str, tags: &Tags) -> Vec<TagSpecification> {
    if tags.is_empty() {
        return Vec::new();
    }
    vec![TagSpecification { resource_type: resource_type.to_owned(), tags: tag_list(tags) }]
}

pub(super) fn filter(name: impl Into<String>, values: Vec<String>) -> Vec<Filter> {
    vec![Filter { name: name.into(), values }]
}

pub(super) fn texts<T: ToString>(ids: &[T]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

pub(super) fn paging(page: &PageRequest) -> (Option<i64>, Option<String>) {
    (page.max_results.map(i64::from), page.token.clone())
}

pub(super) fn page<S, T>(page: Page<S>, convert: impl Fn(S) -> T) -> Page<T> {
    Page { items: page.items.into_iter().map(convert).collect(), next: page.next }
}

pub(super) fn volume(v: SimVolume) -> Volume {
    Volume {
        id: volume_id(&v.id),
        state: match v.state.as_str() {
            "creating" => VolumeState::Creating,
            "available" => VolumeState::Available,
            "in-use" => VolumeState::InUse,
            "deleting" => VolumeState::Deleting,
            "deleted" => VolumeState::Deleted,
            "error" => VolumeState::Error,
            other => VolumeState::Other(other.to_owned()),
        },
        size: Gib(v.size_gib),
        volume_type: VolumeType::from(v.volume_type),
        iops: v.iops,
        throughput: v.throughput,
        zone: ZoneName::parse(&v.zone).ok(),
        zone_id: ZoneId::parse(&v.zone_id).ok(),
        encrypted: v.encrypted,
        kms_key_id: v.kms_key_id,
        snapshot: v.snapshot_id.map(|id| SnapshotId::parse(&id).expect(VALID)),
        source_volume: v.source_volume_id.map(|id| volume_id(&id)),
        multi_attach: Some(v.multi_attach),
        outpost_arn: v.outpost_arn,
        created: Some(v.created),
        said_at: None,
        tags: v.tags,
        attachments: v.attachments.into_iter().map(attachment).collect(),
    }
}

pub(super) fn dated(mut volumes: Page<Volume>, now: SystemTime) -> Page<Volume> {
    volumes.items.iter_mut().flat_map(|v| &mut v.attachments).for_each(|a| a.said_at = Some(now));
    volumes
}

pub(super) fn attachment(a: SimAttachment) -> Attachment {
    Attachment {
        volume: volume_id(&a.volume_id),
        instance: InstanceId::parse(&a.instance_id).ok(),
        associated_resource: a.associated_resource,
        device: Some(DeviceName::new(a.device)),
        state: attachment_state(&a.state),
        card: a.ebs_card_index,
        attach_time: Some(a.attach_time),
        said_at: None,
    }
}

fn attachment_state(state: &str) -> AttachmentState {
    match state {
        "attaching" => AttachmentState::Attaching,
        "attached" => AttachmentState::Attached,
        "detaching" => AttachmentState::Detaching,
        "detached" => AttachmentState::Detached,
        "busy" => AttachmentState::Busy,
        other => AttachmentState::Other(other.to_owned()),
    }
}

pub(super) fn modification(m: SimModification) -> Modification {
    Modification {
        volume: volume_id(&m.volume_id),
        state: match m.state.as_str() {
            "modifying" => ModificationState::Modifying,
            "optimizing" => ModificationState::Optimizing,
            "completed" => ModificationState::Completed,
            "failed" => ModificationState::Failed,
            other => ModificationState::Other(other.to_owned()),
        },
        status_message: m.status_message,
        target_size: Some(Gib(m.target.size_gib)),
        target_type: Some(m.target.volume_type),
        target_iops: m.target.iops,
        target_throughput: m.target.throughput,
        started: Some(m.start_time),
    }
}

pub(super) fn volume_status(s: SimVolumeStatus) -> VolumeStatus {
    VolumeStatus {
        volume: volume_id(&s.volume_id),
        details: Some(s.details.into_iter().map(|d| (d.name, d.status)).collect()),
        estimate: s.initialization.and_then(|i| i.estimated_seconds).map(Duration::from_secs),
    }
}

pub(super) fn fast_restores(r: SimFastRestores) -> FastRestores {
    let failure =
        |e: SimFastRestoreError| FastRestoreFailure { zone: Some(e.zone), code: Some(e.code), message: e.message };
    FastRestores {
        enabled: r.successful.iter().map(|f| ZoneName::parse(&f.zone).expect(VALID)).collect(),
        failures: r.unsuccessful.into_iter().flat_map(|(_, errors)| errors).map(failure).collect(),
    }
}

pub(super) fn snapshot(s: SimSnapshot) -> Snapshot {
    Snapshot {
        id: SnapshotId::parse(&s.id).expect(VALID),
        source_volume: VolumeId::parse(&s.volume_id).ok(),
        size: Gib(s.size_gib),
        state: match s.state.as_str() {
            "pending" => SnapshotState::Pending,
            "completed" => SnapshotState::Completed,
            "error" => SnapshotState::Error,
            other => SnapshotState::Other(other.to_owned()),
        },
        status_message: s.status_message,
        started: Some(s.start_time),
        encrypted: s.encrypted,
        owner: Some(s.owner_id),
        outpost_arn: s.outpost_arn,
        tags: s.tags,
    }
}

pub(super) fn lock(l: SimSnapshotLock) -> SnapshotLock {
    SnapshotLock {
        snapshot: SnapshotId::parse(&l.snapshot_id).expect(VALID),
        state: match l.state.as_str() {
            "governance" => LockState::Governance,
            "compliance-cooloff" => LockState::ComplianceCoolOff,
            "compliance" => LockState::Compliance,
            "expired" => LockState::Expired,
            other => LockState::Other(other.to_owned()),
        },
        cool_off_hours: l.cool_off_hours,
        duration_days: Some(l.duration_days),
        counts_from: Some(l.duration_start),
        expires: Some(l.expires),
    }
}

pub(super) fn instance(i: SimInstance) -> Instance {
    Instance {
        id: instance_id(&i.id),
        state: i.state,
        instance_type: i.instance_type,
        zone: ZoneName::parse(&i.zone).ok(),
        root_device: Some(DeviceName::new(i.root_device)),
        devices: i
            .devices
            .into_iter()
            .map(|d| BlockDevice {
                device: DeviceName::new(d.device),
                volume: Some(volume_id(&d.volume_id)),
                state: Some(attachment_state(&d.state)),
                card: d.ebs_card_index,
                attach_time: Some(d.attach_time),
            })
            .collect(),
        network_interfaces: u32::try_from(i.network_interfaces.len()).unwrap_or(u32::MAX),
    }
}

pub(super) fn zone(z: SimZone) -> Zone {
    Zone {
        name: ZoneName::parse(&z.name).expect(VALID),
        id: ZoneId::parse(&z.id).expect(VALID),
        is_availability_zone: z.zone_type == "availability-zone",
        available: z.state == "available",
    }
}

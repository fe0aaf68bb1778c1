//! Volumes and their modifications.

use std::time::Duration;

use aws_sdk_ec2::operation::create_volume::CreateVolumeOutput;
use aws_sdk_ec2::types as sdk;
use ebs_ec2::{Attachment, Modification, ModificationState, Volume, VolumeState, VolumeStatus};
use ebs_types::{Gib, SnapshotId, VolumeId, VolumeType, ZoneId, ZoneName};

use super::attachment::attachment;
use super::{Incomplete, Read, among, optional_id, optional_number, required, required_id, tags, text, time};

/// A volume in a reply of DescribeVolumes or CopyVolumes.
pub(crate) fn volume(v: sdk::Volume) -> Read<Volume> {
    let id = required_id(v.volume_id.as_deref(), "volume id", VolumeId::parse)?;
    let of = |Incomplete(what)| Incomplete(format!("{what} ({id})"));
    let size = optional_number(v.size, "size of the volume").and_then(|n| required(n, "size of the volume"));
    let size = size.map_err(of).and_then(|n| match n {
        0 => Err(Incomplete(format!("size 0 of {id}"))),
        n => Ok(Gib(n)),
    })?;
    Ok(Volume {
        state: state(required(v.state, "state of the volume").map_err(of)?),
        size,
        volume_type: volume_type(required(v.volume_type, "type of the volume").map_err(of)?),
        iops: optional_number(v.iops, "IOPS").map_err(of)?,
        throughput: optional_number(v.throughput, "throughput").map_err(of)?,
        zone: optional_id(v.availability_zone.as_deref(), "zone", ZoneName::parse).map_err(of)?,
        zone_id: optional_id(v.availability_zone_id.as_deref(), "zone id", ZoneId::parse).map_err(of)?,
        encrypted: required(v.encrypted, "word on encryption").map_err(of)?,
        kms_key_id: text(v.kms_key_id),
        snapshot: optional_id(v.snapshot_id.as_deref(), "source snapshot", SnapshotId::parse).map_err(of)?,
        source_volume: optional_id(v.source_volume_id.as_deref(), "source volume", VolumeId::parse).map_err(of)?,
        multi_attach: v.multi_attach_enabled,
        outpost_arn: text(v.outpost_arn),
        created: time(v.create_time),
        tags: tags(v.tags).map_err(of)?,
        attachments: attachments(v.attachments.unwrap_or_default(), &id).map_err(of)?,
        id,
    })
}

fn attachments(list: Vec<sdk::VolumeAttachment>, id: &VolumeId) -> Read<Vec<Attachment>> {
    let list = list.into_iter().map(attachment).collect::<Read<Vec<Attachment>>>()?;
    among(&list, |a| &a.volume, std::slice::from_ref(id))?;
    Ok(list)
}

/// The volume in CreateVolume's reply, whose type is the SDK's volume field by field.
pub(crate) fn created(o: CreateVolumeOutput) -> Read<Volume> {
    volume(
        sdk::Volume::builder()
            .set_volume_id(o.volume_id)
            .set_state(o.state)
            .set_size(o.size)
            .set_volume_type(o.volume_type)
            .set_iops(o.iops)
            .set_throughput(o.throughput)
            .set_availability_zone(o.availability_zone)
            .set_availability_zone_id(o.availability_zone_id)
            .set_encrypted(o.encrypted)
            .set_kms_key_id(o.kms_key_id)
            .set_snapshot_id(o.snapshot_id)
            .set_source_volume_id(o.source_volume_id)
            .set_multi_attach_enabled(o.multi_attach_enabled)
            .set_outpost_arn(o.outpost_arn)
            .set_create_time(o.create_time)
            .set_tags(o.tags)
            .set_attachments(o.attachments)
            .build(),
    )
}

/// A modification in a reply.
pub(crate) fn modification(m: sdk::VolumeModification) -> Read<Modification> {
    let volume = required_id(m.volume_id.as_deref(), "volume id of a modification", VolumeId::parse)?;
    let of = |Incomplete(what)| Incomplete(format!("{what} ({volume})"));
    Ok(Modification {
        state: modification_state(required(m.modification_state, "state of the modification").map_err(of)?),
        status_message: text(m.status_message),
        target_size: optional_number(m.target_size, "target size").map_err(of)?.map(Gib),
        target_type: m.target_volume_type.map(volume_type),
        target_iops: optional_number(m.target_iops, "target IOPS").map_err(of)?,
        target_throughput: optional_number(m.target_throughput, "target throughput").map_err(of)?,
        started: time(m.start_time),
        volume,
    })
}

/// A volume's status in a reply.
pub(crate) fn status(s: sdk::VolumeStatusItem) -> Read<VolumeStatus> {
    let volume = required_id(s.volume_id.as_deref(), "volume id of a status", VolumeId::parse)?;
    let of = |Incomplete(what)| Incomplete(format!("{what} ({volume})"));
    let detail = |d: sdk::VolumeStatusDetails| {
        let name = required(d.name, "name of a status detail")?;
        Ok((name.as_str().to_owned(), required(d.status, "status of a status detail")?))
    };
    let details = s.volume_status.and_then(|status| status.details);
    let seconds = s.initialization_status_details.and_then(|d| d.estimated_time_to_complete_in_seconds);
    let estimate = seconds.map(|n| u64::try_from(n).map_err(|_| Incomplete(format!("estimate is {n} s")))).transpose();
    Ok(VolumeStatus {
        details: details.map(|list| list.into_iter().map(detail).collect::<Read<_>>()).transpose().map_err(of)?,
        estimate: estimate.map_err(of)?.map(Duration::from_secs),
        volume,
    })
}

fn state(state: sdk::VolumeState) -> VolumeState {
    match state {
        sdk::VolumeState::Creating => VolumeState::Creating,
        sdk::VolumeState::Available => VolumeState::Available,
        sdk::VolumeState::InUse => VolumeState::InUse,
        sdk::VolumeState::Deleting => VolumeState::Deleting,
        sdk::VolumeState::Deleted => VolumeState::Deleted,
        sdk::VolumeState::Error => VolumeState::Error,
        other => VolumeState::Other(other.as_str().to_owned()),
    }
}

fn modification_state(state: sdk::VolumeModificationState) -> ModificationState {
    match state {
        sdk::VolumeModificationState::Modifying => ModificationState::Modifying,
        sdk::VolumeModificationState::Optimizing => ModificationState::Optimizing,
        sdk::VolumeModificationState::Completed => ModificationState::Completed,
        sdk::VolumeModificationState::Failed => ModificationState::Failed,
        other => ModificationState::Other(other.as_str().to_owned()),
    }
}

fn volume_type(sdk: sdk::VolumeType) -> VolumeType {
    VolumeType::from(sdk.as_str().to_owned())
}

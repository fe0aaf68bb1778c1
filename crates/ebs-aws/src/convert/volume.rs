//! Converts volumes, their modifications and their status.

use std::time::Duration;

use ebs_ec2::{
    Attachment, Gib, Modification, ModificationState, Page, SnapshotId, Volume, VolumeId, VolumeState, VolumeStatus,
    VolumeType, ZoneId, ZoneName,
};

use super::attachment::attachment;
use super::{among, optional_id, optional_number, page, read_of, required, required_id, required_word, tags};
use crate::reply::{Element, Incomplete, Read};

pub(crate) fn volumes(reply: Element<'_>) -> Read<Page<Volume>> {
    page(reply, "volumeSet", "list of volumes", volume)
}

pub(crate) fn copies(reply: Element<'_>) -> Read<Vec<Volume>> {
    reply.list("volumeSet")?.into_iter().flatten().map(volume).collect()
}

pub(crate) fn volume(v: Element<'_>) -> Read<Volume> {
    let id = required_id(v, "volumeId", "volume id", VolumeId::parse)?;
    let size = size(v, &id)?;
    read_of(&id, || {
        Ok(Volume {
            state: state(required_word(v, "status", "state of the volume")?),
            size,
            volume_type: VolumeType::from(required_word(v, "volumeType", "type of the volume")?),
            iops: optional_number(v, "iops", "IOPS")?,
            throughput: optional_number(v, "throughput", "throughput")?,
            zone: optional_id(v, "availabilityZone", "zone", ZoneName::parse)?,
            zone_id: optional_id(v, "availabilityZoneId", "zone id", ZoneId::parse)?,
            encrypted: required(v.value("encrypted")?, "encryption flag")?,
            kms_key_id: v.word("kmsKeyId")?,
            snapshot: optional_id(v, "snapshotId", "source snapshot", SnapshotId::parse)?,
            source_volume: optional_id(v, "sourceVolumeId", "source volume", VolumeId::parse)?,
            multi_attach: v.value("multiAttachEnabled")?,
            outpost_arn: v.word("outpostArn")?,
            created: v.time("createTime")?,
            said_at: None,
            tags: tags(v)?,
            attachments: attachments(v, &id)?,
            id: id.clone(),
        })
    })
}

fn size(v: Element<'_>, id: &VolumeId) -> Read<Gib> {
    let what = "size of the volume";
    match read_of(id, || required(optional_number(v, "size", what)?, what))? {
        0 => Err(Incomplete(format!("the size of {id} is 0"))),
        n => Ok(Gib(n)),
    }
}

fn attachments(v: Element<'_>, id: &VolumeId) -> Read<Vec<Attachment>> {
    let list = v.list("attachmentSet")?.into_iter().flatten().map(attachment).collect::<Read<Vec<Attachment>>>()?;
    among(&list, |a| &a.volume, std::slice::from_ref(id))?;
    Ok(list)
}

pub(crate) fn modified(reply: Element<'_>) -> Read<Modification> {
    modification(required(reply.field("volumeModification")?, "modification")?)
}

pub(crate) fn modifications(reply: Element<'_>) -> Read<Page<Modification>> {
    page(reply, "volumeModificationSet", "list of modifications", modification)
}

fn modification(m: Element<'_>) -> Read<Modification> {
    let volume = required_id(m, "volumeId", "volume id of a modification", VolumeId::parse)?;
    read_of(&volume, || {
        Ok(Modification {
            state: modification_state(required_word(m, "modificationState", "state of the modification")?),
            status_message: m.word("statusMessage")?,
            target_size: optional_number(m, "targetSize", "target size")?.map(Gib),
            target_type: m.word("targetVolumeType")?.map(VolumeType::from),
            target_iops: optional_number(m, "targetIops", "target IOPS")?,
            target_throughput: optional_number(m, "targetThroughput", "target throughput")?,
            started: m.time("startTime")?,
            volume: volume.clone(),
        })
    })
}

pub(crate) fn statuses(reply: Element<'_>) -> Read<Page<VolumeStatus>> {
    page(reply, "volumeStatusSet", "list of statuses", status)
}

fn status(s: Element<'_>) -> Read<VolumeStatus> {
    let volume = required_id(s, "volumeId", "volume id of a status", VolumeId::parse)?;
    read_of(&volume, || {
        let details = s.field("volumeStatus")?.map(|status| status.list("details")).transpose()?.flatten();
        let initialization = s.field("initializationStatusDetails")?;
        let seconds = initialization.map_or(Ok(None), |d| d.value::<i64>("estimatedTimeToCompleteInSeconds"))?;
        let estimate = seconds.map(|n| u64::try_from(n).map_err(|_| Incomplete(format!("the estimate is {n} s"))));
        Ok(VolumeStatus {
            details: details.map(|list| list.map(detail).collect::<Read<_>>()).transpose()?,
            estimate: estimate.transpose()?.map(Duration::from_secs),
            volume: volume.clone(),
        })
    })
}

fn detail(d: Element<'_>) -> Read<(String, String)> {
    Ok((required_word(d, "name", "name of a status detail")?, required_word(d, "status", "status of a status detail")?))
}

fn state(word: String) -> VolumeState {
    match word.as_str() {
        "creating" => VolumeState::Creating,
        "available" => VolumeState::Available,
        "in-use" => VolumeState::InUse,
        "deleting" => VolumeState::Deleting,
        "deleted" => VolumeState::Deleted,
        "error" => VolumeState::Error,
        _ => VolumeState::Other(word),
    }
}

fn modification_state(word: String) -> ModificationState {
    match word.as_str() {
        "modifying" => ModificationState::Modifying,
        "optimizing" => ModificationState::Optimizing,
        "completed" => ModificationState::Completed,
        "failed" => ModificationState::Failed,
        _ => ModificationState::Other(word),
    }
}

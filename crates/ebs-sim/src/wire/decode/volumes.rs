//! Volumes, their attachments and their modifications.

use super::dry_run;
use super::tags::tag_specifications;
use crate::api::{
    AttachVolume, CopyVolumes, CreateVolume, DeleteVolume, DescribeVolumeStatus, DescribeVolumes,
    DescribeVolumesModifications, DetachVolume, Fault, ModifyVolume,
};
use crate::wire::params::Params;

pub(super) fn create_volume(p: &mut Params) -> Result<CreateVolume, Fault> {
    p.refuse("Operator")?;
    Ok(CreateVolume {
        client_token: p.text("ClientToken"),
        availability_zone: p.text("AvailabilityZone"),
        availability_zone_id: p.text("AvailabilityZoneId"),
        size: p.int("Size")?,
        volume_type: p.text("VolumeType"),
        iops: p.int("Iops")?,
        throughput: p.int("Throughput")?,
        encrypted: p.flag("Encrypted")?,
        kms_key_id: p.text("KmsKeyId"),
        snapshot_id: p.text("SnapshotId"),
        volume_initialization_rate: p.int("VolumeInitializationRate")?,
        multi_attach_enabled: p.flag("MultiAttachEnabled")?,
        outpost_arn: p.text("OutpostArn"),
        tag_specifications: tag_specifications(p)?,
        dry_run: dry_run(p)?,
    })
}

pub(super) fn copy_volumes(p: &mut Params) -> Result<CopyVolumes, Fault> {
    p.refuse("Encrypted")?;
    p.refuse("KmsKeyId")?;
    Ok(CopyVolumes {
        client_token: p.text("ClientToken"),
        source_volume_id: p.required("SourceVolumeId")?,
        size: p.int("Size")?,
        volume_type: p.text("VolumeType"),
        iops: p.int("Iops")?,
        throughput: p.int("Throughput")?,
        multi_attach_enabled: p.flag("MultiAttachEnabled")?,
        tag_specifications: tag_specifications(p)?,
        dry_run: dry_run(p)?,
    })
}

pub(super) fn attach_volume(p: &mut Params) -> Result<AttachVolume, Fault> {
    Ok(AttachVolume {
        volume_id: p.required("VolumeId")?,
        instance_id: p.required("InstanceId")?,
        device: Some(p.required("Device")?),
        ebs_card_index: p.int("EbsCardIndex")?,
        dry_run: dry_run(p)?,
    })
}

pub(super) fn detach_volume(p: &mut Params) -> Result<DetachVolume, Fault> {
    Ok(DetachVolume {
        volume_id: p.required("VolumeId")?,
        instance_id: p.text("InstanceId"),
        device: p.text("Device"),
        force: p.flag("Force")?.unwrap_or(false),
        dry_run: dry_run(p)?,
    })
}

pub(super) fn modify_volume(p: &mut Params) -> Result<ModifyVolume, Fault> {
    Ok(ModifyVolume {
        volume_id: p.required("VolumeId")?,
        size: p.int("Size")?,
        volume_type: p.text("VolumeType"),
        iops: p.int("Iops")?,
        throughput: p.int("Throughput")?,
        multi_attach_enabled: p.flag("MultiAttachEnabled")?,
        dry_run: dry_run(p)?,
    })
}

pub(super) fn describe_volumes(p: &mut Params) -> Result<DescribeVolumes, Fault> {
    p.flag("IncludeManagedResources")?;
    Ok(DescribeVolumes {
        volume_ids: p.list("VolumeId"),
        filters: p.filters()?,
        max_results: p.int("MaxResults")?,
        next_token: p.text("NextToken"),
        dry_run: dry_run(p)?,
    })
}

pub(super) fn describe_volume_status(p: &mut Params) -> Result<DescribeVolumeStatus, Fault> {
    p.flag("IncludeManagedResources")?;
    Ok(DescribeVolumeStatus {
        volume_ids: p.list("VolumeId"),
        filters: p.filters()?,
        max_results: p.int("MaxResults")?,
        next_token: p.text("NextToken"),
        dry_run: dry_run(p)?,
    })
}

pub(super) fn describe_modifications(p: &mut Params) -> Result<DescribeVolumesModifications, Fault> {
    p.flag("IncludeManagedResources")?;
    Ok(DescribeVolumesModifications {
        volume_ids: p.list("VolumeId"),
        filters: p.filters()?,
        max_results: p.int("MaxResults")?,
        next_token: p.text("NextToken"),
        dry_run: dry_run(p)?,
    })
}

pub(super) fn delete_volume(p: &mut Params) -> Result<DeleteVolume, Fault> {
    Ok(DeleteVolume { volume_id: p.required("VolumeId")?, dry_run: dry_run(p)? })
}

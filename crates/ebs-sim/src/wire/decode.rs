//! From parameters to a typed call.

use crate::api::{
    AttachVolume, Call, CopyVolumes, CreateSnapshot, CreateTags, CreateVolume, DeleteSnapshot, DeleteTags,
    DeleteVolume, DescribeAvailabilityZones, DescribeInstanceTypes, DescribeInstances, DescribeSnapshots, DescribeTags,
    DescribeVolumeStatus, DescribeVolumes, DescribeVolumesModifications, DetachVolume, Fault, ModifyVolume, Tag,
    TagSpecification, TagToDelete,
};
use crate::wire::params::Params;

/// Parameters that sign a request in its query string; they say nothing about the call.
const SIGNING: [&str; 7] =
    ["AWSAccessKeyId", "Signature", "SignatureVersion", "SignatureMethod", "Timestamp", "Expires", "SecurityToken"];

/// True for what signs a request, and so has no place in a ledger.
pub(crate) fn signs(name: &str) -> bool {
    SIGNING.contains(&name) || name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("X-Amz-"))
}

/// Decodes the call.
///
/// # Errors
/// `MissingAction`, `InvalidAction`, `MissingParameter`, `UnknownParameter`, `InvalidParameterValue`.
pub(crate) fn decode(mut p: Params) -> Result<Call, Fault> {
    p.drop_where(signs);
    let action = p.text("Action").filter(|name| !name.is_empty());
    let action = action
        .ok_or_else(|| Fault::new("MissingAction", "The request is missing an action or a required parameter"))?;
    p.text("Version");
    let call = match action.as_str() {
        "CreateVolume" => Call::CreateVolume(create_volume(&mut p)?),
        "CopyVolumes" => Call::CopyVolumes(copy_volumes(&mut p)?),
        "DeleteVolume" => {
            Call::DeleteVolume(DeleteVolume { volume_id: p.required("VolumeId")?, dry_run: dry_run(&mut p)? })
        }
        "AttachVolume" => Call::AttachVolume(attach_volume(&mut p)?),
        "DetachVolume" => Call::DetachVolume(detach_volume(&mut p)?),
        "ModifyVolume" => Call::ModifyVolume(modify_volume(&mut p)?),
        "CreateSnapshot" => Call::CreateSnapshot(create_snapshot(&mut p)?),
        "DeleteSnapshot" => {
            Call::DeleteSnapshot(DeleteSnapshot { snapshot_id: p.required("SnapshotId")?, dry_run: dry_run(&mut p)? })
        }
        "CreateTags" => Call::CreateTags(create_tags(&mut p)?),
        "DeleteTags" => Call::DeleteTags(delete_tags(&mut p)?),
        _ => describe(&action, &mut p)?,
    };
    p.finish()?;
    Ok(call)
}

fn describe(action: &str, p: &mut Params) -> Result<Call, Fault> {
    Ok(match action {
        "DescribeVolumes" => Call::DescribeVolumes(describe_volumes(p)?),
        "DescribeVolumeStatus" => Call::DescribeVolumeStatus(describe_volume_status(p)?),
        "DescribeVolumesModifications" => Call::DescribeVolumesModifications(describe_modifications(p)?),
        "DescribeSnapshots" => Call::DescribeSnapshots(describe_snapshots(p)?),
        "DescribeInstances" => Call::DescribeInstances(describe_instances(p)?),
        "DescribeInstanceTypes" => Call::DescribeInstanceTypes(describe_instance_types(p)?),
        "DescribeTags" => Call::DescribeTags(describe_tags(p)?),
        "DescribeAvailabilityZones" => Call::DescribeAvailabilityZones(describe_zones(p)?),
        _ => {
            let message = format!("The action {action} is not valid for this web service.");
            return Err(Fault::new("InvalidAction", message));
        }
    })
}

fn dry_run(p: &mut Params) -> Result<bool, Fault> {
    Ok(p.flag("DryRun")?.unwrap_or(false))
}

fn tag_specifications(p: &mut Params) -> Result<Vec<TagSpecification>, Fault> {
    let mut specifications = Vec::new();
    for index in p.indices("TagSpecification") {
        let resource_type = p.text(&format!("TagSpecification.{index}.ResourceType")).unwrap_or_default();
        let tags = tags(p, &format!("TagSpecification.{index}.Tag"))?;
        specifications.push(TagSpecification { resource_type, tags });
    }
    Ok(specifications)
}

/// Tags; one without a value has the empty one.
fn tags(p: &mut Params, prefix: &str) -> Result<Vec<Tag>, Fault> {
    let pairs = p.pairs(prefix)?;
    Ok(pairs.into_iter().map(|(key, value)| Tag { key, value: value.unwrap_or_default() }).collect())
}

fn create_volume(p: &mut Params) -> Result<CreateVolume, Fault> {
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

fn copy_volumes(p: &mut Params) -> Result<CopyVolumes, Fault> {
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

fn attach_volume(p: &mut Params) -> Result<AttachVolume, Fault> {
    Ok(AttachVolume {
        volume_id: p.required("VolumeId")?,
        instance_id: p.required("InstanceId")?,
        device: Some(p.required("Device")?),
        ebs_card_index: p.int("EbsCardIndex")?,
        dry_run: dry_run(p)?,
    })
}

fn detach_volume(p: &mut Params) -> Result<DetachVolume, Fault> {
    Ok(DetachVolume {
        volume_id: p.required("VolumeId")?,
        instance_id: p.text("InstanceId"),
        device: p.text("Device"),
        force: p.flag("Force")?.unwrap_or(false),
        dry_run: dry_run(p)?,
    })
}

fn modify_volume(p: &mut Params) -> Result<ModifyVolume, Fault> {
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

fn create_snapshot(p: &mut Params) -> Result<CreateSnapshot, Fault> {
    Ok(CreateSnapshot {
        volume_id: p.required("VolumeId")?,
        description: p.text("Description"),
        outpost_arn: p.text("OutpostArn"),
        tag_specifications: tag_specifications(p)?,
        dry_run: dry_run(p)?,
    })
}

fn resources(p: &mut Params) -> Result<Vec<String>, Fault> {
    let resources = p.list("ResourceId");
    if resources.is_empty() { Err(crate::wire::refusal::missing("ResourceId")) } else { Ok(resources) }
}

fn create_tags(p: &mut Params) -> Result<CreateTags, Fault> {
    let resources = resources(p)?;
    let tags = tags(p, "Tag")?;
    if tags.is_empty() {
        return Err(crate::wire::refusal::missing("Tag"));
    }
    Ok(CreateTags { resources, tags, dry_run: dry_run(p)? })
}

fn delete_tags(p: &mut Params) -> Result<DeleteTags, Fault> {
    let resources = resources(p)?;
    let tags = p.pairs("Tag")?.into_iter().map(|(key, value)| TagToDelete { key, value }).collect();
    Ok(DeleteTags { resources, tags, dry_run: dry_run(p)? })
}

fn describe_volumes(p: &mut Params) -> Result<DescribeVolumes, Fault> {
    p.flag("IncludeManagedResources")?;
    Ok(DescribeVolumes {
        volume_ids: p.list("VolumeId"),
        filters: p.filters()?,
        max_results: p.int("MaxResults")?,
        next_token: p.text("NextToken"),
        dry_run: dry_run(p)?,
    })
}

fn describe_volume_status(p: &mut Params) -> Result<DescribeVolumeStatus, Fault> {
    p.flag("IncludeManagedResources")?;
    Ok(DescribeVolumeStatus {
        volume_ids: p.list("VolumeId"),
        filters: p.filters()?,
        max_results: p.int("MaxResults")?,
        next_token: p.text("NextToken"),
        dry_run: dry_run(p)?,
    })
}

fn describe_modifications(p: &mut Params) -> Result<DescribeVolumesModifications, Fault> {
    Ok(DescribeVolumesModifications {
        volume_ids: p.list("VolumeId"),
        filters: p.filters()?,
        max_results: p.int("MaxResults")?,
        next_token: p.text("NextToken"),
        dry_run: dry_run(p)?,
    })
}

fn describe_snapshots(p: &mut Params) -> Result<DescribeSnapshots, Fault> {
    Ok(DescribeSnapshots {
        snapshot_ids: p.list("SnapshotId"),
        owner_ids: p.list("Owner"),
        restorable_by: p.list("RestorableBy"),
        filters: p.filters()?,
        max_results: p.int("MaxResults")?,
        next_token: p.text("NextToken"),
        dry_run: dry_run(p)?,
    })
}

fn describe_instances(p: &mut Params) -> Result<DescribeInstances, Fault> {
    p.flag("IncludeManagedResources")?;
    Ok(DescribeInstances {
        instance_ids: p.list("InstanceId"),
        filters: p.filters()?,
        max_results: p.int("MaxResults")?,
        next_token: p.text("NextToken"),
        dry_run: dry_run(p)?,
    })
}

fn describe_instance_types(p: &mut Params) -> Result<DescribeInstanceTypes, Fault> {
    p.flag("IncludeUnsupportedInRegion")?;
    Ok(DescribeInstanceTypes {
        instance_types: p.list("InstanceType"),
        filters: p.filters()?,
        max_results: p.int("MaxResults")?,
        next_token: p.text("NextToken"),
        dry_run: dry_run(p)?,
    })
}

fn describe_tags(p: &mut Params) -> Result<DescribeTags, Fault> {
    Ok(DescribeTags {
        filters: p.filters()?,
        max_results: p.int("MaxResults")?,
        next_token: p.text("NextToken"),
        dry_run: dry_run(p)?,
    })
}

fn describe_zones(p: &mut Params) -> Result<DescribeAvailabilityZones, Fault> {
    Ok(DescribeAvailabilityZones {
        zone_names: p.list("ZoneName"),
        zone_ids: p.list("ZoneId"),
        all_availability_zones: p.flag("AllAvailabilityZones")?.unwrap_or(false),
        filters: p.filters()?,
        dry_run: dry_run(p)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Filter;

    fn call(form: &str) -> Result<Call, Fault> {
        decode(Params::parse(form).unwrap())
    }

    fn code(form: &str) -> String {
        call(form).unwrap_err().code
    }

    #[test]
    fn create_volume_is_decoded_with_all_its_parameters() {
        let form = "Action=CreateVolume&Version=2016-11-15&ClientToken=t&AvailabilityZone=us-west-2a&Size=4&VolumeType=io2\
                    &Iops=2147483647&Encrypted=true&KmsKeyId=k&SnapshotId=snap-1&MultiAttachEnabled=false\
                    &TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=a&TagSpecification.1.Tag.1.Value=b\
                    &TagSpecification.1.Tag.2.Key=c&DryRun=true";
        let Ok(Call::CreateVolume(c)) = call(form) else { panic!("not decoded") };
        assert_eq!((c.size, c.iops, c.encrypted), (Some(4), Some(2_147_483_647), Some(true)));
        assert_eq!(c.multi_attach_enabled, Some(false));
        assert!(c.dry_run);
        let tag = |key: &str, value: &str| Tag { key: key.into(), value: value.into() };
        let expected = TagSpecification { resource_type: "volume".into(), tags: vec![tag("a", "b"), tag("c", "")] };
        assert_eq!(c.tag_specifications, [expected]);
    }

    #[test]
    fn a_describe_is_decoded_with_ids_filters_and_page() {
        let form = "Action=DescribeSnapshots&Owner.1=self&SnapshotId.1=snap-1&Filter.1.Name=volume-id&Filter.1.Value.1=v\
                    &MaxResults=5&NextToken=n";
        let Ok(Call::DescribeSnapshots(c)) = call(form) else { panic!("not decoded") };
        assert_eq!((c.owner_ids, c.snapshot_ids), (vec!["self".to_owned()], vec!["snap-1".to_owned()]));
        assert_eq!(c.filters, [Filter { name: "volume-id".into(), values: vec!["v".into()] }]);
        assert_eq!((c.max_results, c.next_token.as_deref()), (Some(5), Some("n")));
    }

    #[test]
    fn a_tag_to_delete_may_have_no_value() {
        let form = "Action=DeleteTags&ResourceId.1=vol-1&Tag.1.Key=a&Tag.2.Key=b&Tag.2.Value=";
        let Ok(Call::DeleteTags(c)) = call(form) else { panic!("not decoded") };
        let values: Vec<_> = c.tags.iter().map(|tag| tag.value.as_deref()).collect();
        assert_eq!(values, [None, Some("")]);
    }

    #[test]
    fn an_action_that_does_not_exist_is_invalid() {
        assert_eq!(code("Action=RunInstances&ImageId=ami-1"), "InvalidAction");
        assert_eq!(code("Version=2016-11-15"), "MissingAction");
    }

    #[test]
    fn missing_unknown_and_invalid_parameters_have_codes_of_their_own() {
        assert_eq!(code("Action=DeleteVolume"), "MissingParameter");
        assert_eq!(code("Action=AttachVolume&VolumeId=v&InstanceId=i"), "MissingParameter");
        assert_eq!(code("Action=CreateTags&ResourceId.1=v"), "MissingParameter");
        assert_eq!(code("Action=DeleteVolume&VolumeId=v&Force=true"), "UnknownParameter");
        assert_eq!(code("Action=ModifyVolume&VolumeId=v&Size=big"), "InvalidParameterValue");
        assert_eq!(code("Action=DescribeVolumes&DryRun=perhaps"), "InvalidParameterValue");
    }

    #[test]
    fn what_signs_a_query_string_is_no_parameter_of_the_call() {
        assert!(call("Action=DescribeVolumes&X-Amz-Signature=s&X-Amz-Date=d&SignatureVersion=4").is_ok());
    }
}

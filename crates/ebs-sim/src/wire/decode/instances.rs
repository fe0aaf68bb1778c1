//! Instances, their types, and zones.

use super::dry_run;
use super::tags::tag_specifications;
use crate::api::{
    BlockDeviceMapping, DescribeAvailabilityZones, DescribeInstanceTypes, DescribeInstances, Fault, RunInstances,
    TerminateInstances,
};
use crate::wire::params::Params;
use crate::wire::refusal::missing;

/// Parameters of RunInstances that make no difference to a disk: taken and left alone.
const NO_MATTER: [&str; 28] = [
    "AdditionalInfo",
    "CapacityReservationSpecification",
    "CpuOptions",
    "CreditSpecification",
    "DisableApiStop",
    "EbsOptimized",
    "EnablePrimaryIpv6",
    "EnclaveOptions",
    "HibernationOptions",
    "IamInstanceProfile",
    "InstanceInitiatedShutdownBehavior",
    "InstanceMarketOptions",
    "Ipv6Address",
    "Ipv6AddressCount",
    "KernelId",
    "KeyName",
    "LicenseSpecification",
    "MaintenanceOptions",
    "MetadataOptions",
    "Monitoring",
    "NetworkPerformanceOptions",
    "PrivateDnsNameOptions",
    "PrivateIpAddress",
    "RamdiskId",
    "SecurityGroup",
    "SecurityGroupId",
    "SubnetId",
    "UserData",
];

/// Parameters of RunInstances that would make a difference, and are not simulated.
const REFUSED: [&str; 5] =
    ["ElasticGpuSpecification", "ElasticInferenceAccelerator", "LaunchTemplate", "Operator", "SecondaryInterface"];

pub(super) fn run_instances(p: &mut Params) -> Result<RunInstances, Fault> {
    REFUSED.iter().try_for_each(|name| p.refuse(name))?;
    NO_MATTER.iter().for_each(|name| p.ignore(name));
    let run = RunInstances {
        client_token: p.text("ClientToken"),
        image_id: p.text("ImageId"),
        instance_type: p.text("InstanceType"),
        min_count: p.int("MinCount")?,
        max_count: p.int("MaxCount")?,
        availability_zone: p.text("Placement.AvailabilityZone"),
        availability_zone_id: p.text("Placement.AvailabilityZoneId"),
        network_interfaces: u32::try_from(p.indices("NetworkInterface").len()).unwrap_or(u32::MAX),
        block_device_mappings: mappings(p)?,
        disable_api_termination: p.flag("DisableApiTermination")?.unwrap_or(false),
        tag_specifications: tag_specifications(p)?,
        dry_run: dry_run(p)?,
    };
    p.ignore("Placement");
    p.ignore("NetworkInterface");
    Ok(run)
}

fn mappings(p: &mut Params) -> Result<Vec<BlockDeviceMapping>, Fault> {
    let mut mappings = Vec::new();
    for index in p.indices("BlockDeviceMapping") {
        let name = |rest: &str| format!("BlockDeviceMapping.{index}.{rest}");
        p.refuse(&name("Ebs.OutpostArn"))?;
        p.refuse(&name("Ebs.VolumeInitializationRate"))?;
        for unused in ["VirtualName", "Ebs.AvailabilityZone", "Ebs.AvailabilityZoneId"] {
            p.ignore(&name(unused));
        }
        mappings.push(BlockDeviceMapping {
            device_name: p.required(&name("DeviceName"))?,
            no_device: p.text(&name("NoDevice")).is_some(),
            delete_on_termination: p.flag(&name("Ebs.DeleteOnTermination"))?,
            snapshot_id: p.text(&name("Ebs.SnapshotId")),
            volume_size: p.int(&name("Ebs.VolumeSize"))?,
            volume_type: p.text(&name("Ebs.VolumeType")),
            iops: p.int(&name("Ebs.Iops"))?,
            throughput: p.int(&name("Ebs.Throughput"))?,
            encrypted: p.flag(&name("Ebs.Encrypted"))?,
            kms_key_id: p.text(&name("Ebs.KmsKeyId")),
            ebs_card_index: p.int(&name("Ebs.EbsCardIndex"))?,
        });
    }
    Ok(mappings)
}

pub(super) fn terminate_instances(p: &mut Params) -> Result<TerminateInstances, Fault> {
    p.flag("Force")?;
    p.flag("SkipOsShutdown")?;
    let instance_ids = p.list("InstanceId");
    if instance_ids.is_empty() {
        return Err(missing("InstanceId"));
    }
    Ok(TerminateInstances { instance_ids, dry_run: dry_run(p)? })
}

pub(super) fn describe_instances(p: &mut Params) -> Result<DescribeInstances, Fault> {
    p.flag("IncludeManagedResources")?;
    Ok(DescribeInstances {
        instance_ids: p.list("InstanceId"),
        filters: p.filters()?,
        max_results: p.int("MaxResults")?,
        next_token: p.text("NextToken"),
        dry_run: dry_run(p)?,
    })
}

pub(super) fn describe_instance_types(p: &mut Params) -> Result<DescribeInstanceTypes, Fault> {
    p.flag("IncludeUnsupportedInRegion")?;
    Ok(DescribeInstanceTypes {
        instance_types: p.list("InstanceType"),
        filters: p.filters()?,
        max_results: p.int("MaxResults")?,
        next_token: p.text("NextToken"),
        dry_run: dry_run(p)?,
    })
}

pub(super) fn describe_zones(p: &mut Params) -> Result<DescribeAvailabilityZones, Fault> {
    Ok(DescribeAvailabilityZones {
        zone_names: p.list("ZoneName"),
        zone_ids: p.list("ZoneId"),
        all_availability_zones: p.flag("AllAvailabilityZones")?.unwrap_or(false),
        filters: p.filters()?,
        dry_run: dry_run(p)?,
    })
}

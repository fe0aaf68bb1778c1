use super::*;
use crate::api::{Filter, Tag, TagSpecification};

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
fn describe_is_decoded_with_ids_filters_and_page() {
    let form = "Action=DescribeSnapshots&Owner.1=self&SnapshotId.1=snap-1&Filter.1.Name=volume-id&Filter.1.Value.1=v\
                &MaxResults=5&NextToken=n";
    let Ok(Call::DescribeSnapshots(c)) = call(form) else { panic!("not decoded") };
    assert_eq!((c.owner_ids, c.snapshot_ids), (vec!["self".to_owned()], vec!["snap-1".to_owned()]));
    assert_eq!(c.filters, [Filter { name: "volume-id".into(), values: vec!["v".into()] }]);
    assert_eq!((c.max_results, c.next_token.as_deref()), (Some(5), Some("n")));
}

#[test]
fn tag_to_delete_may_have_no_value() {
    let form = "Action=DeleteTags&ResourceId.1=vol-1&Tag.1.Key=a&Tag.2.Key=b&Tag.2.Value=";
    let Ok(Call::DeleteTags(c)) = call(form) else { panic!("not decoded") };
    let values: Vec<_> = c.tags.iter().map(|tag| tag.value.as_deref()).collect();
    assert_eq!(values, [None, Some("")]);
}

#[test]
fn invalid_call_has_code_of_ec2() {
    for (form, expected) in [
        ("Action=RebootInstances&InstanceId.1=i-1", "InvalidAction"),
        ("Version=2016-11-15", "MissingAction"),
        ("Action=DeleteVolume", "MissingParameter"),
        ("Action=AttachVolume&VolumeId=v&InstanceId=i", "MissingParameter"),
        ("Action=CreateTags&ResourceId.1=v", "MissingParameter"),
        ("Action=TerminateInstances", "MissingParameter"),
        ("Action=DeleteVolume&VolumeId=v&Force=true", "UnknownParameter"),
        ("Action=ModifyVolume&VolumeId=v&Size=big", "InvalidParameterValue"),
        ("Action=DescribeVolumes&DryRun=perhaps", "InvalidParameterValue"),
        ("Action=DescribeVolumes&Version=2016-09-15", "NoSuchVersion"),
        // A parameter that EC2 supports and the simulator does not is never ignored.
        ("Action=CreateVolume&Size=1&Operator.Principal=p", "UnsupportedOperation"),
        ("Action=CreateSnapshot&VolumeId=v&Location=local", "UnsupportedOperation"),
        ("Action=CreateSnapshot&VolumeId=v&Location=moon", "InvalidParameterValue"),
        ("Action=RunInstances&MinCount=1&LaunchTemplate.LaunchTemplateId=lt-1", "UnsupportedOperation"),
        ("Action=RunInstances&MinCount=1&Colour=red", "UnknownParameter"),
        ("Action=StopInstances&InstanceId.1=i-1&Hibernate=true", "UnsupportedOperation"),
    ] {
        assert_eq!(code(form), expected, "{form}");
    }
    assert!(call("Action=CreateSnapshot&VolumeId=v&Location=regional").is_ok());
}

#[test]
fn signature_parameters_do_not_belong_to_the_call() {
    assert!(call("Action=DescribeVolumes&X-Amz-Signature=s&X-Amz-Date=d&SignatureVersion=4").is_ok());
}

/// RunInstances accepts everything that affects a disk. It ignores parameters without effect, and rejects by name those
/// with an effect that is not simulated.
#[test]
fn run_instances_reads_disks_and_ignores_unrelated() {
    let form = "Action=RunInstances&ImageId=ami-1&InstanceType=m5.large&MinCount=1&MaxCount=2&ClientToken=t\
                &Placement.AvailabilityZone=us-west-2a&Placement.Tenancy=default&KeyName=k&SecurityGroupId.1=sg-1\
                &MetadataOptions.HttpTokens=required&NetworkInterface.1.DeviceIndex=0&NetworkInterface.2.DeviceIndex=1\
                &BlockDeviceMapping.1.DeviceName=%2Fdev%2Fxvdb&BlockDeviceMapping.1.Ebs.VolumeSize=4\
                &BlockDeviceMapping.1.Ebs.DeleteOnTermination=true&BlockDeviceMapping.2.DeviceName=%2Fdev%2Fxvdc\
                &BlockDeviceMapping.2.NoDevice=&TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=a";
    let Ok(Call::RunInstances(c)) = call(form) else { panic!("{:?}", call(form)) };
    assert_eq!((c.min_count, c.max_count, c.network_interfaces), (Some(1), Some(2), 2));
    assert_eq!((c.availability_zone.as_deref(), c.instance_type.as_deref()), (Some("us-west-2a"), Some("m5.large")));
    let disks: Vec<_> = c.block_device_mappings.iter().map(|m| (m.device_name.as_str(), m.no_device)).collect();
    assert_eq!(disks, [("/dev/xvdb", false), ("/dev/xvdc", true)]);
    assert_eq!(c.block_device_mappings[0].volume_size, Some(4));
    assert_eq!(c.block_device_mappings[0].delete_on_termination, Some(true));
}

#[test]
fn lock_is_decoded_completely() {
    let form = "Action=LockSnapshot&SnapshotId=snap-1&LockMode=compliance&CoolOffPeriod=4&LockDuration=30\
                &ExpirationDate=2030-01-01T00%3A00%3A00Z";
    let Ok(Call::LockSnapshot(c)) = call(form) else { panic!("not decoded") };
    assert_eq!((c.cool_off_period, c.lock_duration), (Some(4), Some(30)));
    assert_eq!(
        (c.lock_mode.as_deref(), c.expiration_date.as_deref()),
        (Some("compliance"), Some("2030-01-01T00:00:00Z"))
    );
}

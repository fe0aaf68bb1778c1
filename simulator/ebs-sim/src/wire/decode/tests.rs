use super::*;

fn call(form: &str) -> Result<Call, Fault> {
    decode(Params::parse(form).unwrap())
}

fn code(form: &str) -> String {
    call(form).unwrap_err().code
}

#[test]
fn invalid_call_is_rejected_with_the_ec2_code() {
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
        // EC2 supports this parameter and the simulator does not, so the simulator rejects it instead of ignoring it.
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
fn signature_parameters_are_not_read_as_call_parameters() {
    assert!(call("Action=DescribeVolumes&X-Amz-Signature=s&X-Amz-Date=d&SignatureVersion=4").is_ok());
}
